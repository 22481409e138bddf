//! Wakes a sleeping worker; costs one load while it is awake.

use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::sync::{AtomicU32, Ordering, fence};

/// Whether the thread may be asleep, so that waking an awake one costs a load.
struct Sleeper(AtomicU32);

impl Sleeper {
    /// After work was made visible: must the thread be woken?
    #[inline(always)]
    fn must_be_woken(&self) -> bool {
        // Pairs with the fence in `prepare_to_sleep`: either we see the sleeper, or it sees the work.
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) != 0
    }

    /// From here on the thread counts as asleep; it checks for work once more.
    fn prepare_to_sleep(&self) {
        self.0.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    fn finish_sleep(&self) {
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
    pub fn wake(&self) {
        if self.sleeper.must_be_woken() {
            // Fails only when the counter is full, and then the sleeper wakes anyway.
            let _ = self.event.write(1);
        }
    }

    /// The thread is about to sleep; it must check for work once more after this.
    pub fn prepare_to_sleep(&self) {
        self.sleeper.prepare_to_sleep();
    }

    /// The thread is awake.
    pub fn finish_sleep(&self) {
        self.sleeper.finish_sleep();
        // Empty already when something else woke the thread.
        let _ = self.event.read();
    }

    /// Becomes readable when the thread is woken.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    #[test]
    fn only_a_sleeper_is_woken() {
        let wakeup = Wakeup::new().unwrap();
        let is_readable = || {
            let mut watched = [PollFd::new(wakeup.descriptor(), PollFlags::POLLIN)];
            poll(&mut watched, PollTimeout::ZERO).unwrap() == 1
        };
        wakeup.wake();
        assert!(!is_readable());
        wakeup.prepare_to_sleep();
        wakeup.wake();
        assert!(is_readable());
        wakeup.finish_sleep();
        assert!(!is_readable());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    /// A thread that found no work after it prepared to sleep is woken by the next producer.
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
            sleeper.prepare_to_sleep();
            let saw_work = work.load(Ordering::Relaxed) != 0;
            let rang = bringer.join().unwrap();
            assert!(saw_work || rang);
        });
    }
}
