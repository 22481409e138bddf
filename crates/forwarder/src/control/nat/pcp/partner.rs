//! Leases of hosts at a partner ([`crate::flow_sync`]): those of this router are posted for it; those that it sends are
//! standby until their hosts ask here. A partner may lie: what it sends has to be what a host may ask for here.

use std::net::Ipv4Addr;

use stoa_engine::clock;
use stoa_wire::protocol::{TCP, UDP};

use super::OF_END;
use super::clients::is_host;
use super::leases::{Asker, Holder, Key, Lease};
use crate::control::forwarder_state::ForwarderState;
use crate::flow::adoption::LeftOut;
use crate::flow::adoption::head::stable_hash;
use crate::flow_sync::leases::{self, Named, Posted, Work};
use crate::flow_sync::message;
use crate::flow_sync::standby::Outcome;
use crate::nat::LEFT_PART;
use crate::nat::mappings::RemotePeer;
use crate::pcp::lease::{Origin, Terms};

/// What a tick does of what the partner has sent.
const TURN: usize = 512;
/// How long the partner is told of a standby lease that its host has ended here, and how many of them.
const ENDED_MS: u64 = 60_000;
const ENDED: usize = 1 << 16;

/// Whether an amount leaves others their part of a limit.
fn leaves_part(used: usize, limit: usize) -> bool {
    used < limit - limit / LEFT_PART as usize
}

/// Whether a request may name the remote ends of a lease: PEER the one that it is for, NAT-PMP none.
fn may_name(key: &Key, terms: &Terms) -> bool {
    match (key.remote, terms.holder) {
        (Some(_), Holder::NatPmp) => false,
        (Some((network, port)), _) => terms.peers == [RemotePeer { network, length: 32, port }],
        (None, Holder::NatPmp) => terms.peers.is_empty(),
        (None, Holder::Nonce(_)) => true,
    }
}

/// What the policy makes of a lease of the partner.
struct Place {
    asker: Asker,
    /// Seconds of a lease, at most.
    most_s: u32,
    /// Leases of a host, at most.
    host_leases: usize,
}

impl ForwarderState {
    fn tick_of_flows(&self) -> u32 {
        self.shared.flows.now(clock::tsc()).tick
    }

    fn posted(&self, lease: &Lease) -> Option<Posted> {
        let left_s = lease.end_ms.saturating_sub(self.now()).div_ceil(1_000) as u32;
        let Asker { interface, vrf, address } = lease.asker;
        let interface = stable_hash(self.interface(interface)?.name.as_bytes());
        let terms = Terms {
            holder: lease.holder,
            origin: Origin { interface, vrf, address },
            external: lease.external,
            end: self.tick_of_flows().wrapping_add(left_s),
            renewed: lease.renewed,
            peers: lease.peers.clone(),
        };
        Some(Posted { terms, named: lease.named, is_ended: false })
    }

    /// The thread of the partner is to see what a lease is now.
    pub(super) fn post_lease(&self, key: &Key) {
        let posts = self.shared.flows.standby().leases();
        if posts.is_used()
            && let Some(lease) = self.capabilities.nat.pcp.leases.get(key)
            && let Some(posted) = self.posted(lease)
        {
            posts.post(*key, posted);
        }
    }

    /// The same of all leases: there is a partner from now on.
    pub(in crate::control) fn post_leases(&self) {
        self.capabilities.nat.pcp.leases.iter().for_each(|(key, _)| self.post_lease(key));
    }

    /// Ends a lease because its host has ended it here. If the partner has it, that ends it there, too.
    pub(super) fn end_lease_of_host(&mut self, key: &Key) {
        let lease = self.capabilities.nat.pcp.leases.get(key);
        let standby = lease.filter(|it| it.named.is_some()).cloned();
        self.end_pcp_lease(key);
        let posts = self.shared.flows.standby().leases();
        let (end_ms, renewed, named) = (0, self.tick_of_flows(), None);
        let ended = standby.filter(|_| posts.is_used());
        let ended = ended.and_then(|it| self.posted(&Lease { end_ms, renewed, named, ..it }));
        let until = self.now() + ENDED_MS;
        let here = &mut self.capabilities.nat.pcp.ended_here;
        if let Some(posted) = ended
            && here.len() < ENDED
        {
            posts.post(*key, Posted { is_ended: true, ..posted });
            here.push_back((until, *key));
        }
    }

    /// Does some of what the partner has sent of leases.
    pub(super) fn follow_partner(&mut self) {
        let shared = self.shared.clone();
        let standby = shared.flows.standby();
        for _ in 0..TURN {
            let Some(work) = standby.leases().take() else { break };
            let outcome = match work {
                Work::Lease(lease, connection) => Some(self.follow_lease(&lease, connection)),
                Work::End(key) => Some(self.end_standby_lease(&key, |_| true)),
                Work::Known(key, connection) => {
                    self.name_lease(&key, Named { connection, is_theirs: false });
                    None
                }
                Work::Sweep(key, connection) => {
                    let is_meant = |it: Named| it.connection != connection;
                    let ended = self.end_standby_lease(&key, is_meant);
                    Some(ended).filter(|it| *it == Outcome::Ended)
                }
            };
            match outcome {
                Some(Outcome::Created) => standby.leases().count(leases::Outcome::Created),
                Some(Outcome::Ended) => standby.leases().count(leases::Outcome::Ended),
                Some(Outcome::Refreshed) | None => {}
                Some(other) => standby.count(other),
            }
        }
        let now = self.now();
        let here = &mut self.capabilities.nat.pcp.ended_here;
        while let Some((_, key)) = here.front().filter(|(until, _)| *until <= now) {
            standby.leases().forget_ended(key);
            here.pop_front();
        }
    }

