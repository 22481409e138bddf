//! First packets: which ends they get, and the flow that remembers it. Nothing here is in the way of further packets.

use stoa_tables::flow_hash::Flow;
use stoa_tables::flow_table::{Ends, FlowKey, Tuple};
use stoa_wire::protocol::ICMP4;

use super::choice::{self, Ports};
use super::first::First;
use super::mappings::{End, Lease, RemotePeers};
use super::places::{Places, TRIES, Wish};
use super::rewrite::has_free_ports;
use super::statics::{Remote, Static, StaticEnd};
use super::{Counts, Filtering, Mapping, Nat, NatWorker, Outbound, Policy};
use crate::acl;
use crate::drops::Drop;
use crate::flow::flows::Now;
use crate::flow::tracker::{Side, Uses};
use crate::shared::Shared;

/// What creates flows.
pub(super) struct Maker<'a> {
    pub(super) shared: &'a Shared,
    pub(super) nat: &'a Nat,
    /// Whom leases of mappings let in.
    pub(super) peers: &'a RemotePeers,
    pub(super) policy: Option<acl::Policy>,
    pub(super) side: &'a mut Side,
    pub(super) worker: &'a mut NatWorker,
    pub(super) now: Now,
}

/// The end to which a source is translated.
struct Source {
    external: End,
    uses: Uses,
}

/// An internal end to which a packet goes.
struct Internal {
    /// Address and port.
    end: (u32, u16),
    vrf: u16,
    /// The source that it sees, if it is another one.
    remote: Option<Remote>,
}

/// The ends of a packet whose replies have this key.
pub(super) fn ends_of(reply: &FlowKey) -> Ends {
    match reply.tuple {
        Tuple::Ip4(it) => Ends {
            source: it.destination,
            destination: it.source,
            ports: u32::from(it.destination_port) << 16 | u32::from(it.source_port),
        },
        Tuple::Ip6(_) => Ends::default(),
    }
}

