//! Long work of the control thread is done in slices: its loops pause between items, and after a few milliseconds
//! the pause serves what cannot wait: punted packets (ARP, BFD, VRRP and others) and timers.
//!
//! Loops pause only where the state is consistent: whatever may happen between two requests may happen there.

use std::time::Instant;

use super::fib::{GRACE_PATIENCE, GRACE_POLL};
use super::forwarder_state::ForwarderState;
use crate::bfd::session::Micros;

/// Pauses serve urgent work when so much time has passed since it was served.
const SLICE_US: Micros = 5_000;

/// What a test runs at each pause, with the number of items since the last one.
pub type PauseHook = Box<dyn FnMut(&mut ForwarderState, u32) + Send>;

/// When urgent work was served.
#[derive(Default)]
pub(super) struct Slices {
    served_at: Micros,
    /// Whether long work is being done: only then do pauses serve anything.
    is_long: bool,
    longest: Micros,
    hook: Option<PauseHook>,
}

impl ForwarderState {
    /// Begins long work: urgent work has just been served.
    pub(super) fn begin_slices(&mut self) {
        (self.slices.served_at, self.slices.is_long) = (self.micros(), true);
    }

    /// Ends long work.
    pub(super) fn end_slices(&mut self) {
        self.slices.is_long = false;
    }

    /// Lets urgent work run if a slice is over. `items`: how many were handled since the last call.
    pub(super) fn pause(&mut self, items: u32) {
        if !self.slices.is_long {
            return;
        }
        if let Some(mut hook) = self.slices.hook.take() {
            hook(self, items);
            self.slices.hook = Some(hook);
        }
        let slice = self.micros().saturating_sub(self.slices.served_at);
        self.slices.longest = self.slices.longest.max(slice);
        if slice < SLICE_US {
            return;
        }
        // Urgent work is not long: its own loops do not pause.
        self.slices.is_long = false;
        self.fib.settle();
        self.process_punts();
        self.run_due_timers();
        self.begin_slices();
    }

    /// Closes a batch of changes and waits until workers have released what it removed.
    pub(super) fn wait_for_grace_period(&mut self) {
        let epoch = self.fib.begin_grace_period();
        self.wait_while(|state| !state.fib.has_ended(epoch));
        self.fib.settle();
    }

    /// Waits for workers, at most for [`GRACE_PATIENCE`]. Urgent work runs meanwhile.
    pub fn wait_while(&mut self, mut is_needed: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + GRACE_PATIENCE;
        let was_long = std::mem::replace(&mut self.slices.is_long, true);
        while is_needed(self) && Instant::now() < deadline {
            std::thread::sleep(GRACE_POLL);
            self.pause(0);
        }
        self.slices.is_long = was_long;
    }

    /// Runs `hook` at each pause: tests advance the time and bring packets.
    pub fn on_pause(&mut self, hook: Option<PauseHook>) {
        (self.slices.hook, self.slices.longest) = (hook, 0);
    }

    /// The longest slice since [`Self::on_pause`], in microseconds.
    pub fn longest_slice(&self) -> Micros {
        self.slices.longest
    }
}
