//! Frames of hosts, built with the wire crate.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_wire::checksum::Pseudo;
use stoa_wire::ethernet::{Mac, ethertype};
use stoa_wire::{arp, icmp4, icmp6, ipv4, ipv6, ndp, protocol, udp};

use super::setup::{host_mac, our_mac};

/// A frame from host `n` to the router.
pub fn from_host(n: u8, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    frame(our_mac(n), host_mac(n), &[], ethertype, payload)
}

pub fn frame(
    to: [u8; 6],
    from: [u8; 6],
    tags: &[(u16, u16)],
    ethertype: u16,
    payload: &[u8],
) -> Vec<u8> {
    let mut bytes = [to, from].concat();
    for (tpid, tci) in tags {
        bytes.extend(tpid.to_be_bytes());
        bytes.extend(tci.to_be_bytes());
    }
    bytes.extend(ethertype.to_be_bytes());
    bytes.extend(payload);
    bytes
}

pub fn ip4(header: &ipv4::Builder<'_>, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; ipv4::LONGEST];
    let length = header.build(&mut bytes, payload.len()).unwrap();
    bytes.truncate(length);
    bytes.extend(payload);
    bytes
}

pub fn ip6(header: &ipv6::Builder, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; ipv6::LENGTH];
    header.build(&mut bytes, payload.len()).unwrap();
    bytes.extend(payload);
    bytes
}

pub fn datagram(source: IpAddr, destination: IpAddr, ports: (u16, u16), data: &[u8]) -> Vec<u8> {
    let pseudo = pseudo(source, destination);
    let mut bytes = vec![0; udp::LENGTH + data.len()];
    udp::build(&mut bytes, &pseudo, ports.0, ports.1, data).unwrap();
    bytes
}

fn pseudo(source: IpAddr, destination: IpAddr) -> Pseudo {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Pseudo::Ip4 { source, destination },
        (IpAddr::V6(source), IpAddr::V6(destination)) => Pseudo::Ip6 { source, destination },
        _ => panic!("two families"),
    }
}

/// A UDP packet of either family, from port 1000 to port 2000.
pub fn udp(source: impl Into<IpAddr>, destination: impl Into<IpAddr>, data: &[u8]) -> Vec<u8> {
    udp_ports(source, destination, (1000, 2000), data)
}

pub fn udp_ports(
    source: impl Into<IpAddr>,
    destination: impl Into<IpAddr>,
    ports: (u16, u16),
    data: &[u8],
) -> Vec<u8> {
    let (source, destination) = (source.into(), destination.into());
    let payload = datagram(source, destination, ports, data);
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            ip4(&ipv4::Builder::new(source, destination, protocol::UDP), &payload)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            ip6(&ipv6::Builder::new(source, destination, protocol::UDP), &payload)
        }
        _ => panic!("two families"),
    }
}

/// The ethertype of an IP packet.
pub fn ethertype_of(packet: &[u8]) -> u16 {
    if packet[0] >> 4 == 6 { ethertype::IP6 } else { ethertype::IP4 }
}

/// An IP packet from host `n` to the router.
pub fn packet_from(n: u8, packet: &[u8]) -> Vec<u8> {
    from_host(n, ethertype_of(packet), packet)
}

pub fn ping4(source: Ipv4Addr, destination: Ipv4Addr, data: &[u8]) -> Vec<u8> {
    let mut message = vec![0; icmp4::LENGTH + data.len()];
    let echo = icmp4::Echo { identifier: 7, sequence: 9, data };
    icmp4::build_echo_request(&mut message, &echo).unwrap();
    ip4(&ipv4::Builder::new(source, destination, protocol::ICMP4), &message)
}

pub fn ping6(source: Ipv6Addr, destination: Ipv6Addr, data: &[u8]) -> Vec<u8> {
    let mut message = vec![0; icmp6::LENGTH + data.len()];
    let echo = icmp6::Echo { identifier: 7, sequence: 9, data };
    let pseudo = Pseudo::Ip6 { source, destination };
    icmp6::build_echo_request(&mut message, &pseudo, &echo).unwrap();
    ip6(&ipv6::Builder::new(source, destination, protocol::ICMP6), &message)
}

/// An ARP packet in a frame; a request is broadcast.
pub fn arp(packet: &arp::Packet) -> Vec<u8> {
    let mut payload = [0; arp::LENGTH];
    packet.build(&mut payload).unwrap();
    let to = if packet.is_request() { Mac::BROADCAST.0 } else { packet.target_mac.0 };
    frame(to, packet.sender_mac.0, &[], ethertype::ARP, &payload)
}

pub fn arp_request(mac: [u8; 6], sender: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    arp(&arp::Packet::request(Mac(mac), sender, target))
}

/// The reply of `mac` to a request of the router.
pub fn arp_reply(mac: [u8; 6], (our_mac, ours): ([u8; 6], Ipv4Addr), sender: Ipv4Addr) -> Vec<u8> {
    let question = arp::Packet::request(Mac(our_mac), ours, sender);
    arp(&arp::Packet::reply(&question, Mac(mac)))
}

/// A neighbour discovery message: the solicitation of `target`.
pub fn solicitation(
    (from, to): ([u8; 6], [u8; 6]),
    (source, destination): (Ipv6Addr, Ipv6Addr),
    target: Ipv6Addr,
    mac: Option<[u8; 6]>,
) -> Vec<u8> {
    let mut message = [0; ndp::LENGTH_WITH_MAC];
    let pseudo = Pseudo::Ip6 { source, destination };
    let length = ndp::build_solicitation(&mut message, &pseudo, target, mac.map(Mac)).unwrap();
    nd((from, to), (source, destination), &message[..length])
}

/// The advertisement of `target` with these flags.
pub fn advertisement(
    (from, to): ([u8; 6], [u8; 6]),
    (source, destination): (Ipv6Addr, Ipv6Addr),
    (target, flags): (Ipv6Addr, u32),
    mac: Option<[u8; 6]>,
) -> Vec<u8> {
    let mut message = [0; ndp::LENGTH_WITH_MAC];
    let pseudo = Pseudo::Ip6 { source, destination };
    let mac = mac.map(Mac);
    let length = ndp::build_advertisement(&mut message, &pseudo, target, flags, mac).unwrap();
    nd((from, to), (source, destination), &message[..length])
}

fn nd(
    (from, to): ([u8; 6], [u8; 6]),
    (source, destination): (Ipv6Addr, Ipv6Addr),
    message: &[u8],
) -> Vec<u8> {
    let header = ipv6::Builder {
        hop_limit: ndp::HOP_LIMIT,
        ..ipv6::Builder::new(source, destination, protocol::ICMP6)
    };
    frame(to, from, &[], ethertype::IP6, &ip6(&header, message))
}
