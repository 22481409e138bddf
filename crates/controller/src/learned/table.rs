//! All that route sources have said, and which of it wins. No threads, no sockets, no time but what it is told.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::desired::Desired;
use super::groups::Groups;
use super::outbox::{Outbox, Packed};
use super::prefixes::{Item, Prefixes, Six};
use super::resolve::Watched;
use super::route_source::{Event, Source, Target, Update};
use crate::configuration::Configuration;

/// How a route source's session does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Session {
    /// None since it was opened.
    Awaited,
    /// It says what it has.
    Begun,
    /// It has said all that it had.
    Complete,
    /// It ended; what it had stays for a while.
    Ended,
}

/// What is held of one route source.
#[derive(Debug)]
pub struct Held {
    /// The route source.
    pub source: Arc<Source>,
    /// How its session does.
    pub session: Session,
    /// Whether it fell silent, and did not say that this was all.
    pub is_guessed: bool,
    /// When what is stale goes.
    pub deadline: Option<Instant>,
    /// Its groups by its own numbers, of this session.
    pub said: HashMap<u32, Target>,
    /// How many sessions there were.
    pub sessions: u32,
    /// IPv4 routes.
    pub ip4: Prefixes<u32>,
    /// IPv6 routes.
    pub ip6: Prefixes<Six>,
    /// Prefixes that were none: host bits, lengths.
    pub malformed: u64,
}

/// A family of routes as the table keeps it.
pub trait Family: Packed + super::resolve::Watchable {
    /// The routes of a route source.
    fn of(held: &Held) -> &Prefixes<Self>;
    /// The routes of a route source, to change.
    fn of_mut(held: &mut Held) -> &mut Prefixes<Self>;
}

impl Family for u32 {
    fn of(held: &Held) -> &Prefixes<Self> {
        &held.ip4
    }

    fn of_mut(held: &mut Held) -> &mut Prefixes<Self> {
        &mut held.ip4
    }
}

impl Family for Six {
    fn of(held: &Held) -> &Prefixes<Self> {
        &held.ip6
    }

    fn of_mut(held: &mut Held) -> &mut Prefixes<Self> {
        &mut held.ip6
    }
}

/// The routes of all route sources.
#[derive(Debug, Default)]
pub struct Table {
    pub(super) held: Vec<Option<Held>>,
    pub(super) groups: Groups,
    pub(super) desired: Desired,
    pub(super) watched: Watched,
    /// Something changed that gateways may lead through.
    pub(super) is_moved: bool,
    /// Groups without routes.
    pub(super) idle: BTreeSet<u32>,
    /// Groups that can be used now and could not, or the other way round: their routes are still to be looked at.
    pub(super) flipped: BTreeSet<u32>,
    /// What the forwarder is to be told.
    pub out: Outbox,
    /// Winners that changed so far: an audit is good while it stands still.
    pub changes: u64,
}

/// Whether no bit stands behind the length.
fn is_prefix<A: Family>(address: A, length: u8) -> bool {
    let wide = address.widen();
    length <= A::BITS
        && (length == A::BITS || wide & (u128::MAX >> (128 - u32::from(A::BITS - length))) == 0)
}

impl Table {
    /// The place of a route source; made when it is new.
    fn place(&mut self, source: &Arc<Source>, now: Instant) -> usize {
        let known =
            |held: &Option<Held>| held.as_ref().is_some_and(|held| held.source.name == source.name);
        if let Some(at) = self.held.iter().position(known) {
            return at;
        }
        let held = Held {
            source: Arc::clone(source),
            session: Session::Awaited,
            is_guessed: false,
            deadline: Some(now + source.stale_time),
            said: HashMap::new(),
            sessions: 0,
            ip4: Prefixes::default(),
            ip6: Prefixes::default(),
            malformed: 0,
        };
        let free = self.held.iter().position(Option::is_none).unwrap_or(self.held.len());
        if free == self.held.len() {
            self.held.push(None);
        }
        self.held[free] = Some(held);
        free
    }

