//! Applies a message of learned routes on the control thread in batches, between which other work runs.

use std::time::{Duration, Instant};

use stoa_api::v1;

use super::message::{BATCH_ROUTES, CheckedHop, Message};
use super::sweep::Sweep;
use crate::control::forwarder_state::ForwarderState;

/// A message in progress.
pub struct RouteUpdate {
    caller: u64,
    message: Message,
    stage: Stage,
    took: Duration,
}

/// The next step.
enum Stage {
    Hops(std::vec::IntoIter<CheckedHop>),
    Batches(usize),
    Sweep(Sweep),
    Done,
}

/// A newer caller has superseded this one.
#[derive(Debug)]
pub struct Superseded;

impl RouteUpdate {
    /// A message of a caller; the caller with the highest number wins.
    pub fn new(caller: u64, mut message: Message) -> Self {
        let hops = std::mem::take(&mut message.hops);
        let stage = Stage::Hops(hops.into_iter());
        Self { caller, message, stage, took: Duration::ZERO }
    }

    /// The reply after the last step.
    pub fn reply(self) -> v1::LearnedRoutesReply {
        v1::LearnedRoutesReply {
            number: self.message.number,
            refused: self.message.refused.runs,
            took_us: self.took.as_micros() as u64,
        }
    }
}

impl ForwarderState {
    /// Applies a whole message at once: for tests and benchmarks.
    pub fn learn_routes(&mut self, request: v1::LearnedRoutes) -> v1::LearnedRoutesReply {
        let mut update =
            RouteUpdate::new(self.capabilities.learned.caller, Message::parse(request));
        while !self.continue_update(&mut update).unwrap_or(true) {}
        update.reply()
    }

    /// Runs the next step of a message; true once it is applied.
    ///
    /// # Errors
    /// A newer caller has superseded this one; the rest of the message is discarded.
    pub fn continue_update(&mut self, update: &mut RouteUpdate) -> Result<bool, Superseded> {
        if update.caller < self.capabilities.learned.caller {
            return Err(Superseded);
        }
        self.capabilities.learned.caller = update.caller;
        let started = Instant::now();
        let is_done = self.run_stage(update);
        update.took += started.elapsed();
        Ok(is_done)
    }

    fn run_stage(&mut self, update: &mut RouteUpdate) -> bool {
        let message = &mut update.message;
        match &mut update.stage {
            Stage::Hops(hops) => {
                if std::mem::take(&mut message.begins) {
                    self.begin_generation();
                }
                for hop in hops.by_ref().take(BATCH_ROUTES) {
                    let id = hop.id;
                    if let Err(reason) = self.set_learned_hop(hop) {
                        message.refused.hop(id, reason);
                    }
                }
                if std::mem::take(&mut self.capabilities.learned.are_links_new) {
                    self.review_host_routes();
                }
                if hops.len() == 0 {
                    update.stage = Stage::Batches(0);
                    // Most messages are small.
                    return self.run_stage(update);
                }
            }
            Stage::Batches(done) => {
                if let Some(batch) = message.batches.get(*done) {
                    self.apply_batch(batch, &mut message.refused);
                    *done += 1;
                }
                if *done >= message.batches.len() {
                    for id in std::mem::take(&mut message.forgotten) {
                        if let Err(reason) = self.release_learned_hop(id) {
                            message.refused.hop(id, reason);
                        }
                    }
                    let completes = message.completes;
                    let sweep = completes.then(|| Stage::Sweep(self.sweep(&message.refused)));
                    update.stage = sweep.unwrap_or(Stage::Done);
                    self.fib.settle();
                }
            }
            Stage::Sweep(sweep) => {
                if self.sweep_more(sweep, &mut message.refused) {
                    update.stage = Stage::Done;
                    self.fib.settle();
                }
            }
            Stage::Done => {}
        }
        matches!(update.stage, Stage::Done)
    }
}
