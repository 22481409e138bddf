//! Whether a translation that a partner reports ([`crate::flow_sync`]) is one that this configuration makes: it must
//! not have a packet leave with another source, nor reach a host that nobody outside may reach.

use stoa_tables::flow_hash::Flow;
use stoa_tables::flow_table::{FlowKey, FormerFlow, Tuple};

use super::rewrite::has_free_ports;
use super::statics::{Static, StaticEnd};
use super::{Mapping, Nat, Policy};
use crate::flow::tracker::Uses;
use crate::nat64::hosts::is_stand_in;

/// Both ends of a flow on both sides of the router, by who is inside.
struct Ends {
    internal: (u32, u16),
    external: (u32, u16),
    protocol: u8,
    vrf: u16,
}

fn tuple(key: &FlowKey) -> Option<Flow<u32>> {
    match key.tuple {
        Tuple::Ip4(it) => Some(it),
        Tuple::Ip6(_) => None,
    }
}

impl Ends {
    /// Those of a flow; `None`: the end outside is another one behind the router.
    fn of(key: &FlowKey, reply: &FlowKey, is_inbound: bool) -> Option<Self> {
        let (first, back) = (tuple(key)?, tuple(reply)?.reversed());
        let [source, destination] = [
            [(first.source, first.source_port), (back.source, back.source_port)],
            [
                (first.destination, first.destination_port),
                (back.destination, back.destination_port),
            ],
        ];
        let ([near, far], [internal, external], vrf) = match is_inbound {
            true => (source, [destination[1], destination[0]], key.vrf),
            false => (destination, source, reply.vrf),
        };
        let is_whole = near == far && first.protocol == back.protocol;
        is_whole.then_some(Self { internal, external, protocol: first.protocol, vrf })
    }
}

impl Policy {
    fn can_have_made(&self, nat: &Nat, ends: &Ends) -> bool {
        let Ends { internal, external, protocol, vrf } = *ends;
        let end = (protocol, external.0, external.1);
        let has_port = match has_free_ports(protocol) {
            true => (self.ports.0..=self.ports.1).contains(&external.1),
            false => external.1 == internal.1,
        };
        !self.is_nat64
            && self.mapping != Mapping::Static
            && self.has_subscriber(internal.0)
            && self.pools.iter().any(|it| it.contains(external.0))
            && has_port
            && !nat.is_reserved(vrf, end)
    }
}

impl Static {
    /// `leads_to`: where the external end leads.
    fn can_have_made(&self, number: u32, ends: &Ends, leads_to: StaticEnd) -> bool {
        let end = match &*self.backends {
            [] => Some(leads_to).filter(|_| self.number == number),
            all => {
                let found = all.iter().find(|it| it.number == number);
                found.map(|it| self.of_backend(it, leads_to))
            }
        };
        let is_end = |it: StaticEnd| (it.address, it.port.unwrap_or(ends.external.1));
        self.remote.is_none() && end.map(is_end) == Some(ends.internal)
    }
}

impl Nat {
    /// Whether a flow with these keys is one that a policy or mapping with its number may have made.
    pub(crate) fn can_have_made(&self, flow: &FormerFlow, reply: &FlowKey) -> bool {
        let uses = Uses::of_words(flow.spare);
        let Some(ends) = Ends::of(&flow.key, reply, uses.is_inbound) else { return false };
        if is_stand_in(ends.internal.0) || is_stand_in(ends.external.0) {
            return false;
        }
        if let Some(policy) = self.policy(uses.number) {
            // Whoever sends to a mapping from outside needs one.
            return (!uses.is_inbound || uses.mapping.is_some())
                && policy.can_have_made(self, &ends);
        }
        let end = (ends.protocol, ends.external.0, Some(ends.external.1));
        let Some((mapping, leads_to)) = self.statics.of_external(ends.vrf, end) else {
            return false;
        };
        uses.mapping.is_none()
            && uses.block.is_none()
            && mapping.can_have_made(uses.number, &ends, leads_to)
    }
}

#[cfg(test)]
mod tests;