    /// Takes in what a route source says.
    pub fn hear(&mut self, source: &Arc<Source>, events: Vec<Event>, now: Instant) {
        let at = self.place(source, now);
        for event in events {
            match event {
                Event::Up => self.begin(at, now),
                Event::Complete | Event::Silent => {
                    self.sweep(at);
                    self.set_session(at, Session::Complete, None);
                    if let Some(held) = &mut self.held[at] {
                        held.is_guessed = event == Event::Silent;
                    }
                }
                Event::Down => {
                    // What the route source was opened with may have changed since.
                    let stale_time = self.held[at].as_ref().map(|held| held.source.stale_time);
                    let deadline = stale_time.map(|stale_time| now + stale_time);
                    self.set_session(at, Session::Ended, deadline);
                }
                Event::Clear { ip4, ip6 } => self.clear(at, ip4, ip6),
                Event::Weigh { preference, stale_time } => self.weigh(at, preference, stale_time),
                Event::Closed => {
                    self.begin(at, now);
                    self.sweep(at);
                    // The place may be another route source's at once.
                    self.forget_idle();
                    self.held[at] = None;
                }
                Event::Group(number, target) => self.set_group(at, number, Some(target)),
                Event::GroupGone(number) => self.set_group(at, number, None),
                Event::Update(update) => self.update(at, &update),
                Event::Count(asker) => {
                    let held = self.held[at].as_ref();
                    asker.answer(held.map_or(0, |held| (held.ip4.len() + held.ip6.len()) as u64));
                }
            }
        }
    }

    fn set_session(&mut self, at: usize, session: Session, deadline: Option<Instant>) {
        if let Some(held) = &mut self.held[at] {
            (held.session, held.deadline) = (session, deadline);
        }
    }

    /// A session began: everything is stale until it is said again.
    fn begin(&mut self, at: usize, now: Instant) {
        let Some(held) = &mut self.held[at] else { return };
        held.ip4.mark();
        held.ip6.mark();
        // A daemon that was started again numbers its groups anew: what is stale stays on what the old numbers meant.
        held.said.clear();
        held.sessions += 1;
        (held.session, held.deadline) = (Session::Begun, Some(now + held.source.stale_time));
    }

    /// What is due: route sources whose time is over lose what is stale.
    pub fn tick(&mut self, now: Instant) {
        for at in 0..self.held.len() {
            let Some(held) = &mut self.held[at] else { continue };
            if held.deadline.is_none_or(|deadline| deadline > now) {
                continue;
            }
            held.deadline = None;
            match held.session {
                Session::Ended => {
                    held.ip4.mark();
                    held.ip6.mark();
                }
                Session::Begun => held.session = Session::Complete,
                // Nobody came: nothing is waited for any more, and that is all that is known.
                Session::Awaited | Session::Complete => {}
            }
            let gone = self.sweep(at);
            let name = self.held[at].as_ref().map(|held| held.source.name.clone());
            tracing::info!(
                route_source = name,
                routes = gone,
                "routes that were not said again go"
            );
        }
    }

    /// When [`tick`](Self::tick) has something to do.
    pub fn deadline(&self) -> Option<Duration> {
        let now = Instant::now();
        let deadlines = self.held.iter().flatten().filter_map(|held| held.deadline);
        deadlines.min().map(|deadline| deadline.saturating_duration_since(now))
    }

    /// Whether each of these route sources has said all that it has, or its time is over.
    pub fn is_complete(&self, route_sources: &[String]) -> bool {
        route_sources.iter().all(|name| {
            self.held.iter().flatten().any(|held| {
                held.source.name == *name
                    && (held.session == Session::Complete || held.deadline.is_none())
            })
        })
    }

    /// Takes out all that a route source has of a family.
    fn clear(&mut self, at: usize, is_ip4: bool, is_ip6: bool) {
        let Some(held) = &mut self.held[at] else { return };
        let (mut ip4, mut ip6) = (Vec::new(), Vec::new());
        if is_ip4 {
            held.ip4.mark();
            ip4 = held.ip4.sweep();
        }
        if is_ip6 {
            held.ip6.mark();
            ip6 = held.ip6.sweep();
        }
        // Nothing of a session that ended is left: there is nothing to wait for.
        if is_ip4 && is_ip6 && held.session == Session::Ended {
            held.deadline = None;
        }
        self.gone(at, ip4);
        self.gone(at, ip6);
    }

    /// Takes out what a route source has not said again.
    fn sweep(&mut self, at: usize) -> usize {
        let Some(held) = &mut self.held[at] else { return 0 };
        let (ip4, ip6) = (held.ip4.sweep(), held.ip6.sweep());
        let count = ip4.len() + ip6.len();
        self.gone(at, ip4);
        self.gone(at, ip6);
        count
    }

