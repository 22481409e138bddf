//! What is in force of zones: for operators, and for audits.

#[cfg(test)]
use std::sync::Arc;

use stoa_api::audit::{self, Tally};
use stoa_api::v1;
use stoa_api::zones::ZONES;

use super::PairState;
#[cfg(test)]
use crate::acl::zones::Zones;
use crate::acl::zones::{LOCAL_NODES, OUTPUT_NODES, Pair, number_at};
use crate::control::desired::{Changes, DesiredState, ZonePair, ZonePairKey};
use crate::control::forwarder_state::ForwarderState;
use crate::control::limit_listing::limit;

impl ForwarderState {
    /// The numbers of zones, with their names.
    pub(in crate::control) fn zone_numbers(&self) -> impl Iterator<Item = (u8, &str)> {
        let zones = &self.capabilities.acl.zones;
        zones.numbers.iter().map(|(name, number)| (*number, name.as_str()))
    }

    /// Writes the zone that workers know of an interface.
    pub(in crate::control::acl) fn zone_in_force(&self, index: u32, interface: &mut v1::Interface) {
        let number = |node| number_at(&self.shared.arcs, node, index);
        let ([four, six], local) = (OUTPUT_NODES.map(number), LOCAL_NODES.map(number));
        let zones = &self.capabilities.acl.zones;
        let known = zones.numbers.iter().find(|(_, number)| u32::from(**number) == four);
        let is_to_router = known.is_some_and(|(name, _)| zones.is_to_router(name));
        interface.zone = match known {
            _ if four != six => "of IPv4 and IPv6 differ".to_owned(),
            _ if local != [if is_to_router { four } else { 0 }; 2] => {
                "of sent packets and of those for the router differ".to_owned()
            }
            known => known.map(|(name, _)| name.clone()).unwrap_or_default(),
        };
        let number = u8::try_from(four).ok().filter(|_| !interface.zone.is_empty());
        let cookies = number.map(|number| self.shared.flows.syn_cookies().zone(number));
        interface.zone_syn_cookies = cookies.and_then(|it| it.threshold);
    }

    /// Adds the pairs that workers have with the classifiers of their lists.
    pub(in crate::control::acl) fn add_zone_entries(&self, tally: &mut Tally) {
        let acls = &self.capabilities.acl;
        for (key, pair) in &acls.zones.pairs {
            let is_in_force = || {
                let zones = acls.zones.published.as_ref()?;
                let [from, to] = [&key.0, &key.1].map(|zone| acls.zones.number(zone));
                let found = zones.pair(zones.cell(from?.into(), to?.into()))?;
                let expected = acls.compiled_pair(pair, false)?;
                let ids = |pair: &Pair| [pair.id, pair.four.id, pair.six.id];
                Some(ids(found) == ids(&expected))
            };
            if !acls.zones.is_on || is_in_force() == Some(true) {
                audit::zone_pair(tally, &message(key, pair));
            }
        }
    }

    /// The pairs that a whole comparison looks at.
    pub(in crate::control) fn all_zone_pairs(
        &self,
        desired: &DesiredState,
    ) -> Changes<ZonePairKey, ZonePair> {
        let running = self.capabilities.acl.zones.pairs.keys();
        running.chain(desired.zone_pairs.keys()).map(|key| (key.clone(), None)).collect()
    }

    /// The pairs, with the packets that match no rule.
    pub fn list_zone_pairs(&self) -> v1::ListZonePairsReply {
        let zones = &self.capabilities.acl.zones;
        let unpaired = zones.unpaired.as_ref().map(|it| it.unmatched.sum()).unwrap_or_default();
        let state = |(key, pair): (&ZonePairKey, &PairState)| {
            let dropped = pair.unmatched.sum();
            v1::ZonePairState {
                pair: Some(message(key, pair)),
                dropped_packets: dropped.packets,
                dropped_bytes: dropped.bytes,
            }
        };
        v1::ListZonePairsReply {
            pairs: zones.pairs.iter().map(state).collect(),
            unpaired_packets: unpaired.packets,
            unpaired_bytes: unpaired.bytes,
            syn_cookies: self.list_syn_cookies(),
            syn_cookies_refused: self.shared.flows.syn_cookies().refused(),
        }
    }

    /// Adds the limit of zones.
    pub(in crate::control::acl) fn add_zone_limit(&self, limits: &mut Vec<v1::LimitState>) {
        let used = self.capabilities.acl.zones.numbers.len() as u64;
        let fix = "This limit is fixed: use fewer zones.";
        limits.push(limit("zones", Some(used), ZONES as u64, 0, fix));
    }

    /// Has packets pass between all zones, as a fault would: for tests of the audit.
    #[cfg(test)]
    pub(in crate::control) fn lose_zone_pairs(&mut self) {
        let acls = &mut self.capabilities.acl;
        let numbers: Vec<u8> = acls.zones.numbers.values().copied().collect();
        acls.zones.published = Some(Arc::new(Zones::of(&numbers, 0, |_, _| None)));
    }

    /// Forgets the zone of an interface, as a fault would: for tests of the audit.
    #[cfg(test)]
    pub(in crate::control) fn lose_zone(&mut self, interface: &str) {
        let index = self.index_of(interface).unwrap();
        self.set_zone_features(index, "");
    }

    /// Forgets the zone of the packets for the router, as a fault would: for tests of the audit.
    #[cfg(test)]
    pub(in crate::control) fn lose_zone_input(&mut self, interface: &str) {
        let index = self.index_of(interface).unwrap();
        self.shared.set_feature(index, LOCAL_NODES[1], 0);
    }
}

/// A pair as a message of the contract.
fn message((from, to): &ZonePairKey, pair: &PairState) -> v1::ZonePair {
    let [acls4, acls6] = pair.sets.each_ref().map(|set| set.lists.clone());
    v1::ZonePair { from: from.clone(), to: to.clone(), acls4, acls6 }
}
