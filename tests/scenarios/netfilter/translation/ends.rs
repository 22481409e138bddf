//! Addresses of scripts, and their names. Each script has hosts of its own: they differ in the last byte.
//!
//! `a` and `a2` are clients inside (host-a), `b` and `b2` hosts outside (host-b), `c` and `s` servers inside (host-c).
//! `f` is the external address of the forwards to `c`, `o` that which stands for `s`, `p` that of all clients.

use std::net::Ipv4Addr;

/// An address and a port, or the identifier of an ICMP query.
pub type End = (Ipv4Addr, u16);

/// Names, stations, and the first three bytes of addresses. What is external has no station.
const NAMES: [(&str, Option<usize>, [u8; 3]); 8] = [
    ("a", Some(0), [198, 18, 64]),
    ("a2", Some(0), [198, 18, 80]),
    ("b", Some(1), [198, 18, 128]),
    ("b2", Some(1), [198, 18, 144]),
    ("c", Some(2), [198, 18, 192]),
    ("s", Some(2), [198, 18, 208]),
    ("f", None, [198, 19, 64]),
    ("o", None, [198, 19, 128]),
];

/// The external address of all clients where they have a pool.
pub const POOL: Ipv4Addr = Ipv4Addr::new(198, 19, 1, 16);
/// Its ports.
pub const PORTS: [u16; 2] = [20_000, 20_999];
/// The external address of all clients where they have that of the interface.
pub const INTERFACE: Ipv4Addr = Ipv4Addr::new(198, 18, 2, 1);
/// The station outside.
pub const OUTSIDE: usize = 1;

/// Prefixes behind the hosts, for routes.
pub const BEHIND: [(&str, &str); 3] = [
    ("198.18.64.0/18", "198.18.1.2"),
    ("198.18.128.0/18", "198.18.2.2"),
    ("198.18.192.0/18", "198.18.3.2"),
];

/// The address with this name in a script, or that of all clients.
///
/// # Panics
/// There is no such name.
pub fn address(name: &str, script: u8) -> Ipv4Addr {
    let found = NAMES.iter().find(|(it, ..)| *it == name);
    let (_, _, [first, second, third]) = found.unwrap_or_else(|| panic!("no address: {name}"));
    Ipv4Addr::new(*first, *second, *third, script)
}

/// The station that has the address with this name.
pub fn station(name: &str) -> Option<usize> {
    NAMES.iter().find(|(it, ..)| *it == name).and_then(|(_, station, _)| *station)
}

/// The name of an address, and the script that has it. The addresses `r1` to `r3` are those of the router.
pub fn name(address: Ipv4Addr) -> (String, Option<u8>) {
    let [first, second, third, last] = address.octets();
    if [first, second, last] == [198, 18, 1] && third <= 3 {
        return (format!("r{third}"), None);
    }
    let found = NAMES.iter().find(|(_, _, prefix)| *prefix == [first, second, third]);
    found.map_or((address.to_string(), None), |(name, ..)| ((*name).into(), Some(last)))
}
