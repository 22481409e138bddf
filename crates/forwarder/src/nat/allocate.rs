//! Flows without a mapping, at a place that has a free port.

use stoa_tables::flow_table::{Ends, FlowKey, NewFlow};

use super::choice::Ports;
use super::create::{Maker, ends_of};
use super::first::First;
use super::mappings::End;
use super::places::{Place, TRIES, Wish, exhausted};
use super::rewrite::has_free_ports;
use super::{Allocation, Policy};
use crate::drops::Drop;
use crate::flow::tracker::Uses;

impl Maker<'_> {
    /// Makes a flow without a mapping, at a place of its own. `reply`: the key of its replies for an external end.
    pub(super) fn make_in_place(
        &mut self,
        first: &First<'_>,
        (policy, uses): (&Policy, Uses),
        vrf: u16,
        reply: impl Fn(u32, u16) -> FlowKey,
    ) -> Result<Ends, Drop> {
        let is_bounded =
            matches!(policy.allocation, Allocation::Blocks(..)) || policy.quota.is_some();
        if !first.may_begin() && is_bounded {
            // No block is allocated, and nothing counted, in vain.
            return Err(Drop::TcpNoConnection);
        }
        if uses.mapping.is_some() {
            // The flow can hold one of both only: what it holds beside a mapping would never return.
            return Err(Drop::Nat44NoMapping);
        }
        let (internal, mut after, mut left) = (first.internal(), None, TRIES);
        // Before the flow is replaced: a packet without a place leaves it as it is.
        let mut place = self.places().place(internal, policy, after)?;
        let own = reply(place.address, internal.port);
        let is_within = (place.range.0..=place.range.1).contains(&internal.port);
        if own == first.key.reversed() && (is_within || !has_free_ports(internal.protocol)) {
            // Its external end is its own.
            self.places().release(place.block, internal.protocol);
            return Ok(ends_of(&own));
        }
        let taken = match self.taken(first) {
            Ok(taken) => taken,
            Err(reason) => {
                self.places().release(place.block, internal.protocol);
                return Err(reason);
            }
        };
        // A place for each block that a subscriber may have.
        for _ in 0..=stoa_api::nat::BLOCKS_OF_SUBSCRIBER_MOST {
            let uses = Uses { block: place.block, ..uses };
            let made = self.make_at(first, (&taken, uses), (&place, vrf), &mut left, &reply);
            if made.is_ok() {
                return made;
            }
            self.places().release(place.block, internal.protocol);
            after = place.before_next(left);
            let next = match (made, after) {
                (Err(Drop::Nat44NoPort), Some(_)) => self.places().place(internal, policy, after),
                (Err(Drop::Nat44NoPort), None) => Err(exhausted(policy)),
                (Err(reason), _) => Err(reason),
                (Ok(_), _) => return made,
            };
            place = match next {
                Ok(place) => place,
                Err(reason) => {
                    self.give_up(taken.as_ref());
                    return Err(reason);
                }
            };
        }
        self.places().release(place.block, internal.protocol);
        self.give_up(taken.as_ref());
        Err(exhausted(policy))
    }

    /// Makes a flow without a mapping at a place.
    fn make_at(
        &mut self,
        first: &First<'_>,
        (taken, uses): (&Option<NewFlow>, Uses),
        (place, vrf): (&Place, u16),
        left: &mut usize,
        reply: impl Fn(u32, u16) -> FlowKey,
    ) -> Result<Ends, Drop> {
        let internal = first.internal();
        for turn in 0.. {
            let (of, wish) = ((internal, vrf), Wish { port: internal.port, is_only: false });
            let ports = self.places().candidates(place, of, wish, (turn, &mut *left));
            let Some(ports) = ports else { break };
            let ports: Ports =
                ports.iter().filter(|port| !self.is_held(&of, place, *port)).collect();
            let key = |at| ports.get(at).map(|port| reply(place.address, port));
            match self.try_keys(first, (taken, uses), key) {
                Err(Drop::Nat44NoPort) => {}
                made => return made,
            }
        }
        Err(Drop::Nat44NoPort)
    }

    /// Whether a mapping of another internal end has an external one: a host has asked for it, or a registrar has bound
    /// it. Flows without mappings share ports, but not that one.
    fn is_held(&self, (internal, vrf): &(End, u16), place: &Place, port: u16) -> bool {
        let external = End { address: place.address, port, protocol: internal.protocol, vrf: *vrf };
        let mappings = self.shared.flows.mappings();
        let mapping = if mappings.live() == 0 { None } else { mappings.of_external(external) };
        mapping.is_some_and(|it| it.internal != *internal)
    }
}
