//! Blocks of ports on the control thread: which numbers the blocks of a policy have, and when subscribers lose blocks
//! that they do not use.

use std::sync::Arc;

use stoa_api::nat::Deterministic;
use stoa_api::v1;

use super::listing::{is_in, octets};
use super::{ActivePolicy, NatState};
use crate::control::apply::ApplyError;
use crate::control::desired::NatBlocks;
use crate::control::forwarder_state::ForwarderState;
use crate::flow::flows::Now;
use crate::nat::Allocation;
use crate::nat::block_events::{Event, EventKind};
use crate::nat::blocks::{BlockRange, BlockUse, Blocks, Free, Listed, ROOM, Share};

/// Blocks that one tick looks at: some tenths of a millisecond.
const LOOKED_AT: u32 = 16_384;
/// Blocks that a page of a listing looks at.
const PAGE: u32 = 16_384;

/// The blocks of a policy.
#[derive(Debug)]
pub(super) struct ActiveBlocks {
    pub(super) range: Arc<BlockRange>,
    timeout_s: u32,
    /// Whether a policy has them, and how often all were looked at since none has.
    is_in_force: bool,
    looks: u32,
    /// Whether what workers have no longer names it.
    is_unpublished: bool,
    /// The address that is looked at next, and what those before it have.
    at: u32,
    sum: BlockUse,
    /// What all had when they were looked at last.
    pub(super) last: BlockUse,
}

impl ActiveBlocks {
    /// Of a range that is in force from now on.
    fn new(range: Arc<BlockRange>, timeout_s: u32) -> Self {
        let (sum, last) = Default::default();
        let (is_in_force, is_unpublished) = (true, false);
        Self { range, timeout_s, is_in_force, looks: 0, is_unpublished, at: 0, sum, last }
    }

    /// Whether no policy has it, and no subscriber a block of it.
    fn is_over(&self) -> bool {
        !self.is_in_force && self.looks >= 2 && self.last == BlockUse::default()
    }

    /// Takes away unused blocks at the next addresses, until so many blocks are left of a tick. At the end of the range
    /// it is at its first address again.
    fn look(&mut self, blocks: &Blocks, (now, left): (Now, &mut u32), events: &mut Vec<Event>) {
        let (range, addresses) = (self.range.clone(), self.range.addresses());
        while *left > 0 && self.at < addresses {
            let released = |id, subscriber| {
                let kind = (EventKind::Released, now.ms);
                events.push(Event::of(&range, kind, subscriber, Some(id)));
            };
            let of = (now.tick, self.timeout_s);
            let found = blocks.free_unused((&range, self.at), of, released);
            self.sum.used += found.used;
            self.sum.unused += found.unused;
            self.sum.subscribers += found.subscribers;
            self.at += 1;
            *left = left.saturating_sub(range.per_address().max(1));
        }
        if self.at >= addresses {
            (self.last, self.sum, self.at) = (self.sum, BlockUse::default(), 0);
            self.looks = self.looks.saturating_add(1);
        }
    }
}

/// The first number from which on so many blocks are free.
fn free_numbers(all: &[&BlockRange], count: u32) -> Option<u32> {
    let mut taken: Vec<(u32, u32)> = all.iter().map(|it| (it.base, it.base + it.count())).collect();
    taken.sort_unstable();
    let mut first = 0;
    for (begin, end) in taken {
        if begin - first >= count {
            break;
        }
        first = end;
    }
    (ROOM - first >= count).then_some(first)
}

fn share(blocks: &NatBlocks) -> Share {
    let ports = blocks.quotas.map(|it| it.unwrap_or(u32::MAX));
    Share { blocks: blocks.limit, ports }
}

/// A block of a listing.
fn meets(filter: &v1::NatBlockFilter, range: &BlockRange, it: &Listed, external: u32) -> bool {
    let is_within = |prefix: &v1::Prefix| {
        let octets = <[u8; 4]>::try_from(prefix.address.as_slice()).unwrap_or_default();
        let network = u32::from_be_bytes(octets);
        // A subscriber is a prefix, too: whichever is shorter has the other.
        let length = prefix.length.min(range.length.into());
        is_in(it.subscriber.address, (network, length)) || is_in(external, (network, prefix.length))
    };
    filter.prefix.as_ref().is_none_or(is_within)
}

/// The blocks of all policies, as they are to be.
pub(super) struct Planned {
    /// Ranges that no policy had.
    new: Vec<ActiveBlocks>,
    /// Ranges that policies have, by their first blocks, with their timeouts.
    in_force: Vec<(u32, u32)>,
}

