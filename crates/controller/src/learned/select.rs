//! Selects among the routes of several route sources to a prefix.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use stoa_api::v1;

use super::groups::Group;
use super::prefixes::{Ip6Words, Item};
use super::route_source::Source;
use super::statics::is_own;
use super::table::{Family, Table};
use crate::config::routes::VrfName;

/// Default preference of a protocol's routes: lower wins.
fn default_preference(protocol: v1::Protocol) -> u8 {
    match protocol {
        v1::Protocol::Direct => 0,
        v1::Protocol::Kernel => 5,
        v1::Protocol::Static => 10,
        v1::Protocol::Bgp => 20,
        v1::Protocol::Ospf => 110,
        v1::Protocol::Isis => 115,
        v1::Protocol::Rip => 120,
        v1::Protocol::Babel => 130,
        v1::Protocol::Other | v1::Protocol::Bird => 200,
    }
}

impl Table {
    pub(super) fn announce<A: Family>(
        &mut self,
        at: usize,
        address: A,
        length: u8,
        group: Option<u32>,
    ) {
        let Some(entry) = &self.sources[at] else { return };
        let vrf = &entry.source.vrf;
        self.messages.route(vrf, address, length, group.unwrap_or(0));
        self.changes += 1;
        self.needs_resolution |= self.tracked.covers_any(vrf, address, length);
    }

    /// The better of two groups for a prefix; unusable groups do not count.
    pub(super) fn better(&self, one: Option<u32>, two: Option<u32>) -> Option<u32> {
        let two = two.filter(|id| self.groups.is_usable(*id));
        match (one, two) {
            (Some(one), Some(two)) => {
                let is_two = self.rank(two) < self.rank(one);
                Some(if is_two { two } else { one })
            }
            (one, two) => one.or(two),
        }
    }

    /// Sort key: lower wins; static routes win among equals.
    fn rank(&self, id: u32) -> (u8, bool, usize) {
        let Some(group) = self.groups.get(id) else { return (u8::MAX, true, usize::MAX) };
        let source =
            self.sources.get(group.source).and_then(Option::as_ref).map(|entry| &entry.source);
        let is_daemon = source.is_none_or(|source| !is_own(source));
        (self.preference(group), is_daemon, group.source)
    }

    /// The preference of a group's routes, lower wins.
    pub(super) fn preference(&self, group: &Group) -> u8 {
        let source =
            self.sources.get(group.source).and_then(Option::as_ref).map(|entry| &entry.source);
        let preference = source.and_then(|source| source.preference);
        preference.unwrap_or(default_preference(group.protocol))
    }

    /// The best group of the VRF's other route sources for a prefix.
    pub(super) fn best_other<A: Family>(&self, at: usize, address: A, length: u8) -> Option<u32> {
        if self.sources.len() < 2 {
            return None;
        }
        let vrf = &self.sources[at].as_ref()?.source.vrf;
        let others = self.sources.iter().enumerate().filter(|(other, _)| *other != at);
        let others = others.filter_map(|(_, entry)| entry.as_ref());
        let others = others.filter(|entry| A::of(entry).len() > 0 && entry.source.vrf == *vrf);
        let theirs = others.filter_map(|entry| A::of(entry).get(address, length));
        theirs.fold(None, |best, group| self.better(best, Some(group)))
    }

    /// The group that wins a prefix of a VRF.
    pub(super) fn winner<A: Family>(&self, vrf: &VrfName, address: A, length: u8) -> Option<u32> {
        let entry = self.sources.iter().flatten().filter(|entry| entry.source.vrf == *vrf);
        let groups = entry.filter_map(|entry| A::of(entry).get(address, length));
        groups.fold(None, |best, group| self.better(best, Some(group)))
    }

    /// The winning routes of a route source, each prefix once.
    pub(super) fn winners_of<A: Family>(&self, at: usize) -> impl Iterator<Item = &Item<A>> {
        let entry = self.sources[at].as_ref();
        let wins = move |item: &&Item<A>| {
            let other = self.best_other(at, item.address, item.length);
            self.better(other, Some(item.group)) == Some(item.group)
        };
        entry.into_iter().flat_map(|entry| A::of(entry).iter()).filter(wins)
    }

    /// Applies a new preference and stale time to a route source.
    pub(super) fn reconfigure(&mut self, at: usize, preference: Option<u8>, stale_time: Duration) {
        let Some(entry) = &self.sources[at] else { return };
        if entry.source.preference == preference && entry.source.stale_time == stale_time {
            return;
        }
        let source = Source { preference, stale_time, ..Source::clone(&entry.source) };
        // A new stale time changes no winner, so the routes need not be examined.
        let is_weighed = entry.source.preference != preference;
        let before =
            is_weighed.then(|| (self.contested::<u32>(at), self.contested::<Ip6Words>(at)));
        if let Some(entry) = &mut self.sources[at] {
            entry.source = Arc::new(source);
        }
        let Some(before) = before else { return };
        self.reannounce(at, before.0);
        self.reannounce(at, before.1);
    }

    /// The winners of prefixes that the route source shares with others.
    fn contested<A: Family>(&self, at: usize) -> Vec<(A, u8, Option<u32>)> {
        let entry = self.sources[at].as_ref();
        let items = entry.into_iter().flat_map(|entry| A::of(entry).iter());
        let contested = items.filter_map(|item| {
            let other = self.best_other(at, item.address, item.length)?;
            Some((item.address, item.length, self.better(Some(other), Some(item.group))))
        });
        contested.collect()
    }

    /// Announces the winners of these prefixes that have changed.
    fn reannounce<A: Family>(&mut self, at: usize, before: Vec<(A, u8, Option<u32>)>) {
        for (address, length, before) in before {
            let own = self.sources[at].as_ref().and_then(|entry| A::of(entry).get(address, length));
            let after = self.better(self.best_other(at, address, length), own);
            if after != before {
                self.announce(at, address, length, after);
            }
        }
    }

    /// Selects again for all routes of these groups.
    pub(super) fn reselect(&mut self, groups: &BTreeSet<u32>) {
        for at in 0..self.sources.len() {
            self.reselect_of::<u32>(at, groups);
            self.reselect_of::<Ip6Words>(at, groups);
        }
    }

    fn reselect_of<A: Family>(&mut self, at: usize, groups: &BTreeSet<u32>) {
        let Some(entry) = &self.sources[at] else { return };
        let on = A::of(entry).iter().filter(|item| groups.contains(&item.group));
        let prefixes: Vec<(A, u8)> = on.map(|item| (item.address, item.length)).collect();
        let vrf = entry.source.vrf.clone();
        for (address, length) in prefixes {
            let winner = self.winner(&vrf, address, length);
            self.announce(at, address, length, winner);
        }
    }
}
