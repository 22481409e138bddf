//! Learned routes that are not in use, and why: others of their prefix go first, or their gateways are not reached.
//!
//! There may be millions of routes. They are gathered in one pass over the route sources of each table, so many at most as fit into [`GATHERED`],
//! and told page by page from that: between two pages the route sources are heard. What has changed since it was gathered is left out. When there are
//! more, the next pass begins behind the last. One address, or route sources that have nothing in common and all gateways, cost no pass at all.

use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use stoa_api::text::ip_bytes;
use stoa_api::v1;

use super::Learned;
use super::groups::Group;
use super::prefixes::Six;
use super::run::Runner;
use super::table::{Family, Table};
use crate::rib::contract;
use crate::routes::{Key, VrfName};

/// Routes that one pass gathers, 32 bytes each.
const GATHERED: usize = 262_144;
/// Routes of one page.
const PAGE: usize = 4_096;

/// Which of them are desired.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Of this VRF; `None`: of all.
    pub vrf: Option<VrfName>,
    /// 4, 6, or 0 for both.
    pub family: u32,
    /// Only this prefix and those below it.
    pub within: Option<IpNet>,
    /// Only those that cover this address.
    pub covers: Option<IpAddr>,
    /// Only those of this protocol.
    pub protocol: Option<v1::Protocol>,
    /// Static routes that the forwarder has taken out because BFD misses their gateways: nothing gives way to them.
    pub silent: Arc<BTreeSet<Key>>,
}

impl Query {
    fn is_silent(&self, vrf: &VrfName, net: IpNet) -> bool {
        !self.silent.is_empty() && self.silent.contains(&(vrf.clone(), net))
    }
}

/// Behind which route a pass begins: VRF, family, address, length, place of the route source.
type Cursor = (VrfName, u32, u128, u8, u16);

/// One route: address, length, place of the route source. The order is that in which they are told.
type Found = (u128, u8, u16);

/// Some of one table, in their order.
#[derive(Clone, Debug)]
pub(super) struct OfTable {
    vrf: VrfName,
    family: u32,
    found: VecDeque<Found>,
}

/// What one pass has found, by VRF, family, prefix.
#[derive(Clone, Debug, Default)]
pub(super) struct Gathered {
    tables: VecDeque<OfTable>,
    /// Where the next pass begins; `None`: there is no more.
    pub(super) next: Option<Cursor>,
}

impl Gathered {
    /// Takes out the first of them, so many at most and of one table; `None`: there are none.
    pub(super) fn page(&mut self, size: usize) -> Option<OfTable> {
        let first = self.tables.front_mut()?;
        let found = first.found.drain(..size.min(first.found.len())).collect();
        let page = OfTable { vrf: first.vrf.clone(), family: first.family, found };
        if first.found.is_empty() {
            self.tables.pop_front();
        }
        Some(page)
    }
}

/// All routes that a query asks for, as they are taken.
#[derive(Debug)]
pub struct Inactive {
    learned: Learned,
    query: Query,
    /// `None`: no pass was made yet.
    gathered: Option<Gathered>,
}

impl Inactive {
    /// The next of them, by VRF, family, prefix; `None`: there are no more. Nothing is looked for before it is asked for.
    pub async fn next(&mut self) -> Option<Vec<v1::RouteState>> {
        loop {
            if let Some(page) = self.gathered.as_mut().and_then(|it| it.page(PAGE)) {
                let query = self.query.clone();
                let tell = move |runner: &mut Runner| runner.table.tell_inactive(&query, &page);
                return self.learned.ask(tell).await;
            }
            let after = match &mut self.gathered {
                Some(gathered) => Some(gathered.next.take()?),
                None => None,
            };
            let query = self.query.clone();
            let gather = move |runner: &mut Runner| runner.table.gather(&query, after, GATHERED);
            self.gathered = Some(self.learned.ask(gather).await?);
        }
    }
}

impl Learned {
    /// The routes that are not in use.
    pub fn inactive(&self, query: Query) -> Inactive {
        Inactive { learned: self.clone(), query, gathered: None }
    }
}

