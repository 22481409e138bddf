//! Learned routes that are not in use, and why: another route to the prefix wins, or the gateways are
//! unresolved.
//!
//! There may be millions of them. One pass over the route sources of each table collects up to
//! [`MAX_PASS_ROUTES`]; the result is rendered page by page, and the table handles events between pages.
//! Routes that changed since the pass are omitted. The next pass continues after the last route. A query for
//! one address needs no pass, nor do route sources without common prefixes whose gateways are all resolved.

use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use stoa_api::text::ip_bytes;
use stoa_api::v1;

use super::Learned;
use super::groups::Group;
use super::prefixes::Ip6Words;
use super::run::Runner;
use super::table::{Family, Table};
use crate::config::routes::{Key, VrfName};
use crate::prefix::prefix_to_proto;

/// Routes that one pass collects, 32 bytes each.
const MAX_PASS_ROUTES: usize = 262_144;
/// Routes of one page.
const PAGE_ROUTES: usize = 4_096;

/// Selects inactive routes.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Only this VRF; `None`: all.
    pub vrf: Option<VrfName>,
    /// 4, 6, or 0 for both.
    pub family: u32,
    /// Only this prefix and more specific ones.
    pub within: Option<IpNet>,
    /// Only prefixes that cover this address.
    pub covers: Option<IpAddr>,
    /// Only this protocol.
    pub protocol: Option<v1::Protocol>,
    /// Static routes that the forwarder has deactivated because BFD is down for their gateways: learned
    /// routes replace them.
    pub bfd_down: Arc<BTreeSet<Key>>,
}

impl Query {
    fn is_bfd_down(&self, vrf: &VrfName, net: IpNet) -> bool {
        !self.bfd_down.is_empty() && self.bfd_down.contains(&(vrf.clone(), net))
    }
}

/// The route after which a pass begins: VRF, family, address, length, index of the route source.
type Cursor = (VrfName, u32, u128, u8, u16);

/// A route in output order: address, length, index of the route source.
type RouteKey = (u128, u8, u16);

/// Routes of one table, in output order.
#[derive(Clone, Debug)]
pub(super) struct TablePage {
    vrf: VrfName,
    family: u32,
    found: VecDeque<RouteKey>,
}

/// The result of one pass, by VRF, family, prefix.
#[derive(Clone, Debug, Default)]
pub(super) struct Pass {
    tables: VecDeque<TablePage>,
    /// Where the next pass begins; `None`: there are no more routes.
    pub(super) next: Option<Cursor>,
}

impl Pass {
    /// Removes the first routes, up to `size` and of one table; `None`: there are none.
    pub(super) fn page(&mut self, size: usize) -> Option<TablePage> {
        let first = self.tables.front_mut()?;
        let found = first.found.drain(..size.min(first.found.len())).collect();
        let page = TablePage { vrf: first.vrf.clone(), family: first.family, found };
        if first.found.is_empty() {
            self.tables.pop_front();
        }
        Some(page)
    }
}

/// An iterator over the inactive routes that a query selects.
#[derive(Debug)]
pub struct Inactive {
    learned: Learned,
    query: Query,
    /// `None`: before the first pass.
    pass: Option<Pass>,
}

impl Inactive {
    /// The next page, by VRF, family, prefix; `None`: there are no more routes. Collects lazily.
    pub async fn next(&mut self) -> Option<Vec<v1::RouteState>> {
        loop {
            if let Some(page) = self.pass.as_mut().and_then(|it| it.page(PAGE_ROUTES)) {
                let query = self.query.clone();
                let tell = move |runner: &mut Runner| runner.table.render_inactive(&query, &page);
                return self.learned.ask(tell).await;
            }
            let after = match &mut self.pass {
                Some(pass) => Some(pass.next.take()?),
                None => None,
            };
            let query = self.query.clone();
            let run_pass =
                move |runner: &mut Runner| runner.table.run_pass(&query, after, MAX_PASS_ROUTES);
            self.pass = Some(self.learned.ask(run_pass).await?);
        }
    }
}

impl Learned {
    /// The inactive routes that a query selects.
    pub fn inactive(&self, query: Query) -> Inactive {
        Inactive { learned: self.clone(), query, pass: None }
    }
}

