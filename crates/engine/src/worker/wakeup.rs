//! A wakeup that wakes a sleeping worker, and costs one load when it is awake.

use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::sync::{AtomicU32, Ordering, fence};

/// Says whether the thread may be asleep, so that waking an awake one costs a load.
struct Sleeper(AtomicU32);

impl Sleeper {
    /// After work was made visible: must the wakeup ring?
    #[inline(always)]
    fn must_be_woken(&self) -> bool {
        // Pairs with the fence in `lie_down`: either we see the sleeper, or it sees the work.
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) != 0
    }

    /// From here on the thread counts as asleep; it looks for work once more.
    fn lie_down(&self) {
        self.0.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    fn get_up(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Wakes one thread that may sleep.
pub struct Wakeup {
    sleeper: Sleeper,
    event: EventFd,
}

impl Wakeup {
    /// A wakeup for a thread that is awake.
    pub fn new() -> nix::Result<Self> {
        let event =
            EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Self { sleeper: Sleeper(AtomicU32::new(0)), event })
    }

    /// Wakes the thread when it sleeps. Call after the work was made visible.
    #[inline(always)]
    pub fn ring(&self) {
        if self.sleeper.must_be_woken() {
            // Fails only when the counter is full, and then the sleeper wakes anyway.
            let _ = self.event.write(1);
        }
    }

    /// The thread is about to sleep; it must look for work once more after this.
    pub fn lie_down(&self) {
        self.sleeper.lie_down();
    }

    /// The thread is awake.
    pub fn get_up(&self) {
        self.sleeper.get_up();
        // Empty already when something else woke the thread.
        let _ = self.event.read();
    }

    /// Becomes readable when the wakeup rings.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    #[test]
    fn it_rings_only_for_a_sleeper() {
        let wakeup = Wakeup::new().unwrap();
        let rings = || {
            let mut watched = [PollFd::new(wakeup.descriptor(), PollFlags::POLLIN)];
            poll(&mut watched, PollTimeout::ZERO).unwrap() == 1
        };
        wakeup.ring();
        assert!(!rings());
        wakeup.lie_down();
        wakeup.ring();
        assert!(rings());
        wakeup.get_up();
        assert!(!rings());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    /// A thread that saw no work after it lay down is woken by whoever brings some.
    #[test]
    fn nobody_sleeps_through_work() {
        loom::model(|| {
            let sleeper = Arc::new(Sleeper(AtomicU32::new(0)));
            let work = Arc::new(AtomicU32::new(0));
            let bringer = {
                let (sleeper, work) = (sleeper.clone(), work.clone());
                loom::thread::spawn(move || {
                    work.store(1, Ordering::Relaxed);
                    sleeper.must_be_woken()
                })
            };
            sleeper.lie_down();
            let saw_work = work.load(Ordering::Relaxed) != 0;
            let rang = bringer.join().unwrap();
            assert!(saw_work || rang);
        });
    }
}