    /// Routes that a route source had are taken out of its prefixes already.
    fn gone<A: Family>(&mut self, at: usize, items: Vec<Item<A>>) {
        for item in items {
            self.moved(at, item.address, item.length, Some(item.group), None);
        }
    }

    fn update(&mut self, at: usize, update: &Update) {
        let group = update.target.as_ref().map(|target| {
            let sessions = self.held[at].as_ref().map_or(0, |held| held.sessions);
            let (id, is_new) = self.groups.of((at, sessions), update.protocol, target);
            if is_new {
                self.resolve_group(id, true);
            }
            id
        });
        self.run(at, group, update.ip4.iter().copied());
        let six = |(address, length): &(u128, u8)| {
            (<Six as super::prefixes::Address>::narrow(*address), *length)
        };
        self.run(at, group, update.ip6.iter().map(six));
        if let Some(id) = group
            && self.groups.get(id).is_some_and(|group| group.routes == 0)
        {
            self.idle.insert(id);
        }
    }

    /// Routes of one run.
    fn run<A: Family>(
        &mut self,
        at: usize,
        group: Option<u32>,
        prefixes: impl Iterator<Item = (A, u8)>,
    ) {
        for (address, length) in prefixes {
            let Some(held) = &mut self.held[at] else { return };
            if !is_prefix(address, length) {
                held.malformed += 1;
                continue;
            }
            let routes = A::of_mut(held);
            let old = match group {
                Some(group) => routes.insert(address, length, group),
                None => routes.remove(address, length),
            };
            if old != group {
                if let Some(group) = group {
                    self.groups.hold(group);
                }
                self.moved(at, address, length, old, group);
            }
        }
    }

    /// A route of a route source went from one group to another: tells who wins, if that changes.
    fn moved<A: Family>(
        &mut self,
        at: usize,
        address: A,
        length: u8,
        old: Option<u32>,
        new: Option<u32>,
    ) {
        let other = self.best_other(at, address, length);
        let (before, after) = (self.better(other, old), self.better(other, new));
        // What was told of a group that has flipped since is not what is reckoned here.
        let is_unsure = old.is_some_and(|old| self.flipped.contains(&old));
        if before != after || is_unsure {
            self.tell(at, address, length, after);
        }
        if let Some(old) = old
            && self.groups.release(old)
        {
            self.idle.insert(old);
        }
    }

    /// The configuration in force: what gateways lead through may have changed.
    pub fn configure(&mut self, configuration: &Arc<Configuration>) {
        if !self.desired.is_of(configuration) {
            self.desired = Desired::new(Arc::clone(configuration));
            self.take_static(configuration, Instant::now());
            self.is_moved = true;
        }
    }

    /// Brings everything into order that the last events have left: gateways, groups without routes. Call it
    /// before messages are sent.
    pub fn settle(&mut self) {
        self.resolve_moved();
        self.forget_idle();
        if self.out.close() {
            self.groups.close();
        }
    }

    fn forget_idle(&mut self) {
        let idle = std::mem::take(&mut self.idle);
        self.out.forget(self.groups.forget(idle));
    }

    /// Says everything anew, to a forwarder that begins or to whom the line was broken.
    pub fn say_all(&mut self) {
        self.settle();
        self.out.clear(false);
        self.out.begin();
        let hops: Vec<_> = self.groups.iter().map(|(id, group)| group.hop(id)).collect();
        hops.into_iter().for_each(|hop| self.out.hop(hop));
        for at in 0..self.held.len() {
            self.say_all_of::<u32>(at);
            self.say_all_of::<Six>(at);
        }
        self.out.close();
        self.groups.close();
    }

    /// In long runs that ascend: that is what a table is loaded with fastest.
    fn say_all_of<A: Family>(&mut self, at: usize) {
        let winners = self.winners_of::<A>(at);
        let usable = winners.filter(|item| self.groups.is_usable(item.group));
        let mut all: Vec<_> = usable.map(|it| (it.group, it.address, it.length)).collect();
        all.sort_unstable();
        for (group, address, length) in all {
            self.tell(at, address, length, Some(group));
        }
    }
}
