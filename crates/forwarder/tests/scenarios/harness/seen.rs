//! What a frame says according to etherparse: an oracle that shares no code with
//! ours. Wrong checksums and lengths make it panic.

use std::net::IpAddr;

use etherparse::{LinkExtSlice, LinkSlice, NetSlice, SlicedPacket, TransportSlice};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
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
    /// What follows the last header that was understood.
    pub payload: Vec<u8>,
}

impl Seen {
    /// Source and destination address as text.
    pub fn addresses(&self) -> (String, String) {
        let (source, destination) = self.ip.expect("an IP packet");
        (source.to_string(), destination.to_string())
    }
}

pub fn see(frame: &[u8]) -> Seen {
    let sliced = SlicedPacket::from_ethernet(frame).expect("a frame");
    let mut seen = Seen::default();
    let Some(LinkSlice::Ethernet2(link)) = &sliced.link else { panic!("no Ethernet") };
    (seen.destination, seen.source) = (link.destination(), link.source());
    seen.ethertype = link.ether_type().0;
    for extension in &sliced.link_exts {
        let LinkExtSlice::Vlan(tag) = extension else { panic!("no VLAN tag") };
        seen.tags.push((seen.ethertype, tag.vlan_identifier().value()));
        seen.ethertype = tag.ether_type().0;
    }
    match &sliced.net {
        Some(NetSlice::Ipv4(ip)) => {
            let header = ip.header();
            let right = header.to_header().calc_header_checksum();
            assert_eq!(header.header_checksum(), right, "IPv4 header checksum");
            seen.ip = Some((header.source_addr().into(), header.destination_addr().into()));
            (seen.ttl, seen.protocol) = (header.ttl(), header.protocol().0);
            seen.payload = ip.payload().payload.to_vec();
        }
        Some(NetSlice::Ipv6(ip)) => {
            let header = ip.header();
            seen.ip = Some((header.source_addr().into(), header.destination_addr().into()));
            (seen.ttl, seen.protocol) = (header.hop_limit(), header.next_header().0);
            seen.payload = ip.payload().payload.to_vec();
        }
        _ => {}
    }
    transport(&sliced, &mut seen);
    seen
}

fn transport(sliced: &SlicedPacket<'_>, seen: &mut Seen) {
    match &sliced.transport {
        Some(TransportSlice::Udp(udp)) => {
            seen.ports = Some((udp.source_port(), udp.destination_port()));
            seen.payload = udp.payload().to_vec();
            let header = udp.to_header();
            let right = match seen.ip {
                Some((IpAddr::V4(source), IpAddr::V4(destination))) => header
                    .calc_checksum_ipv4_raw(source.octets(), destination.octets(), &seen.payload),
                Some((IpAddr::V6(source), IpAddr::V6(destination))) => header
                    .calc_checksum_ipv6_raw(source.octets(), destination.octets(), &seen.payload),
                _ => panic!("no IP"),
            };
            assert_eq!(udp.checksum(), right.unwrap(), "UDP checksum");
        }
        Some(TransportSlice::Icmpv4(icmp)) => {
            let right = icmp.icmp_type().calc_checksum(icmp.payload());
            assert_eq!(icmp.checksum(), right, "ICMP checksum");
            seen.icmp = Some((icmp.type_u8(), icmp.code_u8()));
            (seen.word, seen.payload) = (icmp.bytes5to8(), icmp.payload().to_vec());
        }
        Some(TransportSlice::Icmpv6(icmp)) => {
            let Some((IpAddr::V6(source), IpAddr::V6(destination))) = seen.ip else {
                panic!("ICMPv6 outside IPv6");
            };
            let right = icmp.is_checksum_valid(source.octets(), destination.octets());
            assert!(right, "ICMPv6 checksum");
            seen.icmp = Some((icmp.type_u8(), icmp.code_u8()));
            (seen.word, seen.payload) = (icmp.bytes5to8(), icmp.payload().to_vec());
        }
        _ => {}
    }
}
