//! Converts the results of a session into events for the table, statistics and log messages.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use stoa_api::v1;
use stoa_bgp::{Negotiated, PathCounts, Run, Selection, SessionCounters};

use super::connection::Disconnect;
use crate::learned::{Event, NextHopPath, RouteSource, Target, Update};
use crate::route_sources::RouteSourceState;

/// The destination of a session's results.
#[derive(Debug)]
pub(super) struct Reporter {
    route_source: RouteSource,
    pub state: Arc<RouteSourceState>,
    /// Counters of the session when they were last reported.
    last_counters: (SessionCounters, PathCounts),
    /// Why a connection was last refused: logged once.
    last_refusal: String,
}

impl Reporter {
    pub fn new(route_source: RouteSource, state: Arc<RouteSourceState>) -> Self {
        Self { route_source, state, last_counters: Default::default(), last_refusal: String::new() }
    }

    /// Name of the route source.
    pub fn name(&self) -> &str {
        &self.route_source.source().name
    }

    /// How long routes are retained after a session ends.
    pub fn stale_time(&self) -> Duration {
        self.route_source.stale_time()
    }

    /// Handles a new session. Returns the event that removes routes of families for which the daemon did not
    /// preserve its forwarding state (RFC 4724, section 4.2), if any. Families that its capability does not
    /// list are not affected.
    pub fn up(&mut self, negotiated: &Negotiated) -> Option<Event> {
        self.last_counters = Default::default();
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
                "the daemon does not support graceful restart (RFC 4724): it sends no End-of-RIB, and its previous routes \
                 are retained for the stale-time"
            );
        }
        let is_lost = |family: Option<stoa_bgp::NegotiatedFamily>| {
            family.is_some_and(|negotiated| negotiated.forwarding_state == Some(false))
        };
        clear(is_lost(negotiated.ip4), is_lost(negotiated.ip6))
    }

    /// Handles the end of the session.
    pub async fn down(&mut self, disconnect: &Disconnect) {
        let Disconnect { reason, retains4, retains6 } = disconnect;
        let stale_time_s = self.stale_time().as_secs();
        let stay = match (retains4, retains6) {
            (true, true) => format!("its routes are stale and are removed in {stale_time_s} s"),
            (false, false) => "its routes are removed".to_owned(),
            (true, false) => format!(
                "its IPv4 routes are stale and are removed in {stale_time_s} s, the others are removed"
            ),
            (false, true) => format!(
                "its IPv6 routes are stale and are removed in {stale_time_s} s, the others are removed"
            ),
        };
        tracing::warn!(route_source = self.name(), "{reason}; {stay}");
        self.state.down(reason);
        let gone = clear(!retains4, !retains6);
        self.route_source.send([Event::Down].into_iter().chain(gone).collect()).await;
    }

    /// Handles a connection that ended before a session was established.
    pub fn refuse(&mut self, reason: &str, has_session: bool) {
        if !has_session {
            self.state.down(reason);
        }
        // The daemon connects again every few seconds: log once.
        if self.last_refusal != reason {
            tracing::warn!(route_source = self.name(), "no session: {reason}");
            reason.clone_into(&mut self.last_refusal);
        }
    }

    /// Sends events to the table.
    pub async fn send(&self, events: Vec<Event>) {
        self.route_source.send(events).await;
    }

    /// Converts runs of prefixes into events.
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

    /// Reports malformed messages and routes that were not imported.
    pub fn count(&mut self, counts: SessionCounters, paths: PathCounts) {
        let (counts_before, paths_before) =
            std::mem::replace(&mut self.last_counters, (counts, paths));
        let wrong = counts.treated_as_withdrawn - counts_before.treated_as_withdrawn;
        if wrong > 0 && self.state.malformed(wrong) {
            let reason = counts.last_error.unwrap_or_default();
            tracing::warn!(
                route_source = self.name(),
                "malformed UPDATE ({reason}): its routes were treated as withdrawn (RFC 7606); logged once, counted in the route source's state"
            );
        }
        let last_refusal = paths.refused - paths_before.refused;
        if last_refusal > 0 {
            let reason =
                format_args!("a prefix has more than 64 paths: configure the daemon to send fewer");
            self.state.not_imported(last_refusal, reason);
        }
        let odd = paths.ignored_prefixes - paths_before.ignored_prefixes;
        if odd > 0 {
            let reason = format_args!("multicast and link-local prefixes are not imported");
            self.state.not_imported(odd, reason);
        }
        let unusable_next_hops = paths.unusable_next_hops - paths_before.unusable_next_hops;
        if unusable_next_hops > 0
            && let Some(next_hop) = paths.last_unusable_next_hop
        {
            let reason = format_args!(
                "the next hop {next_hop} is not usable: configure the daemon to send a reachable one, or next-hop-self"
            );
            self.state.not_imported(unusable_next_hops, reason);
        }
    }
}

/// The event that removes the routes of these families at once.
fn clear(ip4: bool, ip6: bool) -> Option<Event> {
    (ip4 || ip6).then_some(Event::Clear { ip4, ip6 })
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
