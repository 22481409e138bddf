//! Flows and sessions: what packets have before and behind the router, in either direction.

use std::net::IpAddr;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use netgauze_flow_pkt::ie::{Field, flowEndReason, natEvent};
use stoa_forwarder::ipfix::{EndReason, FlowRecord};
use stoa_tables::flow_hash;
use stoa_tables::flow_table::{Counters, FlowKey};

use super::received::Decoded;
use super::{Lab, VRF, ends, ip4, ports, time};

const ICMP4: u8 = 1;
const ICMP6: u8 = 58;
const UDP: u8 = 17;
/// TCP, UDP, DCCP, SCTP and UDP-Lite.
const PROTOCOLS_WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];
/// Types of ICMP queries and of their replies.
const QUERIES4: [(u8, u8); 5] = [(8, 0), (13, 14), (15, 16), (17, 18), (42, 43)];
const QUERIES6: [(u8, u8); 2] = [(128, 129), (160, 161)];
/// The enterprise number of the reverse direction (RFC 5103 section 6.1), whose elements NetGauze has no names for.
const REVERSE: u32 = 29_305;
const PACKETS: u16 = 2;
const OCTETS: u16 = 1;

#[derive(Arbitrary, Debug)]
enum Ends {
    Ip4([u32; 2]),
    Ip6([u128; 2]),
    Nat44 {
        before: [u32; 2],
        after: [u32; 2],
    },
    /// An IPv6 host has begun it.
    FromIp6 {
        host: u8,
        remote: u32,
        external: u32,
    },
    /// An IPv4 host has begun it.
    ToIp6 {
        remote: u32,
        external: u32,
        host: u8,
    },
    /// An IPv6 host whose packets get no external address.
    Refused64 {
        host: u8,
        remote: u32,
    },
}

#[derive(Arbitrary, Debug)]
pub struct Flow {
    ends: Ends,
    ports: [u16; 2],
    ports_behind: [u16; 2],
    protocol: u8,
    vrf: u16,
    reason: u8,
    /// Ticks.
    start: u32,
    seen: u32,
    /// Packets and bytes.
    there: (u64, u64),
    back: (u64, u64),
}

/// What packets of a direction have. ICMP has its identifier as the port of the end that asks.
#[derive(Clone, Copy)]
struct Header {
    ends: [IpAddr; 2],
    ports: [u16; 2],
}

impl Header {
    fn reversed(self) -> Self {
        let ([from, to], [from_port, to_port]) = (self.ends, self.ports);
        Self { ends: [to, from], ports: [to_port, from_port] }
    }
}

/// What packets of a direction have before the router and, if it translates them, behind it.
struct View {
    before: Header,
    behind: Option<Header>,
}

impl View {
    fn reversed(&self) -> Self {
        let before = self.behind.unwrap_or(self.before).reversed();
        Self { before, behind: self.behind.map(|_| self.before.reversed()) }
    }

    fn is_ip6(&self) -> bool {
        self.before.ends[0].is_ipv6()
    }
}

impl Flow {
    /// An IPv4 host begins nothing by ICMP: mappings of identifiers let replies in alone.
    fn protocol_of_key(&self) -> u8 {
        match (&self.ends, self.protocol) {
            (Ends::ToIp6 { .. }, ICMP4) => UDP,
            (_, protocol) => protocol,
        }
    }

    /// Replies, of which refused packets have none.
    fn back(&self) -> (u64, u64) {
        if matches!(self.ends, Ends::Refused64 { .. }) { (0, 0) } else { self.back }
    }

    /// Types of the query and of its reply, if the flow is one.
    fn query(&self) -> Option<(u8, u8)> {
        let choose = |queries: &[(u8, u8)]| queries[usize::from(self.ports[1]) % queries.len()];
        match (&self.ends, self.protocol_of_key()) {
            (Ends::Ip6(_), ICMP6) => Some(choose(&QUERIES6)),
            (Ends::Ip6(_), _) => None,
            (_, ICMP4) => Some(choose(&QUERIES4)),
            _ => None,
        }
    }