impl Planned {
    /// Makes room for new ranges; whether there is memory.
    pub(super) fn prepare(&self, blocks: &Blocks) -> bool {
        self.new.iter().all(|it| blocks.prepare(&it.range))
    }
}

impl NatState {
    /// Gives each of some policies its blocks. A range whose addresses and ports stay as they are stays, too. Nothing
    /// else changes until the plan is [followed](Self::follow_blocks).
    ///
    /// # Errors
    /// There are no numbers for so many blocks.
    pub(super) fn plan_blocks(&self, policies: &mut [ActivePolicy]) -> Result<Planned, ApplyError> {
        let mut planned = Planned { new: Vec::new(), in_force: Vec::new() };
        for policy in policies {
            policy.allocation = match &policy.policy.blocks {
                None => Allocation::Ports,
                Some(blocks) if blocks.is_deterministic => {
                    let of = Deterministic::of_policy(&policy.policy.message());
                    of.map_or(Allocation::Ports, |it| Allocation::Deterministic(Arc::new(it)))
                }
                Some(blocks) => {
                    let range = self.range_of(&wanted(policy, blocks), &mut planned)?;
                    planned.in_force.push((range.base, blocks.timeout_s));
                    Allocation::Blocks(range, share(blocks))
                }
            };
        }
        Ok(planned)
    }

    fn range_of(
        &self,
        wanted: &BlockRange,
        planned: &mut Planned,
    ) -> Result<Arc<BlockRange>, ApplyError> {
        let mut all = self.blocks.iter().chain(&planned.new);
        if let Some(known) = all.find(|it| it.range.is_same(wanted)) {
            return Ok(known.range.clone());
        }
        let all: Vec<&BlockRange> =
            self.blocks.iter().chain(&planned.new).map(|it| &*it.range).collect();
        let Some(base) = free_numbers(&all, wanted.count()) else {
            // Blocks of former policies are still in use.
            let cause = "port sets of former policies are still in use";
            return Err(ApplyError::one("nat", cause, "Try again in some minutes."));
        };
        let range = Arc::new(wanted.at(base));
        planned.new.push(ActiveBlocks::new(range.clone(), 0));
        Ok(range)
    }

    /// Has policies have the blocks that are planned for them.
    pub(super) fn follow_blocks(&mut self, planned: Planned) {
        self.blocks.extend(planned.new);
        for it in &mut self.blocks {
            let in_force = planned.in_force.iter().find(|(base, _)| *base == it.range.base);
            it.is_in_force = in_force.is_some();
            match in_force {
                Some((_, timeout_s)) => it.timeout_s = *timeout_s,
                // Workers may still allocate some of them.
                None => (it.looks, it.at, it.sum) = (0, 0, BlockUse::default()),
            }
        }
    }

    /// Ranges that no policy has any more, and whose blocks may still belong to subscribers.
    pub(super) fn former_ranges(&self) -> Vec<Arc<BlockRange>> {
        let former = self.blocks.iter().filter(|it| !it.is_in_force && !it.is_over());
        former.map(|it| it.range.clone()).collect()
    }
}

impl ForwarderState {
    /// Notes what workers report, and takes away blocks that their subscribers do not use.
    pub(super) fn tick_nat_blocks(&mut self) {
        if self.capabilities.nat.blocks.is_empty() {
            return;
        }
        let mut events = Vec::new();
        let lost = self.shared.flows.mappings().blocks().events.drain(|it| events.push(it));
        self.free_nat_blocks(&mut events);
        self.note_nat_events(events, lost);
    }

    /// Goes on looking at blocks where the last tick has ended, range by range.
    fn free_nat_blocks(&mut self, events: &mut Vec<Event>) {
        let (flows, nat, mut left) = (&self.shared.flows, &mut self.capabilities.nat, LOOKED_AT);
        let now = flows.now(stoa_engine::clock::tsc());
        for _ in 0..nat.blocks.len() {
            let turn = nat.turn % nat.blocks.len();
            let Some(it) = nat.blocks.get_mut(turn) else { break };
            it.look(flows.mappings().blocks(), (now, &mut left), events);
            if it.at > 0 {
                break;
            }
            nat.turn = turn + 1;
            if left == 0 {
                break;
            }
        }
        // The numbers of a policy that has gone are free once nobody has a block, and no worker looks at them: in the
        // tick after the one that has published without them.
        nat.blocks.retain(|it| !it.is_unpublished);
        let is_over = |it: &&mut ActiveBlocks| it.is_over();
        if nat.blocks.iter_mut().filter(is_over).map(|it| it.is_unpublished = true).count() > 0 {
            self.publish_nat();
        }
    }

