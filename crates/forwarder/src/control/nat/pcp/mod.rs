//! The server of PCP (RFC 6887) and NAT-PMP (RFC 6886): answers hosts that ask for mappings, and ends these when their
//! time is over.
//!
//! A lease is a mark on a mapping that workers use ([`crate::nat::mappings`]): it keeps the mapping without flows, and
//! lets others in. Mappings that no worker has made for traffic are those of this thread, which is an owner of mappings
//! as workers are.

mod announce;
mod clients;
mod ended;
mod grant;
mod leases;
mod partner;
mod requests;

use std::collections::{BTreeSet, VecDeque};

use stoa_api::v1;
use stoa_engine::clock;
use stoa_wire::{nat_pmp, pcp};

use crate::acl::flow_vrf;
use crate::control::capability::Step;
use crate::control::forwarder_state::ForwarderState;
use crate::control::limit_listing::limit;
use crate::nat::mappings::{self, Mapping, RemotePeers};
use crate::nat::{CONTROL, NatWorker};
use crate::pcp::PcpInterfaces;
use announce::Announcements;
use ended::EndedLeases;
use leases::{Holder, Key, Lease, Leases};

/// Leases, and mappings that have ended, of one tick. More end in a second than hosts may ask for.
const ENDED: usize = 1_024;
/// Leases of hosts with more than [`ENDED`] that are looked at from one tick to the next one when hosts end all of
/// theirs.
const LOOKED: usize = 1 << 16;
/// Leases of an internal end, at most: each change, and each first packet from outside, looks at all of them.
const OF_END: usize = 256;
/// Mappings of which only some ends may send, at most: each tick copies the parts of their table that change.
const RESTRICTED: usize = 1 << 17;
/// Remote ends of mappings are published with each change as long as there are only so many mappings with them.
const FEW: usize = 256;

/// What was answered.
#[derive(Debug, Default)]
struct Counts {
    pcp: [u64; pcp::ResultCode::ALL.len()],
    nat_pmp: [u64; nat_pmp::ResultCode::ALL.len()],
    expired: u64,
    /// Requests that the limit of leases has refused, and that of mappings with remote ends.
    full: u64,
    full_of_peers: u64,
}

/// The server.
#[derive(Default)]
pub(super) struct PcpServer {
    leases: Leases,
    /// The interfaces whose hosts may ask.
    interfaces: BTreeSet<u32>,
    /// What makes mappings, once hosts may ask.
    maker: Option<NatWorker>,
    /// Hosts that have found no free port since the last tick: a search for one costs more than an answer.
    full: BTreeSet<(u32, u16, u32, u8)>,
    /// Leases that their holders have ended, together with others.
    closed: VecDeque<Key>,
    /// Standby leases that their hosts have ended here, and until when the partner is told.
    ended_here: VecDeque<(u64, Key)>,
    /// Leases that have ended since the last tick began, and those that were looked at.
    ended_now: usize,
    looked: usize,
    /// Mappings of which only some ends may send, at most; `None`: [`RESTRICTED`].
    restricted_limit: Option<usize>,
    /// Mappings of this thread that end when their flows have, and at which of them the next tick begins to look.
    ending: BTreeSet<u32>,
    next_ending: u32,
    /// Mappings whose flows end.
    ended: EndedLeases,
    /// Who may send, as workers see it, unless it was changed since.
    peers: RemotePeers,
    is_dirty: bool,
    /// When it has lost leases.
    epoch_ms: u64,
    announcements: Announcements,
    counts: Counts,
}

impl PcpServer {
    /// Whether any policy answers, or has answered.
    fn is_used(&self) -> bool {
        self.maker.is_some()
    }
}

/// Whether a step touches interfaces whose hosts may ask.
pub(super) fn is_touched(step: &Step<'_>) -> bool {
    let policies = step.desired().nat.policies.iter();
    let controls = policies.filter_map(|it| it.port_control.as_ref());
    let mut names = controls.flat_map(|it| &it.interfaces);
    names.any(|it| step.touched.interfaces.contains_key(it))
}

impl ForwarderState {
    /// Takes over which policies answer, and where. Leases of others end.
    pub(super) fn apply_pcp(&mut self) {
        let serving = self.serving();
        let interfaces: BTreeSet<u32> =
            serving.iter().map(|(_, interface, _)| *interface).collect();
        if interfaces.is_empty() && !self.capabilities.nat.pcp.is_used() {
            return;
        }
        let pcp = &self.capabilities.nat.pcp;
        let is_lost = |(key, lease): &(&Key, &Lease)| {
            !serving.contains(&(key.policy, lease.asker.interface, key.vrf))
                || self.is_reserved(&lease.external)
        };
        let lost: Vec<Key> = pcp.leases.iter().filter(is_lost).map(|(key, _)| *key).collect();
        let (now, shared) = (self.now(), self.shared.clone());
        let pcp = &mut self.capabilities.nat.pcp;
        let is_first = pcp.interfaces.is_empty() && !interfaces.is_empty();
        if pcp.interfaces != interfaces {
            pcp.interfaces.clone_from(&interfaces);
            self.shared.pcp.publish(PcpInterfaces(interfaces), &mut self.graveyard);
        }
        pcp.maker.get_or_insert_with(|| NatWorker::new(&shared.flows, CONTROL));
        for key in &lost {
            self.end_pcp_lease(key);
            self.pause(1);
        }
        let pcp = &mut self.capabilities.nat.pcp;
        if !lost.is_empty() || is_first {
            // RFC 6887 section 8.5.
            pcp.epoch_ms = now;
            pcp.announcements.begin(now);
        }
        if pcp.interfaces.is_empty() {
            pcp.announcements.stop();
        }
    }

