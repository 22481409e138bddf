//! Random packets: as frames, and as `stoa acl test` asks about them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;
use stoa_api::v1::{AclFragment, TestAclRequest};
use stoa_controller::acl;
use stoa_wire::checksum::{self, Pseudo};
use stoa_wire::{ipv4, ipv6};

use crate::lists::{INTERFACES, ports};

/// A packet that an interface receives.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Number of the interface, from 0.
    pub from: usize,
    /// Interface and host: 1 is the router itself.
    to: (usize, u8),
    host: u8,
    is_ip4: bool,
    protocol: u8,
    /// Of ICMP, the first one has type and code.
    ports: (u16, u16),
    flags: u8,
    dscp: u8,
    hop_limit: u8,
    data: usize,
    fragment: Option<AclFragment>,
}

const TCP: u8 = 6;
const UDP: u8 = 17;
const GRE: u8 = 47;

pub fn packet() -> impl Strategy<Value = Packet> {
    let icmp = (any::<bool>(), select(vec![0_u16, 1, 2, 3]));
    let fields = (
        (0..3_usize, (0..3_usize, 1..4_u8), 2..4_u8),
        any::<bool>(),
        select(vec![TCP, TCP, UDP, UDP, 1, GRE]),
        (ports(), ports(), icmp),
        select(vec![0x02_u8, 0x12, 0x10, 0x04, 0x11]),
        select(vec![0_u8, 0, 46]),
        select(vec![2_u8, 64, 255]),
        0..60_usize,
        weighted(0.1, select(vec![AclFragment::FirstFragment, AclFragment::LaterFragment])),
    );
    fields.prop_map(
        |((from, to, host), is_ip4, protocol, ports, flags, dscp, hop_limit, data, part)| {
            let (source, destination, (is_request, kind)) = ports;
            let is_icmp = protocol == 1;
            let kinds: [u16; 4] = if is_ip4 { [8, 0, 3, 13] } else { [128, 129, 2, 135] };
            let kind = if is_request { kinds[0] } else { kinds[usize::from(kind)] };
            // Fragmentation needed, so that it is one that paths need.
            let code = if is_ip4 && kind == 3 { 4 } else { 0 };
            // The router completes fragments for itself first. IPv6 has a header of its own for them.
            let fragment = part.filter(|_| is_ip4 && to.1 != 1);
            Packet {
                from,
                to,
                host,
                is_ip4,
                protocol: if is_icmp && !is_ip4 { 58 } else { protocol },
                ports: if is_icmp { (kind << 8 | code, 0) } else { (source, destination) },
                flags,
                dscp,
                hop_limit,
                data,
                fragment,
            }
        },
    )
}

impl Packet {
    fn address(&self, (interface, host): (usize, u8)) -> IpAddr {
        let n = interface as u8 + 1;
        match self.is_ip4 {
            true => Ipv4Addr::new(10, n, 0, host).into(),
            false => Ipv6Addr::new(0x2001, 0xdb8, n.into(), 0, 0, 0, 0, host.into()).into(),
        }
    }

    /// Both ends.
    fn ends(&self) -> [IpAddr; 2] {
        [self.address((self.from, self.host)), self.address(self.to)]
    }

    fn is_icmp(&self) -> bool {
        [1, 58].contains(&self.protocol)
    }

    /// Whether it is a fragment, and not the first one.
    pub fn is_later_fragment(&self) -> bool {
        self.fragment == Some(AclFragment::LaterFragment)
    }

    /// Whether it is a packet that a host can send to another one, or to the router.
    pub fn is_possible(&self) -> bool {
        self.ends()[0] != self.ends()[1]
    }

    /// What all packets of its flow have in common: of two such packets, the second one may pass as the flow does.
    pub fn flow(&self) -> (u8, [IpAddr; 2]) {
        let mut ends = self.ends();
        ends.sort();
        (self.protocol, ends)
    }

    fn pseudo(&self) -> Pseudo {
        match self.ends() {
            [IpAddr::V4(source), IpAddr::V4(destination)] => Pseudo::Ip4 { source, destination },
            [IpAddr::V6(source), IpAddr::V6(destination)] => Pseudo::Ip6 { source, destination },
            other => panic!("{other:?}"),
        }
    }

