//! A walk over rules one by one, as RFC 8519 describes them: which one decides about a packet, and why.

use std::net::IpAddr;

use stoa_api::acl::{
    action_text, conditions_text, flags_text, fragment_text, protocol_name, ranges_text,
};
use stoa_api::text::ip;
use stoa_api::v1;

use super::rules::needs_upper;

/// Rules that do not match, and are named with the reason.
const NAMED: usize = 100;

const ICMP4: u32 = 1;
const TCP: u32 = 6;
const UDP: u32 = 17;
const ICMP6: u32 = 58;

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
pub type Verdict = v1::TestAclReply;

/// The verdict of these rules, in their order.
pub(super) fn walk<'a>(rules: impl Iterator<Item = &'a v1::AclRule>, packet: &Packet) -> Verdict {
    let mut verdict = Verdict::default();
    for rule in rules {
        let Some(reason) = miss(rule, packet) else {
            verdict.action = action_text(rule.action()).to_owned();
            verdict.reason =
                format!("it is the first rule that matches: {}", conditions_text(rule));
            (verdict.acl, verdict.rule) = (rule.acl.clone(), rule.name.clone());
            return verdict;
        };
        verdict.passed_total += 1;
        if verdict.passed.len() < NAMED {
            let (acl, rule) = (rule.acl.clone(), rule.name.clone());
            verdict.passed.push(v1::AclMiss { acl, rule, reason });
        }
    }
    let (action, reason) = match is_essential(packet) {
        true => ("accept", "no rule matches, but links and path MTU discovery need it (RFC 4890)"),
        false => ("drop", "no rule matches, and a list of the family is attached"),
    };
    (verdict.action, verdict.reason) = (action.to_owned(), reason.to_owned());
    verdict
}

/// Whether a packet that no rule matches passes all the same.
fn is_essential(packet: &Packet) -> bool {
    let v1::TestAclRequest { protocol, icmp_type, icmp_code, hop_limit, .. } = packet.of;
    if packet.of.fragment() == v1::AclFragment::LaterFragment {
        return false;
    }
    match (packet.source.is_ipv4(), protocol) {
        (true, ICMP4) => (icmp_type, icmp_code) == (3, 4),
        (false, ICMP6) => match icmp_type {
            1..=4 => true,
            130..=132 | 143 => hop_limit == 1,
            133..=137 => hop_limit == 255,
            _ => false,
        },
        _ => false,
    }
}

/// Why a rule does not match a packet; `None`: it matches.
fn miss(rule: &v1::AclRule, packet: &Packet) -> Option<String> {
    let of = &packet.of;
    let family = if packet.source.is_ipv4() { 4 } else { 6 };
    if rule.family != 0 && rule.family != family {
        return Some(format!("it is of IPv{}", rule.family));
    }
    let ends = [
        ("source", &rule.source, packet.source),
        ("destination", &rule.destination, packet.destination),
    ];
    for (name, prefix, address) in ends {
        let Some(prefix) = prefix else { continue };
        if !contains(prefix, address) {
            return Some(format!("{name} {address} is not in {prefix}"));
        }
    }
    if let Some(dscp) = rule.dscp.filter(|dscp| *dscp != of.dscp) {
        return Some(format!("dscp is {}, not {dscp}", of.dscp));
    }
    if let Some(protocol) = rule.protocol.filter(|protocol| *protocol != of.protocol) {
        let (is, wanted) = (protocol_name(of.protocol), protocol_name(protocol));
        return Some(format!("protocol is {is}, not {wanted}"));
    }
    let length = if of.length == 0 { 100 } else { of.length };
    if let Some(range) = rule.length.filter(|it| length < it.first || it.last < length) {
        return Some(format!("length {length} is not in {}", ranges_text(&[range])));
    }
    miss_of_fragment(rule, of).or_else(|| miss_of_upper(rule, of))
}

fn contains(prefix: &v1::Prefix, address: IpAddr) -> bool {
    let net = ip(&prefix.address).and_then(|it| ipnet::IpNet::new(it, prefix.length as u8).ok());
    net.is_some_and(|net| net.contains(&address))
}

fn miss_of_fragment(rule: &v1::AclRule, of: &v1::TestAclRequest) -> Option<String> {
    use v1::AclFragment::{AnyFragment, AnyPacket, FirstFragment, LaterFragment, NoFragment};
    let part = match of.fragment() {
        AnyPacket | NoFragment => NoFragment,
        FirstFragment | AnyFragment => FirstFragment,
        LaterFragment => LaterFragment,
    };
    let matches = match rule.fragment() {
        AnyPacket => true,
        AnyFragment => part != NoFragment,
        wanted => wanted == part,
    };
    let text =
        format!("fragment is {}, not {}", fragment_text(part), fragment_text(rule.fragment()));
    (!matches).then_some(text)
}

fn miss_of_upper(rule: &v1::AclRule, of: &v1::TestAclRequest) -> Option<String> {
    if !needs_upper(rule) {
        return None;
    }
    if of.fragment() == v1::AclFragment::LaterFragment {
        return Some("later fragments have no upper-layer header".to_owned());
    }
    let has_ports = matches!(of.protocol, TCP | UDP);
    let ports = [
        ("source-port", &rule.source_ports, of.source_port),
        ("destination-port", &rule.destination_ports, of.destination_port),
    ];
    for (name, ranges, port) in ports {
        let is_in = ranges.iter().any(|range| range.first <= port && port <= range.last);
        let matches = ranges.is_empty() || has_ports && is_in;
        if !matches {
            return Some(format!("{name} {port} is not in {}", ranges_text(ranges)));
        }
    }
    let icmp =
        [("icmp-type", rule.icmp_type, of.icmp_type), ("icmp-code", rule.icmp_code, of.icmp_code)];
    for (name, wanted, is) in icmp {
        if let Some(wanted) = wanted.filter(|wanted| *wanted != is) {
            return Some(format!("{name} is {is}, not {wanted}"));
        }
    }
    let flags = of.tcp_flags & rule.tcp_flags_mask;
    (flags != rule.tcp_flags).then(|| {
        let clear = flags_text(rule.tcp_flags_mask & !rule.tcp_flags);
        format!(
            "tcp-flags are \"{}\", not \"{}\" with \"{clear}\" clear",
            flags_text(of.tcp_flags),
            flags_text(rule.tcp_flags)
        )
    })
}