impl Table {
    /// The first `size` behind `after`, in one pass.
    pub(super) fn gather(&self, query: &Query, after: Option<Cursor>, size: usize) -> Gathered {
        let vrfs: BTreeSet<VrfName> =
            self.held.iter().flatten().map(|held| held.source.vrf.clone()).collect();
        let is_asked = |vrf: &VrfName| query.vrf.as_ref().is_none_or(|only| only == vrf);
        let tables = vrfs.into_iter().filter(is_asked).flat_map(|vrf| [(vrf.clone(), 4), (vrf, 6)]);
        let (mut gathered, mut room) = (Gathered::default(), size);
        for (vrf, family) in tables {
            let is_before =
                after.as_ref().is_some_and(|after| (&vrf, family) < (&after.0, after.1));
            if is_before || (query.family != 0 && query.family != family) {
                continue;
            }
            let after = after.as_ref().filter(|after| (&after.0, after.1) == (&vrf, family));
            let after = after.map(|(_, _, address, length, place)| (*address, *length, *place));
            let found = match family {
                4 => self.inactive_of::<u32>(&vrf, query, after, room),
                _ => self.inactive_of::<Six>(&vrf, query, after, room),
            };
            let last = found.last().copied().filter(|_| found.len() == room);
            room -= found.len();
            if !found.is_empty() {
                let vrf = vrf.clone();
                gathered.tables.push_back(OfTable { vrf, family, found: found.into() });
            }
            if let Some((address, length, place)) = last {
                gathered.next = Some((vrf, family, address, length, place));
                break;
            }
        }
        gathered
    }

    /// A page as it is told, without those that are gone or have come into use since.
    pub(super) fn tell_inactive(&self, query: &Query, page: &OfTable) -> Vec<v1::RouteState> {
        let told = page.found.iter().filter_map(|it| match page.family {
            4 => self.told_of::<u32>(query, &page.vrf, *it),
            _ => self.told_of::<Six>(query, &page.vrf, *it),
        });
        told.collect()
    }

    /// The least `room` of one table, sorted.
    fn inactive_of<A: Family>(
        &self,
        vrf: &VrfName,
        query: &Query,
        after: Option<Found>,
        room: usize,
    ) -> Vec<Found> {
        let held = self.held.iter().enumerate();
        let held = held.filter_map(|(at, held)| Some((at, held.as_ref()?)));
        let route_sources: Vec<_> =
            held.filter(|(_, it)| it.source.vrf == *vrf && A::of(it).len() > 0).collect();
        let mut least = BinaryHeap::new();
        let mut take = |address: A, length: u8, place: usize, group: u32| {
            let found = (address.widen(), length, place as u16);
            let is_of = |protocol| self.groups.get(group).is_some_and(|it| it.protocol == protocol);
            let is_asked = after.is_none_or(|after| found > after)
                && is_within::<A>(query.within, address, length)
                && query.protocol.is_none_or(is_of);
            if is_asked && (least.len() < room || least.peek().is_some_and(|last| found < *last)) {
                least.push(found);
                if least.len() > room {
                    least.pop();
                }
            }
        };
        if let Some(address) = query.covers {
            for (address, length) in covering::<A>(address) {
                for (at, held) in &route_sources {
                    let group = A::of(held).get(address, length);
                    let is_lost = |it: &u32| self.loses(query, (vrf, *at), address, length, *it);
                    if let Some(group) = group.filter(is_lost) {
                        take(address, length, *at, group);
                    }
                }
            }
            return least.into_sorted_vec();
        }
        let is_lost = |group: &Group| group.routes > 0 && !group.resolved.is_usable();
        let is_alone =
            route_sources.len() < 2 && !self.groups.iter().any(|(_, group)| is_lost(group));
        for (at, held) in route_sources.iter().filter(|_| !is_alone) {
            for item in A::of(held).iter() {
                let best = self.best_other(*at, item.address, item.length);
                if self.better(best, Some(item.group)) != Some(item.group) {
                    take(item.address, item.length, *at, item.group);
                }
            }
        }
        // Those that win here, and lose against the configuration in the forwarder.
        let first = self.desired.prefixes(vrf).filter(|net| !query.is_silent(vrf, *net));
        for (address, length) in first.filter_map(|it| of_family::<A>(&it)) {
            let winner = self.winner::<A>(vrf, address, length);
            if let Some((group, known)) = winner.and_then(|it| Some((it, self.groups.get(it)?))) {
                take(address, length, known.source, group);
            }
        }
        least.into_sorted_vec()
    }

    /// Whether a route of the route source at a place is not in use.
    fn loses<A: Family>(
        &self,
        query: &Query,
        (vrf, at): (&VrfName, usize),
        address: A,
        length: u8,
        own: u32,
    ) -> bool {
        let best = self.best_other(at, address, length);
        self.better(best, Some(own)) != Some(own) || self.is_desired(query, vrf, address, length)
    }

