//! Numbers that have names, as values of options: ports of services, protocols, types of ICMP, and prefixes.

use std::net::IpAddr;

use stoa_api::acl::{ICMP_TYPES, protocol_names, protocol_number};
use stoa_api::text::ip_bytes;
use stoa_api::v1;
use stoa_yang::well_known;

use crate::failure::Failure;

/// A port by its number or the name of its service, from 0 on.
///
/// # Errors
/// The accepted values.
pub fn port(text: &str) -> Result<u16, String> {
    let known = well_known::port(&text.to_ascii_lowercase()).and_then(|it| u16::try_from(it).ok());
    let named = || format!("use a number up to 65535, or {}", well_known::services().join(", "));
    text.parse().ok().or(known).ok_or_else(named)
}

/// The same, without 0.
///
/// # Errors
/// The accepted values.
pub fn port_of_flow(text: &str) -> Result<u16, String> {
    port(text).and_then(|port| match port {
        0 => Err("use a number from 1 to 65535, or the name of a service such as https".to_owned()),
        port => Ok(port),
    })
}

/// The number of a protocol of a family.
///
/// # Errors
/// The accepted values.
pub fn protocol(name: &str, is_ip4: bool) -> Result<u32, Failure> {
    protocol_number(&name.to_ascii_lowercase(), is_ip4).ok_or_else(|| {
        Failure::Message(format!(
            "there is no protocol {name:?}: use {} or a number up to 255",
            protocol_names().join(", ")
        ))
    })
}

/// A type of ICMP by its number or name, in a family.
///
/// # Errors
/// The accepted values.
pub fn icmp_type(text: &str, is_ip4: bool) -> Result<u8, Failure> {
    let name = text.to_ascii_lowercase();
    let of = |types: [Option<u8>; 2]| types[usize::from(!is_ip4)];
    let known = ICMP_TYPES.iter().find(|(known, _)| *known == name);
    let number = text.parse().ok().or_else(|| known.and_then(|(_, types)| of(*types)));
    number.ok_or_else(|| {
        let names = ICMP_TYPES.iter().filter(|(_, types)| of(*types).is_some());
        let names = names.map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let of = if is_ip4 { "ICMP" } else { "ICMPv6" };
        Failure::Message(format!(
            "there is no type {text:?} of {of}: use {names} or a number up to 255"
        ))
    })
}

/// A prefix, or an address, which is one of full length.
///
/// # Errors
/// What a prefix looks like.
pub fn prefix(text: &str) -> Result<v1::Prefix, String> {
    let wrong = || "use a prefix such as 10.2.0.0/16 or 2001:db8::/32, or an address".to_owned();
    let (address, length) =
        text.split_once('/').map_or((text, None), |(it, rest)| (it, Some(rest)));
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let length = length.map_or(Ok(bits), str::parse).ok().filter(|length| *length <= bits);
    Ok(v1::Prefix { address: ip_bytes(address), length: length.ok_or_else(wrong)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_and_protocols_have_names() {
        assert_eq!((port("https"), port("SSH"), port("0")), (Ok(443), Ok(22), Ok(0)));
        assert!(port("65536").unwrap_err().contains("https"));
        assert!(port_of_flow("0").unwrap_err().contains("1 to 65535"));
        let protocol = |name: &str, is_ip4| protocol(name, is_ip4).ok();
        assert_eq!((protocol("UDP", true), protocol("89", false)), (Some(17), Some(89)));
        assert_eq!((protocol("icmp", true), protocol("icmp", false)), (Some(1), Some(58)));
        assert_eq!(protocol("none", true), None);
    }

    #[test]
    fn types_of_icmp_have_names_in_each_family() {
        let of = |name: &str| [true, false].map(|is_ip4| icmp_type(name, is_ip4).ok());
        assert_eq!(of("echo-request"), [Some(8), Some(128)]);
        assert_eq!(of("packet-too-big"), [None, Some(2)]);
        assert_eq!(of("13"), [Some(13), Some(13)]);
        assert_eq!(of("256"), [None, None]);
        let Err(Failure::Message(text)) = icmp_type("packet-too-big", true) else { panic!() };
        assert!(
            text.contains("destination-unreachable") && !text.contains("neighbor-sol"),
            "{text}"
        );
    }

    #[test]
    fn an_address_is_a_prefix_of_full_length() {
        let text = |it: &str| prefix(it).map(|it| it.to_string()).ok();
        assert_eq!(text("10.0.0.1").as_deref(), Some("10.0.0.1/32"));
        assert_eq!(text("2001:db8::/32").as_deref(), Some("2001:db8::/32"));
        assert_eq!((text("10.0.0.0/33"), text("10.0.0.0/"), text("a")), (None, None, None));
    }
}
