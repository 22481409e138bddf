//! A copy of a kernel table, as far as it decides forwarding: the route with the lowest metric of each
//! prefix, and its alternatives.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use stoa_api::v1;

use crate::linux::message::{NextHop, Prefix, Route, route};
use crate::linux::translate::KernelTarget;

/// The action of a route, owned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Action {
    NextHops(Vec<NextHop>),
    NextHopObject(u32),
    Special(i32),
}

/// One route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KernelRoute {
    metric: u32,
    /// Index of its [`Action`].
    action: u32,
    protocol: u8,
    /// The last dump that contained it.
    generation: u8,
    /// There are others with the same metric: only the kernel knows which one comes next.
    has_duplicate: bool,
}

/// The routes of one family.
#[derive(Debug)]
struct Family<K> {
    /// The best route of each prefix.
    best: HashMap<K, KernelRoute>,
    /// The others, by metric.
    others: HashMap<K, BTreeMap<u32, KernelRoute>>,
}

impl<K> Default for Family<K> {
    fn default() -> Self {
        Self { best: HashMap::new(), others: HashMap::new() }
    }
}

/// Interned actions with reference counts.
#[derive(Debug, Default)]
struct Actions {
    indices: HashMap<Action, u32>,
    /// Each action with its number of routes.
    actions: Vec<(Action, u32)>,
    free: Vec<u32>,
}

/// A copy of a kernel table.
#[derive(Debug, Default)]
pub struct Table {
    ip4: Family<(u32, u8)>,
    ip6: Family<(u128, u8)>,
    actions: Actions,
    generation: u8,
    is_ambiguous: bool,
    next_hops: Vec<NextHop>,
}

/// The best route of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BestRoute<'a> {
    /// Who added it: `rtm_protocol`.
    pub protocol: u8,
    /// Its action.
    pub meaning: KernelTarget<'a>,
}

/// How a route was observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observation {
    /// In a dump of all routes.
    Dumped,
    /// In a notification: added, or replaced the route with its metric.
    Added {
        /// `NLM_F_REPLACE`.
        replaces: bool,
    },
    /// In a notification: deleted.
    Deleted,
}