impl Table {
    /// Collects the first `size` routes after `after` in one pass.
    pub(super) fn run_pass(&self, query: &Query, after: Option<Cursor>, size: usize) -> Pass {
        let vrfs: BTreeSet<VrfName> =
            self.sources.iter().flatten().map(|entry| entry.source.vrf.clone()).collect();
        let matches = |vrf: &VrfName| query.vrf.as_ref().is_none_or(|only| only == vrf);
        let tables = vrfs.into_iter().filter(matches).flat_map(|vrf| [(vrf.clone(), 4), (vrf, 6)]);
        let (mut pass, mut room) = (Pass::default(), size);
        for (vrf, family) in tables {
            let is_before =
                after.as_ref().is_some_and(|after| (&vrf, family) < (&after.0, after.1));
            if is_before || (query.family != 0 && query.family != family) {
                continue;
            }
            let after = after.as_ref().filter(|after| (&after.0, after.1) == (&vrf, family));
            let after = after
                .map(|(_, _, address, length, source_index)| (*address, *length, *source_index));
            let found = match family {
                4 => self.inactive_of::<u32>(&vrf, query, after, room),
                _ => self.inactive_of::<Ip6Words>(&vrf, query, after, room),
            };
            let last = found.last().copied().filter(|_| found.len() == room);
            room -= found.len();
            if !found.is_empty() {
                let vrf = vrf.clone();
                pass.tables.push_back(TablePage { vrf, family, found: found.into() });
            }
            if let Some((address, length, source_index)) = last {
                pass.next = Some((vrf, family, address, length, source_index));
                break;
            }
        }
        pass
    }

    /// Renders a page, without routes that were removed or came into use since.
    pub(super) fn render_inactive(&self, query: &Query, page: &TablePage) -> Vec<v1::RouteState> {
        let listed = page.found.iter().filter_map(|it| match page.family {
            4 => self.render::<u32>(query, &page.vrf, *it),
            _ => self.render::<Ip6Words>(query, &page.vrf, *it),
        });
        listed.collect()
    }

