//! Sessions of route sources: when a daemon that restarted has announced its routes again, and when the routes that it
//! has not announced again are removed.
//!
//! BGP daemons mark the end of their announcements (End-of-RIB), zebra goes quiet. Neither is enough: a restarted
//! daemon does so while it waits for its own neighbours. The table knows which routes were announced again, each once,
//! so it compares them with those that it held when the session began. It does so by family, because one may arrive
//! long before the other, and by protocol, because each has a daemon of its own behind zebra.

use std::time::{Duration, Instant};

use super::announcements::{Announcements, Counts, covers};
use super::prefixes::Ip6Words;
use super::statistics::Session;
use super::table::{Family, SourceEntry, Table};

/// After the end was marked, nine tenths of the earlier routes are enough when no route arrives for this time.
const SETTLE_TIME: Duration = Duration::from_secs(2);
/// Minimum interval between comparisons while routes arrive.
const COMPARISON_INTERVAL: Duration = Duration::from_secs(1);

impl Table {
    /// The routes of one family of a route source, by protocol. `is_all`: stale ones too.
    pub(super) fn by_protocol<A: Family>(&self, entry: &SourceEntry, is_all: bool) -> Counts {
        let mut counts = Counts::new();
        let items = A::of(entry).iter().filter(|item| is_all || item.is_fresh());
        for group in items.filter_map(|item| self.groups.get(item.group)) {
            *counts.entry(group.protocol.into()).or_default() += 1;
        }
        counts
    }

    /// A session began: all routes are stale until they are announced again.
    pub(super) fn start_session(&mut self, at: usize, now: Instant) {
        let Some(entry) = &self.sources[at] else { return };
        let before4 = self.by_protocol::<u32>(entry, true);
        let before6 = self.by_protocol::<Ip6Words>(entry, true);
        let Some(entry) = &mut self.sources[at] else { return };
        entry.mark();
        entry.announcements4 = Announcements { before: before4, ..Announcements::default() };
        entry.announcements6 = Announcements { before: before6, ..Announcements::default() };
        // A restarted daemon reuses group numbers: stale routes keep the targets that the old numbers had.
        entry.group_targets.clear();
        entry.sessions += 1;
        entry.is_presumed_complete = false;
        (entry.session, entry.deadline) = (Session::Begun, Some(now + entry.source.stale_time));
    }

    /// A session ended: its routes are stale, and are kept until the deadline.
    pub(super) fn end_session(&mut self, at: usize, now: Instant) {
        let Some(entry) = &mut self.sources[at] else { return };
        entry.mark();
        entry.stop_waiting();
        // The stale time may have changed since the route source was opened.
        let deadline = now + entry.source.stale_time;
        (entry.session, entry.deadline) = (Session::Ended, Some(deadline));
    }

    /// The route source has announced exactly what exists.
    pub(super) fn complete_session(&mut self, at: usize) {
        self.sweep(at);
        let Some(entry) = &mut self.sources[at] else { return };
        entry.stop_waiting();
        entry.is_presumed_complete = false;
        (entry.session, entry.deadline) = (Session::Complete, None);
    }

    /// The daemon has marked the end of its announcements of these families.
    pub(super) fn end_of_rib(&mut self, at: usize, ip4: bool, ip6: bool, now: Instant) {
        if let Some(entry) = &mut self.sources[at] {
            entry.announcements4.has_ended |= ip4;
            entry.announcements6.has_ended |= ip6;
        }
        self.compare::<u32>(at, now, false);
        self.compare::<Ip6Words>(at, now, false);
    }

    /// Routes were announced: they may have been the last ones.
    pub(super) fn routes_announced(&mut self, at: usize, now: Instant) {
        self.routes_announced_of::<u32>(at, now);
        self.routes_announced_of::<Ip6Words>(at, now);
    }

    fn routes_announced_of<A: Family>(&mut self, at: usize, now: Instant) {
        let Some(entry) = &mut self.sources[at] else { return };
        let stale = A::of(entry).stale();
        let announcements = A::announcements_mut(entry);
        if !announcements.has_ended || announcements.is_complete {
            return;
        }
        announcements.settle_deadline = Some(now + SETTLE_TIME);
        let is_due = announcements.next_comparison.is_none_or(|next| now >= next);
        if stale == 0 || is_due {
            self.compare::<A>(at, now, false);
        }
    }

