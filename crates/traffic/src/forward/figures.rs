//! The results of `stoa bench forward`.

use serde::Serialize;
use stoa_engine::clock;

use super::layout::Layout;
use super::{Mix, Workload, feature};
use crate::prefixes::Source;

/// Cycles of one node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeFigure {
    /// The node.
    pub name: String,
    /// Cycles per forwarded packet.
    pub cycles_per_packet: f64,
}

/// Results of the measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Million packets per second, all workers.
    pub mpps: f64,
    /// Cycles per packet of all nodes from link-layer input to the output port, including freeing
    /// the buffer; per worker.
    pub cycles_per_packet: f64,
    /// Cycles per packet of the generator.
    pub generator_cycles_per_packet: f64,
    /// Share of the time that these two values account for.
    pub accounted: f64,
    /// Ticks of the counter per second.
    pub tsc_hz: u64,
    /// Bytes of a frame, FCS included; the mean for a mix.
    pub frame: f64,
    /// Gigabits per second on the wire: with the preamble and the inter-frame gap, 20 bytes.
    pub gbps: f64,
    /// The mix of sizes, if one was used.
    pub mix: Option<&'static str>,
    /// Routes in the tables, all VRFs together.
    pub routes: usize,
    /// Names of the prefix files, separated by commas.
    pub prefixes: String,
    /// `one`, a number, `random` or `zipf`.
    pub destinations: String,
    /// Number of next hops, in each VRF.
    pub next_hops: u32,
    /// Ports that receive, and as many that send.
    pub ports: u16,
    /// Packets that a port hands over at once, at most; 0: whole vectors.
    pub burst: u16,
    /// Sub-interfaces of each receiving port, in random order.
    pub vlans: usize,
    /// Whether these have two tags.
    pub qinq: bool,
    /// VRFs that the receiving interfaces are in; 0: the default one.
    pub vrfs: u16,
    /// GRE tunnels, in random order; 0: packets take none.
    pub tunnels: u32,
    /// `encapsulate` or `decapsulate`, with tunnels.
    pub direction: Option<String>,
    /// Whether sources were drawn from half of the table.
    pub random_sources: bool,
    /// Features of the receiving interfaces.
    pub features: Vec<&'static str>,
    /// Features of an interface without traffic.
    pub features_elsewhere: Vec<&'static str>,
    /// Rules of the receiving interfaces, if they have access lists.
    pub acl: Option<String>,
    /// Whether these are stateful.
    pub stateful: bool,
    /// Whether a pair of zones has the rules.
    pub zones: bool,
    /// Whether packets are SYNs that cookies answer.
    pub syn_cookies: bool,
    /// Whether sources are translated.
    pub nat44: bool,
    /// Whether IPv6 packets become IPv4 packets.
    pub nat64: bool,
    /// Whether that is done without state.
    pub siit: bool,
    /// Whether packets came from outside, and were translated back.
    pub answers: bool,
    /// Whether flows are exported by IPFIX.
    pub export: bool,
    /// Whether frames were tagged.
    pub vlan: bool,
    /// Flows; 0: each packet begins one.
    pub flows: u32,
    /// Flows that were created in a second, if each packet begins one.
    pub creates_per_second: Option<f64>,
    /// Flows that there were at the end of the window, if each packet begins one.
    pub live_flows: Option<u64>,
    /// With rules, translation or export: cycles per packet more than the same packets take without them, in the same
    /// process.
    pub added_cycles_per_packet: Option<f64>,
    /// Requested route changes per second.
    pub update_rate: u32,
    /// Achieved route changes per second.
    pub updates_per_second: f64,
    /// Requested changes of rules per second.
    pub rule_rate: u32,
    /// Achieved changes of rules per second.
    pub rules_per_second: f64,
    /// Workers.
    pub workers: usize,
    /// The SIMD kernel.
    pub kernel: &'static str,
    /// Packets that were generated and are neither sent nor in flight.
    pub lost: u64,
    /// Reasons of drops with their numbers, from the start on.
    pub drops: String,
    /// Windows that were measured; the results are those of the least disturbed.
    pub windows: usize,
    /// Node by node.
    pub nodes: Vec<NodeFigure>,
}

impl Figures {
    /// The parameters of `workload`, without results.
    pub(super) fn of(workload: &Workload) -> Self {
        let layout = Layout::new(workload);
        let is_mixed = layout.is_tagged() && !workload.is_tagged;
        Self {
            mpps: 0.0,
            cycles_per_packet: 0.0,
            generator_cycles_per_packet: 0.0,
            accounted: 0.0,
            tsc_hz: clock::tsc_hz(),
            frame: workload.mean_frame(),
            gbps: 0.0,
            mix: workload.mix.map(Mix::name),
            routes: 0,
            prefixes: workload.prefixes.iter().map(Source::to_string).collect::<Vec<_>>().join(","),
            destinations: workload.visits.to_string(),
            next_hops: layout.next_hops as u32,
            ports: workload.ports,
            burst: workload.burst,
            vlans: if is_mixed { layout.each } else { 0 },
            qinq: workload.is_qinq,
            vrfs: workload.vrfs,
            tunnels: workload.tunnels,
            direction: (workload.tunnels > 0).then(|| workload.direction.to_string()),
            random_sources: workload.has_random_sources(),
            features: feature::names(&workload.features),
            features_elsewhere: feature::names(&workload.features_elsewhere),
            acl: workload.acl.as_ref().map(ToString::to_string),
            stateful: workload.is_stateful,
            zones: workload.has_zones,
            syn_cookies: workload.has_syn_cookies,
            nat44: workload.has_nat44,
            nat64: workload.has_nat64 && !workload.is_stateless,
            siit: workload.is_stateless,
            answers: workload.has_answers,
            export: workload.is_exported,
            vlan: workload.is_tagged,
            flows: if workload.flows.are_new() { 0 } else { workload.flows.sources() },
            creates_per_second: None,
            live_flows: None,
            added_cycles_per_packet: None,
            update_rate: workload.update_rate,
            updates_per_second: 0.0,
            rule_rate: workload.rule_rate,
            rules_per_second: 0.0,
            workers: workload.workers,
            kernel: workload.kernel.name(),
            lost: 0,
            drops: String::new(),
            windows: 0,
            nodes: Vec::new(),
        }
    }

    /// Whether the parts add up to the whole; if not, other programs used the processor during the
    /// measurement.
    pub fn is_undisturbed(&self) -> bool {
        (0.9..=1.1).contains(&self.accounted)
    }
}
