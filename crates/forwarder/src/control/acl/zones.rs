//! Zones: the numbers that interfaces have of them, and what workers find between two numbers.
//!
//! A change makes new zones and their pairs known first (`prepare`). Then interfaces get their numbers, and only then
//! other pairs apply and the numbers of zones that are gone are unknown (`apply`). While some interface is in a zone,
//! all of them have the features: a packet from a zone must not leave by an interface of none.

mod cookies;
mod listing;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use stoa_api::zones::ROUTER as ROUTER_NAME;

use super::{AccessListState, Set};
use crate::acl::hits::{HitTable, Hits};
use crate::acl::zones::{FIRST, LOCAL_NODES, NO_ZONE, OUTPUT_NODES, Pair, ROUTER, Zones};
use crate::control::apply::ApplyError;
use crate::control::capability::Step;
use crate::control::desired::{ZonePair, ZonePairKey};
use crate::control::forwarder_state::ForwarderState;

/// A pair with the lists of both families.
#[derive(Clone, Debug)]
struct PairState {
    id: u32,
    sets: [Set; 2],
    unmatched: Arc<Hits>,
}

/// The zones in force.
#[derive(Default)]
pub(super) struct ZoneState {
    /// The numbers of zones.
    numbers: BTreeMap<String, u8>,
    /// The number that was given last: one that is free again is given as late as possible.
    last: u8,
    /// Zones that the change being applied has brought.
    fresh: BTreeSet<String>,
    pairs: BTreeMap<ZonePairKey, PairState>,
    /// The pairs of the change that is being applied, if it touches any.
    new_pairs: Option<BTreeMap<ZonePairKey, PairState>>,
    /// Pairs that the change has removed: they get their counters back if it is taken back.
    replaced: BTreeMap<ZonePairKey, PairState>,
    /// In place of a pair where there is none.
    unpaired: Option<PairState>,
    /// The zone of each interface that is in one.
    members: BTreeMap<u32, String>,
    /// Zones with a pair to the router.
    to_router: BTreeSet<String>,
    /// Whether some interface shall be in a zone, and whether all have the features.
    is_wanted: bool,
    is_on: bool,
    /// What workers have.
    published: Option<Arc<Zones>>,
    cookies: cookies::CookieState,
}

/// What a change of zones has done.
#[derive(Clone, Copy, Default)]
pub(super) struct Applied {
    /// Workers need to know of it.
    pub(super) is_any: bool,
    /// Flows are judged anew.
    pub(super) is_changed: bool,
}

impl ZoneState {
    /// The change cannot be taken back any more.
    pub(super) fn done(&mut self) {
        self.replaced.clear();
    }

    /// An interface was removed; whether it was in a zone.
    pub(super) fn remove_member(&mut self, index: u32) -> bool {
        self.members.remove(&index).is_some()
    }

    /// The sets that pairs have.
    pub(super) fn sets(&self) -> impl Iterator<Item = &Set> {
        let unpaired = self.unpaired.iter().filter(|_| self.is_wanted || self.is_on);
        self.pairs.values().chain(unpaired).flat_map(|pair| &pair.sets)
    }

    /// Both zones of the pair with this number.
    pub(super) fn key_of(&self, id: u32) -> Option<&ZonePairKey> {
        self.pairs.iter().find(|(_, pair)| pair.id == id).map(|(key, _)| key)
    }

    /// The name of the zone of an interface.
    pub(super) fn zone_of(&self, index: u32) -> Option<&str> {
        self.members.get(&index).map(String::as_str)
    }

    /// The lists of a family from one zone to another, if there is such a pair.
    pub(super) fn lists_between(&self, (from, to): (&str, &str), is_ip4: bool) -> Option<&Set> {
        let pair = self.pairs.get(&(from.to_owned(), to.to_owned()))?;
        pair.sets.iter().find(|set| set.is_ip4 == is_ip4)
    }

    /// Whether interfaces have the features of zones, or are about to.
    pub(super) fn has_features(&self) -> bool {
        self.is_wanted || self.is_on
    }

    /// The number of a zone of the configuration; `None`: there is no such zone.
    fn number(&self, zone: &str) -> Option<u8> {
        if zone == ROUTER_NAME { Some(ROUTER) } else { self.numbers.get(zone).copied() }
    }

    fn add_number(&mut self, zone: &str) {
        // There are fewer zones than numbers.
        for _ in FIRST..=u8::MAX {
            self.last = self.last.checked_add(1).unwrap_or(FIRST).max(FIRST);
            if self.numbers.values().all(|number| *number != self.last) {
                self.numbers.insert(zone.to_owned(), self.last);
                self.fresh.insert(zone.to_owned());
                return;
            }
        }
    }

    /// The pairs that apply now. Between a new zone and others, those of the change.
    fn in_effect(&self) -> Vec<(&ZonePairKey, &PairState, bool)> {
        let is_fresh =
            |key: &ZonePairKey| self.fresh.contains(&key.0) || self.fresh.contains(&key.1);
        let Some(new) = &self.new_pairs else {
            return self.pairs.iter().map(|(key, pair)| (key, pair, false)).collect();
        };
        let old = self.pairs.iter().filter(|(key, _)| !is_fresh(key));
        let new = new.iter().filter(|(key, _)| is_fresh(key));
        let old = old.map(|(key, pair)| (key, pair, false));
        old.chain(new.map(|(key, pair)| (key, pair, true))).collect()
    }

