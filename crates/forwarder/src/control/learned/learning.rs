//! A message of learned routes on the control thread: done piece by piece, with neighbours and
//! everything else in between.

use std::time::{Duration, Instant};

use stoa_api::v1;

use super::message::{Message, PIECE, SaidHop};
use super::sweep::Sweep;
use crate::control::plane::Plane;

/// A message, and how far it is.
pub struct Learning {
    caller: u64,
    message: Message,
    stage: Stage,
    took: Duration,
}

/// What comes next.
enum Stage {
    Hops(std::vec::IntoIter<SaidHop>),
    Pieces(usize),
    Sweep(Sweep),
    Done,
}

/// Another caller has taken the place of this one.
#[derive(Debug)]
pub struct Superseded;

impl Learning {
    /// A message of a caller; of two callers the one with the greater number counts.
    pub fn new(caller: u64, mut message: Message) -> Self {
        let hops = std::mem::take(&mut message.hops);
        let stage = Stage::Hops(hops.into_iter());
        Self { caller, message, stage, took: Duration::ZERO }
    }

    /// What is answered once all is done.
    pub fn reply(self) -> v1::LearnedRoutesReply {
        v1::LearnedRoutesReply {
            number: self.message.number,
            refused: self.message.refused.runs,
            took_us: self.took.as_micros() as u64,
        }
    }
}

impl Plane {
    /// Does a whole message at once: for tests and benches.
    pub fn learn_routes(&mut self, said: v1::LearnedRoutes) -> v1::LearnedRoutesReply {
        let mut learning = Learning::new(self.learned.caller, Message::parse(said));
        while !self.learn_more(&mut learning).unwrap_or(true) {}
        learning.reply()
    }

    /// Does the next piece of a message; true once all is done.
    ///
    /// # Errors
    /// A newer caller has taken the place of this one; nothing more of the message is done.
    pub fn learn_more(&mut self, learning: &mut Learning) -> Result<bool, Superseded> {
        if learning.caller < self.learned.caller {
            return Err(Superseded);
        }
        self.learned.caller = learning.caller;
        let began = Instant::now();
        let is_done = self.do_next(learning);
        learning.took += began.elapsed();
        Ok(is_done)
    }

    fn do_next(&mut self, learning: &mut Learning) -> bool {
        let message = &mut learning.message;
        match &mut learning.stage {
            Stage::Hops(hops) => {
                if std::mem::take(&mut message.begins) {
                    self.begin_generation();
                }
                for hop in hops.by_ref().take(PIECE) {
                    let id = hop.id;
                    if let Err(reason) = self.say_hop(hop) {
                        message.refused.hop(id, reason);
                    }
                }
                if std::mem::take(&mut self.learned.are_links_new) {
                    self.review_host_routes();
                }
                if hops.len() == 0 {
                    learning.stage = Stage::Pieces(0);
                    // Most messages are small.
                    return self.do_next(learning);
                }
            }
            Stage::Pieces(done) => {
                if let Some(piece) = message.pieces.get(*done) {
                    self.take_piece(piece, &mut message.refused);
                    *done += 1;
                }
                if *done >= message.pieces.len() {
                    for id in std::mem::take(&mut message.forgotten) {
                        if let Err(reason) = self.forget_hop(id) {
                            message.refused.hop(id, reason);
                        }
                    }
                    let completes = message.completes;
                    let sweep = completes.then(|| Stage::Sweep(self.sweep(&message.refused)));
                    learning.stage = sweep.unwrap_or(Stage::Done);
                    self.fib.settle();
                }
            }
            Stage::Sweep(sweep) => {
                if self.sweep_more(sweep, &mut message.refused) {
                    learning.stage = Stage::Done;
                    self.fib.settle();
                }
            }
            Stage::Done => {}
        }
        matches!(learning.stage, Stage::Done)
    }
}