impl Actions {
    fn acquire(&mut self, action: Action) -> (u32, Option<Action>) {
        if let Some(index) = self.indices.get(&action) {
            self.actions[*index as usize].1 += 1;
            return (*index, Some(action));
        }
        let index = match self.free.pop() {
            Some(index) => {
                self.actions[index as usize] = (action.clone(), 1);
                index
            }
            None => {
                self.actions.push((action.clone(), 1));
                u32::try_from(self.actions.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.indices.insert(action, index);
        (index, None)
    }

    fn release(&mut self, index: u32) {
        let Some((action, users)) = self.actions.get_mut(index as usize) else { return };
        *users -= 1;
        if *users == 0 {
            self.indices.remove(action);
            *action = Action::NextHopObject(0);
            self.free.push(index);
        }
    }

    fn of(&self, index: u32) -> &Action {
        &self.actions[index as usize].0
    }

    fn next_hops(&self, index: u32) -> &[NextHop] {
        if let Action::NextHops(next_hops) = self.of(index) { next_hops } else { &[] }
    }
}

impl<K: Copy + Eq + Hash> Family<K> {
    fn find(&mut self, key: K, metric: u32) -> Option<&mut KernelRoute> {
        match self.best.get_mut(&key) {
            Some(best) if best.metric == metric => Some(best),
            _ => self.others.get_mut(&key)?.get_mut(&metric),
        }
    }

    /// Inserts a route with a metric that is new for the prefix. Returns whether it is the best now.
    fn insert(&mut self, key: K, new: KernelRoute) -> bool {
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

    /// Removes the route with a metric. Returns it, and whether it was the best.
    fn remove(&mut self, key: K, metric: u32) -> Option<(KernelRoute, bool)> {
        let best = *self.best.get(&key)?;
        let others = self.others.get_mut(&key);
        let removed = if best.metric == metric {
            match others.and_then(BTreeMap::pop_first) {
                Some((_, next)) => self.best.insert(key, next),
                None => self.best.remove(&key),
            }
            .map(|known| (known, true))
        } else {
            others?.remove(&metric).map(|known| (known, false))
        };
        if self.others.get(&key).is_some_and(BTreeMap::is_empty) {
            self.others.remove(&key);
        }
        removed
    }

    /// Keys and metrics of all routes that the last dump did not contain.
    fn not_in_generation(&self, generation: u8) -> Vec<(K, u32)> {
        let best = self.best.iter().filter(|(_, known)| known.generation != generation);
        let others =
            self.others.iter().flat_map(|(key, others)| others.values().map(move |it| (key, it)));
        best.chain(others.filter(|(_, it)| it.generation != generation))
            .map(|(key, it)| (*key, it.metric))
            .collect()
    }
}

impl Table {
    /// Begins a dump of the whole table.
    pub fn begin_dump(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.is_ambiguous = false;
    }

    /// Ends a complete dump: removes what it did not contain. Returns the prefixes whose best route changed.
    pub fn complete_dump(&mut self) -> Vec<Prefix> {
        let mut changed = Vec::new();
        for (key, metric) in self.ip4.not_in_generation(self.generation) {
            if let Some((known, was_best)) = self.ip4.remove(key, metric) {
                self.actions.release(known.action);
                changed.extend(was_best.then_some(of_ip4(key)));
            }
        }
        for (key, metric) in self.ip6.not_in_generation(self.generation) {
            if let Some((known, was_best)) = self.ip6.remove(key, metric) {
                self.actions.release(known.action);
                changed.extend(was_best.then_some(of_ip6(key)));
            }
        }
        changed
    }

    /// Whether the notifications leave the kernel's choice open, so that a resync is necessary.
    pub fn is_ambiguous(&self) -> bool {
        self.is_ambiguous
    }

    /// Number of prefixes.
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

    /// Processes an observed route. Returns whether the best route of its prefix, or its action, changed.
    pub fn observe(&mut self, route: &Route<'_>, observation: Observation) -> bool {
        let mut next_hops = std::mem::take(&mut self.next_hops);
        next_hops.clear();
        next_hops.extend(route.next_hops());
        // IPv6 siblings are reported in no particular order.
        next_hops.sort_unstable();
        let action = match route.action {
            route::Action::NextHopObject(id) => Action::NextHopObject(id),
            route::Action::Special(special) => Action::Special(special.into()),
            route::Action::NextHop(_) | route::Action::Multipath(_) => Action::NextHops(next_hops),
        };
        let prefix = route.prefix;
        let mut family = TableUpdate {
            actions: &mut self.actions,
            generation: self.generation,
            is_ambiguous: false,
        };
        let (is_changed, unused) = match u32::try_from(prefix.bits) {
            Ok(bits) if !prefix.is_ip6 => {
                family.observe(&mut self.ip4, (bits, prefix.length), route, action, observation)
            }
            _ => family.observe(
                &mut self.ip6,
                (prefix.bits, prefix.length),
                route,
                action,
                observation,
            ),
        };
        self.is_ambiguous |= family.is_ambiguous;
        // Reuse the buffer unless it was kept.
        if let Some(Action::NextHops(next_hops)) = unused {
            self.next_hops = next_hops;
        }
        is_changed
    }

    /// The best route to a prefix.
    pub fn best(&self, prefix: &Prefix) -> Option<BestRoute<'_>> {
        let known = match u32::try_from(prefix.bits) {
            Ok(bits) if !prefix.is_ip6 => self.ip4.best.get(&(bits, prefix.length)),
            _ => self.ip6.best.get(&(prefix.bits, prefix.length)),
        }?;
        let meaning = match self.actions.of(known.action) {
            Action::NextHops(next_hops) => KernelTarget::NextHops(next_hops),
            Action::NextHopObject(id) => KernelTarget::NextHopObject(*id),
            Action::Special(index) => KernelTarget::Special(
                v1::Special::try_from(*index).unwrap_or(v1::Special::Blackhole),
            ),
        };
        Some(BestRoute { protocol: known.protocol, meaning })
    }
}

fn of_ip4((bits, length): (u32, u8)) -> Prefix {
    Prefix { is_ip6: false, bits: bits.into(), length }
}

fn of_ip6((bits, length): (u128, u8)) -> Prefix {
    Prefix { is_ip6: true, bits, length }
}

/// The insertion of one route into a family.
struct TableUpdate<'a> {
    actions: &'a mut Actions,
    generation: u8,
    is_ambiguous: bool,
}

impl TableUpdate<'_> {
    /// Returns whether the best route changed, and the action if it was not kept.
    fn observe<K: Copy + Eq + Hash>(
        &mut self,
        family: &mut Family<K>,
        key: K,
        route: &Route<'_>,
        action: Action,
        observation: Observation,
    ) -> (bool, Option<Action>) {
        if observation == Observation::Deleted {
            return self.deleted(family, key, route, action);
        }
        let best = family.best.get(&key).map(|best| best.metric);
        let Some(known) = family.find(key, route.metric) else {
            let (index, unused) = self.actions.acquire(action);
            let new = KernelRoute {
                metric: route.metric,
                action: index,
                protocol: route.protocol,
                generation: self.generation,
                has_duplicate: false,
            };
            return (family.insert(key, new), unused);
        };
        let is_same = *self.actions.of(known.action) == action && known.protocol == route.protocol;
        let was_dumped = observation == Observation::Dumped && known.generation == self.generation;
        if is_same && !was_dumped {
            known.generation = self.generation;
            known.has_duplicate &= observation != Observation::Dumped;
            return (false, Some(action));
        }
        // Several routes may have the same prefix and metric (`ip route append`, fe80::/64 of each device);
        // the first one of the dump is used. IPv6 next hops with gateways form one route and are reported
        // together.
        let stands_alone = !route.prefix.is_ip6
            || matches!(&action, Action::NextHops(next_hops) if next_hops.iter().all(|next_hop| next_hop.gateway.is_none()));
        if was_dumped || stands_alone && observation == (Observation::Added { replaces: false }) {
            known.has_duplicate = true;
            self.is_ambiguous |= observation != Observation::Dumped;
            return (false, Some(action));
        }
        let (index, unused) = self.actions.acquire(action);
        self.actions.release(std::mem::replace(&mut known.action, index));
        known.protocol = route.protocol;
        known.generation = self.generation;
        known.has_duplicate &= observation != Observation::Dumped;
        (best == Some(route.metric), unused)
    }

    fn deleted<K: Copy + Eq + Hash>(
        &mut self,
        family: &mut Family<K>,
        key: K,
        route: &Route<'_>,
        action: Action,
    ) -> (bool, Option<Action>) {
        let best = family.best.get(&key).map(|best| best.metric);
        let Some(known) = family.find(key, route.metric) else { return (false, Some(action)) };
        if known.has_duplicate {
            self.is_ambiguous = true;
            return (false, Some(action));
        }
        // IPv6: one of several next hops is deleted, the others remain.
        if let Action::NextHops(deleted) = &action
            && route.prefix.is_ip6
        {
            let is_gone = |next_hop: &&NextHop| {
                deleted
                    .iter()
                    .any(|it| (it.device, it.gateway) == (next_hop.device, next_hop.gateway))
            };
            let known_hops = self.actions.next_hops(known.action);
            let remaining: Vec<NextHop> =
                known_hops.iter().filter(|next_hop| !is_gone(next_hop)).copied().collect();
            if !remaining.is_empty() && remaining.len() < known_hops.len() {
                let (index, _) = self.actions.acquire(Action::NextHops(remaining));
                self.actions.release(std::mem::replace(&mut known.action, index));
                return (best == Some(route.metric), Some(action));
            }
        }
        let Some((known, was_best)) = family.remove(key, route.metric) else {
            return (false, Some(action));
        };
        self.actions.release(known.action);
        (was_best, Some(action))
    }
}

#[cfg(test)]
mod tests;