    fn end_standby_lease(&mut self, key: &Key, is_meant: impl Fn(Named) -> bool) -> Outcome {
        let lease = self.capabilities.nat.pcp.leases.get(key);
        if !lease.and_then(|it| it.named).is_some_and(is_meant) {
            return Outcome::Ignored;
        }
        self.end_pcp_lease(key);
        Outcome::Ended
    }

    /// The partner has said that it has a lease. One of this router stays what it is.
    fn name_lease(&mut self, key: &Key, named: Named) {
        if self.capabilities.nat.pcp.leases.name(key, named) {
            self.post_lease(key);
        }
    }

    /// Has a lease of the partner.
    fn follow_lease(&mut self, lease: &message::Lease, connection: u32) -> Outcome {
        let message::Lease { key, terms, is_standby } = lease;
        let named = Named { connection, is_theirs: !is_standby };
        let left = terms.end.wrapping_sub(self.tick_of_flows()).cast_signed();
        let left_s = left.max(0).cast_unsigned();
        if self.capabilities.nat.pcp.leases.get(key).is_some() {
            return self.follow_known(lease, (named, left_s));
        }
        if left_s == 0 {
            return Outcome::Ignored;
        }
        let Some(place) = self.place_of_lease(key, terms) else {
            return Outcome::Refused(LeftOut::Translation);
        };
        let made =
            self.has_lease_room(key, terms, &place).then(|| self.standby_mapping(key, terms));
        let Some(mapping) = made.flatten() else { return Outcome::Refused(LeftOut::Room) };
        let end_ms = self.now() + u64::from(left_s.min(place.most_s)) * 1_000;
        let lease = Lease {
            holder: terms.holder,
            asker: place.asker,
            end_ms,
            mapping,
            external: terms.external,
            peers: terms.peers.clone(),
            is_closed: false,
            renewed: terms.renewed,
            named: Some(named),
        };
        self.keep_standby(key, lease);
        Outcome::Created
    }

    fn keep_standby(&mut self, key: &Key, lease: Lease) {
        let mapping = lease.mapping;
        self.capabilities.nat.pcp.leases.insert(*key, lease);
        self.set_remote_peers(*key, mapping);
        self.post_lease(key);
    }

    /// A lease that is here is one of the partner if its host has asked there later.
    fn follow_known(&mut self, lease: &message::Lease, (named, left_s): (Named, u32)) -> Outcome {
        let message::Lease { key, terms, is_standby } = lease;
        let Some(before) = self.capabilities.nat.pcp.leases.get(key).cloned() else {
            return Outcome::Ignored;
        };
        let is_later = terms.renewed.wrapping_sub(before.renewed).cast_signed() > 0;
        if *is_standby {
            self.name_lease(key, named);
            return Outcome::Ignored;
        }
        if before.named.is_none() && !is_later {
            return Outcome::Ignored;
        }
        if (before.external, before.holder) != (terms.external, terms.holder) {
            // Both have given the host an end, or the lease, to somebody.
            if before.named.is_none() {
                return Outcome::Refused(LeftOut::Translation);
            }
            // The next record creates it.
            self.end_pcp_lease(key);
            return Outcome::Refused(LeftOut::Room);
        }
        if left_s == 0 {
            self.end_pcp_lease(key);
            return Outcome::Ended;
        }
        let Some(place) = self.place_of_lease(key, terms) else {
            return Outcome::Refused(LeftOut::Translation);
        };
        let names_first = before.peers.is_empty() && !terms.peers.is_empty();
        if names_first && !self.has_room_for_peers(key) {
            return Outcome::Refused(LeftOut::Room);
        }
        let end_ms = self.now() + u64::from(left_s.min(place.most_s)) * 1_000;
        let (peers, renewed) = (terms.peers.clone(), terms.renewed);
        let (named, is_closed) = (Some(named), false);
        self.keep_standby(key, Lease { end_ms, peers, renewed, named, is_closed, ..before });
        Outcome::Refreshed
    }