    /// The policies that answer, each with the interfaces where it does and their VRFs. Nobody behind an external
    /// interface of any policy may ask.
    fn serving(&self) -> BTreeSet<(u32, u32, u16)> {
        let nat = &self.capabilities.nat;
        let controls = nat.policies.iter().filter_map(|it| {
            let control = it.policy.port_control.as_ref()?;
            Some(control.interfaces.iter().map(|name| (it.number, name)))
        });
        let found = controls.flatten().filter_map(|(number, name)| {
            let index = self.index_of(name).filter(|it| !nat.external.contains(it))?;
            Some((number, index, flow_vrf(self.vrf_id(self.interface(index)?.vrf))))
        });
        found.collect()
    }

    /// Seconds since the server has lost leases.
    fn pcp_epoch_s(&self) -> u32 {
        (self.now().saturating_sub(self.capabilities.nat.pcp.epoch_ms) / 1_000) as u32
    }

    /// Ends leases whose time is over, and what is left of ended ones: some in each tick.
    pub(super) fn tick_pcp(&mut self) {
        self.follow_partner();
        if !self.capabilities.nat.pcp.is_used() {
            return;
        }
        let pcp = &mut self.capabilities.nat.pcp;
        pcp.full.clear();
        (pcp.ended_now, pcp.looked) = (0, 0);
        // Hosts choose when leases end, and could have all end at once: what is left ends with the next ticks.
        while self.capabilities.nat.pcp.ended_now < ENDED
            && let Some(key) = self.capabilities.nat.pcp.leases.over(self.now())
        {
            let pcp = &mut self.capabilities.nat.pcp;
            pcp.counts.expired += 1;
            pcp.ended_now += 1;
            self.end_pcp_lease(&key);
        }
        self.end_closed_leases();
        self.end_pcp_mappings();
        // Before workers look for flows of others.
        if self.capabilities.nat.pcp.is_dirty {
            self.publish_remote_peers();
        }
        self.end_pcp_flows();
        self.announce_pcp();
    }

    /// Ends a lease. Its mapping goes on while it has other ones, or flows that did not come in by it.
    fn end_pcp_lease(&mut self, key: &Key) {
        let Some(lease) = self.capabilities.nat.pcp.leases.remove(key) else { return };
        self.shared.flows.standby().leases().remove(key);
        if self.capabilities.nat.pcp.leases.of_end(*key).next().is_some() {
            return self.set_remote_peers(*key, lease.mapping);
        }
        let mappings = self.shared.flows.mappings();
        let has_flows = mappings.end_lease(lease.mapping);
        let is_own = mappings.is_owned_by(lease.mapping, CONTROL);
        let pcp = &mut self.capabilities.nat.pcp;
        if has_flows {
            pcp.ended.insert(lease.mapping);
        }
        if is_own {
            pcp.ending.insert(lease.mapping);
        }
        pcp.is_dirty |= pcp.peers.remove(lease.mapping).is_some();
    }

    /// Ends mappings of this thread that have neither leases nor flows.
    fn end_pcp_mappings(&mut self) {
        let shared = self.shared.clone();
        let (mappings, now) = (shared.flows.mappings(), shared.flows.now(clock::tsc()).tick);
        let pcp = &mut self.capabilities.nat.pcp;
        let Some(owner) = pcp.maker.as_mut().and_then(NatWorker::owner) else { return };
        // Those whose hosts keep a flow stay long: each tick looks at others.
        let from = pcp.ending.range(pcp.next_ending..);
        let some: Vec<u32> = from.take(ENDED).copied().collect();
        pcp.next_ending = some.last().filter(|_| some.len() == ENDED).map_or(0, |last| last + 1);
        let gone = some.iter().filter(|id| owner.end_one(mappings, **id, now));
        gone.for_each(|id| {
            pcp.ending.remove(id);
        });
        owner.finish(now, shared.flows.quiescence());
    }

    /// Has workers end flows that leases let in no more.
    fn end_pcp_flows(&mut self) {
        let (now, workers) = (self.now(), self.worker_count());
        let mappings = self.shared.flows.mappings();
        self.capabilities.nat.pcp.ended.go_on(mappings, workers, now);
    }

