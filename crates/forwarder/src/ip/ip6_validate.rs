//! IPv6 header checks (RFC 8200 3, RFC 4291).

use stoa_wire::ipv6;

use crate::drops::Drop;

/// A valid packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Destination in host order.
    pub destination: u128,
    /// Header and payload.
    pub length: u16,
    /// What kind of addresses it has.
    pub scope: Scope,
}

/// Where a packet may go by its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Anywhere.
    Global,
    /// Only to us: its source is link-local (RFC 4291 2.5.6).
    FromLink,
    /// To a link-local address.
    ToLink,
    /// To a group that concerns us if we have joined it.
    Group,
}

/// Checks one packet; the error says the first thing that is wrong.
#[inline(always)]
pub fn check(bytes: &[u8]) -> Result<Packet, Drop> {
    let header: &[u8; ipv6::LENGTH] = bytes.first_chunk().ok_or(Drop::Ip6Truncated)?;
    if header[0] >> 4 != 6 {
        return Err(Drop::Ip6Version);
    }
    let length = ipv6::LENGTH + usize::from(u16::from_be_bytes([header[4], header[5]]));
    if length > bytes.len() {
        return Err(Drop::Ip6PayloadLength);
    }
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&header[at..at + 16]);
        u128::from_be_bytes(octets)
    };
    let (source, destination) = (address(8), address(24));
    // 2000::/3 to 2000::/3 is the trunk; everything else is looked at closer.
    let scope = if source >> 125 == 1 && destination >> 125 == 1 {
        Scope::Global
    } else {
        scope(source, destination)?
    };
    Ok(Packet { destination, length: length as u16, scope })
}

#[cold]
fn scope(source: u128, destination: u128) -> Result<Scope, Drop> {
    let is_mapped = |address: u128| address >> 32 == 0xffff;
    let is_link_local = |address: u128| address >> 118 == 0xfe80 >> 6;
    let is_group = destination >> 120 == 0xff;
    if source >> 120 == 0xff || source == 1 || is_mapped(source) || (source == 0 && !is_group) {
        return Err(Drop::Ip6MartianSource);
    }
    if is_group {
        return Ok(Scope::Group);
    }
    if destination <= 1 || is_mapped(destination) {
        return Err(Drop::Ip6MartianDestination);
    }
    Ok(if is_link_local(destination) {
        Scope::ToLink
    } else if is_link_local(source) {
        Scope::FromLink
    } else {
        Scope::Global
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    fn packet(source: &str, destination: &str) -> Vec<u8> {
        let mut bytes = vec![0; 48];
        let address = |text: &str| text.parse::<Ipv6Addr>().unwrap();
        ipv6::Builder::new(address(source), address(destination), 17).build(&mut bytes, 8).unwrap();
        bytes
    }

    #[test]
    fn addresses_tell_the_scope() {
        let scope = |source, destination| check(&packet(source, destination)).map(|p| p.scope);
        assert_eq!(scope("2001:db8::1", "2001:db8::2"), Ok(Scope::Global));
        assert_eq!(scope("fd00::1", "2001:db8::2"), Ok(Scope::Global));
        assert_eq!(scope("fe80::1", "2001:db8::2"), Ok(Scope::FromLink));
        assert_eq!(scope("fe80::1", "fe80::2"), Ok(Scope::ToLink));
        assert_eq!(scope("::", "ff02::1:ff00:1"), Ok(Scope::Group));
        assert_eq!(scope("::", "2001:db8::2"), Err(Drop::Ip6MartianSource));
        assert_eq!(scope("::1", "2001:db8::2"), Err(Drop::Ip6MartianSource));
        assert_eq!(scope("ff02::1", "2001:db8::2"), Err(Drop::Ip6MartianSource));
        assert_eq!(scope("2001:db8::1", "::1"), Err(Drop::Ip6MartianDestination));
        assert_eq!(scope("2001:db8::1", "::ffff:1.2.3.4"), Err(Drop::Ip6MartianDestination));
    }

    #[test]
    fn lengths_and_version_are_checked() {
        let good = packet("2001:db8::1", "2001:db8::2");
        assert_eq!(check(&good).map(|packet| packet.length), Ok(48));
        assert_eq!(check(&good[..39]), Err(Drop::Ip6Truncated));
        assert_eq!(check(&good[..47]), Err(Drop::Ip6PayloadLength));
        let mut bad = good;
        bad[0] = 0x45;
        assert_eq!(check(&bad), Err(Drop::Ip6Version));
    }
}
