//! The audit of the desired state: what of it is in force, read from what the capabilities work with and not from the
//! desired state that was received. Also brings entries into force again.
//!
//! One place knows what the forwarder holds: each capability adds its entries by its verbs `entries`, `entries_of` and
//! `in_force` ([`super::capability`]), the core adds workers, limits, ports, VRFs, interfaces, addresses and routes.

mod call;
mod repair;
mod settings;
mod table;

use std::collections::BTreeSet;
use std::net::IpAddr;

use stoa_api::audit::{self, Kind, Tally};
use stoa_api::v1;

use super::apply::{ChangeError, Forwarder};
use super::capability::CAPABILITIES;
use super::desired::{DesiredChange, DesiredState, Prefix, message};
use super::forwarder_state::ForwarderState;
use super::vrfs::Slot;
use crate::neighbor::entry::Key;

use call::punt_defaults;

/// Interfaces in a slice of an audit: about a millisecond.
const INTERFACES: u32 = 128;

/// Where an audit continues.
#[derive(Clone, Debug)]
enum Next {
    /// At this interface.
    Interface(u32),
    /// After this neighbour, or at the first one.
    Neighbor(Option<Key>),
    /// In the table of this VRF, at this prefix.
    Route(Slot, Prefix),
    End,
}

/// An audit in progress.
#[derive(Clone, Debug)]
pub struct DesiredAudit {
    tally: Tally,
    next: Next,
    /// The desired state with which it began; 0: none.
    generation: u64,
    is_changing: bool,
    /// What is in force where nothing is configured.
    defaults: v1::Desired,
}

impl DesiredAudit {
    /// An audit that lists the entries of some kinds.
    #[must_use]
    pub fn listing(kinds: &[Kind]) -> Self {
        let tally = Tally::listing(kinds.iter().copied());
        let defaults = v1::Desired::default();
        Self { tally, next: Next::Interface(0), generation: 0, is_changing: false, defaults }
    }

    /// The result after the last step.
    pub fn into_tally(self) -> Tally {
        self.tally
    }
}

impl Forwarder {
    /// Runs the next slice of an audit; true at its end.
    pub fn audit_desired_step(&self, audit: &mut DesiredAudit) -> bool {
        let (Some(state), Some(desired)) = (self.running(), self.desired()) else { return true };
        match audit.generation {
            0 => {
                audit.generation = self.generation();
                audit.defaults = self.audit_defaults();
                state.add_whole_entries(&mut audit.tally);
            }
            begun => audit.is_changing |= begun != self.generation(),
        }
        audit.next = match &audit.next {
            _ if audit.is_changing => Next::End,
            Next::Interface(first) => state.add_interface_entries(*first, &mut audit.tally),
            Next::Neighbor(after) => state.add_lost_host_routes(*after, &mut audit.tally),
            Next::Route(slot, from) => {
                state.add_route_entries(desired, (*slot, *from), &mut audit.tally)
            }
            Next::End => Next::End,
        };
        matches!(audit.next, Next::End)
    }

    /// What is in force where the desired state has 0 or "".
    #[must_use]
    pub fn audit_defaults(&self) -> v1::Desired {
        settings::defaults(&self.default_limits())
    }

    /// A whole audit at once: for tests, and where nothing runs.
    #[must_use]
    pub fn audit_desired(&self, listed: &[Kind]) -> Tally {
        let mut audit = DesiredAudit::listing(listed);
        while !self.audit_desired_step(&mut audit) {}
        audit.into_tally()
    }

    /// Brings all entries of these kinds into force again. The desired state stays as it is.
    ///
    /// # Errors
    /// The forwarder holds another state, or entries cannot be brought into force. Those of other kinds are in force
    /// again even if what is fixed until the forwarder ends is not.
    pub fn repair(
        &mut self,
        generation: u64,
        kinds: &BTreeSet<Kind>,
    ) -> Result<v1::Applied, ChangeError> {
        let is_ours = generation == self.generation();
        let fixed = if is_ours { self.repair_fixed(kinds) } else { Ok(()) };
        let applied = self.again(generation, |state, desired| {
            if kinds.contains(&Kind::StaticRoutes) {
                state.repair_tables();
            }
            state.entries_of_kinds(desired, kinds)
        })?;
        fixed.map_err(ChangeError::Refused)?;
        Ok(applied)
    }
}

