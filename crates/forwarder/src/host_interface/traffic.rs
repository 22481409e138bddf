//! The packets that Linux receives in addition to those for local addresses, and the policer class of
//! packets to Linux.

use stoa_wire::protocol;

use super::Payload;
use crate::punt::Class;
use crate::punt::classify::class_of;

/// Last bytes of 224.0.0.251, mDNS (RFC 6762), and 224.0.0.252, LLMNR (RFC 4795), which routers do
/// not use.
const NAME_RESOLUTION4: [u8; 2] = [251, 252];

/// Whether Linux receives IPv4 packets to this destination, which is not a local address: link-local
/// groups (RFC 5771 4: OSPF, RIP, PIM, VRRP, IGMP, all routers) and limited broadcasts (DHCP).
pub fn is_for_host4(destination: [u8; 4]) -> bool {
    match destination {
        [224, 0, 0, last] => !NAME_RESOLUTION4.contains(&last),
        destination => destination == [255; 4],
    }
}

/// The same for an IPv6 group: link-local groups (RFC 4291 2.7) except mDNS (ff02::fb), LLMNR
/// (ff02::1:3) and solicited-node groups, for which the router itself replies.
pub fn is_for_host6(group: u128) -> bool {
    let scope = group >> 112 & 0xf;
    let is_solicited_node = group >> 24 == 0xff02_0000_0000_0000_0000_0001_ff00_0000 >> 24;
    let last = group & u128::from(u32::MAX);
    scope == 2 && !is_solicited_node && !matches!(last, 0xfb | 0x1_0003)
}

/// The class of a frame. Its IP header is validated, the rest is not.
pub(super) fn class(carried: Payload, bytes: &[u8]) -> Class {
    let (upper, offset) = match (carried, bytes) {
        (Payload::Link, _) => return Class::Link,
        (Payload::Ip4, [first, ..]) if bytes.len() >= 20 => {
            // More fragments, or an offset.
            if (bytes[6] & 0x3f, bytes[7]) != (0, 0) {
                return Class::Fragment;
            }
            (bytes[9], usize::from(first & 0xf) * 4)
        }
        // Packets with extension headers are in the class of the next header, mostly `Host`.
        (Payload::Ip6, bytes) if bytes.len() >= 40 => (bytes[6], 40),
        _ => return Class::Host,
    };
    match class_of(upper, bytes.get(offset..).unwrap_or_default()) {
        _ if upper == protocol::FRAGMENT => Class::Fragment,
        class => class,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_receives_router_groups_but_not_name_resolution() {
        for last in [1, 2, 5, 6, 9, 13, 18, 22] {
            assert!(is_for_host4([224, 0, 0, last]), "{last}");
        }
        assert!(is_for_host4([255; 4]));
        for not in [[224, 0, 0, 251], [224, 0, 0, 252], [239, 1, 1, 1], [10, 0, 0, 255]] {
            assert!(!is_for_host4(not), "{not:?}");
        }
        let group = |text: &str| u128::from(text.parse::<std::net::Ipv6Addr>().unwrap());
        for accepted in [
            "ff02::1",
            "ff02::2",
            "ff02::5",
            "ff02::6",
            "ff02::d",
            "ff02::12",
            "ff02::16",
            "ff02::1:2",
        ] {
            assert!(is_for_host6(group(accepted)), "{accepted}");
        }
        for not in ["ff02::fb", "ff02::1:3", "ff02::1:ff00:1", "ff05::2", "ff0e::1", "ff01::1"] {
            assert!(!is_for_host6(group(not)), "{not}");
        }
    }

    #[test]
    fn protocol_and_port_determine_the_class() {
        let ip4 = |protocol: u8, ports: [u16; 2]| {
            let mut bytes = vec![0; 24];
            (bytes[0], bytes[9]) = (0x45, protocol);
            bytes[20..22].copy_from_slice(&ports[0].to_be_bytes());
            bytes[22..24].copy_from_slice(&ports[1].to_be_bytes());
            bytes
        };
        assert_eq!(class(Payload::Ip4, &ip4(89, [0, 0])), Class::Routing);
        assert_eq!(class(Payload::Ip4, &ip4(1, [0, 0])), Class::Icmp);
        assert_eq!(class(Payload::Ip4, &ip4(6, [40000, 179])), Class::Routing);
        assert_eq!(class(Payload::Ip4, &ip4(6, [22, 40000])), Class::Host);
        assert_eq!(class(Payload::Ip4, &ip4(17, [49152, 3784])), Class::Routing);
        let mut fragment = ip4(17, [49152, 3784]);
        fragment[7] = 1;
        assert_eq!(class(Payload::Ip4, &fragment), Class::Fragment);
        let mut six = vec![0; 44];
        (six[0], six[6], six[24]) = (0x60, 89, 0xff);
        assert_eq!(class(Payload::Ip6, &six), Class::Routing);
        six[6] = 58;
        assert_eq!(class(Payload::Ip6, &six), Class::Icmp);
        for cut in 0..44 {
            class(Payload::Ip6, &six[..cut]);
            class(Payload::Ip4, &six[..cut]);
        }
        // A frame without IP can look like BGP or OSPF.
        for bytes in [&[][..], &six, &ip4(6, [0, 179]), &ip4(89, [0, 0])] {
            assert_eq!(class(Payload::Link, bytes), Class::Link, "{bytes:x?}");
        }
    }
}
