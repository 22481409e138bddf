//! The scheduling priority of a worker that shares its processor.
//!
//! A worker that wakes for a packet preempts ordinary threads (`SCHED_RR`, the lowest real-time
//! priority): otherwise the packet waits for the end of another thread's time slice, milliseconds at
//! worst. One that leaves others less than an eighth of the processor is an ordinary thread again,
//! so that it never starves the routing daemon or the kernel's own threads beside it.

use crate::clock;

/// Microseconds over which a worker's sleep is counted.
const WINDOW_US: u64 = 5_000;
/// The share of its time that an urgent worker leaves to others: one in so many.
const LEFT_TO_OTHERS: u64 = 8;

/// How the kernel schedules this worker, as last set by the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Before ordinary threads.
    RealTime,
    /// As everyone.
    Ordinary,
    /// Unchanged: the operator chose its class, or the kernel allows no other (no `CAP_SYS_NICE`).
    Fixed,
}

/// A worker's scheduling state; belongs to the worker's own thread.
pub(crate) struct Urgency {
    class: Class,
    /// When this window began, and how much of it was slept, in TSC cycles.
    began: u64,
    slept: u64,
    window: u64,
    /// Whether the last window left enough to others.
    may: bool,
}

impl Urgency {
    /// Of a thread that has just begun; one that was not started as an ordinary thread stays what
    /// it is.
    pub(crate) fn new() -> Self {
        let class = if policy() == libc::SCHED_OTHER { Class::Ordinary } else { Class::Fixed };
        let window = clock::tsc_hz() / 1_000_000 * WINDOW_US;
        Self { class, began: clock::tsc(), slept: 0, window, may: false }
    }

    /// The worker is about to sleep: its wakeup will be urgent.
    pub(crate) fn before_sleep(&mut self) {
        if self.class == Class::Ordinary && self.may {
            self.class = if schedule(libc::SCHED_RR, 1) { Class::RealTime } else { Class::Fixed };
        }
    }

    /// The worker has slept so long, in TSC cycles; 0 when there was something to do after all.
    pub(crate) fn after_sleep(&mut self, slept: u64) {
        self.slept += slept;
    }

    /// The worker is awake, `now` in TSC cycles.
    #[inline(always)]
    pub(crate) fn at(&mut self, now: u64) {
        if now.saturating_sub(self.began) >= self.window {
            self.close_window(now);
        }
    }

    #[cold]
    fn close_window(&mut self, now: u64) {
        let length = now.saturating_sub(self.began);
        self.may = self.slept >= length / LEFT_TO_OTHERS;
        (self.began, self.slept) = (now, 0);
        if self.class == Class::RealTime && !self.may {
            // To become less is never refused.
            schedule(libc::SCHED_OTHER, 0);
            self.class = Class::Ordinary;
        }
    }
}

/// How the calling thread is scheduled.
fn policy() -> i32 {
    // SAFETY: 0 is the calling thread; nothing is written.
    unsafe { libc::sched_getscheduler(0) & !libc::SCHED_RESET_ON_FORK }
}

/// Sets the calling thread's scheduling class; `false` when it refuses.
fn schedule(policy: i32, priority: i32) -> bool {
    let parameter = libc::sched_param { sched_priority: priority };
    let policy = policy | libc::SCHED_RESET_ON_FORK;
    // SAFETY: 0 is the calling thread, and the kernel only reads `parameter` during the call.
    unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window of which so much was slept ends.
    fn window(urgency: &mut Urgency, slept: u64) {
        urgency.before_sleep();
        urgency.after_sleep(slept);
        urgency.at(urgency.began + urgency.window - 1);
        urgency.at(urgency.began + urgency.window);
    }

    #[test]
    fn a_worker_is_urgent_while_it_leaves_time_to_others() {
        // On a thread of its own, for the policy is the thread's.
        let thread = std::thread::spawn(|| {
            let mut urgency = Urgency::new();
            if urgency.class == Class::Fixed {
                // The whole test has another class: it is left alone.
                window(&mut urgency, u64::MAX);
                return;
            }
            let enough = urgency.window / LEFT_TO_OTHERS;
            window(&mut urgency, enough);
            assert_eq!(policy(), libc::SCHED_OTHER, "not before a window is over");
            window(&mut urgency, enough);
            if urgency.class == Class::Fixed {
                assert_eq!(policy(), libc::SCHED_OTHER, "not root: as everyone");
                return;
            }
            assert_eq!(policy(), libc::SCHED_RR);
            // Sleeps that were none count nothing, however many.
            for _ in 0..100 {
                urgency.before_sleep();
                urgency.after_sleep(0);
            }
            window(&mut urgency, enough - 1);
            assert_eq!(policy(), libc::SCHED_OTHER);
            urgency.before_sleep();
            assert_eq!(policy(), libc::SCHED_OTHER, "nor at the next sleep");
            window(&mut urgency, enough);
            urgency.before_sleep();
            assert_eq!(policy(), libc::SCHED_RR, "and urgent again");
        });
        thread.join().expect("the thread's own assertions hold");
    }
}
