//! What workers and the control thread report to the exporter.

use std::net::{IpAddr, Ipv4Addr};

use stoa_tables::flow_hash::Flow;
use stoa_tables::flow_table::{Counters, Direction, FlowEntry, FlowKey, Tuple};

use crate::flow::profiles::without_profile;
use crate::flow::selection::VRF_SLOT;
use crate::flow::timeouts::Class;
use crate::nat64::hosts::{Hosts, is_stand_in};

/// Why a record of a flow was made: flowEndReason (RFC 5102 section 5.11.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EndReason {
    /// No packet has come for the idle timeout, or for that of its state.
    Idle = 1,
    /// It goes on; the active timeout has passed.
    Active = 2,
    /// FIN or RST.
    Finished = 3,
    /// It was cleared, rules have changed, or the export ends.
    Forced = 4,
    /// It gave way to others in a full table.
    Resources = 5,
}

impl EndReason {
    /// Of a flow whose timeout has passed, by its class.
    pub fn of_expired(class: u8) -> Self {
        const FINISHED: [Class; 3] = [Class::TcpClosing, Class::TcpTimeWait, Class::TcpReset];
        let class = without_profile(class);
        if FINISHED.iter().any(|it| *it as u8 == class) { Self::Finished } else { Self::Idle }
    }
}

/// A flow at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowRecord {
    /// The key of its packets in the original direction.
    pub key: FlowKey,
    /// Of a translated IPv4 flow: what its first packet has behind the router.
    pub translated: Option<Flow<u32>>,
    /// Its id in the table of its family.
    pub id: u32,
    /// Ticks of its first and its last packet.
    pub start: u32,
    /// As above.
    pub seen: u32,
    /// What has passed: in the original direction, and in the other one.
    pub counters: [Counters; 2],
    /// Why the record was made.
    pub reason: EndReason,
}

impl FlowRecord {
    /// Of a flow.
    pub fn of(flow: &FlowEntry<'_>, reason: EndReason) -> Self {
        let translated = match flow.reply_key().tuple {
            Tuple::Ip4(reply) if flow.has_second() => Some(reply.reversed()),
            Tuple::Ip4(_) | Tuple::Ip6(_) => None,
        };
        Self {
            key: flow.key(),
            translated,
            id: flow.id(),
            start: flow.start(),
            seen: flow.seen(),
            counters: [Direction::Original, Direction::Reply].map(|it| flow.counters(it)),
            reason,
        }
    }

    /// Whether it is of IPv4.
    pub fn is_ip4(&self) -> bool {
        !self.key.is_ip6()
    }

    /// The slot of its VRF.
    pub fn vrf(&self) -> u16 {
        self.key.vrf & VRF_SLOT
    }
}

/// What packets of a flow of NAT64 have where they are IPv6: source and destination, in the original direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side6 {
    /// As the router receives them. `None`: an IPv4 host has begun the flow.
    pub before: Option<[u128; 2]>,
    /// Behind the router. `None`: they are IPv4 there.
    pub behind: Option<[u128; 2]>,
}

impl Side6 {
    /// Of a flow; `None`: it has no IPv6 host.
    pub fn of(flow: &FlowRecord, hosts: &Hosts) -> Option<Self> {
        let Tuple::Ip4(before) = flow.key.tuple else { return None };
        let of = |stand_in, other| ends(hosts, flow.key.vrf, (stand_in, other));
        let inward = flow.translated.and_then(|it| of(it.destination, it.source));
        let behind = inward.map(|[host, remote]| [remote, host]);
        let before = of(before.source, before.destination);
        (before.is_some() || behind.is_some()).then_some(Self { before, behind })
    }

    /// As replies have it.
    #[must_use]
    pub fn reversed(self) -> Self {
        let reversed = |[source, destination]: [u128; 2]| [destination, source];
        let Self { before, behind } = self;
        Self { before: behind.map(reversed), behind: before.map(reversed) }
    }
}

/// The host behind a stand-in, and an IPv4 address as this host sees it. A host that has gone is the unspecified
/// address: nobody outside knows its stand-in.
fn ends(hosts: &Hosts, vrf: u16, (stand_in, other): (u32, u32)) -> Option<[u128; 2]> {
    let unknown = || {
        let prefix = hosts.prefix(vrf);
        [0, prefix.map_or(0, |it| it.embed(Ipv4Addr::from_bits(other)).to_bits())]
    };
    is_stand_in(stand_in).then(|| hosts.ends(stand_in, other).unwrap_or_else(unknown))
}

