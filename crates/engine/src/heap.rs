//! The heap of the process: large tables are mapped one by one, so that they cost only what is
//! touched and go back to the system when they are freed.

/// Large blocks of the heap are mappings of their own from so many bytes on.
const LARGE: i32 = 128 << 10;

/// Keeps glibc from learning, at the first large block that is freed, to take the next ones from
/// the heap: those it would have to clear, which touches all of them, and would rarely give back.
/// To be called before the process has other threads.
pub fn keep_large_blocks_apart() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: `mallopt` takes two numbers; the caller has no other threads yet.
        let done = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
        debug_assert_eq!(done, 1);
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    let _ = LARGE;
}

/// Asks the system to hold memory that is read at random on huge pages, what is in use now and what
/// will be. Nothing else changes, wherever it lies: a system without huge pages ignores it.
pub fn prefer_huge_pages(start: *const u8, bytes: usize) {
    expect_huge_pages(start, bytes);
    #[cfg(target_os = "linux")]
    advise(start, bytes, libc::MADV_COLLAPSE);
}

/// Asks the system to use huge pages for memory that is not in use yet.
pub fn expect_huge_pages(start: *const u8, bytes: usize) {
    #[cfg(target_os = "linux")]
    advise(start, bytes, libc::MADV_HUGEPAGE);
    #[cfg(not(target_os = "linux"))]
    let _ = (start, bytes);
}

#[cfg(target_os = "linux")]
fn advise(start: *const u8, bytes: usize, advice: i32) {
    // SAFETY: advice about huge pages changes no content; an address without memory is an error.
    unsafe { libc::madvise(start.cast_mut().cast(), bytes, advice) };
}

#[cfg(all(test, target_os = "linux", not(loom), not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn content_stays_and_any_address_will_do() {
        let bytes: Vec<u8> = (0..6 << 20).map(|at| (at % 251) as u8).collect();
        let start = bytes.as_ptr().wrapping_add(bytes.as_ptr().align_offset(2 << 20));
        prefer_huge_pages(start, 4 << 20);
        prefer_huge_pages(std::ptr::without_provenance(4096), 2 << 20);
        expect_huge_pages(start, 4 << 20);
        assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8));
    }
}
