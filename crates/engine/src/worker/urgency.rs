//! Who goes first on a processor that a worker shares with others.
//!
//! A worker that wakes for a packet goes before ordinary threads (`SCHED_RR`, the lowest real-time
//! priority): otherwise the packet waits for the end of somebody's time slice, milliseconds at
//! worst. A worker that runs for long without a sleep goes on as an ordinary thread, so that it
//! never starves the routing daemon or the kernel's own threads beside it.

use crate::clock;

/// Microseconds without a sleep after which a worker is an ordinary thread again.
pub(crate) const URGENT_US: u64 = 5_000;

/// How the kernel schedules this worker, as far as the worker knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Before ordinary threads.
    RealTime,
    /// As everyone.
    Ordinary,
    /// As everyone, for the kernel refused to do otherwise: no `CAP_SYS_NICE`.
    Refused,
}

/// A worker's claim to its processor; belongs to the worker's own thread.
pub(crate) struct Urgency {
    class: Class,
    awake_since: u64,
    patience: u64,
}

impl Urgency {
    /// An ordinary thread, for now.
    pub(crate) fn new() -> Self {
        let patience = clock::tsc_hz() / 1_000_000 * URGENT_US;
        Self { class: Class::Ordinary, awake_since: clock::tsc(), patience }
    }

    /// The worker is about to sleep: who wakes it has something urgent.
    pub(crate) fn before_sleep(&mut self) {
        if self.class == Class::Ordinary {
            self.class = if schedule(libc::SCHED_RR, 1) { Class::RealTime } else { Class::Refused };
        }
    }

    /// The worker woke.
    pub(crate) fn after_sleep(&mut self) {
        self.awake_since = clock::tsc();
    }

    /// The worker is awake, `now` in TSC cycles.
    #[inline(always)]
    pub(crate) fn at(&mut self, now: u64) {
        if self.class == Class::RealTime && now.saturating_sub(self.awake_since) > self.patience {
            // To become less is never refused; should it be, the next sleep is near enough.
            schedule(libc::SCHED_OTHER, 0);
            self.class = Class::Ordinary;
        }
    }
}

/// Asks the kernel to schedule the calling thread so; `false` when it refuses.
fn schedule(policy: i32, priority: i32) -> bool {
    let parameter = libc::sched_param { sched_priority: priority };
    // SAFETY: 0 is the calling thread, and the kernel only reads `parameter` during the call.
    unsafe {
        libc::sched_setscheduler(0, policy | libc::SCHED_RESET_ON_FORK, &raw const parameter) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The policy of the calling thread.
    fn policy() -> i32 {
        // SAFETY: 0 is the calling thread; nothing is written.
        unsafe { libc::sched_getscheduler(0) & !libc::SCHED_RESET_ON_FORK }
    }

    #[test]
    fn a_sleeper_is_urgent_and_one_who_runs_long_is_not() {
        // On a thread of its own, for the policy is the thread's.
        let thread = std::thread::spawn(|| {
            let mut urgency = Urgency::new();
            assert_eq!(policy(), libc::SCHED_OTHER);
            urgency.before_sleep();
            urgency.after_sleep();
            if urgency.class == Class::Refused {
                assert_eq!(policy(), libc::SCHED_OTHER, "not root: as everyone");
                return;
            }
            assert_eq!(policy(), libc::SCHED_RR);
            urgency.at(urgency.awake_since + urgency.patience);
            assert_eq!(policy(), libc::SCHED_RR, "not yet");
            urgency.at(urgency.awake_since + urgency.patience + 1);
            assert_eq!(policy(), libc::SCHED_OTHER);
            urgency.before_sleep();
            assert_eq!(policy(), libc::SCHED_RR, "and urgent again");
        });
        thread.join().expect("the thread's own assertions hold");
    }
}
