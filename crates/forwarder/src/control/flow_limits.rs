//! Limits of flows: gives workers the numbers of zones and VRFs, and says what is in use and what was refused.

use std::collections::{BTreeMap, HashMap};

use stoa_api::{audit, v1};
use stoa_engine::clock;

use super::apply::ApplyError;
use super::capability::{Capability, Start, Step, Verbs};
use super::desired::FlowLimits;
use super::forwarder_state::ForwarderState;
use super::limit_listing::limit;
use crate::acl::flow_vrf;
use crate::flow::limits::{Limit, Limits, Measure, Of};

/// Seconds between two lines in the log about one limit.
const QUIET_S: u32 = 60;
/// The flow tables, as `stoa show limits` names them, and whether they are of IPv4.
const TABLES: [(&str, bool); 2] = [("ipv4-flows", true), ("ipv6-flows", false)];

/// What the control thread knows of limits of flows.
#[derive(Default)]
pub(super) struct FlowLimitState {
    /// As they are desired.
    limits: FlowLimits,
    /// Zones and VRFs by what workers know of them.
    names: HashMap<Of, String>,
    /// For hosts and prefixes: the most that one has, as far as the search has come, and where it is.
    fullest: BTreeMap<Of, Fullest>,
    /// What the log has of limits.
    logged: HashMap<(Of, usize), Refusals>,
    /// What it has of the tables, IPv4 and IPv6.
    full: [Refusals; 2],
}

/// What the log has of packets that were refused.
#[derive(Clone, Copy, Debug, Default)]
struct Refusals {
    /// The tick of its last line.
    logged: Option<u32>,
    /// The packets that were refused by then.
    packets: u64,
}

impl Refusals {
    /// The packets that were refused since the last line, if there are some and it is time for another one.
    fn news(&mut self, packets: u64, tick: u32) -> Option<u64> {
        let is_quiet = self.logged.is_some_and(|it| tick.wrapping_sub(it) < QUIET_S);
        let more = packets.wrapping_sub(self.packets);
        if more == 0 || is_quiet {
            return None;
        }
        *self = Self { logged: Some(tick), packets };
        Some(more)
    }
}

/// The most that one host or prefix has.
#[derive(Default)]
struct Fullest {
    /// Of the last whole search.
    known: [u32; Measure::ALL.len()],
    /// Of the search that is under way, and where that is.
    found: [u32; Measure::ALL.len()],
    place: usize,
}

impl Capability for FlowLimitState {
    const VERBS: Verbs = Verbs {
        prepare: |state, step| state.prepare_flow_limits(step),
        apply: |state, step| {
            state.apply_flow_limits(step);
            Ok(())
        },
        remove_interface: |state, index| state.shared.flows.limits().set_zone_of(index, 0),
        tick: ForwarderState::tick_flow_limits,
        limits: |state, rows| state.add_limits_of_flows(rows),
        entries: |state, tally| {
            if let Some(limits) = state.capabilities.flow_limits.limits.message() {
                audit::flow_limits(tally, &limits);
            }
        },
        ..Verbs::NONE
    };

    fn start(_: &Start<'_>) -> Self {
        Self::default()
    }
}

/// The name of a row of `stoa show limits`.
fn row_name(of: Of, name: &str, measure: Measure) -> String {
    let flows = match measure {
        Measure::Live => "flows",
        Measure::HalfOpen => "half-open-flows",
        Measure::New => "new-flows",
    };
    match of {
        Of::Host => format!("host-{flows}-fullest"),
        Of::Prefix => format!("prefix-{flows}-fullest"),
        Of::Zone(_) => format!("zone-{name}-{flows}"),
        Of::Vrf(_) => format!("vrf-{name}-{flows}"),
    }
}

/// The node of the configuration that raises a limit.
fn node_of(of: Of, name: &str) -> String {
    match of {
        Of::Host => "host".to_owned(),
        Of::Prefix => "prefix".to_owned(),
        Of::Zone(_) => format!("zone[name='{name}']"),
        Of::Vrf(_) => format!("vrf[name='{name}']"),
    }
}

fn described(of: Of, name: &str, measure: Measure) -> String {
    let (leaf, more) = match measure {
        Measure::Live => ("live", "Flows that exist go on."),
        Measure::HalfOpen => ("half-open", "Connections that are open go on."),
        Measure::New => ("new-per-second", "Flows that exist go on."),
    };
    let node = node_of(of, name);
    format!("Raise /ietf-access-control-list:acls/stoa-acl:flow-limits/{node}/{leaf}. {more}")
}

impl ForwarderState {
    /// Makes room for what limits count.
    fn prepare_flow_limits(&self, step: &Step<'_>) -> Result<(), ApplyError> {
        let flows = &self.shared.flows;
        let (limits, _) = self.numbered(&step.desired().flow_limits);
        // Zones may get their numbers later.
        let counted = FlowLimits { is_silent: false, ..step.desired().flow_limits.clone() };
        let is_any = counted.message().is_some();
        let whole = Limits { vrfs: [(0, [is_any.then_some(1); 3])].into(), ..limits };
        if flows.limits().prepare(&whole, [true, false].map(|is_ip4| flows.capacity(is_ip4))) {
            return Ok(());
        }
        let cause = "there is no memory to count flows of hosts and prefixes";
        let fix = "Lower /stoa-system:system/limits/ipv4-flows and ipv6-flows, or remove limits.";
        Err(ApplyError::one("flow limits", cause, fix))
    }