    /// Flow tables have the type of the query as the port of the end that is asked.
    fn ports_of_key(&self, ports: [u16; 2]) -> [u16; 2] {
        self.query().map_or(ports, |(request, _)| [ports[0], request.into()])
    }

    fn reason(&self) -> (EndReason, flowEndReason) {
        match self.reason % 5 {
            0 => (EndReason::Idle, flowEndReason::idletimeout),
            1 => (EndReason::Active, flowEndReason::activetimeout),
            2 => (EndReason::Finished, flowEndReason::endofFlowdetected),
            3 => (EndReason::Forced, flowEndReason::forcedend),
            _ => (EndReason::Resources, flowEndReason::lackofresources),
        }
    }

    pub fn record(&self, lab: &Lab) -> FlowRecord {
        let bits = |address: u32| ip4(address).to_bits();
        let (before, behind) = match self.ends {
            Ends::Ip6(ends) => {
                return self.of_key(FlowKey::ip6(self.tuple(ends, self.ports), self.vrf), None);
            }
            Ends::Ip4(before) => (before.map(bits), None),
            Ends::Nat44 { before, after } => (before.map(bits), Some(after.map(bits))),
            Ends::FromIp6 { host, remote, external } => {
                let (host, remote) = (lab.known(host).0, bits(remote));
                ([host, remote], Some([bits(external), remote]))
            }
            Ends::ToIp6 { remote, external, host } => {
                let remote = bits(remote);
                ([remote, bits(external)], Some([remote, lab.known(host).0]))
            }
            Ends::Refused64 { host, remote } => ([lab.known(host).0, bits(remote)], None),
        };
        let behind = behind.map(|ends| self.tuple(ends, self.ports_behind));
        self.of_key(FlowKey::ip4(self.tuple(before, self.ports), self.vrf), behind)
    }

    fn tuple<A>(&self, [source, destination]: [A; 2], ports: [u16; 2]) -> flow_hash::Flow<A> {
        let [source_port, destination_port] = self.ports_of_key(ports);
        let protocol = self.protocol_of_key();
        flow_hash::Flow { source, destination, source_port, destination_port, protocol }
    }

    fn of_key(&self, key: FlowKey, translated: Option<flow_hash::Flow<u32>>) -> FlowRecord {
        let counters = [self.there, self.back()];
        let counters = counters.map(|(packets, bytes)| Counters { packets, bytes });
        let (start, seen, reason) = (self.start, self.seen, self.reason().0);
        FlowRecord { key, translated, id: 1, start, seen, counters, reason }
    }

    /// The first packet.
    fn view(&self, lab: &Lab) -> View {
        let four = |ends: [u32; 2]| ends.map(|it| IpAddr::V4(ip4(it)));
        // A host, and an IPv4 address as it sees it.
        let six = |host: u8, other: u32| {
            let (_, host, prefix) = lab.known(host);
            [IpAddr::V6(host), IpAddr::V6(prefix.embed(ip4(other)))]
        };
        let (before, behind) = match self.ends {
            Ends::Ip4(ends) => (four(ends), None),
            Ends::Ip6(ends) => (ends.map(|it| IpAddr::V6(it.into())), None),
            Ends::Nat44 { before, after } => (four(before), Some(four(after))),
            Ends::FromIp6 { host, remote, external } => {
                (six(host, remote), Some(four([external, remote])))
            }
            Ends::ToIp6 { remote, external, host } => {
                let [host, remote6] = six(host, remote);
                (four([remote, external]), Some([remote6, host]))
            }
            Ends::Refused64 { host, remote } => (six(host, remote), None),
        };
        let of = |[from, to]: [u16; 2]| if self.query().is_some() { [from, 0] } else { [from, to] };
        View {
            before: Header { ends: before, ports: of(self.ports) },
            behind: behind.map(|ends| Header { ends, ports: of(self.ports_behind) }),
        }
    }

    /// Protocol, and type of ICMP, as packets of a view have them. NAT64 translates the type (RFC 7915 section 4.2), of
    /// which only echo has a counterpart.
    fn protocol(&self, view: &View, is_reply: bool) -> (u8, u8) {
        let Some((request, reply)) = self.query() else { return (self.protocol_of_key(), 0) };
        let kind = if is_reply { reply } else { request };
        match (view.is_ip6() && self.protocol == ICMP4, kind) {
            (false, _) => (self.protocol, kind),
            (true, 8) => (ICMP6, 128),
            (true, 0) => (ICMP6, 129),
            (true, _) => (ICMP6, 0),
        }
    }