impl ForwarderState {
    /// Adds what belongs to some interfaces.
    fn add_interface_entries(&self, first: u32, tally: &mut Tally) -> Next {
        let end = (first + INTERFACES).min(self.interface_indexes().end);
        for index in first..end {
            let Some(state) = self.interface(index).filter(|state| !state.is_reserved()) else {
                continue;
            };
            let mut interface = message::interface(&state.name, &state.desired);
            CAPABILITIES.iter().for_each(|it| (it.in_force)(self, index, &mut interface));
            audit::interface(tally, interface);
            let families = [&state.desired.ip4, &state.desired.ip6];
            for (place, address) in families.iter().flat_map(|it| it.addresses.iter().enumerate()) {
                if self.has_address(index, *address) {
                    audit::address(tally, &state.name, place, *address);
                }
            }
            CAPABILITIES.iter().for_each(|capability| (capability.entries_of)(self, index, tally));
        }
        match end == self.interface_indexes().end {
            true => Next::Neighbor(None),
            false => Next::Interface(end),
        }
    }

    /// Whether workers use an address of an interface, unless another host has it as well.
    fn has_address(&self, index: u32, (ip, length): (IpAddr, u8)) -> bool {
        let own = self.addresses.of(index);
        let is_published = own.is_some_and(|own| match ip {
            IpAddr::V4(ip) => own.ip4.contains(&(ip, length)),
            IpAddr::V6(ip) => own.ip6.contains(&(ip, length)),
        });
        is_published || self.is_duplicate((index, ip))
    }

    /// The keys of all entries of these kinds, desired or running. Interfaces are published and reviewed again.
    fn entries_of_kinds(
        &mut self,
        desired: &DesiredState,
        kinds: &BTreeSet<Kind>,
    ) -> DesiredChange {
        let all = self.everything(desired);
        let of_interfaces = kinds.iter().any(|kind| {
            !matches!(
                kind,
                Kind::Workers
                    | Kind::Limits
                    | Kind::Logging
                    | Kind::Vrfs
                    | Kind::PolicyRules
                    | Kind::AclRules
                    | Kind::ZonePairs
                    | Kind::NatPolicies
                    | Kind::NatMappings
                    | Kind::Ipfix
                    | Kind::FlowLimits
                    | Kind::ExistingFlows
                    | Kind::FlowSync
                    | Kind::SecurityAssociations
                    | Kind::Punts
                    | Kind::Reassembly
                    | Kind::Multipath
                    | Kind::StaticRoutes
            )
        });
        let mut some = DesiredChange::default();
        if of_interfaces {
            (some.ports, some.interfaces) = (all.ports, all.interfaces);
            for index in self.interface_indexes() {
                if self.interface(index).is_some() {
                    self.index.mark(index);
                }
            }
        }
        if kinds.contains(&Kind::StaticRoutes) {
            some.routes = all.routes;
        }
        if kinds.contains(&Kind::PolicyRules) {
            some.rules = all.rules;
        }
        if kinds.contains(&Kind::AclRules) {
            some.acl_rules = all.acl_rules;
        }
        if kinds.contains(&Kind::ZonePairs) {
            some.zone_pairs = all.zone_pairs;
        }
        if kinds.contains(&Kind::NatPolicies) || kinds.contains(&Kind::NatMappings) {
            some.nat = all.nat;
        }
        if kinds.contains(&Kind::NptPrefixes) {
            some.nptv6 = all.nptv6;
        }
        if kinds.contains(&Kind::SiitPolicies) || kinds.contains(&Kind::SiitMappings) {
            some.siit = all.siit;
        }
        if kinds.contains(&Kind::Ipfix) {
            some.ipfix = all.ipfix;
        }
        if kinds.contains(&Kind::FlowSync) {
            some.flow_sync = all.flow_sync;
        }
        if kinds.contains(&Kind::SecurityAssociations) {
            some.ipsec = all.ipsec;
        }
        if kinds.contains(&Kind::FlowLimits) {
            some.flow_limits = all.flow_limits;
        }
        if kinds.contains(&Kind::ExistingFlows) {
            some.keeps_flows = all.keeps_flows;
        }
        some
    }
}

#[cfg(test)]
mod tests;
