//! Which addresses a host may have.

use std::net::IpAddr;

use ipnet::IpNet;

/// Whether the address is link-local.
pub fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// Why the address is not a host address; `None` if it is one.
pub fn not_a_host(address: IpAddr) -> Option<&'static str> {
    match address {
        _ if address.is_unspecified() => Some("is the unspecified address"),
        _ if address.is_loopback() => Some("is a loopback address"),
        _ if address.is_multicast() => Some("is a multicast address"),
        IpAddr::V4(four) if four.is_broadcast() => Some("is the broadcast address"),
        IpAddr::V4(four) if four.octets()[0] == 0 => {
            Some("is in 0.0.0.0/8, which is \"this network\"")
        }
        IpAddr::V4(four) if four.octets()[0] >= 240 => Some("is in 240.0.0.0/4, which is reserved"),
        _ => None,
    }
}

/// Why `address` is not a host address in `net`; `None` if it is one (RFC 3021 for /31; RFC 4291, section 2.6.1, and
/// RFC 6164 for IPv6).
pub fn not_in_subnet(address: IpAddr, net: &IpNet) -> Option<String> {
    let host_bits = net.max_prefix_len() - net.prefix_len();
    if host_bits < 2 {
        return None;
    }
    let net = net.trunc();
    if address == net.network() {
        return Some(if address.is_ipv4() {
            format!("is the address of the network {net} itself")
        } else {
            format!("is the anycast address of all routers of {net}")
        });
    }
    (address.is_ipv4() && address == net.broadcast())
        .then(|| format!("is the broadcast address of {net}"))
}

/// The address of all routers of an IPv6 subnet (RFC 4291, section 2.6.1). Subnets of 127 bits have none (RFC 6164),
/// nor has a link-local one, which needs no route.
pub fn subnet_router_anycast(net: IpNet) -> Option<IpAddr> {
    let is_subnet = (1..127).contains(&net.prefix_len()) && !is_link_local(net.addr());
    (net.addr().is_ipv6() && is_subnet).then(|| net.network())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routers_of_a_subnet_have_its_first_address() {
        let anycast =
            |net: &str| subnet_router_anycast(net.parse().unwrap()).map(|it| it.to_string());
        assert_eq!(anycast("fd00::1/64").as_deref(), Some("fd00::"));
        assert_eq!(anycast("fd00::85/126").as_deref(), Some("fd00::84"));
        for none in ["fd00::1/127", "fd00::1/128", "fe80::1/64", "10.0.0.1/24"] {
            assert_eq!(anycast(none), None);
        }
    }

    #[test]
    fn network_and_broadcast_addresses_are_no_host_addresses() {
        let reason =
            |ip: &str, net: &str| not_in_subnet(ip.parse().unwrap(), &net.parse().unwrap());
        assert!(reason("10.0.0.0", "10.0.0.0/24").is_some());
        assert!(reason("10.0.0.255", "10.0.0.0/24").is_some());
        assert!(reason("10.0.0.1", "10.0.0.0/24").is_none());
        assert!(reason("10.0.0.0", "10.0.0.0/31").is_none());
        assert!(reason("10.0.0.1", "10.0.0.1/32").is_none());
        assert!(reason("fd00::", "fd00::/64").is_some());
        assert!(reason("fd00::", "fd00::/127").is_none());
    }
}
