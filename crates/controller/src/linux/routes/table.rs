//! What a kernel table holds, as far as it decides where packets go: for each prefix the route with the least metric, and the
//! others in case it goes.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use stoa_api::v1;

use crate::linux::message::{Prefix, Route, Way, route};
use crate::linux::translate::Meaning;

/// What a route does, as memory of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Action {
    Ways(Vec<Way>),
    NextHop(u32),
    Special(i32),
}

/// One route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    metric: u32,
    /// Number of its [`Action`].
    action: u32,
    protocol: u8,
    /// The look at the whole table that saw it last.
    look: u8,
    /// There are others of the same metric behind it: which of them comes next, only the kernel knows.
    has_twin: bool,
}

/// The routes of one family.
#[derive(Debug)]
struct Family<K> {
    /// The best one of each prefix.
    best: HashMap<K, Held>,
    /// The others, by metric.
    others: HashMap<K, BTreeMap<u32, Held>>,
}

impl<K> Default for Family<K> {
    fn default() -> Self {
        Self { best: HashMap::new(), others: HashMap::new() }
    }
}

/// Actions by number, each kept while a route does it.
#[derive(Debug, Default)]
struct Actions {
    numbers: HashMap<Action, u32>,
    /// With the number of routes that do it.
    actions: Vec<(Action, u32)>,
    free: Vec<u32>,
}

/// A kernel table.
#[derive(Debug, Default)]
pub struct Table {
    ip4: Family<(u32, u8)>,
    ip6: Family<(u128, u8)>,
    actions: Actions,
    look: u8,
    is_unsure: bool,
    ways: Vec<Way>,
}

/// What a prefix's best route does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Best<'a> {
    /// Who has put it there: `rtm_protocol`.
    pub protocol: u8,
    /// What it does.
    pub meaning: Meaning<'a>,
}

/// How a route was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// In the list of all routes.
    Listed,
    /// As news: it was added, or took the place of the one of its metric.
    Added {
        /// `NLM_F_REPLACE`.
        replaces: bool,
    },
    /// As news: it went.
    Gone,
}