    /// Where a host may have asked for a lease of the partner; `None`: it could not get it here.
    fn place_of_lease(&self, key: &Key, terms: &Terms) -> Option<Place> {
        let nat = &self.capabilities.nat;
        let policy = nat.policies.iter().find(|it| it.number == key.policy)?;
        let control = policy.policy.port_control.as_ref()?;
        let Origin { interface, vrf, address } = terms.origin;
        let name = control.interfaces.iter().find(|it| stable_hash(it.as_bytes()) == interface)?;
        let interface = self.index_of(name).filter(|it| !nat.external.contains(it))?;
        let server = self.pcp_server(interface, Ipv4Addr::from_bits(key.address))?;
        let of_interface = crate::acl::flow_vrf(self.vrf_id(self.interface(interface)?.vrf));
        let is_host = |it: u32| {
            let address = Ipv4Addr::from_bits(it);
            is_host(address) && !self.is_external(key.vrf, address)
        };
        let is_own = address == key.address;
        let has_ports =
            matches!(key.protocol, TCP | UDP) && key.port != 0 && terms.external.port != 0;
        let may_ask = server.number == key.policy
            && [key.vrf, vrf] == [of_interface; 2]
            && is_host(key.address)
            && (is_own || server.allows_third_party && is_host(address))
            && (terms.holder != Holder::NatPmp || server.has_nat_pmp && is_own)
            && may_name(key, terms);
        let ends = [key.internal(), terms.external];
        let is_given = has_ports
            && terms.external.vrf == policy.vrf
            && self.static_external(key).is_none()
            && nat.published.as_ref()?.can_have_leased(key.policy, ends);
        let asker = Asker { interface, vrf, address };
        let (most_s, host_leases) = (server.lifetimes_s.1, server.host_leases as usize);
        (may_ask && is_given).then_some(Place { asker, most_s, host_leases })
    }

    /// Whether there is room for one more lease, beside what is left to others, and nobody else has its internal end.
    fn has_lease_room(&self, key: &Key, terms: &Terms, place: &Place) -> bool {
        let leases = &self.capabilities.nat.pcp.leases;
        let hosts = [(key.vrf, key.address), (place.asker.vrf, place.asker.address)];
        let has_share = |it| leases.count_of(key.policy, it) < place.host_leases;
        hosts.into_iter().all(has_share)
            && leases.of_end(*key).count() < OF_END
            && leases.of_end(*key).all(|(_, it)| it.holder == terms.holder)
            && leaves_part(leases.len(), self.pcp_lease_limit())
            && (terms.peers.is_empty() || self.has_room_for_peers(key))
    }

    fn has_room_for_peers(&self, key: &Key) -> bool {
        let leases = &self.capabilities.nat.pcp.leases;
        leases.is_restricted(*key) || leaves_part(leases.restricted(), self.pcp_restricted_limit())
    }

    /// The mapping of a lease of the partner, with a lease that lets nobody in yet. `None`: there is no room, or
    /// something else has its external end.
    fn standby_mapping(&mut self, key: &Key, terms: &Terms) -> Option<u32> {
        let shared = self.shared.clone();
        let (flows, mappings) = (&shared.flows, shared.flows.mappings());
        let now = flows.now(clock::tsc());
        let (internal, external) = (key.internal(), terms.external);
        let nat_state = &mut self.capabilities.nat;
        let nat = nat_state.published.clone()?;
        let (policy, worker) = (nat.policy(key.policy)?, nat_state.pcp.maker.as_mut()?);
        let has_room = worker.has_mapping_room((flows, policy), (internal, external));
        if !has_room {
            return None;
        }
        let held = worker.hold_end((flows, &nat), [internal, external], key.policy, now);
        let id = held.ok().flatten()?;
        let is_leased = nat_state.pcp.leases.of_end(*key).next().is_some();
        let is_kept = is_leased || mappings.lease(id, true);
        mappings.release(id);
        is_kept.then_some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nat::mappings::End;

    #[test]
    fn a_lease_names_the_remote_ends_of_a_request() {
        let end = |port| End { address: 1, port, protocol: UDP, vrf: 0 };
        let peer = |length, port| RemotePeer { network: 9, length, port };
        let may = |remote, holder, peers: &[RemotePeer]| {
            let key = Key { policy: 7, vrf: 0, address: 5, protocol: UDP, port: 4000, remote };
            let origin = Origin { interface: 9, vrf: 0, address: 5 };
            let (external, peers) = (end(4000), peers.to_vec());
            may_name(&key, &Terms { holder, origin, external, end: 9, renewed: 1, peers })
        };
        let (map, peer_of, nonce) = (None, Some((9, 80)), Holder::Nonce([3; 12]));
        assert!(may(map, nonce, &[]) && may(map, nonce, &[peer(0, 0), peer(24, 7)]));
        assert!(may(peer_of, nonce, &[peer(32, 80)]));
        for other in [&[][..], &[peer(0, 0)], &[peer(32, 80), peer(32, 81)]] {
            assert!(!may(peer_of, nonce, other), "{other:?}");
        }
        assert!(may(map, Holder::NatPmp, &[]) && !may(map, Holder::NatPmp, &[peer(32, 80)]));
        assert!(!may(peer_of, Holder::NatPmp, &[peer(32, 80)]));
    }

    #[test]
    fn a_sixteenth_is_left_to_others() {
        assert!(leaves_part(14, 16) && !leaves_part(15, 16) && leaves_part(0, 1));
        assert!(leaves_part(959, 1_024) && !leaves_part(960, 1_024));
    }
}
