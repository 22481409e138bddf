//! Mappings for hosts that ask: one that there is, or a new one.

use std::net::Ipv4Addr;

use stoa_engine::clock;
use stoa_wire::pcp::ResultCode;
use stoa_wire::protocol::{TCP, UDP};

use super::clients::Server;
use super::leases::{Asker, Holder, Key, Lease, merged};
use super::{ENDED, LOOKED, OF_END};
use crate::control::forwarder_state::ForwarderState;
use crate::drops::Drop;
use crate::nat::mappings::{End, RemotePeer};
use crate::nat::{Allocation, Places, Wish};

/// How often a mapping is looked for that a worker makes or ends meanwhile.
const TURNS: usize = 4;
/// Ports that are tried for a request. Workers try more for a packet, which is all that they do.
const TRIES: usize = 256;
/// Hosts without a free port that are remembered until the next tick.
const FULL: usize = 256;

/// The external end that a client wants, or any.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Suggested {
    /// The address; `None`: any.
    pub(super) address: Option<u32>,
    /// The port; 0: any.
    pub(super) port: u16,
    /// Whether no other one will do, of a mapping that there is as well.
    pub(super) is_only: bool,
}

impl Suggested {
    fn is(&self, external: (u32, u16)) -> bool {
        self.address.is_none_or(|it| it == external.0) && [0, external.1].contains(&self.port)
    }
}

/// A mapping that a host asks for.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) key: Key,
    pub(super) client: Asker,
    pub(super) holder: Holder,
    pub(super) lifetime_s: u32,
    pub(super) suggested: Suggested,
    /// Remote ends that may send as well, and whether those before may no more.
    pub(super) peers: (Vec<RemotePeer>, bool),
}

/// A mapping that a host has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Granted {
    /// The external address and port.
    pub(super) external: (Ipv4Addr, u16),
    /// Seconds until it ends.
    pub(super) lifetime_s: u32,
}

/// The lifetime that a policy gives.
fn lifetime_s(asked: u32, server: Server) -> u32 {
    let (least, most) = server.lifetimes_s;
    asked.max(least).min(most)
}

/// What a client learns of the reason for which its packets would be dropped.
fn result_of(reason: Drop, is_only: bool) -> ResultCode {
    match reason {
        Drop::Nat44Quota => ResultCode::UserExceededQuota,
        Drop::Nat44NoAddress => ResultCode::NetworkFailure,
        Drop::Nat44NoPort if is_only => ResultCode::CannotProvideExternal,
        _ => ResultCode::NoResources,
    }
}

impl ForwarderState {
    /// Gives a host a mapping, or renews one.
    ///
    /// # Errors
    /// The result for the client. Nothing has changed.
    pub(super) fn grant(&mut self, asked: &Asked, server: Server) -> Result<Granted, ResultCode> {
        let Asked { key, client, holder, .. } = *asked;
        if !matches!(key.protocol, TCP | UDP) {
            return Err(ResultCode::UnsupportedProtocol);
        }
        let lifetime_s = lifetime_s(asked.lifetime_s, server);
        if let Some(external) = self.static_external(&key) {
            let is_refused = asked.suggested.is_only && !asked.suggested.is(external);
            let external = (Ipv4Addr::from_bits(external.0), external.1);
            let refused = Err(ResultCode::CannotProvideExternal);
            return if is_refused { refused } else { Ok(Granted { external, lifetime_s }) };
        }
        self.end_closed_lease_of(&key);
        let pcp = &self.capabilities.nat.pcp;
        // One holder for all leases of an internal end (RFC 6887 section 11.3): otherwise anybody could widen filters.
        if pcp.leases.of_end(key).any(|(_, it)| it.holder != holder) {
            return Err(ResultCode::NotAuthorized);
        }
        let before = pcp.leases.get(&key);
        let known: &[RemotePeer] = before.map_or(&[], |it| &it.peers);
        let (added, clears) = (asked.peers.0.as_slice(), asked.peers.1);
        let peers = merged(known, (added, clears)).ok_or(ResultCode::ExcessiveRemotePeers)?;
        let end_ms = self.now() + u64::from(lifetime_s) * 1_000;
        if !peers.is_empty() && !pcp.leases.is_restricted(key) {
            let (used, most) = (pcp.leases.restricted(), self.pcp_restricted_limit());
            if used >= most {
                self.capabilities.nat.pcp.counts.full_of_peers += 1;
                return Err(ResultCode::NoResources);
            }
        }
        let renewed = self.shared.flows.now(clock::tsc()).tick;
        let before = self.capabilities.nat.pcp.leases.get(&key);
        let lease = match before {
            Some(before) => {
                let external = (before.external.address, before.external.port);
                if asked.suggested.is_only && !asked.suggested.is(external) {
                    return Err(ResultCode::CannotProvideExternal);
                }
                // PEER makes no lifetime shorter (RFC 6887 section 12.1).
                let longest = end_ms.max(before.end_ms);
                let end_ms = if key.remote.is_some() { longest } else { end_ms };
                Lease { end_ms, peers, renewed, named: None, ..before.clone() }
            }
            None => {
                self.may_have_more(asked, server)?;
                let (external, mapping) = self.leased_mapping(asked)?;
                let (asker, is_closed) = (client, false);
                let named = None;
                Lease { holder, asker, end_ms, mapping, external, peers, is_closed, renewed, named }
            }
        };
        let external = (Ipv4Addr::from_bits(lease.external.address), lease.external.port);
        let left_ms = lease.end_ms.saturating_sub(self.now());
        let mapping = lease.mapping;
        self.capabilities.nat.pcp.leases.insert(key, lease);
        self.set_remote_peers(key, mapping);
        self.publish_few_peers();
        self.post_lease(&key);
        Ok(Granted { external, lifetime_s: left_ms.div_ceil(1_000) as u32 })
    }

