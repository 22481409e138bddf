//! What a session brings, as events for the table and figures for people.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use stoa_api::v1;
use stoa_bgp::{Selection, SessionCounters, PathCounts, Run, Negotiated};

use super::connection::Disconnect;
use crate::learned::{Event, RouteSource, Target, Update, NextHopPath};
use crate::route_sources::RouteSourceState;

/// Where all goes.
#[derive(Debug)]
pub(super) struct Reporter {
    route_source: RouteSource,
    pub state: Arc<RouteSourceState>,
    /// What the session had counted when it was last looked at.
    last_counters: (SessionCounters, PathCounts),
    /// Prefixes that the last session had when it ended.
    previous_prefixes: usize,
    /// Whether the session speaks of IPv4, and of IPv6.
    carries: (bool, bool),
    /// Why somebody was refused last: said once.
    last_refusal: String,
}

impl Reporter {
    pub fn new(route_source: RouteSource, state: Arc<RouteSourceState>) -> Self {
        Self {
            route_source,
            state,
            last_counters: Default::default(),
            previous_prefixes: 0,
            carries: (false, false),
            last_refusal: String::new(),
        }
    }

    /// Of the route source.
    pub fn name(&self) -> &str {
        &self.route_source.source().name
    }

    /// How long routes stay when a session ends.
    pub fn stale_time(&self) -> Duration {
        self.route_source.stale_time()
    }

    /// A session is established. Gives what is to be said of routes of the session before it: a daemon that says that it did not forward a
    /// family while it was away wants them gone (RFC 4724, section 4.2). One that says nothing of the family says nothing of them.
    pub fn up(&mut self, negotiated: &Negotiated) -> Option<Event> {
        self.last_counters = Default::default();
        self.carries = (negotiated.ip4.is_some(), negotiated.ip6.is_some());
        self.last_refusal.clear();
        self.state.up();
        let family = |family: Option<stoa_bgp::NegotiatedFamily>| match family {
            Some(negotiated) if negotiated.add_paths => "all paths",
            Some(_) => "best paths",
            None => "none",
        };
        let (ip4, ip6) = (family(negotiated.ip4), family(negotiated.ip6));
        tracing::info!(route_source = self.name(), daemon = %negotiated.router_id, ip4, ip6, "established");
        if !negotiated.sends_end_of_rib {
            tracing::warn!(
                route_source = self.name(),
                "the daemon does not know graceful restart (RFC 4724): it will not say when it has said all, and what it \
                 had before stays for the stale-time"
            );
        }
        let is_lost = |family: Option<stoa_bgp::NegotiatedFamily>| {
            family.is_some_and(|negotiated| negotiated.forwarding_state == Some(false))
        };
        self.clear(is_lost(negotiated.ip4), is_lost(negotiated.ip6))
    }

    /// Routes of these families go at once.
    fn clear(&mut self, ip4: bool, ip6: bool) -> Option<Event> {
        let is_anything = ip4 || ip6;
        if is_anything && (ip4 || !self.carries.0) && (ip6 || !self.carries.1) {
            // Nothing is left that a session could say less than: it says nothing of a family that it does not speak of.
            self.previous_prefixes = 0;
        }
        is_anything.then_some(Event::Clear { ip4, ip6 })
    }

    /// Prefixes that the last session had when it ended.
    pub fn previous_prefixes(&self) -> usize {
        self.previous_prefixes
    }

    /// The daemon has said all.
    pub fn complete(&self, prefixes: usize) {
        tracing::info!(route_source = self.name(), prefixes, "the daemon has said what it has");
    }

    /// The session that was told is over. `said`: prefixes that the daemon had, if it had said all; one that was cut says nothing of what there is.
    pub async fn down(&mut self, disconnect: &Disconnect, prefixes: Option<usize>) {
        let Disconnect { reason, retains4, retains6 } = disconnect;
        self.previous_prefixes = prefixes.unwrap_or(self.previous_prefixes);
        let stay = match (retains4, retains6) {
            (true, true) => "its routes stay for the stale-time",
            (false, false) => "its routes go at once",
            (true, false) => "its IPv4 routes stay for the stale-time, the others go at once",
            (false, true) => "its IPv6 routes stay for the stale-time, the others go at once",
        };
        tracing::warn!(route_source = self.name(), "{reason}; {stay}");
        self.state.down(reason);
        let gone = self.clear(!retains4, !retains6);
        self.route_source.send([Event::Down].into_iter().chain(gone).collect()).await;
    }