    /// The blocks of a page that subscribers have, and where the next page begins.
    pub(in crate::control) fn list_nat_blocks(
        &self,
        filter: &v1::NatBlockFilter,
        first: u32,
    ) -> (Vec<v1::NatBlock>, Option<u32>) {
        let (nat, blocks) = (&self.capabilities.nat, self.shared.flows.mappings().blocks());
        let until = first.saturating_add(PAGE);
        let mut listed = Vec::new();
        for of in &nat.blocks {
            let range = &*of.range;
            if filter.vrf.as_ref().is_some_and(|it| *it != self.vrf_name(range.vrf)) {
                continue;
            }
            let ids = range.base.max(first)..(range.base + range.count()).min(until);
            let met = blocks.listed(ids).filter(|it| {
                range.place(it.id).is_some_and(|(external, ..)| meets(filter, range, it, external))
            });
            listed.extend(met.filter_map(|it| self.nat_block(range, &it)));
        }
        let end = nat.blocks.iter().map(|it| it.range.base + it.range.count()).max();
        (listed, end.filter(|end| until < *end).map(|_| until))
    }

    /// A block as a message of the contract.
    fn nat_block(&self, range: &BlockRange, it: &Listed) -> Option<v1::NatBlock> {
        let now = self.shared.flows.now(stoa_engine::clock::tsc()).tick;
        let age = |since: u32| now.wrapping_sub(since).cast_signed().max(0).cast_unsigned();
        let (external, first_port, last_port) = range.place(it.id)?;
        let [tcp, udp, icmp, others] = it.ports.map(u32::from);
        Some(v1::NatBlock {
            subscriber: octets(it.subscriber.address),
            subscriber_length: range.length.into(),
            subscriber_vrf: self.vrf_name(it.subscriber.vrf),
            external: octets(external),
            external_vrf: self.vrf_name(range.vrf),
            first_port: first_port.into(),
            last_port: last_port.into(),
            instance: range.policy.0,
            policy: range.policy.1,
            tcp,
            udp,
            icmp,
            others,
            age_s: age(it.since),
            unused_s: it.unused.map_or(0, age),
        })
    }

    /// The blocks that have an external address and port.
    pub(super) fn nat_blocks_with(
        &self,
        (address, port): (u32, u16),
    ) -> impl Iterator<Item = v1::NatBlock> {
        let blocks = self.shared.flows.mappings().blocks();
        self.capabilities.nat.blocks.iter().filter_map(move |of| {
            let id = of.range.block_of(address, port)?;
            let it = blocks.listed(id..id + 1).next()?;
            self.nat_block(&of.range, &it)
        })
    }

    /// The blocks that meet a filter, at once: for small tables.
    pub fn nat_blocks(&self, filter: &v1::NatBlockFilter) -> Vec<v1::NatBlock> {
        let (mut all, mut next) = (Vec::new(), Some(0));
        while let Some(first) = next {
            let (page, after) = self.list_nat_blocks(filter, first);
            all.extend(page);
            next = after;
        }
        all
    }

    /// Blocks in all, those with ports in use, those without, and subscribers, of a policy.
    pub(super) fn nat_block_use(&self, policy: &ActivePolicy) -> [u64; 4] {
        match &policy.allocation {
            Allocation::Ports => [0; 4],
            Allocation::Deterministic(it) => {
                let (subscribers, blocks) = it.counts();
                [blocks, subscribers, 0, subscribers]
            }
            Allocation::Blocks(range, _) => {
                let of = self.capabilities.nat.blocks.iter();
                let found = of.clone().find(|it| Arc::ptr_eq(&it.range, range));
                let BlockUse { used, unused, subscribers } =
                    found.map(|it| it.last).unwrap_or_default();
                [range.count(), used, unused, subscribers].map(u64::from)
            }
        }
    }
}

/// The range that a policy wants, without numbers.
fn wanted(policy: &ActivePolicy, blocks: &NatBlocks) -> BlockRange {
    BlockRange {
        policy: (policy.policy.instance, policy.policy.policy),
        vrf: policy.vrf,
        pools: policy.pools(),
        ports: policy.policy.ports,
        size: blocks.size,
        length: blocks.length,
        base: 0,
        free: Free::default(),
    }
}

#[cfg(test)]
mod tests;