    /// Whether packets of a zone to the router meet lists, now or with the change.
    fn is_to_router(&self, zone: &str) -> bool {
        let key = (zone.to_owned(), ROUTER_NAME.to_owned());
        self.pairs.contains_key(&key)
            || self.new_pairs.as_ref().is_some_and(|pairs| pairs.contains_key(&key))
    }

    /// Takes the pairs of the change as those in force.
    fn take_new_pairs(&mut self) -> Applied {
        let Some(new) = self.new_pairs.take() else { return Applied::default() };
        let former = std::mem::replace(&mut self.pairs, new);
        let is_same = former.len() == self.pairs.len()
            && former.iter().zip(&self.pairs).all(|((key, old), (other, new))| {
                (key, old.id, &old.sets) == (other, new.id, &new.sets)
            });
        for (key, pair) in former {
            if !self.pairs.contains_key(&key) {
                self.replaced.entry(key).or_insert(pair);
            }
        }
        Applied { is_any: true, is_changed: !is_same }
    }

    /// The zone of an interface; whether it is another one than before.
    fn set_member(&mut self, index: u32, zone: &str) -> bool {
        if self.members.get(&index).map_or("", String::as_str) == zone {
            return false;
        }
        match zone {
            "" => drop(self.members.remove(&index)),
            zone => drop(self.members.insert(index, zone.to_owned())),
        }
        true
    }
}

impl AccessListState {
    /// A number for a classifier or a pair.
    pub(super) fn next_id(&mut self) -> u32 {
        self.last_id = self.last_id.wrapping_add(1).max(1);
        self.last_id
    }

    /// Whether lists decide about packets that interfaces send. Without a pair zones do so, too.
    pub(super) fn decides_outputs(&self) -> bool {
        self.zones.is_on || !self.outputs.is_empty()
    }

    fn pair(&mut self, [four, six]: [&[String]; 2], table: &Arc<HitTable>) -> PairState {
        let sets = [Set::new(true, four), Set::new(false, six)];
        PairState { id: self.next_id(), sets, unmatched: Arc::new(Hits::new(table)) }
    }

    /// The state of a pair of the change. One that stays keeps its number and counters.
    fn new_pair(&mut self, key: &ZonePairKey, pair: &ZonePair, table: &Arc<HitTable>) -> PairState {
        let former = self.zones.pairs.get(key).or_else(|| self.zones.replaced.get(key)).cloned();
        let sets = [Set::new(true, &pair.acls4), Set::new(false, &pair.acls6)];
        match former {
            Some(former) => PairState { sets, ..former },
            None => self.pair([&pair.acls4, &pair.acls6], table),
        }
    }

    /// A pair as workers need it.
    fn compiled_pair(&self, pair: &PairState, is_new: bool) -> Option<Pair> {
        let [four, six] = pair.sets.each_ref().map(|set| {
            let new = self.new_sets.get(set);
            let held = self.sets.get(set);
            if is_new { new.or(held) } else { held.or(new) }.cloned()
        });
        Some(Pair { id: pair.id, four: four?, six: six?, unmatched: pair.unmatched.clone() })
    }

    /// The zones for the workers.
    pub(super) fn publish_zones(&mut self) -> Option<Arc<Zones>> {
        let zones = &self.zones;
        let unpaired = zones.unpaired.as_ref().filter(|_| zones.has_features());
        let made = unpaired.and_then(|it| self.compiled_pair(it, false)).map(|unpaired| {
            let mut pairs = BTreeMap::new();
            for ((from, to), pair, is_new) in zones.in_effect() {
                let numbers = (zones.number(from), zones.number(to));
                let (Some(from), Some(to)) = numbers else { continue };
                pairs.extend(self.compiled_pair(pair, is_new).map(|pair| ((from, to), pair)));
            }
            let numbers: Vec<u8> = zones.numbers.values().copied().collect();
            Arc::new(Zones::of(&numbers, unpaired.id, |from, to| {
                let otherwise = (from != ROUTER && to != ROUTER).then_some(&unpaired);
                pairs.get(&(from, to)).or(otherwise)
            }))
        });
        self.zones.published.clone_from(&made);
        made
    }
}

