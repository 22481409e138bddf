//! Summaries of route sources. Every metrics scrape asks for them, so one pass over the groups computes all.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use super::statics::is_own;
use super::statistics::RouteSourceSummary;
use super::table::Table;

/// Maximum reasons per route source.
const MAX_REASONS: usize = 20;

/// Unresolved groups of one route source.
#[derive(Default)]
struct UnresolvedGroups {
    routes: u64,
    /// Those with the most routes: number of routes and id.
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
    /// Summaries of all route sources of daemons.
    pub(super) fn route_source_states(&self, now: Instant) -> Vec<RouteSourceSummary> {
        let mut lost: Vec<UnresolvedGroups> =
            self.sources.iter().map(|_| UnresolvedGroups::default()).collect();
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
            let stale = entry.ip4.stale() + entry.ip6.stale();
            let deadline = entry.deadline.filter(|_| stale > 0);
            RouteSourceSummary {
                name: entry.source.name.clone(),
                vrf: entry.source.vrf.clone(),
                session: entry.session,
                ip4: entry.ip4.len(),
                ip6: entry.ip6.len(),
                stale,
                stale_time_left: deadline.map(|deadline| deadline.saturating_duration_since(now)),
                malformed: entry.malformed,
                waiting: lost.routes,
                unresolved: most.iter().filter_map(reason).collect(),
            }
        };
        entry.filter(|(entry, _)| !is_own(&entry.source)).map(state).collect()
    }
}