    /// The IP packet. `id`: what tells fragments of packets apart.
    fn bytes(&self, id: u16) -> Vec<u8> {
        let mut payload = match self.protocol {
            TCP => vec![0; 20],
            GRE => vec![0; 4],
            _ => vec![0; 8],
        };
        payload.resize(payload.len() + self.data, 0);
        if self.fragment != Some(AclFragment::LaterFragment) {
            let length = payload.len() as u16;
            match self.protocol {
                TCP | UDP => {
                    payload[..2].copy_from_slice(&self.ports.0.to_be_bytes());
                    payload[2..4].copy_from_slice(&self.ports.1.to_be_bytes());
                }
                _ if self.is_icmp() => payload[..2].copy_from_slice(&self.ports.0.to_be_bytes()),
                _ => {}
            }
            match self.protocol {
                TCP => (payload[12], payload[13]) = (5 << 4, self.flags),
                UDP => payload[4..6].copy_from_slice(&length.to_be_bytes()),
                _ => {}
            }
        }
        // A fragment that is not the last one has a multiple of 8 bytes.
        if self.fragment == Some(AclFragment::FirstFragment) {
            payload.resize(payload.len().next_multiple_of(8), 0);
        }
        // The router looks at segments of connections with a valid checksum only.
        if self.protocol == TCP && self.fragment.is_none() {
            let sum = checksum::sum(&payload) + self.pseudo().sum(TCP, payload.len());
            payload[16..18].copy_from_slice(&checksum::finish(sum).to_be_bytes());
        }
        let mut bytes = vec![0; ipv4::LONGEST.max(ipv6::LENGTH)];
        let length = match self.pseudo() {
            Pseudo::Ip4 { source, destination } => {
                let mut header = ipv4::Builder::new(source, destination, self.protocol);
                (header.time_to_live, header.dscp_ecn) = (self.hop_limit, self.dscp << 2);
                header.identification = id;
                header.flags_fragment = match self.fragment {
                    Some(AclFragment::FirstFragment) => 0x2000,
                    Some(_) => 100,
                    None => 0,
                };
                header.build(&mut bytes, payload.len()).unwrap()
            }
            Pseudo::Ip6 { source, destination } => {
                let mut header = ipv6::Builder::new(source, destination, self.protocol);
                (header.hop_limit, header.traffic_class) = (self.hop_limit, self.dscp << 2);
                header.build(&mut bytes, payload.len()).unwrap()
            }
        };
        bytes.truncate(length);
        bytes.extend(payload);
        bytes
    }

    /// The frame, from the destination MAC address on.
    pub fn frame(&self, id: u16) -> Vec<u8> {
        let n = self.from as u8 + 1;
        let mut frame = vec![2, 0, 0, 0, n, 1, 2, 0, 0, 0, n, self.host];
        frame.extend(if self.is_ip4 { [8, 0] } else { [0x86, 0xdd] });
        frame.extend(self.bytes(id));
        frame
    }

    /// The same for `stoa acl test`.
    pub fn asked(&self) -> acl::Packet {
        let [source, destination] = self.ends();
        let [kind, code] = self.ports.0.to_be_bytes();
        let is_for_router = self.to.1 == 1;
        let of = TestAclRequest {
            interface: INTERFACES[self.from].to_owned(),
            output: if is_for_router { String::new() } else { INTERFACES[self.to.0].to_owned() },
            direction: "in".to_owned(),
            protocol: self.protocol.into(),
            source_port: self.ports.0.into(),
            destination_port: self.ports.1.into(),
            icmp_type: kind.into(),
            icmp_code: code.into(),
            tcp_flags: self.flags.into(),
            fragment: self.fragment.unwrap_or(AclFragment::NoFragment).into(),
            length: self.bytes(0).len() as u32,
            dscp: self.dscp.into(),
            hop_limit: self.hop_limit.into(),
            ..TestAclRequest::default()
        };
        acl::Packet { source, destination, of }
    }
}
