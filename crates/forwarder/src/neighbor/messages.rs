//! The frames of neighbour resolution that the control thread sends: ARP (RFC 826), neighbour
//! solicitations and neighbour advertisements (RFC 4861).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_wire::checksum::Pseudo;
use stoa_wire::ethernet::Mac;
use stoa_wire::{arp, ethernet::ethertype, ipv6, ndp, protocol};

/// The link-layer properties of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The MAC address of the interface.
    pub mac: [u8; 6],
    /// VLAN tags, outer first: ethertype and id.
    pub tags: Vec<(u16, u16)>,
    /// Whether the interface forwards IPv6: the router flag of advertisements (RFC 4861 4.4).
    pub is_router: bool,
}

impl Link {
    /// The link-layer header of frames to `destination`.
    pub fn header(&self, destination: [u8; 6], ethertype: u16) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(22);
        bytes.extend(destination);
        bytes.extend(self.mac);
        for (tpid, vid) in &self.tags {
            bytes.extend(tpid.to_be_bytes());
            bytes.extend(vid.to_be_bytes());
        }
        bytes.extend(ethertype.to_be_bytes());
        bytes
    }

    fn frame(&self, destination: [u8; 6], ethertype: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = self.header(destination, ethertype);
        bytes.extend(payload);
        bytes
    }

    fn arp(&self, destination: [u8; 6], packet: &arp::Packet) -> Vec<u8> {
        let mut payload = [0; arp::LENGTH];
        // Cannot fail: the buffer has the length of a packet.
        let _ = packet.build(&mut payload);
        self.frame(destination, ethertype::ARP, &payload)
    }

    /// An ARP request or neighbour solicitation for `target`, to the whole link or to `known`.
    ///
    /// An unverified (optimistic) IPv6 `source` is sent without the MAC address (RFC 4429 3.2).
    pub fn solicit(
        &self,
        (source, is_verified): (IpAddr, bool),
        target: IpAddr,
        known: Option<[u8; 6]>,
    ) -> Vec<u8> {
        match (source, target) {
            (IpAddr::V4(source), IpAddr::V4(target)) => {
                let packet = arp::Packet::request(Mac(self.mac), source, target);
                self.arp(known.unwrap_or(Mac::BROADCAST.0), &packet)
            }
            (IpAddr::V6(source), IpAddr::V6(target)) => {
                self.solicit6((source, is_verified), target, known)
            }
            _ => Vec::new(),
        }
    }

    /// A probe for duplicate address detection (RFC 5227 2.1.1, RFC 4862 5.4.2).
    pub fn probe(&self, address: IpAddr, nonce: [u8; 6]) -> Vec<u8> {
        match address {
            IpAddr::V4(ip) => {
                let probe = arp::Packet::request(Mac(self.mac), Ipv4Addr::UNSPECIFIED, ip);
                self.arp(Mac::BROADCAST.0, &probe)
            }
            IpAddr::V6(ip) => {
                let group = ipv6::solicited_node(ip);
                let to = (Ipv6Addr::UNSPECIFIED, group);
                self.nd(Mac::of_ip6_group(group).0, to, |out, pseudo| {
                    ndp::build_probe(out, pseudo, ip, nonce).unwrap_or(0)
                })
            }
        }
    }

    fn solicit6(
        &self,
        (source, is_verified): (Ipv6Addr, bool),
        target: Ipv6Addr,
        known: Option<[u8; 6]>,
    ) -> Vec<u8> {
        let group = ipv6::solicited_node(target);
        let destination = if known.is_some() { target } else { group };
        let mac = known.unwrap_or(Mac::of_ip6_group(group).0);
        self.nd(mac, (source, destination), |out, pseudo| {
            let mac = is_verified.then_some(Mac(self.mac));
            ndp::build_solicitation(out, pseudo, target, mac).unwrap_or(0)
        })
    }

    /// The reply to an ARP request; `mac` can be that of a virtual router (RFC 9568 8.1.2).
    pub fn arp_reply(&self, request: &arp::Packet, mac: [u8; 6]) -> Vec<u8> {
        let reply = arp::Packet::reply(request, Mac(mac));
        self.arp(request.sender_mac.0, &reply)
    }

    /// A gratuitous ARP for a local address (RFC 5227 3).
    pub fn announce(&self, address: Ipv4Addr) -> Vec<u8> {
        self.arp(Mac::BROADCAST.0, &arp::Packet::announcement(Mac(self.mac), address))
    }

    /// A neighbour advertisement of `target` to `to`, or to all nodes if `to` is unspecified. An
    /// unverified (optimistic) address does not set the override flag (RFC 4429 3.3).
    pub fn advertise(
        &self,
        target: Ipv6Addr,
        to: Ipv6Addr,
        mac: [u8; 6],
        is_verified: bool,
    ) -> Vec<u8> {
        let is_all = to.is_unspecified();
        let to = if is_all { ipv6::ALL_NODES } else { to };
        let mac = if is_all { Mac::of_ip6_group(to).0 } else { mac };
        let solicited = if is_all { 0 } else { ndp::flag::SOLICITED };
        let router = if self.is_router { ndp::flag::ROUTER } else { 0 };
        let overrides = if is_verified { ndp::flag::OVERRIDE } else { 0 };
        let flags = router | overrides | solicited;
        self.nd(mac, (target, to), |out, pseudo| {
            ndp::build_advertisement(out, pseudo, target, flags, Some(Mac(self.mac))).unwrap_or(0)
        })
    }

    fn nd(
        &self,
        mac: [u8; 6],
        (source, destination): (Ipv6Addr, Ipv6Addr),
        build: impl Fn(&mut [u8], &Pseudo) -> usize,
    ) -> Vec<u8> {
        let mut packet = [0; ipv6::LENGTH + ndp::LENGTH_WITH_MAC];
        let (head, body) = packet.split_at_mut(ipv6::LENGTH);
        let length = build(body, &Pseudo::Ip6 { source, destination });
        let header = ipv6::Builder {
            hop_limit: ndp::HOP_LIMIT,
            ..ipv6::Builder::new(source, destination, protocol::ICMP6)
        };
        // Cannot fail: the buffer begins with space for the header.
        let _ = header.build(head, length);
        self.frame(mac, ethertype::IP6, &packet[..ipv6::LENGTH + length])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link() -> Link {
        Link { mac: [2, 0, 0, 0, 0, 1], tags: vec![(0x8100, 100)], is_router: true }
    }

    #[test]
    fn arp_has_the_vlan_tag() {
        let frame = {
            let source = ("10.0.0.1".parse().unwrap(), true);
            link().solicit(source, "10.0.0.2".parse().unwrap(), None)
        };
        assert_eq!(frame[..6], [0xff; 6]);
        assert_eq!(frame[12..18], [0x81, 0, 0, 100, 8, 6]);
        let packet = arp::check(&frame[18..]).unwrap();
        assert!(packet.is_request());
        let reply = link().arp_reply(packet, link().mac);
        assert!(arp::check(&reply[18..]).unwrap().is_reply());
        assert_eq!(reply[..6], link().mac);
    }

    #[test]
    fn neighbor_discovery_passes_its_own_checks() {
        let (ours, theirs) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
        for frame in [
            link().solicit((IpAddr::V6(ours), true), IpAddr::V6(theirs), None),
            link().solicit((IpAddr::V6(ours), false), IpAddr::V6(theirs), Some([2, 0, 0, 0, 0, 2])),
            link().probe(IpAddr::V6(ours), [1, 2, 3, 4, 5, 6]),
            link().advertise(ours, theirs, [2, 0, 0, 0, 0, 2], true),
            link().advertise(ours, Ipv6Addr::UNSPECIFIED, [0; 6], false),
        ] {
            let view = ipv6::check(&frame[18..]).unwrap();
            let upper = view.upper().unwrap();
            ndp::check(view.header(), upper.payload).unwrap();
        }
    }
}
