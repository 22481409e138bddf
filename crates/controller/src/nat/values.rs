//! Prefixes and ranges of ports of the configuration, checked.

use ipnet::{IpNet, Ipv4Net};
use stoa_yang::error::ValidationErrors;

use crate::config::model::NatPorts;

/// The first and the last port of a range.
pub(super) type Ports = (u32, u32);

/// An IPv4 prefix. One of IPv6 is an error.
pub(super) fn ip4(text: &str, path: &str, errors: &mut ValidationErrors) -> Option<Ipv4Net> {
    match text.parse::<IpNet>().ok()? {
        IpNet::V4(net) => Some(net.trunc()),
        IpNet::V6(net) => {
            let cause = format!("{net} is an IPv6 prefix, and NAT44 translates IPv4 alone");
            errors.add(path, cause, "Use an IPv4 prefix, such as 192.0.2.0/24 or 192.0.2.1/32.");
            None
        }
    }
}

/// An IPv4 prefix of addresses that hosts can have.
pub(super) fn unicast(text: &str, path: &str, errors: &mut ValidationErrors) -> Option<Ipv4Net> {
    let net = ip4(text, path, errors)?;
    let first = net.network();
    // A prefix of fewer bits has some of these addresses, too.
    let is_unicast = first.octets()[0] != 0 && !first.is_loopback() && first.octets()[0] < 224;
    if !is_unicast || net.prefix_len() < 8 {
        let cause = format!("{net} has addresses that no host can have");
        errors.add(path, cause, "Use a prefix of unicast addresses, such as 192.0.2.0/28.");
        return None;
    }
    Some(net)
}

/// A range of ports; `None`: it is absent. libyang has checked that its end is not below its start.
pub(super) fn ports(given: NatPorts, path: &str, errors: &mut ValidationErrors) -> Option<Ports> {
    let first = given.start_port_number?;
    if first == 0 {
        errors.add(
            format!("{path}/start-port-number"),
            "0 is not a port",
            "Set it to a number from 1 to 65535.",
        );
        return None;
    }
    Some((first, given.end_port_number.unwrap_or(first)))
}

/// Whether two ranges have a port in common.
pub(super) fn meet(one: Ports, other: Ports) -> bool {
    one.0 <= other.1 && other.0 <= one.1
}

/// Whether two prefixes have an address in common.
pub(super) fn overlap(one: Ipv4Net, other: Ipv4Net) -> bool {
    one.contains(&other) || other.contains(&one)
}

/// A range as text: "80", "8000 to 8010".
pub(super) fn range((first, last): Ports) -> String {
    if first == last { first.to_string() } else { format!("{first} to {last}") }
}

/// The name of an identity.
pub(super) fn without_module(identity: &str) -> &str {
    identity.rsplit(':').next().unwrap_or(identity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_and_ranges_that_cannot_be_are_refused() {
        let check = |text: &str| {
            let mut errors = ValidationErrors::default();
            let net = unicast(text, "/x", &mut errors);
            (net.map(|net| net.to_string()), errors.into_vec().len())
        };
        assert_eq!(check("192.0.2.16/28"), (Some("192.0.2.16/28".to_owned()), 0));
        for wrong in ["127.0.0.1/32", "224.0.0.0/24", "240.0.0.1/32", "0.0.0.0/0", "fd00::/64"] {
            assert_eq!(check(wrong), (None, 1), "{wrong}");
        }
        let ports = |start, end| {
            let given = NatPorts { start_port_number: start, end_port_number: end };
            ports(given, "/x", &mut ValidationErrors::default())
        };
        assert_eq!(ports(Some(80), None), Some((80, 80)));
        assert_eq!(ports(Some(80), Some(90)), Some((80, 90)));
        assert_eq!((ports(Some(0), None), ports(None, None)), (None, None));
        assert!(meet((1, 5), (5, 9)) && !meet((1, 4), (5, 9)));
        assert_eq!((range((7, 7)), range((7, 9))), ("7".to_owned(), "7 to 9".to_owned()));
    }
}
