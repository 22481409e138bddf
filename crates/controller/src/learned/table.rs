//! The routes of all route sources and their selection. No threads, no sockets; the caller passes the time.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use super::announcements::Announcements;
use super::configured_routes::ConfiguredRoutes;
use super::groups::Groups;
use super::message_queue::{MessageQueue, PackedFamily};
use super::prefixes::{Ip6Words, Item, Prefixes};
use super::resolve::TrackedGateways;
use super::route_source::{Event, Source, Target, Update};
use super::statistics::Session;
use crate::configuration::Configuration;

/// The state of one route source.
#[derive(Debug)]
pub struct SourceEntry {
    /// Its configuration.
    pub source: Arc<Source>,
    /// State of its session.
    pub session: Session,
    /// Whether it counts as complete by comparison with the routes that were held before.
    pub is_presumed_complete: bool,
    /// When stale routes are removed.
    pub deadline: Option<Instant>,
    /// Targets of the group numbers of the current session.
    pub group_targets: HashMap<u32, Target>,
    /// Number of sessions.
    pub sessions: u32,
    /// IPv4 routes.
    pub ip4: Prefixes<u32>,
    /// IPv6 routes.
    pub ip6: Prefixes<Ip6Words>,
    /// What the session has announced of IPv4.
    pub announcements4: Announcements,
    /// What the session has announced of IPv6.
    pub announcements6: Announcements,
    /// Invalid prefixes: host bits, length.
    pub malformed: u64,
}

/// An address family of the table.
pub trait Family: PackedFamily + super::resolve::TrackedFamily {
    /// The routes of a route source.
    fn of(entry: &SourceEntry) -> &Prefixes<Self>;
    /// The routes of a route source, mutable.
    fn of_mut(entry: &mut SourceEntry) -> &mut Prefixes<Self>;
    /// What the session of a route source has announced.
    fn announcements(entry: &SourceEntry) -> &Announcements;
    /// What the session of a route source has announced, mutable.
    fn announcements_mut(entry: &mut SourceEntry) -> &mut Announcements;
}

impl Family for u32 {
    fn of(entry: &SourceEntry) -> &Prefixes<Self> {
        &entry.ip4
    }

    fn of_mut(entry: &mut SourceEntry) -> &mut Prefixes<Self> {
        &mut entry.ip4
    }

    fn announcements(entry: &SourceEntry) -> &Announcements {
        &entry.announcements4
    }

    fn announcements_mut(entry: &mut SourceEntry) -> &mut Announcements {
        &mut entry.announcements4
    }
}

impl Family for Ip6Words {
    fn of(entry: &SourceEntry) -> &Prefixes<Self> {
        &entry.ip6
    }

    fn of_mut(entry: &mut SourceEntry) -> &mut Prefixes<Self> {
        &mut entry.ip6
    }

    fn announcements(entry: &SourceEntry) -> &Announcements {
        &entry.announcements6
    }

    fn announcements_mut(entry: &mut SourceEntry) -> &mut Announcements {
        &mut entry.announcements6
    }
}

/// The routes of all route sources.
#[derive(Debug, Default)]
pub struct Table {
    pub(super) sources: Vec<Option<SourceEntry>>,
    pub(super) groups: Groups,
    pub(super) configured: ConfiguredRoutes,
    pub(super) tracked: TrackedGateways,
    /// A route changed that gateways may depend on.
    pub(super) needs_resolution: bool,
    /// Groups without routes.
    pub(super) unused: BTreeSet<u32>,
    /// Groups whose usability changed: their routes are still to be selected again.
    pub(super) usability_changed: BTreeSet<u32>,
    /// Messages to the forwarder.
    pub messages: MessageQueue,
    /// Changes of winners so far: a comparison is valid while this number stands still.
    pub changes: u64,
}

/// Whether there are no host bits.
fn is_prefix<A: Family>(address: A, length: u8) -> bool {
    let wide = address.widen();
    length <= A::BITS
        && (length == A::BITS || wide & (u128::MAX >> (128 - u32::from(A::BITS - length))) == 0)
}

impl Table {
    /// The index of a route source, added if new.
    fn source_index(&mut self, source: &Arc<Source>, now: Instant) -> usize {
        let known = |entry: &Option<SourceEntry>| {
            entry.as_ref().is_some_and(|entry| entry.source.name == source.name)
        };
        if let Some(at) = self.sources.iter().position(known) {
            return at;
        }
        let entry = SourceEntry {
            source: Arc::clone(source),
            session: Session::Awaited,
            is_presumed_complete: false,
            deadline: Some(now + source.stale_time),
            group_targets: HashMap::new(),
            sessions: 0,
            ip4: Prefixes::default(),
            ip6: Prefixes::default(),
            announcements4: Announcements::default(),
            announcements6: Announcements::default(),
            malformed: 0,
        };
        let free = self.sources.iter().position(Option::is_none).unwrap_or(self.sources.len());
        if free == self.sources.len() {
            self.sources.push(None);
        }
        self.sources[free] = Some(entry);
        free
    }

