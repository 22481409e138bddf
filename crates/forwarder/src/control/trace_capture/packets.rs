//! Assembles the steps of all workers into packets, and describes each step.

use std::collections::{HashMap, HashSet};

use stoa_api::v1;
use stoa_engine::graph::OUTPUT;
use stoa_engine::trace_capture::trace::{Event, Record};
use stoa_engine::vector::{DROP, HANDED, TAKEN};
use stoa_wire::text::{self as wire_text, Start};

use super::names::{edge_name, node_name, reason, start_of};
use super::trace::{STEPS, Step};
use crate::arcs;
use crate::control::forwarder_state::ForwarderState;
use crate::icmp::IcmpCause;
use crate::nodes::{ENTRY, HOST_INTERFACE_ENTRY};
use crate::punt::Class;

/// The node that sends packets to a host interface.
const HOST_INTERFACE: &str = "host-interface-output";

/// Nodes that answer a packet in its own buffer.
const ANSWERERS: [&str; 4] = ["icmp4-echo", "icmp6-echo", "icmp4-error", "icmp6-error"];

/// A packet whose steps are being assembled.
struct PacketTrace {
    packet: v1::TracedPacket,
    /// What the data starts with now.
    start: Start,
    offset: u16,
    /// The outcome of the node that answered it.
    answered: Option<String>,
}

impl PacketTrace {
    /// A packet was derived from this one: a fragment.
    fn first_step(&mut self, number: u32) {
        const MADE: &str = "continues as packet";
        self.packet.outcome = match self.packet.outcome.starts_with(MADE) {
            true => format!("{}, {number}", self.packet.outcome),
            false => format!("{MADE} {number}"),
        };
    }

    /// What the data starts with after a node has advanced beyond the frame header, whose last two bytes are
    /// the Ethertype.
    fn data_start_after(&self, offset: u16) -> Start {
        let moved = usize::from(offset.saturating_sub(self.offset));
        let frame = self.packet.steps.last().map_or(&[][..], |last| &last.head);
        match frame.get(..moved).and_then(<[u8]>::last_chunk) {
            Some(kind) if self.start == Start::Ethernet => Start::Type(u16::from_be_bytes(*kind)),
            _ => self.start,
        }
    }

    /// The packet, after its last step.
    fn done(mut self) -> v1::TracedPacket {
        if let (true, Some(last)) = (self.packet.outcome.is_empty(), self.packet.steps.last()) {
            self.packet.outcome = match last.next.as_str() {
                node if node.ends_with("-reassembly") => {
                    format!("held by {node}: a fragment of a larger packet")
                }
                node => format!("on its way to {node}"),
            };
        }
        self.packet
    }
}

/// Assigns steps to packets.
struct Sorted {
    /// Of each step the number of its packet, from 1. `None`: the first step was lost, or belongs to an
    /// earlier trace.
    packets: Vec<Option<u32>>,
    /// Of each packet the number of the packet it was derived from; 0: it was received.
    parents: Vec<u32>,
}

impl Sorted {
    fn new(steps: &[Step]) -> Self {
        let mut parents = Vec::new();
        let mut by_buffer: HashMap<u64, u32> = HashMap::new();
        let packet = |(_, record): &Step| {
            let parent = match record.event {
                Event::Received { .. } => Some(0),
                Event::Made { from } => by_buffer.get(&from).copied(),
                _ => None,
            };
            if let Event::Moved { from } = record.event
                && let Some(number) = by_buffer.remove(&from)
            {
                by_buffer.insert(record.buffer, number);
            }
            if let Some(parent) = parent {
                parents.push(parent);
                by_buffer.insert(record.buffer, parents.len() as u32);
            }
            let packet = by_buffer.get(&record.buffer).copied();
            if matches!(record.event, Event::Sent | Event::Dropped { .. })
                || matches!(record.event, Event::Passed { next, .. } if next & DROP != 0)
            {
                by_buffer.remove(&record.buffer);
            }
            packet
        };
        Self { packets: steps.iter().map(packet).collect(), parents }
    }
}

