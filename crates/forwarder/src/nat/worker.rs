//! What translation keeps for each worker.

use std::sync::Arc;

use stoa_engine::clock;
use stoa_engine::counters::Counter;

use super::Nat;
use super::block_events::Event;
use super::mappings::{MappingOwner, Mappings};
use crate::flow::flows::{Flows, Now, random};
use crate::flow::tracker::Side;
use crate::reports::Reporter;

/// Flows that one call looks at after a change.
const SWEPT: u32 = 4_096;

/// Translated packets of a worker, and the bytes of these IP packets.
#[derive(Default)]
#[repr(align(64))]
pub struct Traffic {
    /// Packets whose source was translated.
    pub out_packets: Counter,
    /// Their bytes.
    pub out_bytes: Counter,
    /// Packets whose destination was translated.
    pub in_packets: Counter,
    /// Their bytes.
    pub in_bytes: Counter,
}

/// The part of a worker.
pub struct NatWorker {
    /// `None`: another one has it.
    mappings: Option<MappingOwner>,
    block_events: Reporter<Event>,
    /// Whether the sender of a packet that is refused now gets no ICMP.
    pub(super) is_silent: bool,
    random: u64,
    /// The last epoch whose ended numbers have no flows here any more, and where the search goes on.
    epoch: u32,
    /// The epoch for which it goes on.
    sweep: u32,
    next: u32,
}

impl NatWorker {
    /// Without mappings.
    pub fn new(flows: &Arc<Flows>, worker: usize) -> Self {
        let now = flows.now(clock::tsc()).tick;
        let [seed] = random::<1>();
        let random = seed.wrapping_add(worker as u64) | 1;
        let mappings = flows.mappings().owner(worker, now);
        let block_events = flows.mappings().blocks().events.writer();
        Self { mappings, block_events, is_silent: false, random, epoch: 0, sweep: 0, next: 0 }
    }

    /// A number that others cannot foresee from a few ports (RFC 6056): xorshift64*.
    pub(super) fn random(&mut self) -> u32 {
        let mut word = self.random;
        word ^= word >> 12;
        word ^= word << 25;
        word ^= word >> 27;
        self.random = word;
        (word.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    /// The owner of this worker's mappings.
    pub(super) fn owner(&mut self) -> Option<&mut MappingOwner> {
        self.mappings.as_mut()
    }

    /// Where this worker reports what happens to blocks of ports.
    pub(super) fn block_events(&mut self) -> &mut Reporter<Event> {
        &mut self.block_events
    }

    /// Ends mappings without flows, and flows whose policy or static mapping has gone. Whether to go on soon.
    pub(super) fn maintain(&mut self, nat: &Nat, flows: &Flows, side: &mut Side, now: Now) -> bool {
        let all: &Mappings = flows.mappings();
        if let Some(owner) = &mut self.mappings {
            owner.maintain(all, now.tick, flows.quiescence());
        }
        if self.epoch == nat.epoch {
            return false;
        }
        if self.sweep != nat.epoch {
            // Numbers have gone since it began.
            (self.sweep, self.next) = (nat.epoch, 0);
        }
        match side.end_translated((self.next, SWEPT), |uses| !nat.has_number(uses.number)) {
            Some(next) => {
                self.next = next;
                true
            }
            None => {
                (self.epoch, self.next) = (self.sweep, 0);
                false
            }
        }
    }
}