    /// Changes whom the leases of an internal end let in. Flows of others end.
    fn set_remote_peers(&mut self, key: Key, mapping: u32) {
        let mappings = self.shared.flows.mappings();
        let pcp = &mut self.capabilities.nat.pcp;
        let admitted = pcp.leases.admitted(key);
        let had_anybody = mappings.lease_of(mapping) == mappings::Lease::Anybody;
        let before = match &admitted {
            Some(peers) if pcp.peers.get(mapping) == Some(peers) => return,
            Some(peers) => pcp.peers.insert(mapping, peers.clone()),
            None => pcp.peers.remove(mapping),
        };
        pcp.is_dirty |= admitted.is_some() || before.is_some();
        mappings.lease(mapping, admitted.is_some());
        let is_narrower = admitted
            .is_some_and(|now| before.map_or(had_anybody, |before| !now.has_all_of(&before)));
        if is_narrower && mappings.narrow_lease(mapping) {
            pcp.ended.insert(mapping);
        }
    }

    /// Publishes whom leases let in, if these are few: otherwise the next tick does.
    fn publish_few_peers(&mut self) {
        let pcp = &self.capabilities.nat.pcp;
        if pcp.is_dirty && pcp.peers.len() <= FEW {
            self.publish_remote_peers();
        }
    }

    fn publish_remote_peers(&mut self) {
        let pcp = &mut self.capabilities.nat.pcp;
        pcp.is_dirty = false;
        self.shared.remote_peers.publish(pcp.peers.clone(), &mut self.graveyard);
    }

    /// Leases, at most: mappings remain for what nobody asks for.
    fn pcp_lease_limit(&self) -> usize {
        (self.shared.flows.mappings().capacity() / 2).max(1) as usize
    }

    /// Mappings with remote ends that may send, at most.
    fn pcp_restricted_limit(&self) -> usize {
        self.capabilities.nat.pcp.restricted_limit.unwrap_or(RESTRICTED)
    }

    /// Lowers the limit of mappings with remote ends that may send: for tests.
    pub fn limit_remote_ends(&mut self, mappings: usize) {
        self.capabilities.nat.pcp.restricted_limit = Some(mappings);
    }

    pub(super) fn add_pcp_limits(&self, limits: &mut Vec<v1::LimitState>) {
        let PcpServer { leases, counts, .. } = &self.capabilities.nat.pcp;
        let (used, most) = (leases.len() as u64, self.pcp_lease_limit() as u64);
        let fix = "This limit is half of nat-mappings: raise that and restart Stoa.";
        limits.push(limit("nat-leases", Some(used), most, counts.full, fix));
        let (used, most) = (leases.restricted() as u64, self.pcp_restricted_limit() as u64);
        let fix = "This limit is fixed: hosts get mappings that let anybody in. Lower max-mappings-per-host.";
        limits.push(limit("nat-remote-ends", Some(used), most, counts.full_of_peers, fix));
    }

    /// What it has done, if any policy answers.
    pub(super) fn pcp_state(&self) -> Option<v1::NatPortControlState> {
        let pcp = &self.capabilities.nat.pcp;
        if !pcp.is_used() {
            return None;
        }
        let count = |protocol: &str, result: &str, count: u64| v1::NatPortControlCount {
            protocol: protocol.to_owned(),
            result: result.to_owned(),
            count,
        };
        let of_pcp = pcp::ResultCode::ALL.iter().zip(pcp.counts.pcp);
        let of_pcp = of_pcp.map(|(it, answers)| count("pcp", it.name(), answers));
        let of_pmp = nat_pmp::ResultCode::ALL.iter().zip(pcp.counts.nat_pmp);
        let of_pmp = of_pmp.map(|(it, answers)| count("nat-pmp", it.name(), answers));
        Some(v1::NatPortControlState {
            answers: of_pcp.chain(of_pmp).collect(),
            leases: pcp.leases.len() as u64,
            lease_limit: self.pcp_lease_limit() as u64,
            expired: pcp.counts.expired,
            epoch_s: self.pcp_epoch_s(),
        })
    }

    /// The leases of a mapping.
    pub(super) fn leases_of(&self, mapping: &Mapping) -> Vec<v1::NatLease> {
        let (pcp, now) = (&self.capabilities.nat.pcp, self.now());
        if pcp.leases.len() == 0 {
            return Vec::new();
        }
        let crate::nat::mappings::End { address, port, protocol, vrf } = mapping.internal;
        let key = Key { policy: mapping.policy, vrf, address, protocol, port, remote: None };
        let message = |(key, lease): (&Key, &Lease)| v1::NatLease {
            kind: match (lease.holder, key.remote) {
                (Holder::NatPmp, _) => "nat-pmp",
                (Holder::Nonce(_), None) => "map",
                (Holder::Nonce(_), Some(_)) => "peer",
            }
            .to_owned(),
            left_s: lease.end_ms.saturating_sub(now).div_ceil(1_000) as u32,
            peers: lease
                .peers
                .iter()
                .map(|it| v1::NatRemotePeer {
                    prefix: Some(v1::Prefix {
                        address: it.network.to_be_bytes().into(),
                        length: it.length.into(),
                    }),
                    port: it.port.into(),
                })
                .collect(),
        };
        let held = pcp.leases.of_end(key).filter(|(_, lease)| !lease.is_closed);
        held.map(message).collect()
    }
}