impl ForwarderState {
    /// Assembles steps, in order of time, into packets: the newest `max` of them. Only these are described.
    pub(super) fn packets(&self, steps: &[Step], max: usize) -> Vec<v1::TracedPacket> {
        let Sorted { packets, parents } = Sorted::new(steps);
        let left_out = parents.len().saturating_sub(max) as u32;
        let kept = steps.iter().zip(&packets).filter_map(|((at, record), packet)| {
            let index = packet.and_then(|number| number.checked_sub(left_out + 1));
            index.map(|index| (*at, record, index as usize))
        });
        let adjacency_names =
            self.adjacency_names(kept.clone().map(|(_, record, _)| record.adjacency).collect());
        let describer = StepDescriber { state: self, adjacency_names };
        let mut paths: Vec<PacketTrace> = Vec::new();
        for (at, record, index) in kept {
            if index == paths.len() {
                let number = left_out + index as u32 + 1;
                let derived_from = parents[number as usize - 1];
                let interface = self.name_of(record.rx_if);
                let packet = v1::TracedPacket {
                    number,
                    unix_ns: at,
                    interface,
                    derived_from,
                    ..Default::default()
                };
                if let Some(parent) = derived_from.checked_sub(left_out + 1) {
                    paths[parent as usize].first_step(number);
                }
                let start = if derived_from == 0 { Start::Ethernet } else { Start::Ip };
                paths.push(PacketTrace { packet, start, offset: record.offset, answered: None });
            }
            describer.add_step(&mut paths[index], at, record);
        }
        paths.into_iter().map(PacketTrace::done).collect()
    }

    /// Next hops and interfaces of adjacencies as text, by one pass over the tables.
    fn adjacency_names(&self, requested: HashSet<u32>) -> HashMap<u32, String> {
        let mut adjacency_names = HashMap::new();
        for (_, state) in self.all_interfaces() {
            for glean in [state.gleans.0, state.gleans.1] {
                if requested.contains(&glean) {
                    adjacency_names.insert(glean, format!("connected network on {}", state.name));
                }
            }
        }
        for ((interface, address), entry) in self.capabilities.neighbors.cache().each() {
            if requested.contains(&entry.adjacency) {
                let name = self.name_of(*interface);
                adjacency_names.insert(entry.adjacency, format!("{address} on {name}"));
            }
        }
        adjacency_names
    }
}

/// Describes steps.
struct StepDescriber<'a> {
    state: &'a ForwarderState,
    /// Text of the adjacencies.
    adjacency_names: HashMap<u32, String>,
}