    /// Whether a host, whoever asks for it, and all together may have one more lease.
    fn may_have_more(&mut self, asked: &Asked, server: Server) -> Result<(), ResultCode> {
        let Asked { key, client, .. } = *asked;
        let limit = self.pcp_lease_limit();
        let pcp = &mut self.capabilities.nat.pcp;
        let ends = [(key.vrf, key.address), (client.vrf, client.address)];
        let counts = ends.map(|it| pcp.leases.count_of(key.policy, it));
        let is_over = counts.iter().any(|count| *count >= server.host_leases as usize);
        if is_over || pcp.leases.of_end(key).count() >= OF_END {
            return Err(ResultCode::UserExceededQuota);
        }
        if pcp.leases.len() >= limit {
            pcp.counts.full += 1;
            return Err(ResultCode::NoResources);
        }
        Ok(())
    }

    /// The external end that static mappings give an internal one.
    pub(super) fn static_external(&self, key: &Key) -> Option<(u32, u16)> {
        let nat = self.capabilities.nat.published.as_ref()?;
        let instance = nat.policy(key.policy)?.instance;
        let end = (key.protocol, key.address, Some(key.port));
        let (_, end) = nat.statics.of_internal((instance, key.vrf), end)?;
        Some((end.address, end.port.unwrap_or(key.port)))
    }

    /// Whether an external end is that of a static mapping, or of the router itself.
    pub(super) fn is_reserved(&self, &End { address, port, protocol, vrf }: &End) -> bool {
        let nat = self.capabilities.nat.published.as_ref();
        nat.is_some_and(|nat| nat.is_reserved(vrf, (protocol, address, port)))
    }

    /// A mapping of an internal end, with a lease that lets nobody in yet.
    fn leased_mapping(&mut self, asked: &Asked) -> Result<(End, u32), ResultCode> {
        let Asked { key, suggested, .. } = asked;
        let shared = self.shared.clone();
        let mappings = shared.flows.mappings();
        // Other leases of the same end, which must not be closed meanwhile.
        let pcp = &self.capabilities.nat.pcp;
        let is_leased = pcp.leases.of_end(*key).next().is_some();
        for _ in 0..TURNS {
            let Some(known) = mappings.of_internal(key.internal(), key.policy) else {
                let (host, is_fixed) = (key.host_and_protocol(), self.is_fixed(asked));
                if !is_fixed && self.capabilities.nat.pcp.full.contains(&host) {
                    return Err(ResultCode::NoResources);
                }
                match self.new_mapping(asked) {
                    Err(Drop::FlowContended) => continue,
                    made => {
                        let full = &mut self.capabilities.nat.pcp.full;
                        if made == Err(Drop::Nat44NoPort) && !is_fixed && full.len() < FULL {
                            full.insert(host);
                        }
                        return made.map_err(|it| result_of(it, is_fixed));
                    }
                }
            };
            let external = (known.external.address, known.external.port);
            if suggested.is_only && !suggested.is(external) {
                return Err(ResultCode::CannotProvideExternal);
            }
            if self.is_reserved(&known.external) {
                // Of a flow that is older than the service or the static mapping.
                return Err(ResultCode::NoResources);
            }
            let is_held = is_leased || mappings.lease(known.id, true);
            let is_same = || mappings.of_internal(key.internal(), key.policy).map(|it| it.id);
            if is_held && is_same() == Some(known.id) {
                return Ok((known.external, known.id));
            }
            if is_held && !is_leased {
                // It is another one by now, or is being moved: it keeps no lease that nobody holds.
                mappings.end_lease(known.id);
            }
        }
        Err(ResultCode::NoResources)
    }

    /// Whether a new mapping must have the suggested external end: PEER restores one that the NAT has lost, and
    /// another end would be of no use (RFC 6887 section 12.3).
    fn is_fixed(&self, asked: &Asked) -> bool {
        asked.suggested.is_only || asked.key.remote.is_some() && asked.suggested.port != 0
    }

