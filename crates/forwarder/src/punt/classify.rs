//! Classifies IP packets to the router's own addresses, so that routing protocols survive any other traffic.

use stoa_wire::protocol;

use super::Class;

/// EIGRP (RFC 7868).
const EIGRP: u8 = 88;
/// PIM (RFC 7761).
const PIM: u8 = 103;
/// BGP (RFC 4271).
const BGP: u16 = 179;
/// LDP, over TCP and UDP (RFC 5036).
const LDP: u16 = 646;
/// RIP (RFC 2453), RIPng (RFC 2080), and BFD: single hop, echo, multihop, on a bundle (RFC 5881,
/// RFC 5883, RFC 7130).
const UDP_PORTS: [u16; 6] = [520, 521, 3784, 3785, 4784, 6784];

/// The class of an unfragmented packet to the router with this upper-layer protocol and payload.
pub fn class_of(upper: u8, payload: &[u8]) -> Class {
    let port = |at: usize| {
        payload.get(at..at + 2).map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    };
    let is_routing = match upper {
        protocol::OSPF | protocol::VRRP | protocol::IGMP | PIM | EIGRP => true,
        // Either side may have opened the connection.
        protocol::TCP => [port(0), port(2)].iter().any(|port| [BGP, LDP].contains(port)),
        // The destination port decides: BFD has source ports of a range of its own.
        protocol::UDP => port(2) == LDP || UDP_PORTS.contains(&port(2)),
        protocol::ICMP4 | protocol::ICMP6 => return Class::Icmp,
        _ => false,
    };
    if is_routing { Class::Routing } else { Class::Host }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routing_protocols_have_their_own_class() {
        let ports = |from: u16, to: u16| [from.to_be_bytes(), to.to_be_bytes()].concat();
        for (upper, payload, class) in [
            (89, vec![], Class::Routing),
            (112, vec![], Class::Routing),
            (103, vec![], Class::Routing),
            (88, vec![], Class::Routing),
            (2, vec![], Class::Routing),
            (6, ports(40_000, 179), Class::Routing),
            (6, ports(179, 40_000), Class::Routing),
            (6, ports(646, 40_000), Class::Routing),
            (6, ports(40_000, 22), Class::Host),
            (17, ports(49_152, 3784), Class::Routing),
            (17, ports(49_152, 4784), Class::Routing),
            (17, ports(520, 520), Class::Routing),
            (17, ports(521, 521), Class::Routing),
            (17, ports(646, 646), Class::Routing),
            (17, ports(3784, 53), Class::Host),
            (17, vec![14], Class::Host),
            (1, vec![8, 0], Class::Icmp),
            (58, vec![128, 0], Class::Icmp),
            (47, vec![], Class::Host),
        ] {
            assert_eq!(class_of(upper, &payload), class, "{upper} {payload:?}");
        }
    }
}