impl Actions {
    fn take(&mut self, action: Action) -> (u32, Option<Action>) {
        if let Some(number) = self.numbers.get(&action) {
            self.actions[*number as usize].1 += 1;
            return (*number, Some(action));
        }
        let number = match self.free.pop() {
            Some(number) => {
                self.actions[number as usize] = (action.clone(), 1);
                number
            }
            None => {
                self.actions.push((action.clone(), 1));
                u32::try_from(self.actions.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.numbers.insert(action, number);
        (number, None)
    }

    fn give(&mut self, number: u32) {
        let Some((action, users)) = self.actions.get_mut(number as usize) else { return };
        *users -= 1;
        if *users == 0 {
            self.numbers.remove(action);
            *action = Action::NextHop(0);
            self.free.push(number);
        }
    }

    fn of(&self, number: u32) -> &Action {
        &self.actions[number as usize].0
    }

    fn ways(&self, number: u32) -> &[Way] {
        if let Action::Ways(ways) = self.of(number) { ways } else { &[] }
    }
}

impl<K: Copy + Eq + Hash> Family<K> {
    fn find(&mut self, key: K, metric: u32) -> Option<&mut Held> {
        match self.best.get_mut(&key) {
            Some(best) if best.metric == metric => Some(best),
            _ => self.others.get_mut(&key)?.get_mut(&metric),
        }
    }

    /// Puts in a route of a metric that the prefix has not. Gives whether it is the best now.
    fn insert(&mut self, key: K, new: Held) -> bool {
        match self.best.get_mut(&key) {
            None => {
                self.best.insert(key, new);
                true
            }
            Some(best) => {
                let is_better = new.metric < best.metric;
                let other = if is_better { std::mem::replace(best, new) } else { new };
                self.others.entry(key).or_default().insert(other.metric, other);
                is_better
            }
        }
    }

    /// Takes out the route of a metric. Gives it, and whether it was the best.
    fn remove(&mut self, key: K, metric: u32) -> Option<(Held, bool)> {
        let best = *self.best.get(&key)?;
        let others = self.others.get_mut(&key);
        let removed = if best.metric == metric {
            match others.and_then(BTreeMap::pop_first) {
                Some((_, next)) => self.best.insert(key, next),
                None => self.best.remove(&key),
            }
            .map(|held| (held, true))
        } else {
            others?.remove(&metric).map(|held| (held, false))
        };
        if self.others.get(&key).is_some_and(BTreeMap::is_empty) {
            self.others.remove(&key);
        }
        removed
    }

    /// Keys and metrics of all that the last look did not see.
    fn unseen(&self, look: u8) -> Vec<(K, u32)> {
        let best = self.best.iter().filter(|(_, held)| held.look != look);
        let others =
            self.others.iter().flat_map(|(key, others)| others.values().map(move |it| (key, it)));
        best.chain(others.filter(|(_, it)| it.look != look))
            .map(|(key, it)| (*key, it.metric))
            .collect()
    }
}

impl Table {
    /// A look at the whole table begins.
    pub fn begin(&mut self) {
        self.look = self.look.wrapping_add(1);
        self.is_unsure = false;
    }

    /// A whole look ended: what it did not see is gone. Gives the prefixes whose best route is another one.
    pub fn complete(&mut self) -> Vec<Prefix> {
        let mut changed = Vec::new();
        for (key, metric) in self.ip4.unseen(self.look) {
            if let Some((held, was_best)) = self.ip4.remove(key, metric) {
                self.actions.give(held.action);
                changed.extend(was_best.then_some(of_ip4(key)));
            }
        }
        for (key, metric) in self.ip6.unseen(self.look) {
            if let Some((held, was_best)) = self.ip6.remove(key, metric) {
                self.actions.give(held.action);
                changed.extend(was_best.then_some(of_ip6(key)));
            }
        }
        changed
    }

    /// Whether what was told leaves open what the kernel does: everything has to be looked at again.
    pub fn is_unsure(&self) -> bool {
        self.is_unsure
    }

    /// Routes: prefixes.
    pub fn len(&self) -> usize {
        self.ip4.best.len() + self.ip6.best.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All prefixes.
    pub fn prefixes(&self) -> Vec<Prefix> {
        let ip4 = self.ip4.best.keys().map(|key| of_ip4(*key));
        ip4.chain(self.ip6.best.keys().map(|key| of_ip6(*key))).collect()
    }

    /// Takes what was told of a route. Gives whether the best one of its prefix is another one now, or does another thing.
    pub fn take(&mut self, route: &Route<'_>, told: Told) -> bool {
        let mut ways = std::mem::take(&mut self.ways);
        ways.clear();
        ways.extend(route.ways());
        // Siblings of IPv6 are told in no order.
        ways.sort_unstable();
        let action = match route.action {
            route::Action::NextHop(id) => Action::NextHop(id),
            route::Action::Special(special) => Action::Special(special.into()),
            route::Action::Way(_) | route::Action::Ways(_) => Action::Ways(ways),
        };
        let prefix = route.prefix;
        let mut family = Taking { actions: &mut self.actions, look: self.look, is_unsure: false };
        let (is_changed, left) = match u32::try_from(prefix.bits) {
            Ok(bits) if !prefix.is_ip6 => {
                family.take(&mut self.ip4, (bits, prefix.length), route, action, told)
            }
            _ => family.take(&mut self.ip6, (prefix.bits, prefix.length), route, action, told),
        };
        self.is_unsure |= family.is_unsure;
        // The memory is used again, if it was not kept.
        if let Some(Action::Ways(ways)) = left {
            self.ways = ways;
        }
        is_changed
    }

    /// The best route to a prefix.
    pub fn best(&self, prefix: &Prefix) -> Option<Best<'_>> {
        let held = match u32::try_from(prefix.bits) {
            Ok(bits) if !prefix.is_ip6 => self.ip4.best.get(&(bits, prefix.length)),
            _ => self.ip6.best.get(&(prefix.bits, prefix.length)),
        }?;
        let meaning = match self.actions.of(held.action) {
            Action::Ways(ways) => Meaning::Ways(ways),
            Action::NextHop(id) => Meaning::NextHop(*id),
            Action::Special(number) => {
                Meaning::Special(v1::Special::try_from(*number).unwrap_or(v1::Special::Blackhole))
            }
        };
        Some(Best { protocol: held.protocol, meaning })
    }
}

fn of_ip4((bits, length): (u32, u8)) -> Prefix {
    Prefix { is_ip6: false, bits: bits.into(), length }
}

fn of_ip6((bits, length): (u128, u8)) -> Prefix {
    Prefix { is_ip6: true, bits, length }
}

/// One route on its way into a family.
struct Taking<'a> {
    actions: &'a mut Actions,
    look: u8,
    is_unsure: bool,
}

impl Taking<'_> {
    /// Gives whether the best route changed, and the action when it was not kept.
    fn take<K: Copy + Eq + Hash>(
        &mut self,
        family: &mut Family<K>,
        key: K,
        route: &Route<'_>,
        action: Action,
        told: Told,
    ) -> (bool, Option<Action>) {
        if told == Told::Gone {
            return self.gone(family, key, route, action);
        }
        let best = family.best.get(&key).map(|best| best.metric);
        let Some(held) = family.find(key, route.metric) else {
            let (number, left) = self.actions.take(action);
            let new = Held {
                metric: route.metric,
                action: number,
                protocol: route.protocol,
                look: self.look,
                has_twin: false,
            };
            return (family.insert(key, new), left);
        };
        let is_same = *self.actions.of(held.action) == action && held.protocol == route.protocol;
        let was_seen = told == Told::Listed && held.look == self.look;
        if is_same && !was_seen {
            held.look = self.look;
            held.has_twin &= told != Told::Listed;
            return (false, Some(action));
        }
        // There may be several routes of one prefix and metric (`ip route append`, fe80::/64 of each device); the first of the list is used.
        // Ways of IPv6 that have gateways are one route, and told together.
        let stands_alone = !route.prefix.is_ip6
            || matches!(&action, Action::Ways(ways) if ways.iter().all(|way| way.gateway.is_none()));
        if was_seen || stands_alone && told == (Told::Added { replaces: false }) {
            held.has_twin = true;
            self.is_unsure |= told != Told::Listed;
            return (false, Some(action));
        }
        let (number, left) = self.actions.take(action);
        self.actions.give(std::mem::replace(&mut held.action, number));
        held.protocol = route.protocol;
        held.look = self.look;
        held.has_twin &= told != Told::Listed;
        (best == Some(route.metric), left)
    }

    fn gone<K: Copy + Eq + Hash>(
        &mut self,
        family: &mut Family<K>,
        key: K,
        route: &Route<'_>,
        action: Action,
    ) -> (bool, Option<Action>) {
        let best = family.best.get(&key).map(|best| best.metric);
        let Some(held) = family.find(key, route.metric) else { return (false, Some(action)) };
        if held.has_twin {
            self.is_unsure = true;
            return (false, Some(action));
        }
        // One way of several goes from a route of IPv6, and the others stay.
        if let Action::Ways(gone) = &action
            && route.prefix.is_ip6
        {
            let is_gone = |way: &&Way| {
                gone.iter().any(|it| (it.device, it.gateway) == (way.device, way.gateway))
            };
            let there = self.actions.ways(held.action);
            let stay: Vec<Way> = there.iter().filter(|way| !is_gone(way)).copied().collect();
            if !stay.is_empty() && stay.len() < there.len() {
                let (number, _) = self.actions.take(Action::Ways(stay));
                self.actions.give(std::mem::replace(&mut held.action, number));
                return (best == Some(route.metric), Some(action));
            }
        }
        let Some((held, was_best)) = family.remove(key, route.metric) else {
            return (false, Some(action));
        };
        self.actions.give(held.action);
        (was_best, Some(action))
    }
}

#[cfg(test)]
mod tests;
