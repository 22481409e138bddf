//! Learned routes that are not in use, and why: others of their prefix go first, or their gateways are not reached.
//!
//! There may be millions of routes. They are told page by page: each costs one pass over the doors of one table, in which nothing is kept but
//! the page, and between two pages the doors are heard. One address, or doors that have nothing in common and all gateways, cost no pass at all.

use std::collections::{BTreeSet, BinaryHeap};
use std::net::IpAddr;

use ipnet::IpNet;
use stoa_api::text::ip_bytes;
use stoa_api::v1;

use super::Learned;
use super::groups::Group;
use super::prefixes::Six;
use super::run::Runner;
use super::table::{Family, Table};
use crate::rib::contract;
use crate::routes::VrfName;

/// Routes of one page.
const PAGE: usize = 8_192;

/// Which of them are wanted.
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
}

/// Where a page begins: behind this route. VRF, family, address, length, place of the door.
pub type Cursor = (VrfName, u32, u128, u8, usize);

/// Some of them, by VRF, family, prefix.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The routes.
    pub routes: Vec<v1::RouteState>,
    /// Where the next page begins; `None`: there is no more.
    pub next: Option<Cursor>,
}

/// One route: address, length, place of the door, group. The order is that of a page.
type Found = (u128, u8, usize, u32);

impl Learned {
    /// The page that begins behind `after`; the first one for `None`.
    pub async fn inactive(&self, query: Query, after: Option<Cursor>) -> Page {
        self.ask(move |runner: &mut Runner| runner.table.inactive(&query, after, PAGE))
            .await
            .unwrap_or_default()
    }
}

impl Table {
    /// The first `size` behind `after`.
    pub(super) fn inactive(&self, query: &Query, after: Option<Cursor>, size: usize) -> Page {
        let vrfs: BTreeSet<VrfName> =
            self.held.iter().flatten().map(|held| held.source.vrf.clone()).collect();
        let is_asked = |vrf: &VrfName| query.vrf.as_ref().is_none_or(|only| only == vrf);
        let tables = vrfs.into_iter().filter(is_asked).flat_map(|vrf| [(vrf.clone(), 4), (vrf, 6)]);
        let mut page = Page::default();
        for (vrf, family) in tables {
            let is_before =
                after.as_ref().is_some_and(|after| (&vrf, family) < (&after.0, after.1));
            if is_before || (query.family != 0 && query.family != family) {
                continue;
            }
            let after = after.as_ref().filter(|after| (&after.0, after.1) == (&vrf, family));
            let after = after.map(|(_, _, address, length, place)| (*address, *length, *place));
            let room = size - page.routes.len();
            let found = match family {
                4 => self.inactive_of::<u32>(&vrf, query, after, room),
                _ => self.inactive_of::<Six>(&vrf, query, after, room),
            };
            let told = found.iter().filter_map(|it| match family {
                4 => self.told_of::<u32>(&vrf, *it),
                _ => self.told_of::<Six>(&vrf, *it),
            });
            page.routes.extend(told);
            if let Some((address, length, place, _)) = found.last()
                && found.len() == room
            {
                page.next = Some((vrf, family, *address, *length, *place));
                break;
            }
        }
        page
    }

    /// The least `room` of one table, sorted.
    fn inactive_of<A: Family>(
        &self,
        vrf: &VrfName,
        query: &Query,
        after: Option<(u128, u8, usize)>,
        room: usize,
    ) -> Vec<Found> {
        let held = self.held.iter().enumerate();
        let held = held.filter_map(|(at, held)| Some((at, held.as_ref()?)));
        let doors: Vec<_> =
            held.filter(|(_, it)| it.source.vrf == *vrf && A::of(it).len() > 0).collect();
        let mut least = BinaryHeap::new();
        let mut take = |found: Found| {
            let (address, length, place, _) = found;
            let is_asked = after.is_none_or(|after| (address, length, place) > after)
                && is_within::<A>(query.within, address, length);
            if is_asked && (least.len() < room || least.peek().is_some_and(|last| found < *last)) {
                least.push(found);
                if least.len() > room {
                    least.pop();
                }
            }
        };
        if let Some(address) = query.covers {
            for (address, length) in covering::<A>(address) {
                for (at, held) in &doors {
                    let group = A::of(held).get(address, length);
                    if let Some(group) =
                        group.filter(|it| self.loses(vrf, *at, address, length, *it))
                    {
                        take((address.widen(), length, *at, group));
                    }
                }
            }
            return least.into_sorted_vec();
        }
        let is_lost = |group: &Group| group.routes > 0 && !group.resolved.is_usable();
        let is_alone = doors.len() < 2 && !self.groups.iter().any(|(_, group)| is_lost(group));
        for (at, held) in doors.iter().filter(|_| !is_alone) {
            for item in A::of(held).iter() {
                let best = self.best_other(*at, item.address, item.length);
                if self.better(best, Some(item.group)) != Some(item.group) {
                    take((item.address.widen(), item.length, *at, item.group));
                }
            }
        }
        // Those that win here, and lose against the configuration in the forwarder.
        for (address, length) in self.wanted.prefixes(vrf).filter_map(|it| of_family::<A>(&it)) {
            let winner = self.winner::<A>(vrf, address, length);
            if let Some((group, known)) = winner.and_then(|it| Some((it, self.groups.get(it)?))) {
                take((address.widen(), length, known.source, group));
            }
        }
        least.into_sorted_vec()
    }

    /// Whether a route of a door is not in use.
    fn loses<A: Family>(&self, vrf: &VrfName, at: usize, address: A, length: u8, own: u32) -> bool {
        let best = self.best_other(at, address, length);
        self.better(best, Some(own)) != Some(own)
            || self.wanted.get(vrf, ip::<A>(address), length).is_some()
    }

    /// A route as it is told.
    fn told_of<A: Family>(&self, vrf: &VrfName, found: Found) -> Option<v1::RouteState> {
        let (address, length, place, group) = found;
        let group = self.groups.get(group)?;
        let net = IpNet::new(ip::<A>(A::narrow(address)), length).ok()?;
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
            why: self.why::<A>(vrf, A::narrow(address), length, place, group),
            next_hops,
            ..v1::RouteState::default()
        })
    }

    /// Why it is not in use.
    fn why<A: Family>(
        &self,
        vrf: &VrfName,
        address: A,
        length: u8,
        place: usize,
        group: &Group,
    ) -> Vec<String> {
        let name = |place: usize| {
            let held = self.held.get(place).and_then(Option::as_ref);
            match held.map_or("", |held| held.source.name.as_str()) {
                own if own.starts_with('/') => "the configuration".to_owned(),
                name => format!("door {name}"),
            }
        };
        let own = name(place);
        if !group.resolved.is_usable() {
            let reasons = group.resolved.reasons.iter().map(|why| format!("{own}: {why}"));
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
            _ if self.wanted.get(vrf, ip::<A>(address), length).is_some() => {
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

fn is_within<A: Family>(within: Option<IpNet>, address: u128, length: u8) -> bool {
    within.is_none_or(|within| {
        IpNet::new(ip::<A>(A::narrow(address)), length).is_ok_and(|net| within.contains(&net))
    })
}