/// The IPv6 address of a subscriber of NAT64, as above; `None`: it has an IPv4 address.
pub fn subscriber6(hosts: &Hosts, subscriber: u32) -> Option<u128> {
    is_stand_in(subscriber).then(|| hosts.known_host(subscriber).map_or(0, |it| it.0))
}

/// What has happened to address translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatEventKind {
    /// A policy has no external address.
    AddressesExhausted,
    /// No external port is free.
    PortsExhausted,
    /// A subscriber has as many ports or blocks as it may have.
    QuotaExceeded,
    /// A subscriber has got a block of ports, or given it back.
    PortBlock {
        /// Whether it has got it.
        is_allocated: bool,
        /// The external address.
        external: u32,
        /// The first and the last port.
        ports: (u16, u16),
    },
}

/// An event of address translation, besides begin and end of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NatEvent {
    /// What has happened.
    pub kind: NatEventKind,
    /// The number of the instance.
    pub instance: u32,
    /// The inside host.
    pub subscriber: u32,
    /// The protocol of the packet; 0: of all.
    pub protocol: u8,
    /// The VRF of the key of its flows.
    pub vrf: u16,
}

/// What a worker reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A translated flow has begun.
    Began(FlowRecord),
    /// A flow has ended.
    Ended(FlowRecord),
    /// An event of address translation.
    Nat(NatEvent),
}

/// A packet that a rule with a log has refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Source and destination, of one family.
    pub ends: [IpAddr; 2],
    /// Source and destination port; 0: it has none.
    pub ports: [u16; 2],
    /// The protocol.
    pub protocol: u8,
    /// Type and code of ICMP; 0 of others.
    pub icmp: u16,
    /// The interface that has received it, or 0, and the one that would have sent it, or 0.
    pub interfaces: [u32; 2],
    /// Bytes of the packet.
    pub length: u16,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::profiles::with_profile;

    #[test]
    fn expired_flows_of_closed_connections_are_finished() {
        for class in Class::ALL {
            let is_finished = class.name().ends_with("closing")
                || class.name().ends_with("time-wait")
                || class.name().ends_with("reset");
            let expected = if is_finished { EndReason::Finished } else { EndReason::Idle };
            assert_eq!(EndReason::of_expired(with_profile(class, 3)), expected, "{class:?}");
        }
    }

    /// Nobody outside could tell whose it was.
    #[test]
    fn a_stand_in_is_in_no_record() {
        use stoa_wire::siit::Prefix;
        let hosts = Hosts::new().unwrap();
        let prefix = Prefix::new("2001:db8:64::".parse().unwrap(), 96).unwrap();
        hosts.set_prefixes([(0, prefix)].into_iter());
        let (gone, server, external) = (0xf000_0007, 0xc633_6407, 0xc000_0201);
        let flow = |source, destination| {
            let (source_port, destination_port, protocol) = (5_000, 53, 17);
            Flow { source, destination, source_port, destination_port, protocol }
        };
        let of = |before, after| {
            let record = FlowRecord {
                key: FlowKey::ip4(before, 0),
                translated: Some(after),
                id: 1,
                start: 1,
                seen: 1,
                counters: [Counters::default(); 2],
                reason: EndReason::Idle,
            };
            Side6::of(&record, &hosts).map(|it| (it.before, it.behind))
        };
        let there = prefix.embed(Ipv4Addr::from_bits(server)).to_bits();
        assert_eq!(of(flow(gone, server), flow(external, server)), Some((Some([0, there]), None)));
        assert_eq!(of(flow(server, external), flow(server, gone)), Some((None, Some([there, 0]))));
        assert_eq!(of(flow(1, server), flow(external, server)), None);
        assert_eq!((subscriber6(&hosts, gone), subscriber6(&hosts, 1)), (Some(0), None));
        let longest = crate::flow::profiles::Longest::default;
        let host = hosts.stand_in((7, 0), 1, longest).unwrap();
        assert_eq!(subscriber6(&hosts, host), Some(7));
    }
}
