//! Where external ends are: ports of a shared address, of a block of the subscriber, or of the block that follows from
//! its address.

use stoa_tables::flow_table::FlowError;

use super::blocks::{NoBlock, Search};
use super::choice::{self, Ports};
use super::mappings::End;
use super::quotas::NoHold;
use super::rewrite::has_free_ports;
use super::{Allocation, Nat, NatWorker, Policy};
use crate::drops::Drop;
use crate::flow::flows::Now;
use crate::shared::Shared;

/// Ports that are tried before all others are drawn: the first one is mostly free, or else one of a few.
const FEW: [usize; 2] = [1, 8];
/// Ports that are tried for a packet at all places together.
pub(super) const TRIES: usize = 2_048;

/// An external address with a range of ports.
pub(super) struct Place {
    pub(super) address: u32,
    pub(super) range: (u16, u16),
    /// The block that has these ports, or the quota of the source: what is held.
    pub(super) block: Option<u32>,
    /// Whether the ports are those of a block.
    is_block: bool,
}

impl Place {
    /// The block after which the next one is looked for; `None`: there is none, or `left` is 0.
    pub(super) fn before_next(&self, left: usize) -> Option<u32> {
        self.block.filter(|_| self.is_block && left > 0)
    }
}

impl Policy {
    /// The external address that a source gets first.
    pub fn external_of(&self, (address, vrf): (u32, u16)) -> Option<u32> {
        match &self.allocation {
            Allocation::Ports => self.address_of(choice::hash(address, vrf)),
            Allocation::Deterministic(all) => all.external_of(address).map(|(address, ..)| address),
            Allocation::Blocks(range, _) => range.home_address(range.subscriber(address, vrf)),
        }
    }
}

/// Which external port a mapping should have.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// The port that is tried first, or one of its parity.
    pub port: u16,
    /// Whether no other one will do.
    pub is_only: bool,
}

/// What chooses external ends: for first packets of flows, and for hosts that ask for mappings.
pub struct Places<'a> {
    /// What all workers share.
    pub shared: &'a Shared,
    /// Policies and static mappings.
    pub nat: &'a Nat,
    /// Whose mappings these are.
    pub worker: &'a mut NatWorker,
    /// The time.
    pub now: Now,
    /// Ports that are tried for a mapping at all places together.
    pub tries: usize,
}

