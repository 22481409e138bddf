//! Memory that large trees leave behind.

/// Gives free memory back to the system. A tree has millions of small blocks; when it is freed, the allocator keeps
/// their pages for as long as the process runs.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    #[allow(unsafe_code)]
    // SAFETY: the function of the C library takes its own locks and touches free memory only.
    unsafe {
        libc::malloc_trim(0);
    }
}