    /// A connection ended before a session was established.
    pub fn refuse(&mut self, reason: &str, has_session: bool) {
        if !has_session {
            self.state.down(reason);
        }
        // It comes again, every few seconds.
        if self.last_refusal != reason {
            tracing::warn!(route_source = self.name(), "no session: {reason}");
            reason.clone_into(&mut self.last_refusal);
        }
    }

    /// Tells the table.
    pub async fn send(&self, events: Vec<Event>) {
        self.route_source.send(events).await;
    }

    /// Runs of prefixes as the table wants them.
    pub fn events(&self, runs: Vec<Run>) -> impl Iterator<Item = Event> {
        runs.into_iter().map(|run| {
            let routes = run.ip4.len() + run.ip6.len();
            let target = target(&run.selection);
            match target {
                Some(_) => self.state.updated(routes as u64),
                None => self.state.withdrawn(routes as u64),
            }
            let (ip4, ip6) = (run.ip4, run.ip6);
            Event::Update(Update { protocol: v1::Protocol::Bgp, target, ip4, ip6 })
        })
    }

    /// Counts what could not be taken.
    pub fn count(&mut self, counts: SessionCounters, paths: PathCounts) {
        let (previous_prefixes, paths_before) = std::mem::replace(&mut self.last_counters, (counts, paths));
        let wrong = counts.treated_as_withdrawn - previous_prefixes.treated_as_withdrawn;
        if wrong > 0 && self.state.malformed(wrong) {
            let reason = counts.last_error.unwrap_or_default();
            tracing::warn!(
                route_source = self.name(),
                "a wrong UPDATE ({reason}): its routes were taken as withdrawn (RFC 7606); said once, counted in the route source's state"
            );
        }
        let last_refusal = paths.refused - paths_before.refused;
        if last_refusal > 0 {
            let reason =
                format_args!("a prefix has more than 64 paths: have the daemon send fewer");
            self.state.not_imported(last_refusal, reason);
        }
        let odd = paths.ignored_prefixes - paths_before.ignored_prefixes;
        if odd > 0 {
            let reason = format_args!("multicast and link-local prefixes are no routes here");
            self.state.not_imported(odd, reason);
        }
        let unusable_next_hops = paths.unusable_next_hops - paths_before.unusable_next_hops;
        if unusable_next_hops > 0
            && let Some(next_hop) = paths.last_unusable_next_hop
        {
            let reason = format_args!(
                "a next hop to which nothing can be sent, {next_hop}: have the daemon say one that is in a subnet, or itself"
            );
            self.state.not_imported(unusable_next_hops, reason);
        }
    }
}

fn target(selection: &Selection) -> Option<Target> {
    let path = |hop: &IpAddr| NextHopPath { interface: None, gateway: Some(*hop), weight: 1 };
    let (paths, backup): (Arc<[NextHopPath]>, _) = match selection {
        Selection::Unreachable => return None,
        Selection::Single(one, backup) => (Arc::new([path(one)]), backup),
        Selection::Multipath(many, backup) => (many.iter().map(path).collect(), backup),
    };
    Some(Target::Paths(paths, backup.iter().map(path).collect()))
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;
    use crate::learned::Source;

    #[test]
    fn a_family_that_a_session_does_not_speak_of_holds_up_nothing() {
        let stale_time = Duration::from_secs(60);
        let source = Source { name: "x".into(), vrf: "".into(), preference: None, stale_time };
        let mut reporter = Reporter::new(RouteSource::new(source, mpsc::channel(1).0), Arc::default());
        for (carries, ip4, ip6, previous_prefixes) in [
            ((true, true), true, false, 9),
            ((true, true), true, true, 0),
            ((true, false), true, false, 0),
            ((false, true), false, true, 0),
            ((true, false), false, false, 9),
        ] {
            (reporter.previous_prefixes, reporter.carries) = (9, carries);
            let gone = reporter.clear(ip4, ip6);
            assert_eq!(gone.is_some(), ip4 || ip6);
            assert_eq!(reporter.previous_prefixes(), previous_prefixes, "{carries:?} {ip4} {ip6}");
        }
    }
}
