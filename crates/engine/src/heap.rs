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
