//! Neighbours on the control thread: packets from workers, the timers of the cache, adjacencies.

mod adjacencies;
mod host_routes;
mod permanent;
mod receive;
mod redirects;
mod replacement;
mod resolve;
mod touched;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use stoa_engine::{Packet, Pool};

use super::capability::{Capability, Punted, Start, Verbs};
use super::desired::{Prefix, network};
use super::forwarder_state::ForwarderState;
use super::limit_listing::limit;
use super::punts::is_ip4;
use crate::neighbor::cache::Cache;
use crate::neighbor::entry::{Key, QUEUE};
use crate::neighbor::waiting;
use crate::punt::Class;

/// All neighbours.
pub(super) struct Neighbors {
    cache: Cache,
    /// MAC addresses of the permanent ones.
    permanent: BTreeMap<Key, [u8; 6]>,
    /// Those whose adjacencies drop packets, because the table had no space for the new ones.
    outdated: BTreeSet<Key>,
    /// Prefixes whose routes have changed since the host routes of neighbours were reviewed.
    touched: touched::TouchedPrefixes,
}

/// The packets of each class.
const PUNTS: &[Punted] = &[
    Punted { class: Class::Arp, takes: |_| true, receive: RECEIVE_ARP },
    Punted { class: Class::ArpReply, takes: |_| true, receive: RECEIVE_ARP },
    Punted { class: Class::Nd, takes: |_| true, receive: RECEIVE_ND },
    Punted { class: Class::NdReply, takes: |_| true, receive: RECEIVE_ND },
    Punted { class: Class::Solicitation, takes: |bytes| !is_ip4(bytes), receive: RECEIVE_ND },
    Punted { class: Class::Resolve, takes: |_| true, receive: ForwarderState::resolve },
    Punted { class: Class::LocalResolve, takes: |_| true, receive: ForwarderState::resolve },
    Punted {
        class: Class::Redirect,
        takes: |_| true,
        receive: |state, _, packet| state.send_redirect(&packet),
    },
];

const RECEIVE_ARP: fn(&mut ForwarderState, usize, Packet) =
    |state, _, packet| state.receive_arp(&packet);
const RECEIVE_ND: fn(&mut ForwarderState, usize, Packet) =
    |state, _, packet| state.receive_nd(&packet);

impl Capability for Neighbors {
    const VERBS: Verbs = Verbs {
        apply: ForwarderState::set_neighbors,
        review: |state, _| state.review_touched_host_routes(),
        link_down: ForwarderState::reset_neighbors,
        remove_interface: ForwarderState::remove_neighbors,
        punts: PUNTS,
        tick: ForwarderState::tick_neighbors,
        entries_of: ForwarderState::add_static_neighbor_entries,
        limits: |state, rows| {
            rows.push(limit(
                "neighbor-packets",
                Some(state.capabilities.neighbors.cache.queued() as u64),
                state.most_waiting() as u64,
                state.drops_of("neighbor-queue"),
                "An eighth of the buffers. 16 packets wait for each neighbour that is being resolved.",
            ));
        },
        ..Verbs::NONE
    };

    fn start(start: &Start<'_>) -> Self {
        let (permanent, outdated, touched) = Default::default();
        Self { cache: Cache::new(start.limits.neighbors), permanent, outdated, touched }
    }
}

impl Neighbors {
    /// The neighbours, for reading.
    pub(super) fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Whether adjacencies wait for space in their table.
    #[cfg(test)]
    pub(super) fn has_outdated(&self) -> bool {
        !self.outdated.is_empty()
    }

    /// The routes of a prefix have changed.
    pub(super) fn touch(&mut self, prefix: Prefix) {
        self.touched.add(prefix);
    }

    /// Routes have changed, but it is not known which.
    pub(super) fn touch_all(&mut self) {
        self.touched.add_all();
    }
}

impl ForwarderState {
    /// The most packets that wait for neighbours.
    fn most_waiting(&self) -> usize {
        let of_pool =
            |pool: &&Pool| waiting::most([pool.count() as usize, pool.jumbo_count() as usize]);
        let largest = self.pools().iter().map(of_pool).max().unwrap_or_default();
        largest.min(self.limits.neighbors * QUEUE)
    }

    pub(in crate::control) fn is_on_link(&self, interface: u32, address: IpAddr) -> bool {
        let Some(state) = self.interface(interface) else { return false };
        let family = if address.is_ipv4() { &state.desired.ip4 } else { &state.desired.ip6 };
        let is_local = matches!(address, IpAddr::V6(ip) if ip.is_unicast_link_local());
        let covers =
            |(own, length): &(IpAddr, u8)| network(*own, *length) == network(address, *length);
        is_local
            || family.addresses.iter().any(covers)
            || self
                .capabilities
                .neighbors
                .cache
                .get(&(interface, address))
                .is_some_and(|entry| entry.pins > 0)
            || self.leads_to_link(interface, address)
    }

    fn is_ours(&self, interface: u32, address: IpAddr) -> bool {
        let Some(own) = self.addresses.of(interface) else { return false };
        match address {
            IpAddr::V4(ip) => own.ip4.iter().any(|(address, _)| *address == ip),
            IpAddr::V6(ip) => {
                own.link_local == Some(ip) || own.ip6.iter().any(|(address, _)| *address == ip)
            }
        }
    }

    /// Our address on the neighbour's network: the source of solicitations.
    fn source_for(&self, key: Key) -> Option<IpAddr> {
        let own = self.addresses.of(key.0)?;
        match key.1 {
            IpAddr::V4(ip) => {
                let same = |(address, length): &&(std::net::Ipv4Addr, u8)| {
                    network((*address).into(), *length) == network(ip.into(), *length)
                };
                own.ip4.iter().find(same).or(own.ip4.first()).map(|(address, _)| (*address).into())
            }
            IpAddr::V6(ip) => {
                let same = |(address, length): &&(std::net::Ipv6Addr, u8)| {
                    network((*address).into(), *length) == network(ip.into(), *length)
                };
                let global = own.ip6.iter().find(same).map(|(address, _)| *address);
                global.or(own.link_local).map(IpAddr::V6)
            }
        }
    }
}
