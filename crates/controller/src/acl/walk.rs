//! A walk over rules one by one, as RFC 8519 describes them: which one decides about a packet, and why.

use std::net::IpAddr;

use stoa_api::acl::{
    action_text, conditions_text, flags_text, fragment_text, prefixes_text, protocol_name,
    protocols_text, ranges_text, set_or,
};
use stoa_api::v1;
use stoa_wire::essential;
use stoa_wire::protocol::{ICMP4, ICMP6, TCP, UDP};

use super::coverage::net;
use super::flow_of::{FlowOf, flow_of};
use super::interfaces::{Way, vlan_of};
use super::rules::needs_upper;

/// Rules that do not match, and are named with the reason.
const NAMED: usize = 100;

/// A packet.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Who sends it.
    pub source: IpAddr,
    /// To whom, of the same family.
    pub destination: IpAddr,
    /// Its protocol and the fields of it.
    pub of: v1::TestAclRequest,
}

/// What becomes of a packet.
pub type Decision = v1::TestAclReply;

/// What these rules, in their order, do with a packet. `is_own`: one of its addresses is the router's.
pub(super) fn walk<'a>(
    rules: impl Iterator<Item = &'a v1::AclRule>,
    (packet, way): (&Packet, Way<'_>),
    is_own: bool,
) -> Decision {
    let mut decision = Decision::default();
    for rule in rules {
        let Some(miss) = miss(rule, packet, way) else {
            decision.action = action_text(rule.action()).to_owned();
            decision.reason =
                format!("it is the first rule that matches: {}", conditions_text(rule));
            (decision.acl, decision.rule) = (rule.acl.clone(), rule.name.clone());
            let flow = if is_own { FlowOf::None } else { flow_of(rule, packet) };
            decide_flow(&mut decision, flow);
            return decision;
        };
        decision.passed_total += 1;
        if decision.passed.len() < NAMED {
            let reason = miss.text(rule, packet, way);
            let (acl, rule) = (rule.acl.clone(), rule.name.clone());
            decision.passed.push(v1::AclMiss { acl, rule, reason });
        }
    }
    let (action, reason) = match is_essential(packet) {
        true => ("accept", "no rule matches, but links and path MTU discovery need it (RFC 4890)"),
        false => ("drop", "no rule matches, and a list of the family is attached"),
    };
    (decision.action, decision.reason) = (action.to_owned(), reason.to_owned());
    decision
}

/// What a stateful rule does beside accepting the packet.
fn decide_flow(decision: &mut Decision, flow: FlowOf) {
    match flow {
        FlowOf::New => decision.stateful = true,
        FlowOf::None => {}
        FlowOf::NoConnection => {
            decision.action = "drop".to_owned();
            decision.reason.push_str(
                ", but it is stateful, and the segment opens no connection (tcp-no-connection)",
            );
        }
    }
}

/// Whether a rule matches a packet on its way. Nothing is allocated: commits ask it of all rules.
pub(super) fn matches(rule: &v1::AclRule, packet: &Packet, way: Way<'_>) -> bool {
    miss(rule, packet, way).is_none()
}

/// Whether a packet that no rule matches passes all the same.
fn is_essential(packet: &Packet) -> bool {
    let v1::TestAclRequest { protocol, icmp_type, icmp_code, hop_limit, .. } = packet.of;
    let is_ip4 = packet.source.is_ipv4();
    let [kind, code, hop_limit] =
        [icmp_type, icmp_code, hop_limit].map(|it| u8::try_from(it).unwrap_or(u8::MAX));
    protocol == u32::from(if is_ip4 { ICMP4 } else { ICMP6 })
        && packet.of.fragment() != v1::AclFragment::LaterFragment
        && essential::is_essential(is_ip4, [kind, code], hop_limit)
}

/// The first condition of a rule that a packet does not meet.
#[derive(Clone, Copy)]
enum Miss {
    /// A set of the rule has no values.
    Nothing,
    Ingress,
    Egress,
    Vlan,
    Family,
    Source,
    Destination,
    Dscp,
    Protocol,
    Length,
    Fragment,
    /// The packet has no header of the upper layer.
    Upper,
    SourcePort,
    DestinationPort,
    IcmpType,
    IcmpCode,
    TcpFlags,
}

