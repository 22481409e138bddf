//! How route sources do, as the table sees it: asked for at each look at metrics, and so found in one pass over the groups.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::statics::is_own;
use super::table::{Session, Table};
use crate::routes::VrfName;

/// Reasons that are told of one route source at most.
const MAX_REASONS: usize = 20;

/// How a route source does, as the table sees it.
#[derive(Clone, Debug)]
pub struct RouteSourceSummary {
    /// Its name in the configuration.
    pub name: String,
    /// The VRF that its routes are for.
    pub vrf: VrfName,
    /// How its session does.
    pub session: Session,
    /// IPv4 routes that it has.
    pub ip4: usize,
    /// IPv6 routes that it has.
    pub ip6: usize,
    /// Those of them that were not said again since its session began.
    pub stale: usize,
    /// Prefixes that were none.
    pub malformed: u64,
    /// Routes that cannot be used, for no gateway of them is reached.
    pub waiting: u64,
    /// Why gateways of it are not reached, and how many routes each keeps from being used.
    pub unresolved: Vec<(String, u32)>,
}

/// Groups of one route source that cannot be used.
#[derive(Default)]
struct UnresolvedGroups {
    routes: u64,
    /// Those with the most routes: how many, and their ids.
    most: BinaryHeap<Reverse<(u32, u32)>>,
}

impl UnresolvedGroups {
    fn add(&mut self, id: u32, routes: u32, has_reason: bool) {
        self.routes += u64::from(routes);
        if has_reason {
            self.most.push(Reverse((routes, id)));
        }
        if self.most.len() > MAX_REASONS {
            self.most.pop();
        }
    }
}

impl Table {
    /// How all route sources of daemons do.
    pub(super) fn route_source_states(&self) -> Vec<RouteSourceSummary> {
        let mut lost: Vec<UnresolvedGroups> = self.sources.iter().map(|_| UnresolvedGroups::default()).collect();
        for (id, group) in self.groups.iter() {
            if group.routes > 0
                && !group.resolved.is_usable()
                && let Some(lost) = lost.get_mut(group.source)
            {
                lost.add(id, group.routes, !group.resolved.reasons.is_empty());
            }
        }
        let entry = self.sources.iter().zip(lost);
        let entry = entry.filter_map(|(entry, lost)| Some((entry.as_ref()?, lost)));
        let state = |(entry, lost): (&super::table::SourceEntry, UnresolvedGroups)| {
            let most = lost.most.into_sorted_vec();
            let reason = |it: &Reverse<(u32, u32)>| {
                let (routes, id) = it.0;
                Some((self.groups.get(id)?.resolved.reasons.first()?.clone(), routes))
            };
            RouteSourceSummary {
                name: entry.source.name.clone(),
                vrf: entry.source.vrf.clone(),
                session: entry.session,
                ip4: entry.ip4.len(),
                ip6: entry.ip6.len(),
                stale: entry.ip4.stale() + entry.ip6.stale(),
                malformed: entry.malformed,
                waiting: lost.routes,
                unresolved: most.iter().filter_map(reason).collect(),
            }
        };
        entry.filter(|(entry, _)| !is_own(&entry.source)).map(state).collect()
    }
}
