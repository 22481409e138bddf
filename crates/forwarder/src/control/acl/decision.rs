//! What has decided about a traced packet: a rule, that no rule matches, or the flow of the packet.
//!
//! Workers record none of this. The control thread asks the lists as they are when the trace is shown.

use std::sync::Arc;

use stoa_api::v1;
use stoa_api::zones::ROUTER;
use stoa_engine::trace_capture::trace::Record;
use stoa_engine::vector::flags;
use stoa_tables::classifier::NO_RULE;
use stoa_tables::flow_hash::Flow;
use stoa_tables::flow_table::FlowKey;
use stoa_wire::protocol::TCP;
use stoa_wire::tcp::flag::SYN;

use super::Set;
use crate::acl::flow_vrf;
use crate::acl::interfaces::Ends;
use crate::acl::keys::{self, Ip4, Ip6};
use crate::control::desired::AclRuleKey;
use crate::control::forwarder_state::ForwarderState;
use crate::flow::alg::EXPECTED;
use crate::flow::fields::{PacketFields, of_ip4, of_ip6};

/// The drop reasons of packets that lists refuse.
const REFUSED: [&str; 4] = ["acl-input", "acl-output", "zone-pair", "acl-rate-limit"];

/// What has decided about a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::control) struct AclDecision {
    /// The list of the rule that has accepted or refused it, or that has admitted its flow; "": there is none.
    acl: String,
    /// The name of the rule in its list.
    rule: String,
    /// Whether the flow of the packet decided.
    is_of_flow: bool,
    /// The zones of its interfaces, if their pair is asked; "": none.
    zones: [String; 2],
    /// In words, to put behind what the node has done.
    text: String,
}

impl AclDecision {
    fn of_rule(key: &AclRuleKey) -> Self {
        let (acl, rule) = key.clone();
        let text = format!("by rule {rule} of access list {acl}");
        Self { acl, rule, text, ..Self::default() }
    }

    /// The flow of a packet, and the rule that has admitted it, if that has not gone.
    fn of_flow(key: Option<&AclRuleKey>) -> Self {
        let (acl, rule) = key.cloned().unwrap_or_default();
        let text = match key {
            Some(_) => format!("by its flow, which rule {rule} of access list {acl} has admitted"),
            None => "by its flow".to_owned(),
        };
        Self { acl, rule, text, is_of_flow: true, ..Self::default() }
    }

    fn of_text(text: String) -> Self {
        Self { text, ..Self::default() }
    }

    /// About a packet from one zone to another.
    fn between(self, ends: [Option<&str>; 2]) -> Self {
        let name = |zone: Option<&str>| {
            zone.map_or_else(|| "no zone".to_owned(), |it| format!("zone {it}"))
        };
        let [from, to] = ends;
        let text = format!("{}, from {} to {}", self.text, name(from), name(to));
        Self { text, zones: ends.map(|zone| zone.unwrap_or_default().to_owned()), ..self }
    }

    /// Adds it to the step of a trace.
    pub(in crate::control) fn add_to(self, step: &mut v1::TraceStep) {
        step.what = format!("{}, {}", step.what, self.text);
        (step.acl, step.rule, step.of_flow) = (self.acl, self.rule, self.is_of_flow);
        [step.from_zone, step.to_zone] = self.zones;
    }
}

/// A packet of a trace. Of long ones, only the head was kept: what follows is 0, and no rule asks about it.
struct Traced<'a> {
    record: &'a Record,
    is_ip4: bool,
    fields: PacketFields,
}

impl<'a> Traced<'a> {
    fn new(record: &'a Record) -> Self {
        let mut bytes = record.bytes().to_vec();
        bytes.resize(record.length.into(), 0);
        let is_ip4 = bytes.first().is_some_and(|first| first >> 4 == 4);
        let fields = if is_ip4 { of_ip4(&bytes) } else { of_ip6(&bytes) };
        Self { record, is_ip4, fields }
    }

    /// The same as its flow began: TCP with a SYN. So rules judge packets of flows that they have not admitted.
    fn begun(mut self) -> Self {
        const FLAGS: u32 = 0xff00;
        if self.fields.kind.protocol() == TCP {
            self.fields.kind.0 = self.fields.kind.0 & !FLAGS | u32::from(SYN) << 8;
        }
        self
    }

    /// The key of its flow in a VRF.
    fn key(&self, vrf: u16) -> FlowKey {
        let PacketFields { source, destination, ports, kind, .. } = self.fields;
        let (ports, protocol) = (kind.flow_ports(ports), kind.protocol());
        let (source_port, destination_port) = ((ports >> 16) as u16, ports as u16);
        let wide =
            |words: [u32; 4]| words.iter().fold(0, |all, word| all << 32 | u128::from(*word));
        match self.is_ip4 {
            true => {
                let (source, destination) = (source[0], destination[0]);
                FlowKey::ip4(
                    Flow { source, destination, source_port, destination_port, protocol },
                    vrf,
                )
            }
            false => {
                let (source, destination) = (wide(source), wide(destination));
                FlowKey::ip6(
                    Flow { source, destination, source_port, destination_port, protocol },
                    vrf,
                )
            }
        }
    }
}