    /// The first `room` inactive routes of one table, sorted.
    fn inactive_of<A: Family>(
        &self,
        vrf: &VrfName,
        query: &Query,
        after: Option<RouteKey>,
        room: usize,
    ) -> Vec<RouteKey> {
        let entry = self.sources.iter().enumerate();
        let entry = entry.filter_map(|(at, entry)| Some((at, entry.as_ref()?)));
        let route_sources: Vec<_> =
            entry.filter(|(_, it)| it.source.vrf == *vrf && A::of(it).len() > 0).collect();
        let mut least = BinaryHeap::new();
        let mut take = |address: A, length: u8, source_index: usize, group: u32| {
            let found = (address.widen(), length, source_index as u16);
            let is_of = |protocol| self.groups.get(group).is_some_and(|it| it.protocol == protocol);
            let matches = after.is_none_or(|after| found > after)
                && is_within::<A>(query.within, address, length)
                && query.protocol.is_none_or(is_of);
            if matches && (least.len() < room || least.peek().is_some_and(|last| found < *last)) {
                least.push(found);
                if least.len() > room {
                    least.pop();
                }
            }
        };
        if let Some(address) = query.covers {
            for (address, length) in covering::<A>(address) {
                for (at, entry) in &route_sources {
                    let group = A::of(entry).get(address, length);
                    let is_lost =
                        |it: &u32| self.is_inactive(query, (vrf, *at), address, length, *it);
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
        for (at, entry) in route_sources.iter().filter(|_| !is_alone) {
            for item in A::of(entry).iter() {
                let best = self.best_other(*at, item.address, item.length);
                if self.better(best, Some(item.group)) != Some(item.group) {
                    take(item.address, item.length, *at, item.group);
                }
            }
        }
        // Routes that win here and lose to the configuration in the forwarder.
        let first = self.configured.prefixes(vrf).filter(|net| !query.is_bfd_down(vrf, *net));
        for (address, length) in first.filter_map(|it| of_family::<A>(&it)) {
            let winner = self.winner::<A>(vrf, address, length);
            if let Some((group, known)) = winner.and_then(|it| Some((it, self.groups.get(it)?))) {
                take(address, length, known.source, group);
            }
        }
        least.into_sorted_vec()
    }

    /// Whether a route of the route source is not in use.
    fn is_inactive<A: Family>(
        &self,
        query: &Query,
        (vrf, at): (&VrfName, usize),
        address: A,
        length: u8,
        own: u32,
    ) -> bool {
        let best = self.best_other(at, address, length);
        self.better(best, Some(own)) != Some(own) || self.is_configured(query, vrf, address, length)
    }

    /// Whether the configuration has an active route to the same prefix.
    fn is_configured<A: Family>(
        &self,
        query: &Query,
        vrf: &VrfName,
        address: A,
        length: u8,
    ) -> bool {
        let ip = ip::<A>(address);
        let is_bfd_down = || IpNet::new(ip, length).is_ok_and(|net| query.is_bfd_down(vrf, net));
        self.configured.get(vrf, ip, length).is_some() && !is_bfd_down()
    }

    /// Renders a route; `None` when it is gone or in use.
    fn render<A: Family>(
        &self,
        query: &Query,
        vrf: &VrfName,
        found: RouteKey,
    ) -> Option<v1::RouteState> {
        let (wide, length, source_index) = found;
        let (address, source_index) = (A::narrow(wide), usize::from(source_index));
        let entry =
            self.sources.get(source_index)?.as_ref().filter(|entry| entry.source.vrf == *vrf)?;
        let group = A::of(entry).get(address, length)?;
        if !self.is_inactive(query, (vrf, source_index), address, length, group) {
            return None;
        }
        let group = self.groups.get(group)?;
        let net = IpNet::new(ip::<A>(address), length).ok()?;
        let is_configured = self.is_configured(query, vrf, address, length);
        let action = match group.resolved.special {
            Some(special) => v1::route::Action::Special(special.into()),
            None => v1::route::Action::Paths(v1::Paths { paths: group.resolved.paths.clone() }),
        };
        let route = v1::Route {
            prefix: Some(prefix_to_proto(&net)),
            protocol: group.protocol.into(),
            action: Some(action),
            vrf: vrf.to_string(),
        };
        let next_hops = if group.resolved.is_usable() { vec![] } else { gateways(group) };
        Some(v1::RouteState {
            route: Some(route),
            state: "inactive".to_owned(),
            is_learned: true,
            is_stale: A::of(entry).is_stale(address, length),
            route_source: self.route_source_of(source_index),
            reason: self.reason(is_configured, (address, length), source_index, group),
            next_hops,
            ..v1::RouteState::default()
        })
    }

    /// Why a route is not in use.
    fn reason<A: Family>(
        &self,
        is_configured: bool,
        (address, length): (A, u8),
        source_index: usize,
        group: &Group,
    ) -> Vec<String> {
        let name = |source_index: usize| match self.route_source_of(source_index) {
            none if none.is_empty() => "the configuration".to_owned(),
            name => format!("route source {name}"),
        };
        let own = name(source_index);
        if !group.resolved.is_usable() {
            let reasons = group.resolved.reasons.iter().map(|reason| format!("{own}: {reason}"));
            let reasons: Vec<String> = reasons.collect();
            return if reasons.is_empty() {
                vec![format!("{own}: no usable next hop")]
            } else {
                reasons
            };
        }
        let best =
            self.best_other(source_index, address, length).and_then(|id| self.groups.get(id));
        let better = best.filter(|best| self.preference(best) <= self.preference(group));
        match better {
            _ if is_configured => {
                vec![format!("{own}: a connected or static route to the same prefix is preferred")]
            }
            Some(best) => {
                let (first, second) = (self.preference(best), self.preference(group));
                let winner = name(best.source);
                vec![format!("{own}: {winner} is preferred, preference {first} against {second}")]
            }
            None => vec![format!("{own}: the route has just come into use")],
        }
    }
}

/// The unresolved gateways.
fn gateways(group: &Group) -> Vec<v1::NextHop> {
    let super::Target::Paths(paths, _) = &group.target else { return vec![] };
    let gateways = paths.iter().filter_map(|path| Some((path.gateway?, path.weight)));
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

/// All prefixes of the family that cover an address.
fn covering<A: Family>(address: IpAddr) -> impl Iterator<Item = (A, u8)> {
    (0..=A::BITS).filter_map(move |length| of_family(&IpNet::new(address, length).ok()?.trunc()))
}

fn is_within<A: Family>(within: Option<IpNet>, address: A, length: u8) -> bool {
    within.is_none_or(|within| {
        IpNet::new(ip::<A>(address), length).is_ok_and(|net| within.contains(&net))
    })
}