impl ForwarderState {
    /// Gives numbers to new zones, and reads the pairs of a change. Whether workers need to know of them.
    pub(super) fn prepare_zones(&mut self, step: &Step<'_>) -> bool {
        let (desired, touched, hits) = (step.desired(), step.touched, &self.shared.hits);
        let acls = &mut self.capabilities.acl;
        acls.zones.fresh.clear();
        if touched.interfaces.is_empty() && touched.zone_pairs.is_empty() {
            return false;
        }
        acls.zones.is_wanted = step.held.references().zones().next().is_some();
        for zone in step.held.zones() {
            if !acls.zones.numbers.contains_key(zone) {
                acls.zones.add_number(zone);
            }
        }
        if acls.zones.is_wanted && acls.zones.unpaired.is_none() {
            acls.zones.unpaired = Some(acls.pair([&[], &[]], hits));
        }
        if !touched.zone_pairs.is_empty() {
            let mut new = BTreeMap::new();
            for (key, pair) in &desired.zone_pairs {
                new.insert(key.clone(), acls.new_pair(key, pair, hits));
            }
            acls.zones.new_pairs = Some(new);
        }
        let zones = &acls.zones;
        let is_begun = zones.is_wanted && zones.published.is_none();
        zones.new_pairs.is_some() || !zones.fresh.is_empty() || is_begun
    }

    /// Adds the sets that pairs need classifiers of.
    pub(super) fn add_zone_sets(
        &self,
        needed: &mut HashSet<Set>,
        is_missing: impl Fn(&Set) -> bool,
    ) {
        let zones = &self.capabilities.acl.zones;
        let new = zones.new_pairs.iter().flat_map(BTreeMap::values).flat_map(|pair| &pair.sets);
        needed.extend(zones.sets().chain(new).filter(|set| is_missing(set)).cloned());
    }

    /// Brings the zones of these interfaces and the pairs of a change into effect. Workers learn of pairs later.
    pub(super) fn apply_zones(
        &mut self,
        step: &Step<'_>,
        indexes: &BTreeSet<u32>,
    ) -> Result<Applied, ApplyError> {
        let mut applied = self.capabilities.acl.zones.take_new_pairs();
        for index in indexes {
            let Some(state) = self.interface(*index) else { continue };
            let zone = state.desired.zone.clone();
            applied.is_changed |= self.capabilities.acl.zones.set_member(*index, &zone);
            self.set_zone_features(*index, &zone);
            self.pause(1);
        }
        let zones = &mut self.capabilities.acl.zones;
        let to_router = zones.pairs.keys().filter(|(_, to)| to == ROUTER_NAME);
        let to_router: BTreeSet<String> = to_router.map(|(from, _)| from.clone()).collect();
        if zones.to_router != to_router {
            zones.to_router = to_router;
            for (index, zone) in zones.members.clone() {
                self.set_zone_features(index, &zone);
                self.pause(1);
            }
        }
        self.switch_zones()?;
        let zones = &mut self.capabilities.acl.zones;
        zones.fresh.clear();
        let known = zones.numbers.len();
        if !step.touched.interfaces.is_empty() || !step.touched.zone_pairs.is_empty() {
            let stay = step.held.zones();
            zones.numbers.retain(|zone, _| stay.contains(zone));
        }
        if !indexes.is_empty() || !step.touched.interfaces.is_empty() {
            self.set_syn_cookies();
        }
        let zones = &mut self.capabilities.acl.zones;
        let is_shown = zones.published.is_some() == zones.is_on;
        applied.is_any |= applied.is_changed || zones.numbers.len() != known || !is_shown;
        Ok(applied)
    }

    /// Switches the features at all interfaces when the first one is in a zone, or the last one no longer is.
    fn switch_zones(&mut self) -> Result<(), ApplyError> {
        let zones = &mut self.capabilities.acl.zones;
        if zones.is_on == zones.is_wanted {
            return Ok(());
        }
        zones.is_on = zones.is_wanted;
        for index in self.interface_indexes() {
            let full = self.renew_output_features(index);
            full.map_err(|full| ApplyError::full("zones", &full))?;
            self.pause(1);
        }
        self.publish_interfaces();
        Ok(())
    }

    /// The number of a zone that interfaces are in, or that a pair names, without `router`.
    pub(in crate::control) fn zone_number(&self, zone: &str) -> Option<u8> {
        self.capabilities.acl.zones.numbers.get(zone).copied()
    }

    /// The argument of the output features of an interface in this zone ("": in none); 0: they are off.
    pub(in crate::control) fn zone_argument(&self, zone: &str) -> u32 {
        let zones = &self.capabilities.acl.zones;
        let number = if zone.is_empty() { None } else { zones.number(zone) };
        if zones.has_features() { number.unwrap_or(NO_ZONE).into() } else { 0 }
    }

    /// Sets the features of an interface in this zone. Those of packets to the router are on if a pair names it.
    fn set_zone_features(&self, index: u32, zone: &str) {
        let features = OUTPUT_NODES.map(|node| (node, self.zone_argument(zone)));
        self.set_output_arguments((index, self.vrf_of_interface(index)), features);
        let number = self.capabilities.acl.zones.number(zone).unwrap_or(0);
        self.shared.flows.limits().set_zone_of(index, number);
        self.set_zone_input(index, zone);
    }

    pub(super) fn set_zone_input(&self, index: u32, zone: &str) {
        let is_on = !zone.is_empty() && self.capabilities.acl.zones.is_to_router(zone);
        for node in LOCAL_NODES {
            self.shared.set_feature(index, node, if is_on { self.zone_argument(zone) } else { 0 });
        }
    }
}
