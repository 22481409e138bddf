//! Where a client comes from: its address, and the networks around it that one customer or one site may have.
//!
//! Who has one IPv6 address usually has its /64, often a /56 or a /48. What is limited by address alone is limited for
//! nobody who has a prefix.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;

/// The size of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// One client: an IPv4 address, an IPv6 /64.
    Client,
    /// One customer of a provider: an IPv6 /56.
    Customer,
    /// One site: an IPv4 /24, an IPv6 /48 (RFC 6177).
    Site,
    /// All hosts that log in at the portal.
    Hosts,
}

/// A source: an address with the host bits of its scope cleared.
pub type Source = (Scope, IpAddr);

/// Where the addresses of [`of_host`] are: nobody has one (RFC 6666 reserves this block).
const HOSTS: u16 = 0x0100;

/// The address that stands for a host of a link, of which only the MAC address counts: all hosts of a link share its
/// networks, and a host has many addresses.
pub fn of_host(mac: [u8; 6]) -> IpAddr {
    let [a, b, c, d, e, f] = mac.map(u16::from);
    Ipv6Addr::new(HOSTS, a << 8 | b, c << 8 | d, e << 8 | f, 0, 0, 0, 0).into()
}

/// Whether an address is one of [`of_host`].
pub fn is_host(from: IpAddr) -> bool {
    matches!(from, IpAddr::V6(six) if six.segments()[0] == HOSTS)
}

/// The sources that an address belongs to, the smallest first. An address of this machine is one of its own.
pub fn sources(from: IpAddr) -> impl Iterator<Item = Source> {
    let lengths: &[(Scope, u8)] = match from {
        IpAddr::V4(four) if four.is_loopback() => &[(Scope::Client, 32)],
        IpAddr::V6(six) if six.is_loopback() => &[(Scope::Client, 128)],
        _ if is_host(from) => &[(Scope::Client, 64)],
        IpAddr::V4(_) => &[(Scope::Client, 32), (Scope::Site, 24)],
        IpAddr::V6(_) => &[(Scope::Client, 64), (Scope::Customer, 56), (Scope::Site, 48)],
    };
    lengths.iter().map(move |(scope, length)| (*scope, network(from, *length)))
}

/// The address that identifies a client: for IPv6 its /64.
pub fn client(from: IpAddr) -> IpAddr {
    sources(from).next().map_or(from, |(_, client)| client)
}

fn network(from: IpAddr, length: u8) -> IpAddr {
    IpNet::new(from, length).map_or(from, |network| network.network())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_its_prefixes() {
        let of = |text: &str| -> Vec<String> {
            sources(text.parse().unwrap()).map(|(_, source)| source.to_string()).collect()
        };
        assert_eq!(of("192.0.2.77"), ["192.0.2.77", "192.0.2.0"]);
        let six = ["2001:db8:1:2f3::", "2001:db8:1:200::", "2001:db8:1::"];
        assert_eq!(of("2001:db8:1:2f3::9"), six);
        assert_eq!((of("127.0.0.1"), of("::1")), (vec!["127.0.0.1".into()], vec!["::1".into()]));
        let host = |last| sources(of_host([2, 0, 0, 0, 0, last])).collect::<Vec<_>>();
        assert_eq!(host(9), [(Scope::Client, "100:200:0:9::".parse().unwrap())]);
        assert_ne!(host(9), host(8));
        let client = |text: &str| client(text.parse().unwrap()).to_string();
        assert_eq!(client("2001:db8::1"), client("2001:db8::2"));
    }
}
