//! What a session brings, as events for the table and figures for people.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use stoa_api::v1;
use stoa_bgp::{Choice, Counts, PathCounts, Run, Terms};

use super::connection::Over;
use crate::learned::{Event, RouteSource, Target, Update, Way};
use crate::route_sources::RouteSourceState;

/// Where all goes.
#[derive(Debug)]
pub(super) struct Told {
    route_source: RouteSource,
    pub state: Arc<RouteSourceState>,
    /// What the session had counted when it was last looked at.
    counted: (Counts, PathCounts),
    /// Prefixes that the last session had when it ended.
    before: usize,
    /// Whether the session speaks of IPv4, and of IPv6.
    speaks: (bool, bool),
    /// Why somebody was refused last: said once.
    refused: String,
}

impl Told {
    pub fn new(route_source: RouteSource, state: Arc<RouteSourceState>) -> Self {
        Self {
            route_source,
            state,
            counted: Default::default(),
            before: 0,
            speaks: (false, false),
            refused: String::new(),
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
    pub fn up(&mut self, terms: &Terms) -> Option<Event> {
        self.counted = Default::default();
        self.speaks = (terms.ip4.is_some(), terms.ip6.is_some());
        self.refused.clear();
        self.state.up();
        let family = |family: Option<stoa_bgp::FamilyTerms>| match family {
            Some(terms) if terms.add_paths => "all paths",
            Some(_) => "best paths",
            None => "none",
        };
        let (ip4, ip6) = (family(terms.ip4), family(terms.ip6));
        tracing::info!(route_source = self.name(), daemon = %terms.router_id, ip4, ip6, "established");
        if !terms.says_end {
            tracing::warn!(
                route_source = self.name(),
                "the daemon does not know graceful restart (RFC 4724): it will not say when it has said all, and what it \
                 had before stays for the stale-time"
            );
        }
        let is_lost = |family: Option<stoa_bgp::FamilyTerms>| {
            family.is_some_and(|terms| terms.forwarded == Some(false))
        };
        self.clear(is_lost(terms.ip4), is_lost(terms.ip6))
    }

    /// Routes of these families go at once.
    fn clear(&mut self, ip4: bool, ip6: bool) -> Option<Event> {
        let is_anything = ip4 || ip6;
        if is_anything && (ip4 || !self.speaks.0) && (ip6 || !self.speaks.1) {
            // Nothing is left that a session could say less than: it says nothing of a family that it does not speak of.
            self.before = 0;
        }
        is_anything.then_some(Event::Clear { ip4, ip6 })
    }

    /// Prefixes that the last session had when it ended.
    pub fn before(&self) -> usize {
        self.before
    }

    /// The daemon has said all.
    pub fn complete(&self, prefixes: usize) {
        tracing::info!(route_source = self.name(), prefixes, "the daemon has said what it has");
    }

    /// The session that was told is over. `said`: prefixes that the daemon had, if it had said all; one that was cut says nothing of what there is.
    pub async fn down(&mut self, over: &Over, said: Option<usize>) {
        let Over { reason, keeps4, keeps6 } = over;
        self.before = said.unwrap_or(self.before);
        let stay = match (keeps4, keeps6) {
            (true, true) => "its routes stay for the stale-time",
            (false, false) => "its routes go at once",
            (true, false) => "its IPv4 routes stay for the stale-time, the others go at once",
            (false, true) => "its IPv6 routes stay for the stale-time, the others go at once",
        };
        tracing::warn!(route_source = self.name(), "{reason}; {stay}");
        self.state.down(reason);
        let gone = self.clear(!keeps4, !keeps6);
        self.route_source.tell([Event::Down].into_iter().chain(gone).collect()).await;
    }

    /// A connection ended before a session was established.
    pub fn refuse(&mut self, reason: &str, has_session: bool) {
        if !has_session {
            self.state.down(reason);
        }
        // It comes again, every few seconds.
        if self.refused != reason {
            tracing::warn!(route_source = self.name(), "no session: {reason}");
            reason.clone_into(&mut self.refused);
        }
    }

    /// Tells the table.
    pub async fn tell(&self, events: Vec<Event>) {
        self.route_source.tell(events).await;
    }

    /// Runs of prefixes as the table wants them.
    pub fn events(&self, runs: Vec<Run>) -> impl Iterator<Item = Event> {
        runs.into_iter().map(|run| {
            let routes = run.ip4.len() + run.ip6.len();
            let target = target(&run.choice);
            match target {
                Some(_) => self.state.updated(routes as u64),
                None => self.state.withdrawn(routes as u64),
            }
            let (ip4, ip6) = (run.ip4, run.ip6);
            Event::Update(Update { protocol: v1::Protocol::Bgp, target, ip4, ip6 })
        })
    }

    /// Counts what could not be taken.
    pub fn count(&mut self, counts: Counts, paths: PathCounts) {
        let (before, paths_before) = std::mem::replace(&mut self.counted, (counts, paths));
        let wrong = counts.treated_as_withdrawn - before.treated_as_withdrawn;
        if wrong > 0 && self.state.malformed(wrong) {
            let reason = counts.last_wrong.unwrap_or_default();
            tracing::warn!(
                route_source = self.name(),
                "a wrong UPDATE ({reason}): its routes were taken as withdrawn (RFC 7606); said once, counted in the route source's state"
            );
        }
        let refused = paths.refused - paths_before.refused;
        if refused > 0 {
            let reason =
                format_args!("a prefix has more than 64 paths: have the daemon send fewer");
            self.state.not_imported(refused, reason);
        }
        let odd = paths.passed_over - paths_before.passed_over;
        if odd > 0 {
            let reason = format_args!("multicast and link-local prefixes are no routes here");
            self.state.not_imported(odd, reason);
        }
        let unusable = paths.unusable - paths_before.unusable;
        if unusable > 0
            && let Some(next_hop) = paths.last_unusable
        {
            let reason = format_args!(
                "a next hop to which nothing can be sent, {next_hop}: have the daemon say one that is in a subnet, or itself"
            );
            self.state.not_imported(unusable, reason);
        }
    }
}

fn target(choice: &Choice) -> Option<Target> {
    let way = |hop: &IpAddr| Way { interface: None, gateway: Some(*hop), weight: 1 };
    let (ways, backup): (Arc<[Way]>, _) = match choice {
        Choice::Nothing => return None,
        Choice::One(one, backup) => (Arc::new([way(one)]), backup),
        Choice::Many(many, backup) => (many.iter().map(way).collect(), backup),
    };
    Some(Target::Ways(ways, backup.iter().map(way).collect()))
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
        let mut told = Told::new(RouteSource::new(source, mpsc::channel(1).0), Arc::default());
        for (speaks, ip4, ip6, before) in [
            ((true, true), true, false, 9),
            ((true, true), true, true, 0),
            ((true, false), true, false, 0),
            ((false, true), false, true, 0),
            ((true, false), false, false, 9),
        ] {
            (told.before, told.speaks) = (9, speaks);
            let gone = told.clear(ip4, ip6);
            assert_eq!(gone.is_some(), ip4 || ip6);
            assert_eq!(told.before(), before, "{speaks:?} {ip4} {ip6}");
        }
    }
}