impl Places<'_> {
    /// A place for an internal end by a policy. `after`: the block that was tried before.
    pub(super) fn place(
        &mut self,
        internal: End,
        policy: &Policy,
        after: Option<u32>,
    ) -> Result<Place, Drop> {
        let (address, range, block) = match &policy.allocation {
            Allocation::Ports => {
                let hash = choice::hash(internal.address, internal.vrf);
                let address = policy.address_of(hash).ok_or(Drop::Nat44NoAddress)?;
                (address, policy.ports, self.hold_quota(internal, policy)?)
            }
            Allocation::Deterministic(all) => {
                let found = all.external_of(internal.address);
                let (address, first, last) = found.ok_or(Drop::Nat44NoAddress)?;
                (address, (first, last), None)
            }
            Allocation::Blocks(range, _) if range.addresses() == 0 => {
                return Err(Drop::Nat44NoAddress);
            }
            Allocation::Blocks(range, share) => {
                let search = Search {
                    blocks: self.shared.flows.mappings().blocks(),
                    range,
                    former: &self.nat.former,
                    share: *share,
                    subscriber: range.subscriber(internal.address, internal.vrf),
                    protocol: internal.protocol,
                    worker: self.worker.number,
                    now: (self.now.tick, self.now.ms),
                };
                let is_reported = || policy.counts.reports(self.now.tick);
                let id = self.worker.hold_block(&search, after, is_reported);
                let id = id.map_err(|why| match why {
                    NoBlock::OverQuota => Drop::Nat44Quota,
                    NoBlock::Full => Drop::Nat44NoPort,
                })?;
                let (address, first, last) = range.place(id).ok_or(Drop::Nat44NoAddress)?;
                (address, (first, last), Some(id))
            }
        };
        let is_block = matches!(policy.allocation, Allocation::Blocks(..));
        Ok(Place { address, range, block, is_block })
    }

    /// Counts a mapping or flow of a source whose policy has a quota: what is held.
    fn hold_quota(&self, internal: End, policy: &Policy) -> Result<Option<u32>, Drop> {
        let Some(quota) = &policy.quota else { return Ok(None) };
        let flows = &self.shared.flows;
        let source = (flows.nat64_hosts().subscriber(internal.address), internal.vrf);
        match flows.mappings().quotas().hold(quota, source, internal.protocol) {
            Ok(hold) => Ok(Some(hold)),
            Err(NoHold::OverQuota) => Err(Drop::Nat44Quota),
            Err(NoHold::Full) => Err(Drop::Nat44TableFull),
        }
    }

    /// The next ports to try at a place; `None`: all were tried. `left`: how many more of them the packet may try.
    pub(super) fn candidates(
        &mut self,
        place: &Place,
        (internal, vrf): (End, u16),
        wish: Wish,
        (turn, left): (usize, &mut usize),
    ) -> Option<Ports> {
        let (nat, address) = (self.nat, place.address);
        let (protocol, port) = (internal.protocol, wish.port);
        let shared = self.shared;
        let blocks = shared.flows.mappings().blocks();
        let source = (internal.address, internal.vrf);
        let is_free = |port: &u16| {
            !nat.is_reserved(vrf, (protocol, address, *port))
                && !blocks.is_kept(&nat.former, (vrf, address, *port), source)
        };
        if wish.is_only {
            let is_within = (place.range.0..=place.range.1).contains(&port);
            let only = Some(port).filter(|_| is_within).filter(is_free);
            return (turn == 0).then(|| only.into_iter().collect());
        }
        let count = usize::from(place.range.1 - place.range.0) + 1;
        let most = match turn {
            _ if *left == 0 => return None,
            0 | 1 => FEW[turn],
            // Random ones and those behind them, each at most as often as there are ports.
            2 => Ports::MOST.min(2 * count + 1).min(*left),
            _ => Ports::MOST.min(count).min(*left),
        };
        *left = left.saturating_sub(most);
        if turn < 3 {
            let ports = choice::ports(place.range, (protocol, port), || self.worker.random());
            return Some(ports.take(most).filter(is_free).collect());
        }
        // A block whose last free ports are hard to meet by chance is tried as a whole.
        let is_whole = place.is_block && has_free_ports(protocol);
        let from = (turn - 3) * Ports::MOST;
        let ports = is_whole.then(|| choice::whole(place.range, from).take(most))?;
        let ports: Ports = ports.filter(is_free).collect();
        (from < count).then_some(ports)
    }

    pub(super) fn release(&self, block: Option<u32>, protocol: u8) {
        if let Some(id) = block {
            self.shared.flows.mappings().give_back(id, protocol, self.now.tick);
        }
    }

    /// Makes a mapping with one flow, at the first place that has a free port.
    ///
    /// # Errors
    /// Why a packet would be dropped that needs it.
    pub fn new_mapping(
        &mut self,
        internal: End,
        policy: &Policy,
        vrf: u16,
        wish: Wish,
    ) -> Result<(End, u32), Drop> {
        let protocol = internal.protocol;
        let (mut after, mut left) = (None, self.tries);
        // A place for each block that a subscriber may have.
        for _ in 0..=stoa_api::nat::BLOCKS_OF_SUBSCRIBER_MOST {
            let place = self.place(internal, policy, after)?;
            for turn in 0.. {
                let (of, at) = ((internal, vrf), (turn, &mut left));
                let Some(ports) = self.candidates(&place, of, wish, at) else { break };
                match self.map_to(&place, ports, of, policy.number) {
                    Ok(Some(made)) => return Ok(made),
                    Ok(None) => {}
                    Err(reason) => {
                        self.release(place.block, protocol);
                        return Err(reason);
                    }
                }
            }
            self.release(place.block, protocol);
            after = place.before_next(left);
            if after.is_none() {
                break;
            }
        }
        Err(exhausted(policy))
    }

    /// Makes a mapping to the first of some ports that is free; `None`: none is.
    fn map_to(
        &mut self,
        &Place { address, block, .. }: &Place,
        ports: Ports,
        (internal, vrf): (End, u16),
        number: u32,
    ) -> Result<Option<(End, u32)>, Drop> {
        let (mappings, now) = (self.shared.flows.mappings(), self.now.tick);
        let owner = self.worker.owner().ok_or(Drop::FlowContended)?;
        for port in ports.iter() {
            let external = End { address, port, protocol: internal.protocol, vrf };
            match owner.create(mappings, (internal, external), (number, block), now) {
                Ok(id) => return Ok(Some((external, id))),
                Err(FlowError::ReplyKeyTaken) => {}
                Err(FlowError::Contended) => return Err(Drop::FlowContended),
                Err(_) => return Err(Drop::Nat44TableFull),
            }
        }
        Ok(None)
    }
}

/// Why a place has no free port: of a deterministic block, the subscriber has all that it may have.
pub(super) fn exhausted(policy: &Policy) -> Drop {
    match policy.allocation {
        Allocation::Deterministic(_) => Drop::Nat44Quota,
        _ => Drop::Nat44NoPort,
    }
}