impl ForwarderState {
    /// What has decided in a node about a traced packet, which it has dropped for a reason ("": not); `None`: neither a
    /// rule nor a flow.
    pub(in crate::control) fn acl_decision(
        &self,
        node: &str,
        record: &Record,
        drop: &str,
    ) -> Option<AclDecision> {
        let (_, place) = node.split_once('-')?;
        if !["acl-input", "acl-output", "zone-output", "zone-local"].contains(&place) {
            return None;
        }
        let packet = Traced::new(record);
        if node.starts_with("ip4") != packet.is_ip4 {
            // Packets for the router pass the nodes of both families.
            return None;
        }
        let is_refused = REFUSED.contains(&drop);
        let of_flow = if place == "acl-input" { flags::TRACKED } else { flags::ADMITTED };
        if !is_refused && (record.flags & of_flow != 0 || !drop.is_empty()) {
            // Without a flow, the packet itself was wrong.
            let flow = self.flow_of(&packet);
            let is_known = flow.is_some() || drop.is_empty();
            let decision = is_known.then(|| AclDecision::of_flow(flow.flatten().as_ref()))?;
            return Some(match self.ends_of(&packet, place) {
                Some(ends) => decision.between(ends),
                None => decision,
            });
        }
        let packet = if record.flags & flags::TRACKED != 0 { packet.begun() } else { packet };
        match place {
            "acl-input" => self.of_lists(&packet, &self.lists_at(&packet, record.rx_if, true)?),
            "acl-output" => self.of_lists(&packet, &self.lists_at(&packet, record.tx_if, false)?),
            _ => self.of_zones(&packet, self.ends_of(&packet, place)?),
        }
    }

    /// The rule of the flow of a packet: `None` if there is no flow, `Some(None)` if its rule has gone.
    fn flow_of(&self, packet: &Traced<'_>) -> Option<Option<AclRuleKey>> {
        let vrf = flow_vrf(self.shared.attributes.vrf_of(packet.record.rx_if));
        let reader = self.shared.flows.reader(packet.is_ip4);
        let flow = reader.entry(reader.find(&packet.key(vrf)).id()?);
        let rule = self.rule_numbers().get(&(flow.rule() & !EXPECTED)).map(|key| (*key).clone());
        flow.is_live().then_some(rule)
    }

    /// The lists of an interface for a packet, if it has some.
    fn lists_at(&self, packet: &Traced<'_>, index: u32, is_input: bool) -> Option<Set> {
        let acls = &self.interface(index)?.desired.acls;
        let lists = match (is_input, packet.is_ip4) {
            (true, true) => &acls.in4,
            (true, false) => &acls.in6,
            (false, true) => &acls.out4,
            (false, false) => &acls.out6,
        };
        (!lists.is_empty()).then(|| Set::new(packet.is_ip4, lists))
    }

    /// What lists decide about a packet.
    fn of_lists(&self, packet: &Traced<'_>, set: &Set) -> Option<AclDecision> {
        let acls = &self.capabilities.acl;
        let classifier = acls.sets.get(set)?;
        let record = packet.record;
        let ends = (record.rx_if, record.tx_if);
        let ends = Ends::of(&self.shared.attributes, ends, record.flags & flags::OWN != 0);
        let entry = match (packet.fields.kind.malformed(), packet.is_ip4) {
            (Some(_), _) => return None,
            (None, true) => keys::first::<Ip4>(&classifier.reader, &packet.fields, ends),
            (None, false) => keys::first::<Ip6>(&classifier.reader, &packet.fields, ends),
        };
        if entry == NO_RULE {
            let lists = if set.lists.len() == 1 { "list" } else { "lists" };
            let text = format!("no rule of access {lists} {} matches", set.lists.join(", "));
            return Some(AclDecision::of_text(text));
        }
        let hits = &classifier.rules.get(entry as usize)?.hits;
        let rules = set.lists.iter().filter_map(|list| acls.lists.get(list));
        let mut rules = rules.flat_map(|list| list.iter());
        rules.find(|rule| Arc::ptr_eq(&rule.hits, hits)).map(|rule| AclDecision::of_rule(&rule.key))
    }

    /// The zones of a packet in a node about pairs of them; `None`: it needs no pair.
    fn ends_of(&self, packet: &Traced<'_>, place: &str) -> Option<[Option<&str>; 2]> {
        let zones = &self.capabilities.acl.zones;
        let of = |index, is_router| if is_router { Some(ROUTER) } else { zones.zone_of(index) };
        let is_own = packet.record.flags & flags::OWN != 0;
        let from = of(packet.record.rx_if, is_own);
        let to = of(packet.record.tx_if, place == "zone-local");
        (place.starts_with("zone-") && from != to).then_some([from, to])
    }

    /// What the pair of these zones decides; `None`: nothing.
    fn of_zones(&self, packet: &Traced<'_>, ends: [Option<&str>; 2]) -> Option<AclDecision> {
        let zones = &self.capabilities.acl.zones;
        let [from, to] = ends;
        let lists = from.zip(to).and_then(|ends| zones.lists_between(ends, packet.is_ip4));
        let decision = match lists {
            // What concerns the router passes without a pair.
            None if ends.contains(&Some(ROUTER)) => return None,
            None => AclDecision::of_text("there is no pair of zones".to_owned()),
            Some(set) if set.lists.is_empty() => {
                let family = if packet.is_ip4 { 4 } else { 6 };
                AclDecision::of_text(format!("the pair of zones has no list of IPv{family}"))
            }
            Some(set) => self.of_lists(packet, set)?,
        };
        Some(decision.between(ends))
    }
}