/// The length of the packet in question.
fn length(of: &v1::TestAclRequest) -> u32 {
    if of.length == 0 { 100 } else { of.length }
}

/// Why a rule does not match a packet; `None`: it matches.
fn miss(rule: &v1::AclRule, packet: &Packet, way: Way<'_>) -> Option<Miss> {
    let of = &packet.of;
    let family = if packet.source.is_ipv4() { 4 } else { 6 };
    if rule.matches_nothing {
        return Some(Miss::Nothing);
    }
    if rule.family != 0 && rule.family != family {
        return Some(Miss::Family);
    }
    if let Some(miss) = miss_of_way(rule, way) {
        return Some(miss);
    }
    let is_in = |prefixes: &[v1::Prefix], address: IpAddr| {
        prefixes.is_empty() || prefixes.iter().any(|prefix| contains(prefix, address))
    };
    if !is_in(&rule.sources, packet.source) {
        return Some(Miss::Source);
    }
    if !is_in(&rule.destinations, packet.destination) {
        return Some(Miss::Destination);
    }
    if rule.dscp.is_some_and(|dscp| dscp != of.dscp) {
        return Some(Miss::Dscp);
    }
    if !rule.protocols.is_empty() && !rule.protocols.contains(&of.protocol) {
        return Some(Miss::Protocol);
    }
    let length = length(of);
    if rule.length.is_some_and(|it| length < it.first || it.last < length) {
        return Some(Miss::Length);
    }
    if !matches_fragment(rule, of) {
        return Some(Miss::Fragment);
    }
    miss_of_upper(rule, of)
}

/// The first condition on interfaces that a packet does not meet. An unknown one is none of a rule.
fn miss_of_way(rule: &v1::AclRule, way: Way<'_>) -> Option<Miss> {
    let is_end = |name: &str, end: Option<&v1::Interface>| {
        name.is_empty() || end.is_some_and(|end| end.name == name)
    };
    if !is_end(&rule.ingress_interface, way.ingress) {
        return Some(Miss::Ingress);
    }
    if !is_end(&rule.egress_interface, way.egress) {
        return Some(Miss::Egress);
    }
    let is_vlan = |vlan: u32| way.ingress.is_some_and(|it| vlan_of(it) == vlan);
    rule.vlan_id.is_some_and(|vlan| !is_vlan(vlan)).then_some(Miss::Vlan)
}

fn contains(prefix: &v1::Prefix, address: IpAddr) -> bool {
    net(prefix).is_some_and(|net| net.contains(&address))
}

/// The fragment state of the packet in question.
fn part(of: &v1::TestAclRequest) -> v1::AclFragment {
    use v1::AclFragment::{AnyFragment, AnyPacket, FirstFragment, LaterFragment, NoFragment};
    match of.fragment() {
        AnyPacket | NoFragment => NoFragment,
        FirstFragment | AnyFragment => FirstFragment,
        LaterFragment => LaterFragment,
    }
}

fn matches_fragment(rule: &v1::AclRule, of: &v1::TestAclRequest) -> bool {
    use v1::AclFragment::{AnyFragment, AnyPacket, NoFragment};
    match rule.fragment() {
        AnyPacket => true,
        AnyFragment => part(of) != NoFragment,
        wanted => wanted == part(of),
    }
}

fn miss_of_upper(rule: &v1::AclRule, of: &v1::TestAclRequest) -> Option<Miss> {
    if !needs_upper(rule) {
        return None;
    }
    if of.fragment() == v1::AclFragment::LaterFragment {
        return Some(Miss::Upper);
    }
    let has_ports = [TCP, UDP].iter().any(|it| of.protocol == u32::from(*it));
    let is_one_of = |ranges: &[v1::PortRange], port: u32| {
        let is_in = ranges.iter().any(|range| range.first <= port && port <= range.last);
        ranges.is_empty() || has_ports && is_in
    };
    if !is_one_of(&rule.source_ports, of.source_port) {
        return Some(Miss::SourcePort);
    }
    if !is_one_of(&rule.destination_ports, of.destination_port) {
        return Some(Miss::DestinationPort);
    }
    if rule.icmp_type.is_some_and(|wanted| wanted != of.icmp_type) {
        return Some(Miss::IcmpType);
    }
    if rule.icmp_code.is_some_and(|wanted| wanted != of.icmp_code) {
        return Some(Miss::IcmpCode);
    }
    (of.tcp_flags & rule.tcp_flags_mask != rule.tcp_flags).then_some(Miss::TcpFlags)
}

