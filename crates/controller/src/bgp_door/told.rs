//! What a session brings, as events for the table and figures for people.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use stoa_api::v1;
use stoa_bgp::{Choice, Counts, PathCounts, Run, Terms};

use crate::doors::DoorState;
use crate::learned::{Door, Event, Target, Update, Way};

/// Where all goes.
#[derive(Debug)]
pub(super) struct Told {
    door: Door,
    pub state: Arc<DoorState>,
    /// What the session had counted when it was last looked at.
    counted: (Counts, PathCounts),
    /// Prefixes that the last session had when it ended.
    before: usize,
    /// Why somebody was refused last: said once.
    refused: String,
}

impl Told {
    pub fn new(door: Door, state: Arc<DoorState>) -> Self {
        Self { door, state, counted: Default::default(), before: 0, refused: String::new() }
    }

    /// Of the door.
    pub fn name(&self) -> &str {
        &self.door.source().name
    }

    /// How long routes stay when a session ends.
    pub fn stale_time(&self) -> Duration {
        self.door.source().stale_time
    }

    /// A session is established.
    pub fn up(&mut self, terms: &Terms) {
        self.counted = Default::default();
        self.refused.clear();
        self.state.up();
        let family = |family: Option<stoa_bgp::FamilyTerms>| match family {
            Some(terms) if terms.add_paths => "all paths",
            Some(_) => "best paths",
            None => "none",
        };
        let (ip4, ip6) = (family(terms.ip4), family(terms.ip6));
        tracing::info!(door = self.name(), daemon = %terms.router_id, ip4, ip6, "established");
        if !terms.says_end {
            tracing::warn!(
                door = self.name(),
                "the daemon does not know graceful restart (RFC 4724): it will not say when it has said all, and what it \
                 had before stays for the stale-time"
            );
        }
    }

    /// Prefixes that the last session had when it ended.
    pub fn before(&self) -> usize {
        self.before
    }

    /// The daemon has said all.
    pub fn complete(&self, prefixes: usize) {
        tracing::info!(door = self.name(), prefixes, "the daemon has said what it has");
    }

    /// The session that was told is over. `said`: prefixes that the daemon had, if it had said all; one that was cut says nothing of what there is.
    pub async fn down(&mut self, why: &str, said: Option<usize>) {
        self.before = said.unwrap_or(self.before);
        tracing::warn!(door = self.name(), "{why}; its routes stay for the stale-time");
        self.state.down(why);
        self.door.tell(vec![Event::Down]).await;
    }

    /// A connection ended before a session was established.
    pub fn refuse(&mut self, why: &str, has_session: bool) {
        if !has_session {
            self.state.down(why);
        }
        // It comes again, every few seconds.
        if self.refused != why {
            tracing::warn!(door = self.name(), "no session: {why}");
            why.clone_into(&mut self.refused);
        }
    }

    /// Tells the table.
    pub async fn tell(&self, events: Vec<Event>) {
        self.door.tell(events).await;
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
            let why = counts.last_wrong.unwrap_or_default();
            tracing::warn!(
                door = self.name(),
                "a wrong UPDATE ({why}): its routes were taken as withdrawn (RFC 7606); said once, counted in the door's state"
            );
        }
        let refused = paths.refused - paths_before.refused;
        if refused > 0 {
            let why = format_args!("a prefix has more than 64 paths: have the daemon send fewer");
            self.state.left_out(refused, why);
        }
        let odd = paths.passed_over - paths_before.passed_over;
        if odd > 0 {
            let why = format_args!("multicast and link-local prefixes are no routes here");
            self.state.left_out(odd, why);
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