    /// The limits by the numbers that workers know, and the names of these.
    fn numbered(&self, desired: &FlowLimits) -> (Limits, HashMap<Of, String>) {
        let mut names = HashMap::new();
        let mut of = |limits: &BTreeMap<String, Limit>, number: &dyn Fn(&str) -> Option<Of>| {
            let known = limits.iter().filter_map(|(name, limit)| {
                let of = number(name)?;
                let shown = if name.is_empty() { "default" } else { name };
                names.insert(of, shown.to_owned());
                let (Of::Zone(number) | Of::Vrf(number)) = of else { return None };
                Some((number, *limit))
            });
            known.collect::<BTreeMap<u8, Limit>>()
        };
        let zones = of(&desired.zones, &|zone| self.zone_number(zone).map(Of::Zone));
        let vrfs = of(&desired.vrfs, &|vrf| {
            let slot = self.vrfs.slot_of(vrf)?;
            u8::try_from(slot).ok().map(Of::Vrf)
        });
        let FlowLimits { host, prefix, lengths, .. } = *desired;
        let key = |slot: &u8| Some((*slot, flow_vrf(self.vrfs.get(usize::from(*slot))?.id)));
        let vrf_keys = vrfs.keys().filter_map(key).collect();
        (Limits { host, prefix, lengths, zones, vrfs, vrf_keys }, names)
    }

    /// Has workers keep the limits that are desired. Zones and VRFs have their numbers.
    fn apply_flow_limits(&mut self, step: &Step<'_>) {
        let desired = &step.desired().flow_limits;
        let (limits, names) = self.numbered(desired);
        let state = &mut self.capabilities.flow_limits;
        state.limits.clone_from(desired);
        let flows = &self.shared.flows;
        // What a zone or VRF of before has refused by the same number is no news of this one.
        let is_same = |of: &Of| {
            let name = names.get(of);
            matches!(of, Of::Host | Of::Prefix) || name.is_some() && name == state.names.get(of)
        };
        state.logged.retain(|(of, _), _| is_same(of));
        for (of, _) in limits.all() {
            for (at, refused) in flows.limits().refused(of).into_iter().enumerate() {
                let of_before = Refusals { logged: None, packets: refused };
                state.logged.entry((of, at)).or_insert(of_before);
            }
        }
        state.names = names;
        flows.limits().set_silent(desired.is_silent);
        if flows.limits().get() == limits {
            return;
        }
        flows.limits().set(&limits);
        self.capabilities.flow_limits.fullest.clear();
        // Who is limited in this way has no share of the table beside that.
        let share = limits.host[Measure::Live as usize].map(|_| u32::MAX);
        self.limit_flows_of_sources(share);
    }

    /// Searches for the fullest hosts and prefixes, and logs what limits and full tables have refused. Periodically.
    fn tick_flow_limits(&mut self) {
        let (limits, now) = (self.shared.flows.limits(), self.shared.flows.now(clock::tsc()).tick);
        let state = &mut self.capabilities.flow_limits;
        for (full, (limit, is_ip4)) in state.full.iter_mut().zip(TABLES) {
            if let Some(packets) = full.news(self.shared.flows.sums(is_ip4).refused, now) {
                tracing::warn!(limit, packets, "the flow table is full: it has refused new flows");
            }
        }
        if !limits.is_on() {
            return;
        }
        let set = limits.get();
        for (of, limited) in set.all() {
            if matches!(of, Of::Host | Of::Prefix) {
                let it = state.fullest.entry(of).or_default();
                let (most, place) = limits.fullest(of, it.place, now);
                it.place = place;
                it.found = std::array::from_fn(|at| it.found[at].max(most[at]));
                if place == 0 {
                    it.known = std::mem::take(&mut it.found);
                }
            }
            let refused = limits.refused(of);
            for measure in Measure::ALL.into_iter().filter(|it| limited[*it as usize].is_some()) {
                let at = measure as usize;
                let logged = state.logged.entry((of, at)).or_default();
                let Some(packets) = logged.news(refused[at], now) else { continue };
                let name = state.names.get(&of).map_or("", String::as_str);
                let name = row_name(of, name, measure);
                tracing::warn!(limit = name, packets, "a limit of flows has refused new ones");
            }
        }
    }

    /// Adds a row for each limit.
    fn add_limits_of_flows(&self, rows: &mut Vec<v1::LimitState>) {
        let (limits, now) = (self.shared.flows.limits(), self.shared.flows.now(clock::tsc()).tick);
        let state = &self.capabilities.flow_limits;
        let set = limits.get();
        for (of, limited) in set.all() {
            let name = state.names.get(&of).map_or("", String::as_str);
            let fullest = || state.fullest.get(&of).map_or([0; _], |it| it.known);
            let (used, refused) = (limits.now(of, now).unwrap_or_else(fullest), limits.refused(of));
            for measure in Measure::ALL {
                let at = measure as usize;
                let Some(most) = limited[at] else { continue };
                let (name, fix) = (row_name(of, name, measure), described(of, name, measure));
                rows.push(limit(&name, Some(used[at].into()), most.into(), refused[at], &fix));
            }
        }
    }

    /// Forgets the limits: for tests of the audit.
    #[cfg(test)]
    pub(super) fn lose_flow_limits(&mut self) {
        self.capabilities.flow_limits.limits = FlowLimits::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_has_a_line_a_minute_while_packets_are_refused() {
        let mut refusals = Refusals::default();
        let seen: Vec<_> =
            [(0, 5), (3, 6), (4, 7), (4, 65), (4, 66), (9, 67), (9, 126), (9, 500), (10, 501)]
                .into_iter()
                .map(|(packets, tick)| refusals.news(packets, tick))
                .collect();
        let none = None;
        assert_eq!(seen, [none, Some(3), none, none, Some(1), none, Some(5), none, Some(1)]);
    }
}