impl Miss {
    /// What the packet has, and what the rule wants.
    fn text(self, rule: &v1::AclRule, packet: &Packet, way: Way<'_>) -> String {
        let of = &packet.of;
        let no_sets = v1::AclRuleSets::default();
        let sets = rule.sets.as_ref().unwrap_or(&no_sets);
        let outside = |name: &str, address: IpAddr, (set, nets): (&String, &[v1::Prefix])| {
            format!("{name} {address} is not in {}", set_or(set, || prefixes_text(nets)))
        };
        let not = |name: &str, is: u32, wanted: Option<u32>| {
            format!("{name} is {is}, not {}", wanted.unwrap_or_default())
        };
        let port = |name: &str, port: u32, (set, ranges): (&String, &[v1::PortRange])| {
            format!("{name} {port} is not in {}", set_or(set, || ranges_text(ranges)))
        };
        match self {
            Self::Nothing => "a set of it has no values".to_owned(),
            Self::Ingress => end_text("ingress-interface", way.ingress, &rule.ingress_interface),
            Self::Egress => end_text("egress-interface", way.egress, &rule.egress_interface),
            Self::Vlan => match way.ingress {
                Some(it) => not("vlan-id", vlan_of(it), rule.vlan_id),
                None => {
                    let vlan = rule.vlan_id.unwrap_or_default().to_string();
                    end_text("vlan-id", None, &vlan)
                }
            },
            Self::Family => format!("it is of IPv{}", rule.family),
            Self::Source => outside("source", packet.source, (&sets.sources, &rule.sources)),
            Self::Destination => {
                let list = (&sets.destinations, rule.destinations.as_slice());
                outside("destination", packet.destination, list)
            }
            Self::Dscp => not("dscp", of.dscp, rule.dscp),
            Self::Protocol => {
                let (is, all) = (protocol_name(of.protocol), &rule.protocols);
                match sets.protocols.as_str() {
                    "" => format!("protocol is {is}, not {}", protocols_text(all)),
                    set => format!("protocol {is} is not in set {set}"),
                }
            }
            Self::Length => {
                let ranges: Vec<v1::PortRange> = rule.length.into_iter().collect();
                format!("length {} is not in {}", length(of), ranges_text(&ranges))
            }
            Self::Fragment => {
                let (is, wanted) = (fragment_text(part(of)), fragment_text(rule.fragment()));
                format!("fragment is {is}, not {wanted}")
            }
            Self::Upper => "later fragments have no upper-layer header".to_owned(),
            Self::SourcePort => {
                port("source-port", of.source_port, (&sets.source_ports, &rule.source_ports))
            }
            Self::DestinationPort => {
                let list = (&sets.destination_ports, rule.destination_ports.as_slice());
                port("destination-port", of.destination_port, list)
            }
            Self::IcmpType => not("icmp-type", of.icmp_type, rule.icmp_type),
            Self::IcmpCode => not("icmp-code", of.icmp_code, rule.icmp_code),
            Self::TcpFlags => {
                let clear = flags_text(rule.tcp_flags_mask & !rule.tcp_flags);
                format!(
                    "tcp-flags are \"{}\", not \"{}\" with \"{clear}\" clear",
                    flags_text(of.tcp_flags),
                    flags_text(rule.tcp_flags)
                )
            }
        }
    }
}

/// Why an interface is not that of a rule.
fn end_text(leaf: &str, is: Option<&v1::Interface>, wanted: &str) -> String {
    match is {
        Some(it) => format!("{leaf} is {}, not {wanted}", it.name),
        None => format!("{leaf} is not {wanted}: the packet has none, or it was not named"),
    }
}