    /// The records that a collector gets. `times`: of the report before, and now, in ms.
    pub fn expected(
        &self,
        lab: &Lab,
        is_biflow: bool,
        [from_ms, now_ms]: [u64; 2],
        tick: u32,
    ) -> Vec<Decoded> {
        let ago_s = u64::try_from(tick.wrapping_sub(self.seen).cast_signed()).unwrap_or(0);
        let until_ms = now_ms.saturating_sub(ago_s * 1_000).max(from_ms);
        let view = self.view(lab);
        let of = |view: &View, (packets, bytes), is_reply| {
            let mut fields = self.fields(view, is_reply);
            fields.extend([
                Field::flowStartMilliseconds(time(from_ms)),
                Field::flowEndMilliseconds(time(until_ms)),
                Field::packetDeltaCount(packets),
                Field::octetDeltaCount(bytes),
            ]);
            fields
        };
        if is_biflow {
            let ((packets, bytes), mut fields) = (self.back(), of(&view, self.there, false));
            fields.extend([(PACKETS, packets), (OCTETS, bytes)].map(|(id, value)| {
                Field::Unknown { pen: REVERSE, id, value: value.to_be_bytes().into() }
            }));
            return vec![Decoded::new(Vec::new(), fields)];
        }
        let directions = [(&view, self.there, false), (&view.reversed(), self.back(), true)];
        let sent = directions.into_iter().filter(|(_, counters, _)| counters.0 > 0);
        sent.map(|(view, counters, is_reply)| {
            Decoded::new(Vec::new(), of(view, counters, is_reply))
        })
        .collect()
    }

    fn fields(&self, view: &View, is_reply: bool) -> Vec<Field> {
        let has_ports = PROTOCOLS_WITH_PORTS.contains(&self.protocol_of_key());
        let of = |header: &Header, is_behind| {
            let shown = if has_ports { header.ports } else { [0, 0] };
            ends(header.ends, is_behind).into_iter().chain(ports(shown, is_behind))
        };
        let mut fields: Vec<_> = of(&view.before, false).collect();
        fields.extend(view.behind.iter().flat_map(|it| of(it, true)));
        let (protocol, kind) = self.protocol(view, is_reply);
        let type_code = u16::from(kind) << 8;
        fields.extend([
            Field::protocolIdentifier(protocol.into()),
            match view.is_ip6() {
                false => Field::icmpTypeCodeIPv4(type_code),
                true => Field::icmpTypeCodeIPv6(type_code),
            },
            Field::flowEndReason(self.reason().1),
            Field::ingressVRFID((self.vrf & VRF).into()),
        ]);
        fields
    }

    /// The record of the begin or of the end of a session, if the flow is one: as the host inside sends packets.
    pub fn session(&self, lab: &Lab, is_begin: bool, now_ms: u64) -> Option<Decoded> {
        let first = self.view(lab);
        let is_inward = matches!(self.ends, Ends::ToIp6 { .. });
        let view = if is_inward { first.reversed() } else { first };
        let behind = view.behind?;
        let of = |header: Header, is_behind| {
            ends(header.ends, is_behind).into_iter().chain(ports(header.ports, is_behind))
        };
        let mut fields: Vec<_> = of(view.before, false).chain(of(behind, true)).collect();
        fields.extend([
            Field::observationTimeMilliseconds(time(now_ms)),
            Field::natEvent(match (view.is_ip6(), is_begin) {
                (false, true) => natEvent::NAT44sessioncreate,
                (false, false) => natEvent::NAT44sessiondelete,
                (true, true) => natEvent::NAT64sessioncreate,
                (true, false) => natEvent::NAT64sessiondelete,
            }),
            Field::ingressVRFID((self.vrf & VRF).into()),
            Field::protocolIdentifier(self.protocol(&view, false).0.into()),
        ]);
        Some(Decoded::new(Vec::new(), fields))
    }
}
