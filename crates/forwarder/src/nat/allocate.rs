//! External ends for internal ones: ports of a shared address, of a block of the subscriber, or of the block that
//! follows from its address.

use stoa_tables::flow_table::{Ends, FlowError, FlowKey};

use super::block_events::EventKind;
use super::blocks::{NoBlock, Search};
use super::choice::{self, Ports};
use super::create::Maker;
use super::first::First;
use super::mappings::End;
use super::quotas::NoHold;
use super::{Allocation, Nat, Policy};
use crate::drops::Drop;
use crate::flow::tracker::Uses;

/// Ports that are tried before all others are drawn: mostly one of them is free.
const FEW: usize = 8;

/// An external address with a range of ports.
struct Place {
    address: u32,
    range: (u16, u16),
    /// The block that has these ports, or the quota of the source: what is held.
    block: Option<u32>,
}

impl Maker<'_> {
    /// A place for an internal end by a policy. `after`: the block that was tried before.
    fn place(&mut self, internal: End, policy: &Policy, after: Option<u32>) -> Result<Place, Drop> {
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
                let blocks = self.shared.flows.mappings().blocks();
                let subscriber = range.subscriber(internal.address, internal.vrf);
                let now = (self.now.tick, self.now.ms);
                let (share, protocol) = (*share, internal.protocol);
                let search = Search { blocks, range, share, subscriber, protocol, now };
                let events = self.worker.block_events();
                let id = match search.hold(after, events) {
                    Ok(id) => id,
                    Err(why) => {
                        let (kind, reason) = match why {
                            NoBlock::OverQuota => (EventKind::OverQuota, Drop::Nat44Quota),
                            NoBlock::Full => (EventKind::NoBlock, Drop::Nat44NoPort),
                        };
                        if policy.counts.reports(self.now.tick) {
                            events.push(search.refusal(kind));
                        }
                        return Err(reason);
                    }
                };
                let (address, first, last) = range.place(id).ok_or(Drop::Nat44NoAddress)?;
                (address, (first, last), Some(id))
            }
        };
        Ok(Place { address, range, block })
    }

    /// Counts a mapping or flow of a source whose policy has a quota: what is held.
    fn hold_quota(&self, internal: End, policy: &Policy) -> Result<Option<u32>, Drop> {
        let Some(quota) = &policy.quota else { return Ok(None) };
        let source = (internal.address, internal.vrf);
        match self.shared.flows.mappings().quotas().hold(quota, source, internal.protocol) {
            Ok(hold) => Ok(Some(hold)),
            Err(NoHold::OverQuota) => Err(Drop::Nat44Quota),
            Err(NoHold::Full) => Err(Drop::Nat44TableFull),
        }
    }

    /// The first ports to try at a place, at most so many: not those of static mappings.
    fn candidates(&mut self, place: &Place, (internal, vrf): (End, u16), most: usize) -> Ports {
        let (nat, protocol, address) = (self.nat, internal.protocol, place.address);
        let is_free = |port: &u16| !is_static(nat, vrf, (protocol, address, *port));
        let ports = self.ports(place.range, (protocol, internal.port));
        ports.take(most).filter(is_free).collect()
    }

    fn release(&self, block: Option<u32>, protocol: u8) {
        if let Some(id) = block {
            self.shared.flows.mappings().give_back(id, protocol, self.now.tick);
        }
    }

    /// Makes a mapping with one flow, at the first place that has a free port.
    pub(super) fn new_mapping(
        &mut self,
        internal: End,
        policy: &Policy,
        vrf: u16,
    ) -> Result<(End, u32), Drop> {
        let protocol = internal.protocol;
        let mut after = None;
        // A place for each block that a subscriber may have.
        for _ in 0..=stoa_api::nat::BLOCKS_OF_SUBSCRIBER_MOST {
            let place = self.place(internal, policy, after)?;
            for most in [FEW, Ports::MOST] {
                let ports = self.candidates(&place, (internal, vrf), most);
                match self.map_to(&place, ports, (internal, vrf), policy.number) {
                    Ok(Some(made)) => return Ok(made),
                    Ok(None) => {}
                    Err(reason) => {
                        self.release(place.block, protocol);
                        return Err(reason);
                    }
                }
            }
            self.release(place.block, protocol);
            match policy.allocation {
                // Another block has other ports.
                Allocation::Blocks(..) => after = place.block,
                _ => break,
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

    /// Makes a flow without a mapping, at a place of its own. `reply`: the key of its replies for an external end.
    pub(super) fn make_in_place(
        &mut self,
        first: &First<'_>,
        (policy, uses): (&Policy, Uses),
        vrf: u16,
        reply: impl Fn(u32, u16) -> FlowKey,
    ) -> Result<Ends, Drop> {
        if !first.may_begin() && matches!(policy.allocation, Allocation::Blocks(..)) {
            // No block is allocated in vain.
            return Err(Drop::TcpNoConnection);
        }
        let internal = first.internal();
        let place = self.place(internal, policy, None)?;
        let (address, block) = (place.address, place.block);
        // Who has a mapping has no block of its own: policies of both kinds do not meet in a flow.
        debug_assert!(uses.mapping.is_none());
        let uses = Uses { block, ..uses };
        // A flow that is replaced is taken away once: then all ports are tried at once.
        let first_try = if first.untranslated.is_none() { FEW } else { Ports::MOST };
        let ports = self.candidates(&place, (internal, vrf), first_try);
        let key = |ports: &Ports, at| ports.get(at).map(|port| reply(address, port));
        let mut made = self.make(first, uses, |at| key(&ports, at));
        if made == Err(Drop::Nat44NoPort) && first_try == FEW {
            let ports = self.candidates(&place, (internal, vrf), Ports::MOST);
            made = self.make(first, uses, |at| key(&ports, at));
        }
        if made.is_err() {
            self.release(block, internal.protocol);
        }
        match made {
            Err(Drop::Nat44NoPort) => Err(exhausted(policy)),
            made => made,
        }
    }
}

/// Why a place has no free port: of a deterministic block, the subscriber has all that it may have.
fn exhausted(policy: &Policy) -> Drop {
    match policy.allocation {
        Allocation::Deterministic(_) => Drop::Nat44Quota,
        _ => Drop::Nat44NoPort,
    }
}

/// Whether a static mapping has an external end.
fn is_static(nat: &Nat, vrf: u16, (protocol, address, port): (u8, u32, u16)) -> bool {
    nat.statics.of_external(vrf, (protocol, address, Some(port))).is_some()
}
