//! Text forms of addresses, routes and errors, the same in all programs.

use std::cmp::Ordering;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::v1;

/// The order of two names in which numbers count as such: eth2 before eth10.
pub fn by_number(one: &str, other: &str) -> Ordering {
    let (mut left, mut right) = (one, other);
    loop {
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (first, second) = (digits(left), digits(right));
        if first > 0 && second > 0 {
            let [a, b] = [&left[..first], &right[..second]].map(|it| it.trim_start_matches('0'));
            let order = a.len().cmp(&b.len()).then_with(|| a.cmp(b));
            if order.is_ne() {
                return order;
            }
            (left, right) = (&left[first..], &right[second..]);
            continue;
        }
        match (left.chars().next(), right.chars().next()) {
            (Some(a), Some(b)) if a == b => {
                (left, right) = (&left[a.len_utf8()..], &right[b.len_utf8()..]);
            }
            // Names that differ in leading zeros alone are not equal.
            (None, None) => return one.cmp(other),
            (a, b) => return a.cmp(&b),
        }
    }
}

/// The IP address in 4 or 16 bytes, `None` for any other length.
pub fn ip(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::V4(Ipv4Addr::from(octets)));
    }
    let octets = <[u8; 16]>::try_from(bytes).ok()?;
    Some(IpAddr::V6(Ipv6Addr::from(octets)))
}

/// An IP address in the encoding of the contract.
pub fn ip_bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// An IP address as text; "-" for none.
pub fn ip_text(bytes: &[u8]) -> String {
    ip(bytes).map_or_else(|| "-".to_owned(), |address| address.to_string())
}

/// A MAC address as text; "-" for none.
pub fn mac_text(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "-".to_owned();
    }
    let pairs: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    pairs.join(":")
}

impl fmt::Display for v1::Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, length } = self;
        write!(f, "{}/{length}", ip_text(address))
    }
}

/// Without its state.
impl fmt::Display for v1::Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, prefix_length, state: _ } = self;
        write!(f, "{}/{prefix_length}", ip_text(address))
    }
}

/// "100" for a customer tag, "s100" for a service tag (0x88a8).
impl fmt::Display for v1::Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tpid, vid } = self;
        let service = if *tpid == 0x88a8 { "s" } else { "" };
        write!(f, "{service}{vid}")
    }
}

/// The name of the protocol, as in the configuration.
impl fmt::Display for v1::Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            v1::Protocol::Direct => "direct",
            v1::Protocol::Static => "static",
            v1::Protocol::Kernel => "kernel",
            v1::Protocol::Bgp => "bgp",
            v1::Protocol::Ospf => "ospf",
            v1::Protocol::Isis => "isis",
            v1::Protocol::Rip => "rip",
            v1::Protocol::Babel => "babel",
            v1::Protocol::Other => "other",
            v1::Protocol::Bird => "bird",
        })
    }
}

impl fmt::Display for v1::Special {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            v1::Special::Local => "local",
            v1::Special::Blackhole => "blackhole",
            v1::Special::Unreachable => "unreachable",
            v1::Special::Prohibit => "prohibit",
        })
    }
}

/// "via 10.0.0.2 dev wan0 weight 2", or "dev lan0" for a directly connected destination.
impl fmt::Display for v1::Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { interface, next_hop, weight } = self;
        if !next_hop.is_empty() {
            write!(f, "via {} ", ip_text(next_hop))?;
        }
        write!(f, "dev {interface}")?;
        if *weight > 1 {
            write!(f, " weight {weight}")?;
        }
        Ok(())
    }
}

impl fmt::Display for v1::ValidationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // "/" says nothing: the error is about no node.
        if self.path != "/" {
            writeln!(f, "{}", self.path)?;
        }
        write!(f, "  cause: {}\n  fix:   {}", self.cause, self.fix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_about_no_node_has_no_path() {
        let of = |path: &str| {
            let error = v1::ValidationError { path: path.into(), ..v1::ValidationError::default() };
            error.to_string()
        };
        assert!(of("/a:b").starts_with("/a:b\n  cause: "), "{}", of("/a:b"));
        assert!(of("/").starts_with("  cause: "), "{}", of("/"));
    }

    #[test]
    fn names_are_ordered_by_their_numbers() {
        let mut names =
            ["eth10", "lan", "eth2.100", "eth2", "eth1", "eth2.20", "eth02", "é2", "é10"];
        names.sort_by(|one, other| by_number(one, other));
        let expected =
            ["eth1", "eth02", "eth2", "eth2.20", "eth2.100", "eth10", "lan", "é2", "é10"];
        assert_eq!(names, expected);
    }

    #[test]
    fn addresses_have_their_usual_form() {
        assert_eq!(ip_text(&[10, 0, 0, 1]), "10.0.0.1");
        assert_eq!(ip_text(&[]), "-");
        assert_eq!(ip_text(&[1, 2, 3]), "-");
        let six: IpAddr = "fd00::1".parse().unwrap();
        assert_eq!(ip(&ip_bytes(six)), Some(six));
        assert_eq!(mac_text(&[2, 0, 0, 0, 0xab, 1]), "02:00:00:00:ab:01");
        assert_eq!(mac_text(&[]), "-");
        let prefix = v1::Prefix { address: vec![10, 0, 0, 0], length: 8 };
        assert_eq!(prefix.to_string(), "10.0.0.0/8");
        assert_eq!(v1::Tag { tpid: 0x88a8, vid: 5 }.to_string(), "s5");
    }

    #[test]
    fn paths_have_the_form_of_ip_route() {
        let on_link = v1::Path { interface: "a".into(), next_hop: vec![], weight: 0 };
        assert_eq!(on_link.to_string(), "dev a");
        let far = v1::Path { interface: "b".into(), next_hop: vec![10, 0, 0, 2], weight: 2 };
        assert_eq!(far.to_string(), "via 10.0.0.2 dev b weight 2");
    }
}
