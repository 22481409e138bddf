//! Frames parsed by etherparse, an independent implementation. Wrong checksums and lengths panic.

use std::net::IpAddr;

use etherparse::{LinkExtSlice, LinkSlice, NetSlice, SlicedPacket, TransportSlice};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    pub destination: [u8; 6],
    pub source: [u8; 6],
    /// Ethertype and VLAN id of each tag.
    pub tags: Vec<(u16, u16)>,
    pub ethertype: u16,
    pub ip: Option<(IpAddr, IpAddr)>,
    pub ttl: u8,
    pub protocol: u8,
    /// Type and code of ICMP.
    pub icmp: Option<(u8, u8)>,
    /// The second word of an ICMP header.
    pub word: [u8; 4],
    pub ports: Option<(u16, u16)>,
    /// The payload of the last parsed header.
    pub payload: Vec<u8>,
}

impl Parsed {
    /// Source and destination address as text.
    pub fn addresses(&self) -> (String, String) {
        let (source, destination) = self.ip.expect("an IP packet");
        (source.to_string(), destination.to_string())
    }
}

pub fn parse(frame: &[u8]) -> Parsed {
    let sliced = SlicedPacket::from_ethernet(frame).expect("a frame");
    let mut parsed = Parsed::default();
    let Some(LinkSlice::Ethernet2(link)) = &sliced.link else { panic!("no Ethernet") };
    (parsed.destination, parsed.source) = (link.destination(), link.source());
    parsed.ethertype = link.ether_type().0;
    for extension in &sliced.link_exts {
        let LinkExtSlice::Vlan(tag) = extension else { panic!("no VLAN tag") };
        parsed.tags.push((parsed.ethertype, tag.vlan_identifier().value()));
        parsed.ethertype = tag.ether_type().0;
    }
    match &sliced.net {
        Some(NetSlice::Ipv4(ip)) => {
            let header = ip.header();
            let right = header.to_header().calc_header_checksum();
            assert_eq!(header.header_checksum(), right, "IPv4 header checksum");
            parsed.ip = Some((header.source_addr().into(), header.destination_addr().into()));
            (parsed.ttl, parsed.protocol) = (header.ttl(), header.protocol().0);
            parsed.payload = ip.payload().payload.to_vec();
        }
        Some(NetSlice::Ipv6(ip)) => {
            let header = ip.header();
            parsed.ip = Some((header.source_addr().into(), header.destination_addr().into()));
            (parsed.ttl, parsed.protocol) = (header.hop_limit(), header.next_header().0);
            parsed.payload = ip.payload().payload.to_vec();
        }
        _ => {}
    }
    transport(&sliced, &mut parsed);
    parsed
}

fn transport(sliced: &SlicedPacket<'_>, parsed: &mut Parsed) {
    match &sliced.transport {
        Some(TransportSlice::Udp(udp)) => {
            parsed.ports = Some((udp.source_port(), udp.destination_port()));
            parsed.payload = udp.payload().to_vec();
            let header = udp.to_header();
            let right = match parsed.ip {
                Some((IpAddr::V4(source), IpAddr::V4(destination))) => header
                    .calc_checksum_ipv4_raw(source.octets(), destination.octets(), &parsed.payload),
                Some((IpAddr::V6(source), IpAddr::V6(destination))) => header
                    .calc_checksum_ipv6_raw(source.octets(), destination.octets(), &parsed.payload),
                _ => panic!("no IP"),
            };
            assert_eq!(udp.checksum(), right.unwrap(), "UDP checksum");
        }
        Some(TransportSlice::Icmpv4(icmp)) => {
            let right = icmp.icmp_type().calc_checksum(icmp.payload());
            assert_eq!(icmp.checksum(), right, "ICMP checksum");
            parsed.icmp = Some((icmp.type_u8(), icmp.code_u8()));
            (parsed.word, parsed.payload) = (icmp.bytes5to8(), icmp.payload().to_vec());
        }
        Some(TransportSlice::Icmpv6(icmp)) => {
            let Some((IpAddr::V6(source), IpAddr::V6(destination))) = parsed.ip else {
                panic!("ICMPv6 outside IPv6");
            };
            let right = icmp.is_checksum_valid(source.octets(), destination.octets());
            assert!(right, "ICMPv6 checksum");
            parsed.icmp = Some((icmp.type_u8(), icmp.code_u8()));
            (parsed.word, parsed.payload) = (icmp.bytes5to8(), icmp.payload().to_vec());
        }
        _ => {}
    }
}