    fn new_mapping(&mut self, asked: &Asked) -> Result<(End, u32), Drop> {
        let Asked { key, suggested, .. } = asked;
        let (internal, is_only) = (key.internal(), self.is_fixed(asked));
        let shared = self.shared.clone();
        let nat_state = &mut self.capabilities.nat;
        let policies = &mut nat_state.policies.iter();
        let vrf = policies.find(|it| it.number == key.policy).map(|it| it.vrf);
        let (Some(vrf), Some(nat)) = (vrf, nat_state.published.clone()) else {
            return Err(Drop::Nat44NoAddress);
        };
        let (Some(policy), Some(worker)) = (nat.policy(key.policy), &mut nat_state.pcp.maker)
        else {
            return Err(Drop::Nat44NoAddress);
        };
        let has_one_address = !matches!(policy.allocation, Allocation::Blocks(..));
        let is_other = |it| policy.external_of((key.address, key.vrf)) != Some(it);
        if is_only && has_one_address && suggested.address.is_some_and(is_other) {
            // No mapping is made in vain: it would hold a port for some seconds.
            return Err(Drop::Nat44NoPort);
        }
        let port = if suggested.port == 0 { key.port } else { suggested.port };
        let wish = Wish { port, is_only: is_only && suggested.port != 0 };
        let now = shared.flows.now(clock::tsc());
        let mut places = Places { shared: &shared, nat: &nat, worker, now, tries: TRIES };
        let (external, id) = places.new_mapping(internal, policy, vrf, wish)?;
        let mappings = shared.flows.mappings();
        mappings.lease(id, true);
        mappings.release(id);
        if is_only && !suggested.is((external.address, external.port)) {
            // Of another address than the suggested one.
            mappings.end_lease(id);
            nat_state.pcp.ending.insert(id);
            return Err(Drop::Nat44NoPort);
        }
        Ok((external, id))
    }

    /// Ends leases for anybody of a host: that of one port, or all of a protocol (port 0), or all (protocol 0). A lease
    /// that there is not has ended already (RFC 6887 section 15.1). Of many, the next ticks end some each.
    ///
    /// # Errors
    /// [`ResultCode::NotAuthorized`]: another one holds it, or the mapping is none that hosts can end.
    /// [`ResultCode::NoResources`]: hosts with many have ended all of them just now.
    pub(super) fn end_leases(&mut self, asked: &Asked) -> Result<(), ResultCode> {
        let ended = self.end_leases_of(asked);
        self.publish_few_peers();
        ended
    }

    fn end_leases_of(&mut self, asked: &Asked) -> Result<(), ResultCode> {
        let Asked { key, holder, .. } = asked;
        if key.port != 0 {
            self.end_closed_lease_of(key);
            let leases = &self.capabilities.nat.pcp.leases;
            match leases.get(key) {
                Some(lease) if lease.holder == *holder => self.end_lease_of_host(key),
                Some(_) => return Err(ResultCode::NotAuthorized),
                None if self.is_mapped_otherwise(key) => return Err(ResultCode::NotAuthorized),
                None => {}
            }
            return Ok(());
        }
        let pcp = &mut self.capabilities.nat.pcp;
        let count = pcp.leases.count_of(key.policy, (key.vrf, key.address));
        if count > ENDED && pcp.looked >= LOOKED {
            return Err(ResultCode::NoResources);
        }
        pcp.looked += count;
        let closed = pcp.leases.close(key, *holder);
        pcp.closed.extend(closed);
        self.end_closed_leases();
        Ok(())
    }

    /// Ends leases that their holders have ended, as many as one tick may.
    pub(super) fn end_closed_leases(&mut self) {
        while self.capabilities.nat.pcp.ended_now < ENDED
            && let Some(key) = self.capabilities.nat.pcp.closed.pop_front()
        {
            // Its host may have asked for it anew.
            if self.capabilities.nat.pcp.leases.is_closed(&key) {
                self.capabilities.nat.pcp.ended_now += 1;
                self.end_lease_of_host(&key);
            }
        }
    }

    /// Ends the lease for anybody of an internal end, if its holder has: for others it has gone already.
    fn end_closed_lease_of(&mut self, key: &Key) {
        let key = Key { remote: None, ..*key };
        if self.capabilities.nat.pcp.leases.is_closed(&key) {
            self.end_lease_of_host(&key);
        }
    }

    /// Whether an internal end without a lease for anybody has a mapping that is static, of PEER, or of its flows.
    fn is_mapped_otherwise(&self, key: &Key) -> bool {
        let (mappings, leases) = (self.shared.flows.mappings(), &self.capabilities.nat.pcp.leases);
        let implicit = mappings.of_internal(key.internal(), key.policy);
        self.static_external(key).is_some()
            || leases.of_end(*key).next().is_some()
            || implicit.is_some_and(|it| !self.is_ending(it.id, it.flows))
    }

    /// Whether a mapping is what is left of a lease: nobody else uses it.
    fn is_ending(&self, id: u32, flows: u32) -> bool {
        flows == 0 || self.capabilities.nat.pcp.ended.contains(id)
    }
}