impl Maker<'_> {
    /// What chooses external ends.
    pub(super) fn places(&mut self) -> Places<'_> {
        let Self { shared, nat, now, .. } = *self;
        Places { shared, nat, worker: self.worker, now, tries: TRIES }
    }

    /// A packet on its way out of an external interface, of this VRF: its new ends.
    pub(super) fn outbound(
        &mut self,
        first: &First<'_>,
        decision: Outbound<'_>,
        vrf: u16,
    ) -> Result<Ends, Drop> {
        self.worker.is_silent = false;
        first.begins_flow()?;
        let Flow { destination, source_port, destination_port, protocol, .. } = first.flow();
        // Its replies, when the source has this end.
        let reply = |address: u32, port: u16| {
            let flow = Flow {
                source: destination,
                destination: address,
                source_port: destination_port,
                destination_port: port,
                protocol,
            };
            FlowKey::ip4(flow, vrf)
        };
        match decision {
            Outbound::Untranslated | Outbound::Backend => Err(Drop::Nat44Untranslated),
            Outbound::Refused(policy) => {
                Counts::add(&policy.counts.no_address);
                self.report_refusal(first, policy, Drop::Nat44NoAddress);
                Err(Drop::Nat44NoAddress)
            }
            Outbound::Static(number, StaticEnd { address, port }) => {
                self.may_begin(first)?;
                let uses = Uses { number, ..Uses::default() };
                let port = port.unwrap_or(source_port);
                self.make(first, uses, |_| Some(reply(address, port)))
            }
            Outbound::By(policy) => {
                self.may_begin(first)?;
                self.by_policy(first, policy, vrf, reply)
            }
        }
    }

    /// Whether limits of flows let a packet begin one. They are asked first: what they refuse takes no mapping, no port
    /// and no room of others. A flow that the packet has by rules is counted already, a segment in the middle of a
    /// connection begins none, and what comes from an external end may need none.
    fn may_begin(&self, first: &First<'_>) -> Result<(), Drop> {
        let is_other = first.untranslated.is_some()
            || !first.may_begin()
            || self.nat.is_external(first.key.vrf, first.flow().source);
        if is_other {
            return Ok(());
        }
        self.side.may_begin(first.key, first.received, self.now)
    }

    /// A packet whose source a policy translates. `reply`: the key of its replies for an external end.
    fn by_policy(
        &mut self,
        first: &First<'_>,
        policy: &Policy,
        vrf: u16,
        reply: impl Fn(u32, u16) -> FlowKey,
    ) -> Result<Ends, Drop> {
        self.worker.is_silent = policy.is_silent;
        let made = if policy.mapping == Mapping::EndpointIndependent
            && has_free_ports(first.flow().protocol)
        {
            self.by_mapping(first, policy, vrf, reply)
        } else {
            self.by_flow(first, policy, vrf, reply)
        };
        match made {
            Ok(_) => Counts::add(&policy.counts.created),
            Err(Drop::Nat44NoPort) => Counts::add(&policy.counts.out_of_ports),
            Err(Drop::Nat44Quota) => Counts::add(&policy.counts.over_quota),
            Err(Drop::Nat44NoAddress) => Counts::add(&policy.counts.no_address),
            Err(Drop::Nat44TableFull | Drop::FlowTableFull) => {
                Counts::add(&policy.counts.table_full);
            }
            Err(_) => {}
        }
        if let Err(reason) = made {
            self.report_refusal(first, policy, reason);
        }
        made
    }

    fn by_flow(
        &mut self,
        first: &First<'_>,
        policy: &Policy,
        vrf: u16,
        reply: impl Fn(u32, u16) -> FlowKey,
    ) -> Result<Ends, Drop> {
        let uses = Uses { number: policy.number, ..Uses::default() };
        self.make_in_place(first, (policy, uses), vrf, reply)
    }

    fn by_mapping(
        &mut self,
        first: &First<'_>,
        policy: &Policy,
        vrf: u16,
        reply: impl Fn(u32, u16) -> FlowKey,
    ) -> Result<Ends, Drop> {
        let internal = first.internal();
        let is_known =
            || self.shared.flows.mappings().of_internal(internal, policy.number).is_some();
        if !first.may_begin() && !is_known() {
            // No port is taken in vain.
            return Err(Drop::TcpNoConnection);
        }
        let Source { external, uses } = self.mapped(internal, policy, vrf)?;
        let host = first.flow().destination;
        self.with_host(policy, (external, host), uses, |maker| {
            maker.make(first, uses, |at| (at == 0).then(|| reply(external.address, external.port)))
        })
    }

    /// Makes a flow of a mapping that is held, towards a host; without a flow, the mapping is released.
    fn with_host(
        &mut self,
        policy: &Policy,
        (external, host): (End, u32),
        uses: Uses,
        make: impl FnOnce(&mut Self) -> Result<Ends, Drop>,
    ) -> Result<Ends, Drop> {
        let mappings = self.shared.flows.mappings();
        let is_held = policy.filtering != Filtering::Address
            || self.worker.owner().is_some_and(|owner| {
                owner.hold_host(mappings, (external, host), self.now.tick).is_ok()
            });
        let made = if is_held { make(self) } else { Err(Drop::Nat44TableFull) };
        if made.is_err() {
            let mut owner = self.worker.owner();
            if let Some(id) = uses.mapping {
                mappings.release(id);
                if let Some(owner) = &mut owner {
                    owner.give_up(mappings, id, self.now.tick);
                }
            }
            if is_held {
                mappings.release_host(external, host);
                if let Some(owner) = &mut owner {
                    owner.give_up_host(mappings, external, host, self.now.tick);
                }
            }
        }
        made
    }

    /// The external end of an internal one, by its mapping, which is held.
    fn mapped(&mut self, internal: End, policy: &Policy, vrf: u16) -> Result<Source, Drop> {
        let mappings = self.shared.flows.mappings();
        let number = policy.number;
        let uses = |id| Uses { number, mapping: Some(id), ..Uses::default() };
        if let Some(known) = mappings.of_internal(internal, number) {
            let is_held = mappings.hold(known.id);
            let source = Source { external: known.external, uses: uses(known.id) };
            return is_held.then_some(source).ok_or(Drop::FlowContended);
        }
        let wish = Wish { port: internal.port, is_only: false };
        let (external, id) = self.places().new_mapping(internal, policy, vrf, wish)?;
        Ok(Source { external, uses: uses(id) })
    }

    /// A packet to an external address: its new ends. `is_outside`: it comes from an external interface. `None`: there
    /// is no mapping that lets it in.
    pub(super) fn inbound(
        &mut self,
        first: &First<'_>,
        is_outside: bool,
    ) -> Option<Result<Ends, Drop>> {
        let Flow { source, destination, source_port, destination_port, protocol } = first.flow();
        let vrf = first.key.vrf;
        // ICMP queries have no port at the end that answers.
        let port = (protocol != ICMP4).then_some(destination_port);
        if let Some((it, end)) = self.nat.statics.of_external(vrf, (protocol, destination, port)) {
            return self.by_static(first, (it, end), is_outside);
        }
        if protocol == ICMP4 || !has_free_ports(protocol) {
            return None;
        }
        let external = End { address: destination, port: destination_port, protocol, vrf };
        let mappings = self.shared.flows.mappings();
        let known = mappings.of_external(external)?;
        let policy = self.nat.policy(known.policy)?;
        let by_policy = || match policy.filtering {
            // Whom it has sent to has a flow.
            Filtering::AddressAndPort => false,
            Filtering::Address => mappings.reaches(external, source),
            Filtering::Anyone => true,
        };
        // Hosts inside could send to the internal end as well: two of them that open a way for each other need no more
        // than that.
        let lease = mappings.lease_of(known.id);
        if lease == Lease::No && policy.mapping != Mapping::EndpointIndependent {
            // It is a registrar's binding: this one alone is expected, and nobody inside either.
            return None;
        }
        let is_let_in = !is_outside
            || match lease {
                Lease::No => by_policy(),
                Lease::Anybody => true,
                Lease::Some => self.peers.admits(known.id, (source, source_port), by_policy()),
            };
        if !is_let_in {
            return None;
        }
        if let Err(reason) = self.may_begin(first) {
            return Some(Err(reason));
        }
        let is_held =
            if is_outside { mappings.hold_by(known.id, lease) } else { mappings.hold(known.id) };
        if !is_held {
            return None;
        }
        let (number, mapping) = (policy.number, Some(known.id));
        let uses = Uses { number, mapping, is_inbound: true, ..Uses::default() };
        let internal = (known.internal.address, known.internal.port);
        let to = Internal { end: internal, vrf: known.internal.vrf, remote: None };
        Some(self.with_host(policy, (external, source), uses, |maker| {
            let made = maker.reach_internal(first, (to, uses), (is_outside, Some(policy)));
            if made.is_ok() {
                Counts::add(&policy.counts.created);
            }
            made
        }))
    }

    /// A packet to the external end of a static mapping. `None`: no backend takes it.
    fn by_static(
        &mut self,
        first: &First<'_>,
        (it, end): (&Static, StaticEnd),
        is_outside: bool,
    ) -> Option<Result<Ends, Drop>> {
        let Flow { source, destination_port, .. } = first.flow();
        if let Err(reason) = self.may_begin(first) {
            return Some(Err(reason));
        }
        let (number, end) = it.reached(end, first.hash(it.is_by_source))?;
        let mut policies = self.nat.policies.iter();
        let by = policies.find(|by| by.instance == it.instance && by.has_subscriber(source));
        let uses = Uses { number, is_inbound: true, ..Uses::default() };
        let end = (end.address, end.port.unwrap_or(destination_port));
        let to = Internal { end, vrf: it.internal_vrf, remote: it.remote };
        Some(self.reach_internal(first, (to, uses), (is_outside, by)))
    }

    /// A packet whose destination is an internal end. From inside, its source is translated as well, so that answers
    /// come back to the router (RFC 4787 REQ-9).
    fn reach_internal(
        &mut self,
        first: &First<'_>,
        (Internal { end: (address, port), vrf: internal_vrf, remote }, uses): (Internal, Uses),
        (is_outside, policy): (bool, Option<&Policy>),
    ) -> Result<Ends, Drop> {
        self.worker.is_silent = policy.is_some_and(|it| it.is_silent);
        first.begins_flow()?;
        let Flow { source, destination, source_port, protocol, .. } = first.flow();
        let vrf = first.key.vrf;
        let reply = |to: u32, to_port: u16| {
            let flow = Flow {
                source: address,
                destination: to,
                source_port: port,
                destination_port: to_port,
                protocol,
            };
            FlowKey::ip4(flow, internal_vrf)
        };
        if let Some(Remote { addresses, ports }) = remote {
            // Each source has one address: internal hosts can tell them apart as far as there are several.
            let host = choice::hash(source, vrf) & addresses.host_bits();
            let candidates: Ports = self.ports(ports, (protocol, source_port)).collect();
            let key = |port| reply(addresses.network | host, port);
            return self.make(first, uses, |at| candidates.get(at).map(key));
        }
        if is_outside {
            return self.make(first, uses, |at| (at == 0).then(|| reply(source, source_port)));
        }
        let instance = policy.map(|it| it.instance);
        let known = instance.and_then(|instance| {
            self.nat.statics.of_internal((instance, vrf), (protocol, source, Some(source_port)))
        });
        if let Some((_, end)) = known {
            let port = end.port.unwrap_or(source_port);
            return self.make(first, uses, |at| (at == 0).then(|| reply(end.address, port)));
        }
        let is_mapped =
            |it: &&Policy| it.mapping == Mapping::EndpointIndependent && has_free_ports(protocol);
        if let Some(policy) = policy.filter(is_mapped) {
            let Source { external, uses: of_source } =
                self.mapped(first.internal(), policy, vrf)?;
            let end = (external.address, external.port);
            // The flow can hold one mapping only: that of the destination, or else that of the source.
            let uses = match uses.mapping {
                Some(_) => uses,
                // It ends with the static mapping, too.
                None => Uses { number: uses.number, ..of_source },
            };
            let made = self.make(first, uses, |at| (at == 0).then(|| reply(end.0, end.1)));
            if (made.is_err() || uses.is_inbound)
                && let Some(id) = of_source.mapping
            {
                self.shared.flows.mappings().release(id);
            }
            return made;
        }
        // An external address that comes back to this flow.
        let translates = |it: &&Policy| it.mapping != Mapping::Static && !it.pools.is_empty();
        match policy.filter(translates) {
            Some(policy) => self.make_in_place(first, (policy, uses), vrf, reply),
            None => {
                let range = (1024, u16::MAX);
                let candidates: Ports = self.ports(range, (protocol, source_port)).collect();
                self.make(first, uses, |at| candidates.get(at).map(|port| reply(destination, port)))
            }
        }
    }

    pub(super) fn ports(
        &mut self,
        range: (u16, u16),
        internal: (u8, u16),
    ) -> impl Iterator<Item = u16> + use<'_> {
        choice::ports(range, internal, || self.worker.random())
    }
}
