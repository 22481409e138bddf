//! The packets that Linux receives in addition to those for local addresses, and the policer class of
//! packets to Linux.

use std::net::IpAddr;

use super::Payload;
use crate::punt::Class;
use crate::punt::classify::Packet;

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

/// The class of a frame. Its IP header is validated, the rest is not. `is_peer`: whether a routing daemon has a
/// session with an address.
pub(super) fn class(carried: Payload, bytes: &[u8], is_peer: impl FnOnce(IpAddr) -> bool) -> Class {
    match carried {
        Payload::Link => Class::Link,
        _ => Packet::read(bytes).map_or(Class::Host, |packet| packet.class(is_peer)),
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
    fn only_ip_has_the_class_of_its_protocol() {
        let mut ospf = [0; 24];
        (ospf[0], ospf[8], ospf[9], ospf[16]) = (0x45, 1, 89, 224);
        let class = |carried, bytes: &[u8]| class(carried, bytes, |_| true);
        assert_eq!(class(Payload::Ip4, &ospf), Class::Routing);
        assert_eq!(class(Payload::Ip4, &ospf[..19]), Class::Host);
        // A frame without IP can look like OSPF.
        assert_eq!(class(Payload::Link, &ospf), Class::Link);
        assert_eq!(class(Payload::Link, &[]), Class::Link);
    }
}