    /// Whether the configuration has a route to the same that is in the tables.
    fn is_desired<A: Family>(&self, query: &Query, vrf: &VrfName, address: A, length: u8) -> bool {
        let ip = ip::<A>(address);
        let is_silent = || IpNet::new(ip, length).is_ok_and(|net| query.is_silent(vrf, net));
        self.desired.get(vrf, ip, length).is_some() && !is_silent()
    }

    /// A route as it is told; `None` when it is gone or in use.
    fn told_of<A: Family>(
        &self,
        query: &Query,
        vrf: &VrfName,
        found: Found,
    ) -> Option<v1::RouteState> {
        let (wide, length, place) = found;
        let (address, place) = (A::narrow(wide), usize::from(place));
        let held = self.held.get(place)?.as_ref().filter(|held| held.source.vrf == *vrf)?;
        let group = A::of(held).get(address, length)?;
        if !self.loses(query, (vrf, place), address, length, group) {
            return None;
        }
        let group = self.groups.get(group)?;
        let net = IpNet::new(ip::<A>(address), length).ok()?;
        let is_desired = self.is_desired(query, vrf, address, length);
        let action = match group.resolved.special {
            Some(special) => v1::route::Action::Special(special.into()),
            None => v1::route::Action::Paths(v1::Paths { paths: group.resolved.paths.clone() }),
        };
        let route = v1::Route {
            prefix: Some(contract(&net)),
            protocol: group.protocol.into(),
            action: Some(action),
            vrf: vrf.to_string(),
        };
        let next_hops = if group.resolved.is_usable() { vec![] } else { gateways(group) };
        Some(v1::RouteState {
            route: Some(route),
            state: "inactive".to_owned(),
            is_learned: true,
            is_stale: A::of(held).is_stale(address, length),
            route_source: self.route_source_of(place),
            reason: self.reason(is_desired, (address, length), place, group),
            next_hops,
            ..v1::RouteState::default()
        })
    }

    /// Why it is not in use.
    fn reason<A: Family>(
        &self,
        is_desired: bool,
        (address, length): (A, u8),
        place: usize,
        group: &Group,
    ) -> Vec<String> {
        let name = |place: usize| match self.route_source_of(place) {
            none if none.is_empty() => "the configuration".to_owned(),
            name => format!("route source {name}"),
        };
        let own = name(place);
        if !group.resolved.is_usable() {
            let reasons = group.resolved.reasons.iter().map(|reason| format!("{own}: {reason}"));
            let reasons: Vec<String> = reasons.collect();
            return if reasons.is_empty() {
                vec![format!("{own}: no way leads on")]
            } else {
                reasons
            };
        }
        let best = self.best_other(place, address, length).and_then(|id| self.groups.get(id));
        let better = best.filter(|best| self.preference(best) <= self.preference(group));
        match better {
            _ if is_desired => {
                vec![format!("{own}: a connected or static route to the same goes first")]
            }
            Some(best) => {
                let (first, second) = (self.preference(best), self.preference(group));
                let winner = name(best.source);
                vec![format!("{own}: {winner} goes first, preference {first} against {second}")]
            }
            None => vec![format!("{own}: it has just come into use")],
        }
    }
}

/// The gateways that are not reached.
fn gateways(group: &Group) -> Vec<v1::NextHop> {
    let super::Target::Ways(ways, _) = &group.target else { return vec![] };
    let gateways = ways.iter().filter_map(|way| Some((way.gateway?, way.weight)));
    gateways
        .map(|(gateway, weight)| v1::NextHop {
            gateway: ip_bytes(gateway),
            weight: weight.into(),
            paths: vec![],
        })
        .collect()
}

fn ip<A: Family>(address: A) -> IpAddr {
    let wide = address.widen();
    if A::BITS == 32 { IpAddr::V4((wide as u32).into()) } else { IpAddr::V6(wide.into()) }
}

fn of_family<A: Family>(net: &IpNet) -> Option<(A, u8)> {
    let wide = match net.addr() {
        IpAddr::V4(ip) if A::BITS == 32 => ip.to_bits().into(),
        IpAddr::V6(ip) if A::BITS == 128 => ip.to_bits(),
        _ => return None,
    };
    Some((A::narrow(wide), net.prefix_len()))
}

/// All prefixes that cover an address, if it is of the family.
fn covering<A: Family>(address: IpAddr) -> impl Iterator<Item = (A, u8)> {
    (0..=A::BITS).filter_map(move |length| of_family(&IpNet::new(address, length).ok()?.trunc()))
}

fn is_within<A: Family>(within: Option<IpNet>, address: A, length: u8) -> bool {
    within.is_none_or(|within| {
        IpNet::new(ip::<A>(address), length).is_ok_and(|net| within.contains(&net))
    })
}
