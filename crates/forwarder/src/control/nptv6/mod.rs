//! Translation of IPv6 prefixes: publishes the pairs to the workers, and reports what they have translated.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use stoa_api::audit::{self, Tally};
use stoa_api::v1;

use super::apply::ApplyError;
use super::capability::{Capability, Start, Step, Verbs};
use super::desired::{DesiredState, NptPrefix};
use super::forwarder_state::ForwarderState;
use crate::nptv6::{INPUT_NODE, Nptv6, Pair, Prefix6, Traffic};

/// A pair in force.
#[derive(Clone, Debug)]
struct ActivePair {
    prefix: NptPrefix,
    /// The index of the external interface, and its VRF.
    interface: u32,
    vrf: u32,
    /// Whether the router has an external address.
    has_own: bool,
    traffic: Arc<[Traffic]>,
}

impl ActivePair {
    /// Whether counters of one go on with the other.
    fn is_same(&self, other: &Self) -> bool {
        (self.interface, &self.prefix) == (other.interface, &other.prefix)
    }

    fn compiled(&self) -> Pair {
        let prefixes = (self.prefix.internal, self.prefix.external);
        Pair::new((self.interface, self.vrf), prefixes, self.has_own, self.traffic.clone())
    }
}

/// Pairs in force.
#[derive(Default)]
pub(super) struct PrefixTranslation {
    pairs: Vec<ActivePair>,
    /// The external interfaces.
    external: BTreeSet<u32>,
    /// Whether interfaces translate.
    is_on: bool,
}

impl Capability for PrefixTranslation {
    const VERBS: Verbs = Verbs {
        apply: ForwarderState::apply_nptv6,
        flags: |state, index, _| {
            let is_on = state.capabilities.nptv6.is_on;
            state.shared.set_feature(index, INPUT_NODE, is_on.into());
            0
        },
        entries: ForwarderState::add_npt_entries,
        ..Verbs::NONE
    };

    fn start(_: &Start<'_>) -> Self {
        Self::default()
    }
}

impl ForwarderState {
    /// The argument of the output feature of an interface.
    pub(super) fn npt_output_argument(&self, index: u32) -> u32 {
        self.capabilities.nptv6.external.contains(&index).into()
    }

    fn apply_nptv6(&mut self, step: &Step<'_>) -> Result<(), ApplyError> {
        let (desired, touched) = (step.desired(), step.touched);
        let was_on = self.capabilities.nptv6.is_on;
        let is_on = !desired.nptv6.is_empty();
        // Any interface may get an external address.
        let is_touched = touched.nptv6.is_some()
            || is_on && !(step.interfaces.indexes.is_empty() && touched.vrfs.is_empty());
        if !is_touched || !is_on && !was_on {
            return Ok(());
        }
        let pairs: Vec<ActivePair> =
            desired.nptv6.iter().filter_map(|it| self.active_pair(it, desired)).collect();
        let external = pairs.iter().map(|it| it.interface).collect();
        self.capabilities.nptv6.pairs = pairs;
        let former = std::mem::replace(&mut self.capabilities.nptv6.external, external);
        if is_on {
            self.publish_nptv6();
        }
        if was_on != is_on {
            self.capabilities.nptv6.is_on = is_on;
            for index in self.interface_indexes() {
                self.shared.set_feature(index, INPUT_NODE, is_on.into());
                self.pause(1);
            }
        }
        let now = self.capabilities.nptv6.external.clone();
        let changed: Vec<u32> = former.symmetric_difference(&now).copied().collect();
        for index in &changed {
            let full = self.renew_output_features(*index);
            full.map_err(|full| ApplyError::full("nptv6", &full))?;
            self.pause(1);
        }
        if !changed.is_empty() {
            self.publish_interfaces();
        }
        if !is_on {
            self.publish_nptv6();
        }
        Ok(())
    }

    fn active_pair(&self, prefix: &NptPrefix, desired: &DesiredState) -> Option<ActivePair> {
        let interface = self.index_of(&prefix.interface)?;
        let vrf = self.vrf_id(self.interface(interface)?.vrf);
        let mut pair = ActivePair {
            prefix: prefix.clone(),
            interface,
            vrf,
            has_own: has_address(desired, prefix.external),
            traffic: Arc::new([]),
        };
        let known = self.capabilities.nptv6.pairs.iter().find(|it| it.is_same(&pair));
        pair.traffic = known.map_or_else(
            || (0..self.worker_count()).map(|_| Traffic::default()).collect(),
            |it| it.traffic.clone(),
        );
        Some(pair)
    }

    fn publish_nptv6(&mut self) {
        let pairs = self.capabilities.nptv6.pairs.iter().map(ActivePair::compiled).collect();
        self.shared.nptv6.publish(Nptv6::of(pairs), &mut self.graveyard);
    }

    fn add_npt_entries(&self, tally: &mut Tally) {
        for it in &self.capabilities.nptv6.pairs {
            audit::npt_prefix(tally, &it.prefix.message());
        }
    }

    /// Pairs with what they have translated.
    pub(super) fn list_npt_prefixes(&self) -> Vec<v1::NptPrefixState> {
        let state = |it: &ActivePair| {
            let sum = |of: fn(&Traffic) -> u64| it.traffic.iter().map(of).sum();
            v1::NptPrefixState {
                prefix: Some(it.prefix.message()),
                out_packets: sum(|it| it.out_packets.0.get()),
                out_bytes: sum(|it| it.out_bytes.0.get()),
                in_packets: sum(|it| it.in_packets.0.get()),
                in_bytes: sum(|it| it.in_bytes.0.get()),
            }
        };
        self.capabilities.nptv6.pairs.iter().map(state).collect()
    }

    /// Forgets the last pair, as a fault would: for tests of the audit.
    #[cfg(test)]
    pub(super) fn lose_npt_prefix(&mut self) {
        self.capabilities.nptv6.pairs.pop();
    }
}

/// Whether the router has an address of a prefix, also as a virtual router.
fn has_address(desired: &DesiredState, prefix: Prefix6) -> bool {
    let is_in = |address: &IpAddr| match address {
        IpAddr::V6(it) => prefix.contains(it.to_bits()),
        IpAddr::V4(_) => false,
    };
    desired.interfaces.values().any(|interface| {
        let own = interface.ip6.addresses.iter().map(|(address, _)| address);
        let of_routers = interface.ip6.virtual_routers.iter().flat_map(|it| &it.addresses);
        own.chain(of_routers).any(is_in)
    })
}
