//! What a stateful rule does with the packet that it accepts.

use std::net::IpAddr;

use stoa_api::v1;
use stoa_wire::icmp_query;
use stoa_wire::protocol::{ICMP4, ICMP6, TCP};
use stoa_wire::tcp::flag;

use super::walk::Packet;

/// Whether a packet begins a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlowOf {
    /// It does.
    New,
    /// It does not, and passes.
    None,
    /// It is TCP that opens no connection: it is dropped unless it belongs to one.
    NoConnection,
}

/// What becomes of a packet that a rule accepts, and that has no address of the router.
pub(super) fn flow_of(rule: &v1::AclRule, packet: &Packet) -> FlowOf {
    if !rule.stateful || is_aside(packet.destination) || is_aside(packet.source) {
        return FlowOf::None;
    }
    let of = &packet.of;
    // It follows the first fragment; at an output, the TTL is lower already.
    if of.fragment() == v1::AclFragment::LaterFragment
        || (of.hop_limit == 1 && of.direction == "in")
    {
        return FlowOf::None;
    }
    let protocol = u8::try_from(of.protocol).unwrap_or_default();
    let is_ip6 = packet.source.is_ipv6();
    if protocol == if is_ip6 { ICMP6 } else { ICMP4 } {
        let message = u8::try_from(of.icmp_type).unwrap_or_default();
        let is_request = matches!(icmp_query::of(is_ip6, message), Some((_, false)));
        return if is_request { FlowOf::New } else { FlowOf::None };
    }
    if protocol != TCP {
        return FlowOf::New;
    }
    const KIND: u8 = flag::SYN | flag::FIN | flag::RST | flag::ACK;
    let kind = of.tcp_flags as u8 & KIND;
    let is_whole = of.fragment() != v1::AclFragment::FirstFragment;
    let is_loose = rule.flow_profile.is_some_and(|profile| profile.tcp_loose);
    match (kind == flag::SYN && is_whole) || (kind == flag::ACK && is_loose) {
        true => FlowOf::New,
        false => FlowOf::NoConnection,
    }
}

/// Whether packets to or from an address are decided one by one, and belong to no flow.
fn is_aside(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(ip) => ip.is_multicast() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_multicast() || ip.is_unicast_link_local(),
    }
}
