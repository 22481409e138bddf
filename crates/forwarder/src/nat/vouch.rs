//! Whether a translation that a partner reports ([`crate::flow_sync`]) is one that this configuration makes: it must
//! not have a packet leave with another source, nor reach a host that nobody outside may reach, nor lead from one VRF
//! into another one that routes and mappings keep apart.

use stoa_tables::flow_hash::Flow;
use stoa_tables::flow_table::{FlowKey, FormerFlow, Tuple};

use super::mappings::End;
use super::rewrite::has_free_ports;
use super::statics::{Static, StaticEnd};
use super::{Allocation, Mapping, Nat, Outbound, Policy};
use crate::flow::tracker::Uses;
use crate::nat64::hosts::is_stand_in;

/// Both ends of a flow on both sides of the router, by who is inside.
struct Ends {
    internal: (u32, u16),
    external: (u32, u16),
    /// The address of the end outside.
    remote: u32,
    protocol: u8,
    /// The VRFs of the internal and of the external end.
    internal_vrf: u16,
    vrf: u16,
}

/// Whether a route of a VRF, as in keys, to an address leaves by an interface.
pub(crate) type Leaves<'a> = dyn Fn((u16, u32), u32) -> bool + 'a;

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
        let ([near, far], [internal, external], [internal_vrf, vrf]) = match is_inbound {
            true => (source, [destination[1], destination[0]], [reply.vrf, key.vrf]),
            false => (destination, source, [key.vrf, reply.vrf]),
        };
        let (remote, protocol) = (near.0, first.protocol);
        let is_whole = near == far && protocol == back.protocol;
        is_whole.then_some(Self { internal, external, remote, protocol, internal_vrf, vrf })
    }
}

/// Whether a partner never takes a translated flow, whatever its configuration: the end outside is another one behind
/// the router.
pub(crate) fn is_never_vouched(flow: &FormerFlow, reply: &FlowKey) -> bool {
    Ends::of(&flow.key, reply, Uses::of_words(flow.spare).is_inbound).is_none()
}

impl Policy {
    /// `leaves`: whether a route leads there.
    fn can_have_made(&self, nat: &Nat, ends: &Ends, uses: Uses, leaves: &Leaves<'_>) -> bool {
        let Ends { internal, external, remote, protocol, internal_vrf, vrf } = *ends;
        let meet = internal_vrf == vrf || leaves((internal_vrf, remote), self.interface);
        self.mapping != Mapping::Static
            && self.has_subscriber(internal.0)
            && self.has_place(ends)
            && self.has_hold(protocol, uses)
            && nat.is_external(vrf, external.0)
            && !nat.is_reserved(vrf, (protocol, external.0, external.1))
            && (uses.is_inbound || nat.translates_by(self, ends))
            && meet
    }

    /// Whether it has the external end for the internal one.
    fn has_place(&self, ends: &Ends) -> bool {
        let Ends { internal, external, protocol, .. } = *ends;
        let (first, last) = match &self.allocation {
            Allocation::Deterministic(all) => match all.external_of(internal.0) {
                Some((address, first, last)) if address == external.0 => (first, last),
                _ => return false,
            },
            Allocation::Ports | Allocation::Blocks(..) => self.ports,
        };
        let has_port = match has_free_ports(protocol) {
            true => (first..=last).contains(&external.1),
            false => external.1 == internal.1,
        };
        has_port && self.pools.iter().any(|it| it.contains(external.0))
    }

    /// Whether a flow holds what flows of this policy hold: a mapping; or without one a block of ports or a quota, so
    /// that its external port is that of nobody else. Protocols without ports share what they have.
    fn has_hold(&self, protocol: u8, uses: Uses) -> bool {
        let has_block = match &self.allocation {
            Allocation::Deterministic(_) => false,
            Allocation::Ports => self.quota.is_some(),
            Allocation::Blocks(..) => true,
        };
        let is_alone = self.mapping != Mapping::EndpointIndependent;
        uses.mapping.is_some()
            || !has_free_ports(protocol)
            || is_alone && uses.block.is_some() == has_block
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
        self.remote.is_none()
            && self.internal_vrf == ends.internal_vrf
            && end.map(is_end) == Some(ends.internal)
    }
}

impl Nat {
    /// Whether a policy is the one that translates packets from an internal end to the end outside.
    fn translates_by(&self, policy: &Policy, ends: &Ends) -> bool {
        let of = (policy.interface, ends.internal_vrf);
        let port = Some(ends.internal.1);
        let outbound = self.outbound(of, (ends.internal.0, ends.remote), (ends.protocol, port));
        matches!(outbound, Outbound::By(it) if it.number == policy.number)
    }

    /// Whether the policy with a number may lease an internal end this external one, which comes second.
    pub(crate) fn can_have_leased(&self, number: u32, [internal, external]: [End; 2]) -> bool {
        let ends = Ends {
            internal: (internal.address, internal.port),
            external: (external.address, external.port),
            remote: 0,
            protocol: internal.protocol,
            internal_vrf: internal.vrf,
            vrf: external.vrf,
        };
        let may_have = |it: &Policy| {
            it.mapping != Mapping::Static
                && it.has_subscriber(internal.address)
                && it.has_place(&ends)
        };
        self.policy(number).is_some_and(may_have)
            && external.protocol == internal.protocol
            && self.is_external(external.vrf, external.address)
            && !self.is_reserved(external.vrf, (external.protocol, external.address, external.port))
    }

    /// Whether a flow with these keys is one that a policy or mapping with its number may have made. Of NAT64, the
    /// inside end is a stand-in, for whose host others vouch ([`crate::nat64::keys`]).
    pub(crate) fn can_have_made(
        &self,
        flow: &FormerFlow,
        reply: &FlowKey,
        leaves: &Leaves<'_>,
    ) -> bool {
        let uses = Uses::of_words(flow.spare);
        let Some(ends) = Ends::of(&flow.key, reply, uses.is_inbound) else { return false };
        if is_stand_in(ends.remote) || is_stand_in(ends.external.0) {
            return false;
        }
        if let Some(policy) = self.policy(uses.number) {
            // Whoever sends to a mapping from outside needs one.
            return (!uses.is_inbound || uses.mapping.is_some())
                && policy.can_have_made(self, &ends, uses, leaves);
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