    /// Compares the announced routes of a family with the earlier ones, and removes the others if they are enough.
    fn compare<A: Family>(&mut self, at: usize, now: Instant, has_settled: bool) {
        let Some(entry) = &self.sources[at] else { return };
        let announcements = A::announcements(entry);
        if announcements.is_complete || !announcements.has_ended {
            return;
        }
        let is_enough = A::of(entry).stale() == 0
            || covers(&self.by_protocol::<A>(entry, false), &announcements.before, has_settled);
        let Some(entry) = &mut self.sources[at] else { return };
        if is_enough {
            *A::announcements_mut(entry) = Announcements::completed();
            let name = entry.source.name.clone();
            let removed = self.sweep_of::<A>(at);
            let routes = self.sources[at].as_ref().map_or(0, |entry| A::of(entry).len());
            let family = if A::BITS == 32 { "IPv4" } else { "IPv6" };
            tracing::info!(
                route_source = name,
                routes,
                removed,
                "the daemon has announced its {family} routes"
            );
            return self.complete_if_all(at);
        }
        let announcements = A::announcements_mut(entry);
        announcements.settle_deadline = (!has_settled).then_some(now + SETTLE_TIME);
        announcements.next_comparison = Some(now + COMPARISON_INTERVAL);
    }

    /// Completes the session once both families are.
    fn complete_if_all(&mut self, at: usize) {
        let Some(entry) = &mut self.sources[at] else { return };
        if entry.announcements4.is_complete
            && entry.announcements6.is_complete
            && entry.session == Session::Begun
        {
            // Routes that the previous controller left behind are yet to be compared.
            entry.is_presumed_complete = true;
            (entry.session, entry.deadline) = (Session::Complete, None);
        }
    }

    /// Handles expired deadlines: removes the stale routes of those route sources.
    pub fn tick(&mut self, now: Instant) {
        for at in 0..self.sources.len() {
            self.settle_announcements::<u32>(at, now);
            self.settle_announcements::<Ip6Words>(at, now);
            let Some(entry) = &mut self.sources[at] else { continue };
            if entry.deadline.is_none_or(|deadline| deadline > now) {
                continue;
            }
            entry.deadline = None;
            entry.stop_waiting();
            match entry.session {
                Session::Ended => entry.mark(),
                Session::Begun => entry.session = Session::Complete,
                // The daemon did not connect: there is nothing more to wait for.
                Session::Awaited | Session::Complete => {}
            }
            let name = entry.source.name.clone();
            let routes = self.sweep(at);
            if routes > 0 {
                tracing::warn!(
                    route_source = name,
                    routes,
                    "the stale-time is over: removed routes that were not announced again"
                );
            }
        }
    }

    fn settle_announcements<A: Family>(&mut self, at: usize, now: Instant) {
        let Some(entry) = &self.sources[at] else { return };
        if A::announcements(entry).settle_deadline.is_some_and(|deadline| deadline <= now) {
            self.compare::<A>(at, now, true);
        }
    }

    /// Time until [`tick`](Self::tick) is due.
    pub fn deadline(&self) -> Option<Duration> {
        let now = Instant::now();
        let deadlines = self.sources.iter().flatten().flat_map(|entry| {
            let (ip4, ip6) = (&entry.announcements4, &entry.announcements6);
            [entry.deadline, ip4.settle_deadline, ip6.settle_deadline]
        });
        deadlines.flatten().min().map(|deadline| deadline.saturating_duration_since(now))
    }

    /// Whether each of these route sources is complete or its deadline has expired.
    pub fn is_complete(&self, route_sources: &[String]) -> bool {
        route_sources.iter().all(|name| {
            self.sources.iter().flatten().any(|entry| {
                entry.source.name == *name
                    && (entry.session == Session::Complete || entry.deadline.is_none())
            })
        })
    }

    /// Removes all routes of a route source and family.
    pub(super) fn clear(&mut self, at: usize, is_ip4: bool, is_ip6: bool) {
        let Some(entry) = &mut self.sources[at] else { return };
        if is_ip4 {
            entry.ip4.mark();
        }
        if is_ip6 {
            entry.ip6.mark();
        }
        // Nothing of the ended session is left to wait for.
        if is_ip4 && is_ip6 && entry.session == Session::Ended {
            entry.deadline = None;
        }
        if is_ip4 {
            self.sweep_of::<u32>(at);
        }
        if is_ip6 {
            self.sweep_of::<Ip6Words>(at);
        }
    }

    /// Removes the stale routes of a route source; returns their number.
    pub(super) fn sweep(&mut self, at: usize) -> usize {
        self.sweep_of::<u32>(at) + self.sweep_of::<Ip6Words>(at)
    }

    fn sweep_of<A: Family>(&mut self, at: usize) -> usize {
        let Some(entry) = &mut self.sources[at] else { return 0 };
        let items = A::of_mut(entry).sweep();
        let count = items.len();
        self.withdraw(at, items);
        count
    }
}

impl SourceEntry {
    /// Marks all routes as stale.
    fn mark(&mut self) {
        self.ip4.mark();
        self.ip6.mark();
    }

    /// No announcement of the session is waited for any more.
    fn stop_waiting(&mut self) {
        self.announcements4 = Announcements::completed();
        self.announcements6 = Announcements::completed();
    }
}
