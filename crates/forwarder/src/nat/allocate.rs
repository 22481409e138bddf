//! External ends for internal ones: ports of a shared address, of a block of the subscriber, or of the block that
//! follows from its address.

use stoa_tables::flow_table::{Ends, FlowError, FlowKey};

use super::block_events::EventKind;
use super::blocks::{NoBlock, Search};
use super::choice::{self, Ports};
use super::create::Maker;
use super::first::First;
use super::mappings::End;
use super::{Allocation, Nat, Policy};
use crate::drops::Drop;
use crate::flow::tracker::Uses;

/// An external address with ports to try.
struct Place {
    address: u32,
    ports: Ports,
    /// The block that has these ports, which is held.
    block: Option<u32>,
}

impl Maker<'_> {
    /// A place for an internal end by a policy. `after`: the block that was tried before.
    fn place(
        &mut self,
        internal: End,
        (policy, vrf): (&Policy, u16),
        after: Option<u32>,
    ) -> Result<Place, Drop> {
        let (address, range, block) = match &policy.allocation {
            Allocation::Ports => {
                let hash = choice::hash(internal.address, internal.vrf);
                let address = policy.address_of(hash).ok_or(Drop::Nat44NoAddress)?;
                (address, policy.ports, None)
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
        let (nat, protocol) = (self.nat, internal.protocol);
        let is_free = |port: &u16| !is_static(nat, vrf, (protocol, address, *port));
        let ports = self.ports(range, (protocol, internal.port)).filter(is_free).collect();
        Ok(Place { address, ports, block })
    }

    fn release(&self, block: Option<u32>, protocol: u8) {
        if let Some(id) = block {
            self.shared.flows.mappings().blocks().release(id, protocol, self.now.tick);
        }
    }

    /// Makes a mapping with one flow, at the first place that has a free port.
    pub(super) fn new_mapping(
        &mut self,
        internal: End,
        policy: &Policy,
        vrf: u16,
    ) -> Result<(End, u32), Drop> {
        let (mappings, protocol) = (self.shared.flows.mappings(), internal.protocol);
        let mut after = None;
        // A place for each block that a subscriber may have.
        for _ in 0..=stoa_api::nat::BLOCKS_OF_SUBSCRIBER_MOST {
            let Place { address, ports, block } = self.place(internal, (policy, vrf), after)?;
            let (number, now) = (policy.number, self.now.tick);
            let mut refused = None;
            for port in ports.iter() {
                let external = End { address, port, protocol, vrf };
                let owner = self.worker.owner();
                let made =
                    owner.map(|it| it.create(mappings, (internal, external), (number, block), now));
                match made {
                    Some(Ok(id)) => return Ok((external, id)),
                    Some(Err(FlowError::ReplyKeyTaken)) => continue,
                    None | Some(Err(FlowError::Contended)) => refused = Some(Drop::FlowContended),
                    Some(Err(_)) => refused = Some(Drop::Nat44TableFull),
                }
                break;
            }
            self.release(block, protocol);
            match (refused, block) {
                (Some(reason), _) => return Err(reason),
                (None, Some(_)) => after = block,
                (None, None) => break,
            }
        }
        Err(exhausted(policy))
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
        let Place { address, ports, block } = self.place(internal, (policy, vrf), None)?;
        // Who has a mapping has no block of its own: policies of both kinds do not meet in a flow.
        debug_assert!(uses.mapping.is_none());
        let uses = Uses { block, ..uses };
        let made = self.make(first, uses, |at| ports.get(at).map(|port| reply(address, port)));
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
