//! The templates of all records, and how their fields are written.

use std::net::IpAddr;

use stoa_tables::flow_hash::Flow;
use stoa_tables::flow_table::{Counters, Tuple};
use stoa_wire::ipfix::element::{self as e, nat_event};
use stoa_wire::ipfix::{Element, Fields, Template};
use stoa_wire::protocol::{ICMP4, ICMP6, has_ports};
use stoa_wire::siit::as_icmp6;

use super::record::{Denial, FlowRecord, NatEvent, NatEventKind, Side6};

/// Declares templates with numbers that follow each other.
macro_rules! templates {
    ($($(#[$doc:meta])* $name:ident = $id:literal, $scope:literal, [$($element:expr),* $(,)?];)*) => {
        $($(#[$doc])* pub const $name: Template =
            Template { id: $id, scope: $scope, elements: &[$($element),*] };)*

        /// All templates.
        pub const ALL: &[Template] = &[$($name),*];
    };
}

const REVERSE_PACKETS: Element = e::PACKETS.reverse();
const REVERSE_OCTETS: Element = e::OCTETS.reverse();

templates! {
    /// An IPv4 flow with both directions.
    BIFLOW4 = 256, 0, [
        e::SOURCE_IP4, e::DESTINATION_IP4, e::SOURCE_PORT, e::DESTINATION_PORT, e::PROTOCOL, e::ICMP4_TYPE_CODE,
        e::END_REASON, e::INGRESS_VRF, e::START_MS, e::END_MS, e::PACKETS, e::OCTETS, REVERSE_PACKETS, REVERSE_OCTETS,
    ];
    /// An IPv6 flow with both directions.
    BIFLOW6 = 257, 0, [
        e::SOURCE_IP6, e::DESTINATION_IP6, e::SOURCE_PORT, e::DESTINATION_PORT, e::PROTOCOL, e::ICMP6_TYPE_CODE,
        e::END_REASON, e::INGRESS_VRF, e::START_MS, e::END_MS, e::PACKETS, e::OCTETS, REVERSE_PACKETS, REVERSE_OCTETS,
    ];
    /// A translated IPv4 flow with both directions.
    TRANSLATED_BIFLOW4 = 258, 0, [
        e::SOURCE_IP4, e::DESTINATION_IP4, e::SOURCE_PORT, e::DESTINATION_PORT, e::PROTOCOL, e::ICMP4_TYPE_CODE,
        e::END_REASON, e::INGRESS_VRF, e::START_MS, e::END_MS, e::PACKETS, e::OCTETS, REVERSE_PACKETS, REVERSE_OCTETS,
        e::POST_NAT_SOURCE_IP4, e::POST_NAT_DESTINATION_IP4, e::POST_NAPT_SOURCE_PORT, e::POST_NAPT_DESTINATION_PORT,
    ];
    /// A direction of an IPv4 flow.
    FLOW4 = 259, 0, [
        e::SOURCE_IP4, e::DESTINATION_IP4, e::SOURCE_PORT, e::DESTINATION_PORT, e::PROTOCOL, e::ICMP4_TYPE_CODE,
        e::END_REASON, e::INGRESS_VRF, e::START_MS, e::END_MS, e::PACKETS, e::OCTETS,
    ];
    /// A direction of an IPv6 flow.
    FLOW6 = 260, 0, [
        e::SOURCE_IP6, e::DESTINATION_IP6, e::SOURCE_PORT, e::DESTINATION_PORT, e::PROTOCOL, e::ICMP6_TYPE_CODE,
        e::END_REASON, e::INGRESS_VRF, e::START_MS, e::END_MS, e::PACKETS, e::OCTETS,
    ];
    /// A direction of a translated IPv4 flow.
    TRANSLATED_FLOW4 = 261, 0, [
        e::SOURCE_IP4, e::DESTINATION_IP4, e::SOURCE_PORT, e::DESTINATION_PORT, e::PROTOCOL, e::ICMP4_TYPE_CODE,
        e::END_REASON, e::INGRESS_VRF, e::START_MS, e::END_MS, e::PACKETS, e::OCTETS,
        e::POST_NAT_SOURCE_IP4, e::POST_NAT_DESTINATION_IP4, e::POST_NAPT_SOURCE_PORT, e::POST_NAPT_DESTINATION_PORT,
    ];
    /// Begin or end of a NAT44 session (RFC 8158 section 5.6.2).
    SESSION = 262, 0, [
        e::TIME_MS, e::NAT_EVENT, e::INGRESS_VRF, e::PROTOCOL, e::SOURCE_IP4, e::POST_NAT_SOURCE_IP4, e::SOURCE_PORT,
        e::POST_NAPT_SOURCE_PORT, e::DESTINATION_IP4, e::POST_NAT_DESTINATION_IP4, e::DESTINATION_PORT,
        e::POST_NAPT_DESTINATION_PORT,
    ];
    /// No external address or no external port is free (sections 5.6.5 and 5.6.6).
    EXHAUSTED = 263, 0,
        [e::TIME_MS, e::NAT_EVENT, e::NAT_INSTANCE, e::INGRESS_VRF, e::SOURCE_IP4, e::PROTOCOL];
    /// A subscriber has as much as it may have (section 5.6.7).
    QUOTA = 264, 0,
        [e::TIME_MS, e::NAT_EVENT, e::NAT_QUOTA_EVENT, e::NAT_INSTANCE, e::INGRESS_VRF, e::SOURCE_IP4];
    /// A block of ports was given to a subscriber, or back (section 5.6.10).
    PORT_BLOCK = 265, 0, [
        e::TIME_MS, e::NAT_EVENT, e::NAT_INSTANCE, e::INGRESS_VRF, e::SOURCE_IP4, e::POST_NAT_SOURCE_IP4,
        e::PORT_RANGE_START, e::PORT_RANGE_END,
    ];
    /// A refused IPv4 packet.
    DENIED4 = 266, 0, [
        e::START_MS, e::END_MS, e::FIREWALL_EVENT, e::SOURCE_IP4, e::DESTINATION_IP4, e::SOURCE_PORT, e::DESTINATION_PORT,
        e::PROTOCOL, e::ICMP4_TYPE_CODE, e::INGRESS_INTERFACE, e::EGRESS_INTERFACE, e::PACKETS, e::OCTETS,
    ];
    /// A refused IPv6 packet.
    DENIED6 = 267, 0, [
        e::START_MS, e::END_MS, e::FIREWALL_EVENT, e::SOURCE_IP6, e::DESTINATION_IP6, e::SOURCE_PORT, e::DESTINATION_PORT,
        e::PROTOCOL, e::ICMP6_TYPE_CODE, e::INGRESS_INTERFACE, e::EGRESS_INTERFACE, e::PACKETS, e::OCTETS,
    ];
    /// What was sent to a collector, and what was not (RFC 7011 sections 4.1 and 4.3).
    STATISTICS = 268, 1, [
        e::EXPORTING_PROCESS, e::EXPORTED_MESSAGES, e::EXPORTED_FLOW_RECORDS, e::EXPORTED_OCTETS, e::NOT_SENT_FLOWS,
    ];
    /// How flows are chosen (RFC 7014).
    SAMPLING = 269, 1, [e::OBSERVATION_DOMAIN, e::FLOW_SELECTOR, e::SAMPLING_PROBABILITY];
    /// A flow of an IPv6 host by NAT64 with both directions.
    BIFLOW64 = 270, 0, [
        e::SOURCE_IP6, e::DESTINATION_IP6, e::SOURCE_PORT, e::DESTINATION_PORT, e::PROTOCOL, e::ICMP6_TYPE_CODE,
        e::END_REASON, e::INGRESS_VRF, e::START_MS, e::END_MS, e::PACKETS, e::OCTETS, REVERSE_PACKETS, REVERSE_OCTETS,
        e::POST_NAT_SOURCE_IP4, e::POST_NAT_DESTINATION_IP4, e::POST_NAPT_SOURCE_PORT, e::POST_NAPT_DESTINATION_PORT,
    ];
    /// A flow that an IPv4 host has begun, to an IPv6 host, with both directions.
    BIFLOW46 = 271, 0, [
        e::SOURCE_IP4, e::DESTINATION_IP4, e::SOURCE_PORT, e::DESTINATION_PORT, e::PROTOCOL, e::ICMP4_TYPE_CODE,
        e::END_REASON, e::INGRESS_VRF, e::START_MS, e::END_MS, e::PACKETS, e::OCTETS, REVERSE_PACKETS, REVERSE_OCTETS,
        e::POST_NAT_SOURCE_IP6, e::POST_NAT_DESTINATION_IP6, e::POST_NAPT_SOURCE_PORT, e::POST_NAPT_DESTINATION_PORT,
    ];
    /// A direction of a flow of NAT64, from its IPv6 host.
    FLOW64 = 272, 0, [
        e::SOURCE_IP6, e::DESTINATION_IP6, e::SOURCE_PORT, e::DESTINATION_PORT, e::PROTOCOL, e::ICMP6_TYPE_CODE,
        e::END_REASON, e::INGRESS_VRF, e::START_MS, e::END_MS, e::PACKETS, e::OCTETS,
        e::POST_NAT_SOURCE_IP4, e::POST_NAT_DESTINATION_IP4, e::POST_NAPT_SOURCE_PORT, e::POST_NAPT_DESTINATION_PORT,
    ];
    /// The direction to the IPv6 host.
    FLOW46 = 273, 0, [
        e::SOURCE_IP4, e::DESTINATION_IP4, e::SOURCE_PORT, e::DESTINATION_PORT, e::PROTOCOL, e::ICMP4_TYPE_CODE,
        e::END_REASON, e::INGRESS_VRF, e::START_MS, e::END_MS, e::PACKETS, e::OCTETS,
        e::POST_NAT_SOURCE_IP6, e::POST_NAT_DESTINATION_IP6, e::POST_NAPT_SOURCE_PORT, e::POST_NAPT_DESTINATION_PORT,
    ];
    /// Begin or end of a NAT64 session (RFC 8158 section 5.6.3), as packets of the IPv6 host are.
    SESSION64 = 274, 0, [
        e::TIME_MS, e::NAT_EVENT, e::INGRESS_VRF, e::PROTOCOL, e::SOURCE_IP6, e::POST_NAT_SOURCE_IP4, e::SOURCE_PORT,
        e::POST_NAPT_SOURCE_PORT, e::DESTINATION_IP6, e::POST_NAT_DESTINATION_IP4, e::DESTINATION_PORT,
        e::POST_NAPT_DESTINATION_PORT,
    ];
    /// No external address or no external port is free for an IPv6 host.
    EXHAUSTED64 = 275, 0,
        [e::TIME_MS, e::NAT_EVENT, e::NAT_INSTANCE, e::INGRESS_VRF, e::SOURCE_IP6, e::PROTOCOL];
    /// An IPv6 host has as much as it may have.
    QUOTA64 = 276, 0,
        [e::TIME_MS, e::NAT_EVENT, e::NAT_QUOTA_EVENT, e::NAT_INSTANCE, e::INGRESS_VRF, e::SOURCE_IP6];
    /// A block of ports was given to an IPv6 host, or back.
    PORT_BLOCK64 = 277, 0, [
        e::TIME_MS, e::NAT_EVENT, e::NAT_INSTANCE, e::INGRESS_VRF, e::SOURCE_IP6, e::POST_NAT_SOURCE_IP4,
        e::PORT_RANGE_START, e::PORT_RANGE_END,
    ];
    /// A flow between two IPv6 hosts, of which the other one is reached by an external address, with both directions.
    BIFLOW66 = 278, 0, [
        e::SOURCE_IP6, e::DESTINATION_IP6, e::SOURCE_PORT, e::DESTINATION_PORT, e::PROTOCOL, e::ICMP6_TYPE_CODE,
        e::END_REASON, e::INGRESS_VRF, e::START_MS, e::END_MS, e::PACKETS, e::OCTETS, REVERSE_PACKETS, REVERSE_OCTETS,
        e::POST_NAT_SOURCE_IP6, e::POST_NAT_DESTINATION_IP6, e::POST_NAPT_SOURCE_PORT, e::POST_NAPT_DESTINATION_PORT,
    ];
    /// A direction of such a flow.
    FLOW66 = 279, 0, [
        e::SOURCE_IP6, e::DESTINATION_IP6, e::SOURCE_PORT, e::DESTINATION_PORT, e::PROTOCOL, e::ICMP6_TYPE_CODE,
        e::END_REASON, e::INGRESS_VRF, e::START_MS, e::END_MS, e::PACKETS, e::OCTETS,
        e::POST_NAT_SOURCE_IP6, e::POST_NAT_DESTINATION_IP6, e::POST_NAPT_SOURCE_PORT, e::POST_NAPT_DESTINATION_PORT,
    ];
    /// Begin or end of its session: the external address of the source is of IPv4, as in [`SESSION64`].
    SESSION66 = 280, 0, [
        e::TIME_MS, e::NAT_EVENT, e::INGRESS_VRF, e::PROTOCOL, e::SOURCE_IP6, e::POST_NAT_SOURCE_IP4, e::SOURCE_PORT,
        e::POST_NAPT_SOURCE_PORT, e::DESTINATION_IP6, e::POST_NAT_DESTINATION_IP6, e::DESTINATION_PORT,
        e::POST_NAPT_DESTINATION_PORT,
    ];
}

/// The template of a flow's record.
#[inline]
pub fn of_flow(flow: &FlowRecord, side: Option<Side6>, is_biflow: bool) -> &'static Template {
    let before = side.is_some_and(|it| it.before.is_some());
    let behind = side.is_some_and(|it| it.behind.is_some());
    let (both, one) = match (before, behind, flow.translated.is_some()) {
        _ if !flow.is_ip4() => (&BIFLOW6, &FLOW6),
        (false, false, false) => (&BIFLOW4, &FLOW4),
        (false, false, true) => (&TRANSLATED_BIFLOW4, &TRANSLATED_FLOW4),
        (false, true, _) => (&BIFLOW46, &FLOW46),
        (true, true, _) => (&BIFLOW66, &FLOW66),
        (true, false, true) => (&BIFLOW64, &FLOW64),
        (true, false, false) => (&BIFLOW6, &FLOW6),
    };
    if is_biflow { both } else { one }
}

/// The template of an event. `host`: the address of its subscriber, if that is an IPv6 host.
pub fn of_event(event: &NatEvent, host: Option<u128>) -> &'static Template {
    let (of4, of6) = match event.kind {
        NatEventKind::AddressesExhausted | NatEventKind::PortsExhausted => {
            (&EXHAUSTED, &EXHAUSTED64)
        }
        NatEventKind::QuotaExceeded => (&QUOTA, &QUOTA64),
        NatEventKind::PortBlock { .. } => (&PORT_BLOCK, &PORT_BLOCK64),
    };
    if host.is_some() { of6 } else { of4 }
}

/// Ports of a record. Flows of ICMP have an identifier and a type in their place, which are no ports (RFC 7012).
#[inline]
fn ports(protocol: u8, ports: [u16; 2]) -> [u16; 2] {
    if has_ports(protocol) { ports } else { [0, 0] }
}

/// Type and code of the first packet of an ICMP flow, or of its replies; 0 of other flows. Keys have the type of the
/// request in the place of the destination port.
#[inline]
pub fn icmp(flow: &FlowRecord, is_reply: bool) -> u16 {
    // Each family has its ICMP: the other one is a protocol without a type there, and its keys have no ports.
    let (kind, is_icmp, is_ip4) = match flow.key.tuple {
        Tuple::Ip4(it) => (it.destination_port, it.protocol == ICMP4, true),
        Tuple::Ip6(it) => (it.destination_port, it.protocol == ICMP6, false),
    };
    let kind = match (is_icmp, is_reply) {
        (false, _) => 0,
        (true, false) => kind,
        (true, true) if is_ip4 && kind == 8 => 0,
        // Of other queries, the reply has the next number.
        (true, true) => kind + 1,
    };
    kind << 8
}

fn put_counters(fields: &mut Fields<'_>, counters: Counters) {
    fields.u64(counters.packets);
    fields.u64(counters.bytes);
}

fn put_ports(fields: &mut Fields<'_>, ports: [u16; 2]) {
    ports.into_iter().for_each(|port| fields.u16(port));
}

/// Writes a record of [`of_flow`] with this type and code of ICMP. `times_ms`: of its first and its last packet, since
/// 1970. `counters`: those of the original direction, and of the other one for a record that has both.
#[inline]
pub fn put_flow(
    fields: &mut Fields<'_>,
    (flow, side, icmp): (&FlowRecord, Option<Side6>, u16),
    times_ms: [u64; 2],
    counters: &[Counters],
) {
    let (before, behind) = side.map_or((None, None), |it| (it.before, it.behind));
    let (both, protocol) = match flow.key.tuple {
        Tuple::Ip4(it) => {
            match before {
                Some(ends) => put_ends6(fields, ends),
                None => [it.source, it.destination].into_iter().for_each(|it| fields.u32(it)),
            }
            ([it.source_port, it.destination_port], it.protocol)
        }
        Tuple::Ip6(it) => {
            fields.bytes(it.source.to_be_bytes());
            fields.bytes(it.destination.to_be_bytes());
            ([it.source_port, it.destination_port], it.protocol)
        }
    };
    put_ports(fields, ports(protocol, both));
    let (shown, icmp) = if before.is_some() { as_icmp6(protocol, icmp) } else { (protocol, icmp) };
    fields.u8(shown);
    fields.u16(icmp);
    fields.u8(flow.reason as u8);
    fields.u32(flow.vrf().into());
    times_ms.into_iter().for_each(|time| fields.u64(time));
    counters.iter().for_each(|it| put_counters(fields, *it));
    if let Some(after) = flow.translated {
        match behind {
            Some(ends) => put_ends6(fields, ends),
            None => [after.source, after.destination].into_iter().for_each(|it| fields.u32(it)),
        }
        put_ports(fields, ports(protocol, [after.source_port, after.destination_port]));
    }
}

fn put_ends6(fields: &mut Fields<'_>, ends: [u128; 2]) {
    ends.into_iter().for_each(|it| fields.bytes(it.to_be_bytes()));
}

/// Writes a record of [`SESSION64`], or of [`SESSION66`] if the packets are IPv6 behind the router, too. `before`,
/// `after`: what packets of the IPv6 host have before and behind NAT44.
pub fn put_session64(
    fields: &mut Fields<'_>,
    (flow, before, after): (&FlowRecord, Flow<u32>, Flow<u32>),
    side: Side6,
    (time_ms, is_begin): (u64, bool),
) {
    let [host, remote] = side.before.unwrap_or_default();
    fields.u64(time_ms);
    fields.u8(match is_begin {
        true => nat_event::NAT64_SESSION_CREATE,
        false => nat_event::NAT64_SESSION_DELETE,
    });
    fields.u32(flow.vrf().into());
    fields.u8(as_icmp6(before.protocol, 0).0);
    fields.bytes(host.to_be_bytes());
    fields.u32(after.source);
    put_ports(fields, [before.source_port, after.source_port]);
    fields.bytes(remote.to_be_bytes());
    match side.behind {
        Some([_, other]) => fields.bytes(other.to_be_bytes()),
        None => fields.u32(after.destination),
    }
    let destinations = [before.destination_port, after.destination_port];
    put_ports(fields, if before.protocol == ICMP4 { [0, 0] } else { destinations });
}

/// Writes a record of [`SESSION`]. ICMP has its identifier as port (RFC 8158 names no other place).
pub fn put_session(
    fields: &mut Fields<'_>,
    (flow, before, after): (&FlowRecord, Flow<u32>, Flow<u32>),
    time_ms: u64,
    is_begin: bool,
) {
    fields.u64(time_ms);
    fields.u8(if is_begin { nat_event::SESSION_CREATE } else { nat_event::SESSION_DELETE });
    fields.u32(flow.vrf().into());
    fields.u8(before.protocol);
    fields.u32(before.source);
    fields.u32(after.source);
    put_ports(fields, [before.source_port, after.source_port]);
    fields.u32(before.destination);
    fields.u32(after.destination);
    let destinations = [before.destination_port, after.destination_port];
    put_ports(fields, if before.protocol == ICMP4 { [0, 0] } else { destinations });
}

/// The value of natQuotaExceededEvent: the maximum of entries for each user (RFC 8158 section 5.6.7).
const ENTRIES_OF_USER: u32 = 3;

/// Writes a record of [`of_event`].
pub fn put_event(fields: &mut Fields<'_>, (event, host): (&NatEvent, Option<u128>), time_ms: u64) {
    let vrf = (event.vrf & crate::flow::selection::VRF_SLOT).into();
    let put_subscriber = |fields: &mut Fields<'_>| match host {
        Some(host) => fields.bytes(host.to_be_bytes()),
        None => fields.u32(event.subscriber),
    };
    fields.u64(time_ms);
    match event.kind {
        NatEventKind::AddressesExhausted | NatEventKind::PortsExhausted => {
            let is_ports = event.kind == NatEventKind::PortsExhausted;
            fields.u8(match is_ports {
                true => nat_event::PORTS_EXHAUSTED,
                false => nat_event::ADDRESSES_EXHAUSTED,
            });
            fields.u32(event.instance);
            fields.u32(vrf);
            put_subscriber(fields);
            fields.u8(event.protocol);
        }
        NatEventKind::QuotaExceeded => {
            fields.u8(nat_event::QUOTA_EXCEEDED);
            fields.u32(ENTRIES_OF_USER);
            fields.u32(event.instance);
            fields.u32(vrf);
            put_subscriber(fields);
        }
        NatEventKind::PortBlock { is_allocated, external, ports: (first, last) } => {
            fields.u8(match is_allocated {
                true => nat_event::PORT_BLOCK_ALLOCATED,
                false => nat_event::PORT_BLOCK_RELEASED,
            });
            fields.u32(event.instance);
            fields.u32(vrf);
            put_subscriber(fields);
            fields.u32(external);
            put_ports(fields, [first, last]);
        }
    }
}

/// Writes a record of [`DENIED4`] or [`DENIED6`].
pub fn put_denial(fields: &mut Fields<'_>, denial: &Denial, time_ms: u64) {
    // Collectors of flows look for times there.
    fields.u64(time_ms);
    fields.u64(time_ms);
    fields.u8(e::DENIED);
    for end in denial.ends {
        match end {
            IpAddr::V4(it) => fields.bytes(it.octets()),
            IpAddr::V6(it) => fields.bytes(it.octets()),
        }
    }
    put_ports(fields, denial.ports);
    fields.u8(denial.protocol);
    fields.u16(denial.icmp);
    denial.interfaces.into_iter().for_each(|interface| fields.u32(interface));
    put_counters(fields, Counters { packets: 1, bytes: denial.length.into() });
}

#[cfg(test)]
mod tests;
