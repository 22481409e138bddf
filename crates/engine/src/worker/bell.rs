//! A bell that wakes a sleeping worker, and costs one load when it is awake.

use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::sync::{AtomicU32, Ordering, fence};

/// Wakes one thread that may sleep.
pub struct Bell {
    sleeping: AtomicU32,
    event: EventFd,
}

impl Bell {
    /// A bell for a thread that is awake.
    pub fn new() -> nix::Result<Self> {
        let event =
            EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Self { sleeping: AtomicU32::new(0), event })
    }

    /// Wakes the thread when it sleeps. Call after the work was made visible.
    #[inline(always)]
    pub fn ring(&self) {
        // Pairs with the fence in `lie_down`: either we see the sleeper, or it sees the work.
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) != 0 {
            // Fails only when the counter is full, and then the sleeper wakes anyway.
            let _ = self.event.write(1);
        }
    }

    /// The thread is about to sleep; it must look for work once more after this.
    pub fn lie_down(&self) {
        self.sleeping.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The thread is awake.
    pub fn get_up(&self) {
        self.sleeping.store(0, Ordering::Relaxed);
        // Empty already when something else woke the thread.
        let _ = self.event.read();
    }

    /// Becomes readable when the bell rings.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