impl StepDescriber<'_> {
    /// Adds one step and its effect on the packet.
    fn add_step(&self, path: &mut PacketTrace, at: u64, record: &Record) {
        let mut step = v1::TraceStep {
            worker: record.worker.into(),
            after_ns: at.saturating_sub(path.packet.unix_ns),
            length: record.length.into(),
            head: record.bytes().to_vec(),
            rx_interface: self.state.name_of(record.rx_if),
            ..Default::default()
        };
        self.describe(path, &mut step, record);
        if let Some(decision) = self.state.acl_decision(&step.node, record, &step.drop) {
            decision.add_to(&mut step);
        }
        if step.node == ENTRY && !step.rx_interface.is_empty() {
            // The node has found the sub-interface.
            path.packet.interface = step.rx_interface.clone();
        }
        if ANSWERERS.contains(&step.node.as_str()) && !ends(&step) {
            step.what = format!("answers it; the reply goes {}", step.what);
            path.packet.outcome = format!("answered by {}", step.node);
            path.answered = Some(path.packet.outcome.clone());
        } else if ends(&step) {
            path.packet.outcome = match &path.answered {
                Some(answered) => format!("{answered}, {}", step.what),
                None => step.what.clone(),
            };
        }
        if let Some(first_step) =
            path.packet.steps.first_mut().filter(|first| first.node.is_empty())
        {
            // The node that derived the packet is recorded when it is done.
            first_step.node = step.node.clone();
        }
        if !step.drop.is_empty() {
            path.packet.drop = step.drop.clone();
        }
        let lines = wire_text::layers(record.bytes(), path.start).map(|layer| layer.to_string());
        step.headers = lines.collect();
        path.offset = record.offset;
        if path.packet.steps.len() < STEPS {
            path.packet.steps.push(step);
        } else {
            path.packet.outcome = format!("more than {STEPS} steps: the rest is not shown");
        }
    }

    /// Fills in node, edge, drop reason and text, and updates what the data starts with.
    fn describe(&self, path: &mut PacketTrace, step: &mut v1::TraceStep, record: &Record) {
        let last = path.packet.steps.last();
        let waits_at = last.map(|last| last.next.clone()).unwrap_or_default();
        match record.event {
            Event::Received { input } => {
                step.node = node_name(input).to_owned();
                let host_interface = self.state.host_interface_at(record.rx_if);
                let entry = if host_interface.is_some() { HOST_INTERFACE_ENTRY } else { ENTRY };
                step.next = entry.to_owned();
                step.what = match host_interface {
                    Some(host_interface) => {
                        format!("received from host interface {host_interface}")
                    }
                    None => format!("received on {}", self.state.name_of(record.rx_if)),
                };
            }
            Event::Passed { node, next } => self.passed(path, step, record, (node, next)),
            Event::Punted { cause } => {
                step.node = waits_at;
                step.what = format!("handed to the control thread: {}", reason_punted(cause));
            }
            Event::Injected { node } => {
                step.node = "control".to_owned();
                step.next = node_name(node).to_owned();
                step.what = format!("to {}, from the control thread", step.next);
                path.start = start_of(&step.next);
            }
            Event::HandedOver { .. } | Event::Moved { .. } => {
                step.node = waits_at.clone();
                step.next = waits_at;
                step.what = match record.event {
                    Event::HandedOver { to } => format!("handed to worker {to}"),
                    _ => format!("copied to the NUMA node of worker {}", record.worker),
                };
                step.tx_interface = self.state.name_of(record.tx_if);
            }
            Event::Sent => {
                step.node = OUTPUT.to_owned();
                step.tx_interface = self.state.name_of(record.tx_if);
                step.what = match self.state.host_interface_at(record.tx_if) {
                    Some(host_interface) => format!("sent to host interface {host_interface}"),
                    None => format!("sent on {}", step.tx_interface),
                };
                path.start = Start::Ethernet;
            }
            Event::Dropped { reason: at } => {
                let (name, description) = reason(at);
                step.node = waits_at;
                step.drop = name.to_owned();
                step.what = format!("dropped, {name}: {description}");
            }
            Event::Made { .. } => {
                step.node = waits_at;
                step.what = format!("derived from packet {}", path.packet.derived_from);
            }
        }
    }

    fn passed(
        &self,
        path: &mut PacketTrace,
        step: &mut v1::TraceStep,
        record: &Record,
        (node, next): (u16, u16),
    ) {
        step.node = node_name(node).to_owned();
        if next & DROP != 0 {
            let (name, description) = reason(next & !DROP);
            step.drop = name.to_owned();
            step.what = format!("dropped, {name}: {description}");
            // The node had advanced to the payload before the drop.
            path.start = path.data_start_after(record.offset);
            return;
        }
        if next == TAKEN {
            step.what = "consumed by the router".to_owned();
            return;
        }
        if next == HANDED {
            step.what = "continued by the same node of another worker".to_owned();
            return;
        }
        let Some(edge) = edge_name(node, next) else { return };
        step.next = edge.to_owned();
        step.what = format!("to {edge}");
        // Frames for a host interface get their Ethernet header back there.
        path.start = if edge == HOST_INTERFACE {
            path.data_start_after(record.offset)
        } else {
            start_of(edge)
        };
        if edge.starts_with("icmp") && edge.ends_with("-error") {
            let reason = IcmpCause::of(record.arg).drop(edge.starts_with("icmp4")).reason();
            let description = super::names::reason(reason.0);
            step.drop = description.0.to_owned();
            step.what = format!("to {edge}, {}: {}", description.0, description.1);
        }
        let is_output = arcs::is_output(edge);
        if is_output && start_of(&step.node) == Start::Ethernet {
            // No next hop is involved.
            step.tx_interface = self.state.name_of(record.tx_if);
        } else if is_output || edge.ends_with("-rewrite") || edge == "neighbor-resolve" {
            step.adjacency =
                self.adjacency_names.get(&record.adjacency).cloned().unwrap_or_default();
            step.tx_interface = self.state.name_of(record.tx_if);
        }
    }
}

/// Whether a step can be the last: it leads nowhere, or reports an error.
fn ends(step: &v1::TraceStep) -> bool {
    !step.drop.is_empty() || step.next.is_empty()
}

/// Why a packet was punted to the control thread.
fn reason_punted(cause: u16) -> &'static str {
    match Class::of(cause) {
        Some(Class::Arp | Class::ArpReply) => "ARP",
        Some(Class::Nd | Class::NdReply) => "neighbour discovery",
        Some(Class::Resolve | Class::LocalResolve) => "the neighbour's MAC address is not resolved",
        Some(class) => class.name(),
        None => "unknown reason",
    }
}
