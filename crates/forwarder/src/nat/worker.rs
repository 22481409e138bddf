//! What translation keeps for each worker.

use std::sync::Arc;

use stoa_engine::clock;
use stoa_engine::counters::Counter;
use stoa_tables::flow_table::{FlowEntry, Tuple};

use super::block_events::{Event, EventKind};
use super::blocks::{BlockRange, Blocks, NoBlock, Refused, Search, Subscriber};
use super::mappings::{Ending, MappingOwner, Mappings, RemotePeers};
use super::{Filtering, Nat};
use crate::flow::flows::{Flows, Now, random};
use crate::flow::tracker::{Side, Uses};
use crate::reports::Reporter;

/// The number of the control thread among the owners of mappings: more than workers have.
pub const CONTROL: usize = 200;

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
    /// Subscribers that it has refused.
    refused: Refused,
    /// Its number.
    pub(super) number: u8,
    /// Whether the sender of a packet that is refused now gets no ICMP.
    pub(super) is_silent: bool,
    random: u64,
    sweep: Sweep,
}

/// The search for flows whose numbers have gone, in parts.
#[derive(Debug, Default)]
struct Sweep {
    /// The last epoch whose ended numbers have no flows here any more.
    done: u64,
    /// The epoch for which it goes on, and where.
    epoch: u64,
    next: u32,
}

impl Sweep {
    /// Does a part of it for an epoch: `end` looks at the flows from a number on, and returns where it goes on. Whether
    /// to go on soon.
    fn go_on(&mut self, epoch: u64, end: impl FnOnce(u32) -> Option<u32>) -> bool {
        if self.done == epoch {
            return false;
        }
        if self.epoch != epoch {
            // Numbers have gone since it began.
            (self.epoch, self.next) = (epoch, 0);
        }
        let next = end(self.next);
        self.next = next.unwrap_or(0);
        if next.is_none() {
            self.done = epoch;
        }
        next.is_some()
    }
}

impl NatWorker {
    /// Without mappings.
    pub fn new(flows: &Arc<Flows>, worker: usize) -> Self {
        let now = flows.now(clock::tsc()).tick;
        let [seed] = random::<1>();
        let random = seed.wrapping_add(worker as u64) | 1;
        let mappings = flows.mappings().owner(worker, now);
        let block_events = flows.mappings().blocks().events.writer();
        Self {
            mappings,
            block_events,
            refused: Refused::default(),
            number: u8::try_from(worker).unwrap_or(u8::MAX),
            is_silent: false,
            random,
            sweep: Sweep::default(),
        }
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
    pub fn owner(&mut self) -> Option<&mut MappingOwner> {
        self.mappings.as_mut()
    }

    /// Holds a block for a subscriber. `after`: one that was tried in vain. `is_reported`: whether a refusal is.
    pub(super) fn hold_block(
        &mut self,
        search: &Search<'_>,
        after: Option<u32>,
        is_reported: impl FnOnce() -> bool,
    ) -> Result<u32, NoBlock> {
        let Self { refused, block_events: events, .. } = self;
        let found = match after {
            None => refused.or_search(search, || search.hold(None, events)),
            Some(_) => search.hold(after, events),
        };
        if let Err(why) = found
            && is_reported()
        {
            let kind = match why {
                NoBlock::OverQuota => EventKind::OverQuota,
                NoBlock::Full => EventKind::NoBlock,
            };
            self.block_events.push(search.refusal(kind));
        }
        found
    }

    /// Holds a certain block, whose number comes first, for a subscriber.
    pub(super) fn claim_block(
        &mut self,
        (blocks, range): (&Blocks, &BlockRange),
        (id, subscriber, protocol): (u32, Subscriber, u8),
        now: Now,
    ) -> bool {
        let (of, by) = ((subscriber, protocol), (self.number, (now.tick, now.ms)));
        blocks.claim((range, id), of, by, &mut self.block_events)
    }

    /// Ends mappings without flows, and flows whose policy, static mapping or lease has gone. Whether to go on soon.
    /// `of_leases`: the epoch of leases that have ended, which is older than `peers`.
    pub(super) fn maintain(
        &mut self,
        (nat, peers, of_leases): (&Nat, &RemotePeers, u32),
        flows: &Flows,
        side: &mut Side,
        now: Now,
    ) -> bool {
        let all: &Mappings = flows.mappings();
        if let Some(owner) = &mut self.mappings {
            owner.maintain(all, now.tick, flows.quiescence());
        }
        let epoch = u64::from(nat.epoch) << 32 | u64::from(of_leases);
        let goes_on = self.sweep.go_on(epoch, |first| {
            side.end_translated((first, SWEPT), |uses, flow| {
                !nat.has_number(uses.number) || has_lost_lease((nat, peers, all), uses, flow)
            })
        });
        if !goes_on {
            all.note_swept(self.number, of_leases);
        }
        goes_on
    }
}

/// Whether a flow came in by a lease that lets it in no more.
fn has_lost_lease(
    (nat, peers, all): (&Nat, &RemotePeers, &Mappings),
    uses: Uses,
    flow: &FlowEntry<'_>,
) -> bool {
    let Some(id) = uses.mapping.filter(|_| uses.is_inbound) else { return false };
    let policy = || nat.policy(uses.number);
    let by_policy = || policy().is_some_and(|it| it.filtering == Filtering::Anyone);
    match (all.ending(id), flow.key().tuple) {
        (Ending::No, _) => false,
        (Ending::Others, Tuple::Ip4(it)) => {
            !peers.admits(id, (it.source, it.source_port), by_policy())
        }
        (Ending::Others | Ending::All, _) => !by_policy(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_during_a_sweep_begins_it_anew() {
        let (mut sweep, mut seen) = (Sweep::default(), Vec::new());
        let mut part = |epoch| {
            sweep.go_on(epoch, |first| {
                seen.push((epoch, first));
                (first < 20).then_some(first + 10)
            })
        };
        assert!(!part(0), "nothing has changed");
        assert!(part(1) && part(1));
        // What has gone by now may be before the place that it has come to.
        assert!(part(2) && part(2));
        assert!(!part(2) && !part(2));
        assert_eq!(seen, [(1, 0), (1, 10), (2, 0), (2, 10), (2, 20)]);
    }
}