    /// Processes events of a route source.
    pub fn process(&mut self, source: &Arc<Source>, events: Vec<Event>, now: Instant) {
        let at = self.source_index(source, now);
        let has_updates = events.iter().any(|event| matches!(event, Event::Update(_)));
        for event in events {
            match event {
                Event::Up => self.start_session(at, now),
                Event::Complete => self.complete_session(at),
                Event::EndOfRib { ip4, ip6 } => self.end_of_rib(at, ip4, ip6, now),
                Event::Down => self.end_session(at, now),
                Event::Clear { ip4, ip6 } => self.clear(at, ip4, ip6),
                Event::Reconfigure { preference, stale_time } => {
                    self.reconfigure(at, preference, stale_time)
                }
                Event::Closed => {
                    self.start_session(at, now);
                    self.sweep(at);
                    // The index may be reused at once.
                    self.release_unused();
                    self.sources[at] = None;
                }
                Event::Group(number, target) => self.set_group(at, number, Some(target)),
                Event::GroupDeleted(number) => self.set_group(at, number, None),
                Event::Update(update) => self.update(at, &update),
                Event::Count(asker) => {
                    let entry = self.sources[at].as_ref();
                    asker.answer(
                        entry.map_or(0, |entry| (entry.ip4.len() + entry.ip6.len()) as u64),
                    );
                }
            }
        }
        if has_updates {
            self.routes_announced(at, now);
        }
    }

    /// Processes routes that were removed from a route source's prefixes.
    pub(super) fn withdraw<A: Family>(&mut self, at: usize, items: Vec<Item<A>>) {
        for item in items {
            self.route_changed(at, item.address, item.length, Some(item.group), None);
        }
    }

    fn update(&mut self, at: usize, update: &Update) {
        let group = update.target.as_ref().map(|target| {
            let sessions = self.sources[at].as_ref().map_or(0, |entry| entry.sessions);
            let (id, is_new) = self.groups.of((at, sessions), update.protocol, target);
            if is_new {
                self.resolve_group(id, true);
            }
            id
        });
        self.run(at, group, update.ip4.iter().copied());
        let six = |(address, length): &(u128, u8)| {
            (<Ip6Words as super::prefixes::Address>::narrow(*address), *length)
        };
        self.run(at, group, update.ip6.iter().map(six));
        if let Some(id) = group
            && self.groups.get(id).is_some_and(|group| group.routes == 0)
        {
            self.unused.insert(id);
        }
    }

    /// Processes the prefixes of one update.
    fn run<A: Family>(
        &mut self,
        at: usize,
        group: Option<u32>,
        prefixes: impl Iterator<Item = (A, u8)>,
    ) {
        for (address, length) in prefixes {
            let Some(entry) = &mut self.sources[at] else { return };
            if !is_prefix(address, length) {
                entry.malformed += 1;
                continue;
            }
            let routes = A::of_mut(entry);
            let old = match group {
                Some(group) => routes.insert(address, length, group),
                None => routes.remove(address, length),
            };
            if old != group {
                if let Some(group) = group {
                    self.groups.hold(group);
                }
                self.route_changed(at, address, length, old, group);
            }
        }
    }

    /// Processes a route's change of group: announces the winner if it changed.
    fn route_changed<A: Family>(
        &mut self,
        at: usize,
        address: A,
        length: u8,
        old: Option<u32>,
        new: Option<u32>,
    ) {
        let other = self.best_other(at, address, length);
        let (before, after) = (self.better(other, old), self.better(other, new));
        // If the group's usability has changed, what was announced may differ from `before`.
        let is_unsure = old.is_some_and(|old| self.usability_changed.contains(&old));
        if before != after || is_unsure {
            self.announce(at, address, length, after);
        }
        if let Some(old) = old
            && self.groups.release(old)
        {
            self.unused.insert(old);
        }
    }

    /// Applies the configuration in force: routes that gateways depend on may have changed.
    pub fn configure(&mut self, configuration: &Arc<Configuration>) {
        if !self.configured.is_of(configuration) {
            self.configured = ConfiguredRoutes::new(Arc::clone(configuration));
            self.load_static_routes(configuration, Instant::now());
            self.needs_resolution = true;
        }
    }

    /// Completes the processing of the last events: gateways, unused groups. Call it before sending messages.
    pub fn settle(&mut self) {
        self.resolve_pending();
        self.release_unused();
        if self.messages.close() {
            self.groups.close();
        }
    }

    fn release_unused(&mut self) {
        let unused = std::mem::take(&mut self.unused);
        self.messages.forget(self.groups.forget(unused));
    }

    /// Sends everything again, to a new forwarder or after the stream broke.
    pub fn resend_all(&mut self) {
        self.settle();
        self.messages.clear(false);
        self.messages.start_session();
        let hops: Vec<_> = self.groups.iter().map(|(id, group)| group.hop(id)).collect();
        hops.into_iter().for_each(|hop| self.messages.hop(hop));
        for at in 0..self.sources.len() {
            self.resend_all_of::<u32>(at);
            self.resend_all_of::<Ip6Words>(at);
        }
        self.messages.close();
        self.groups.close();
    }

    /// Sends long ascending runs, which load fastest into the forwarder's tables.
    fn resend_all_of<A: Family>(&mut self, at: usize) {
        let winners = self.winners_of::<A>(at);
        let usable = winners.filter(|item| self.groups.is_usable(item.group));
        let mut all: Vec<_> = usable.map(|it| (it.group, it.address, it.length)).collect();
        all.sort_unstable();
        for (group, address, length) in all {
            self.announce(at, address, length, Some(group));
        }
    }
}
