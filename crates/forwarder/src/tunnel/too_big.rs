//! ICMP messages that say that an outer packet of a tunnel is too big for its path.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_wire::{icmp4, icmp6};

use super::table::Tunnels;

/// Bytes of an ICMP header.
const HEADER: usize = 8;
/// "Fragmentation needed" (RFC 1191 3).
const FRAGMENTATION_NEEDED: u8 = 4;

/// The interface of the tunnel, in a VRF, of whose outer packet an ICMP message says that it is too big;
/// `None` for every other message. The control thread checks the message.
#[cold]
pub fn of_message(tunnels: &Tunnels, (vrf, is_ip4): (u32, bool), message: &[u8]) -> Option<u32> {
    let (kind, code) = (*message.first()?, *message.get(1)?);
    let is_too_big = match is_ip4 {
        true => (kind, code) == (icmp4::kind::UNREACHABLE, FRAGMENTATION_NEEDED),
        false => kind == icmp6::kind::PACKET_TOO_BIG,
    };
    if !is_too_big || tunnels.is_empty() {
        return None;
    }
    let ((local, remote), protocol) = ends(message.get(HEADER..)?)?;
    // Received packets have the ends the other way round.
    tunnels.from(vrf, (remote, local), protocol)
}

/// Source and destination of a quoted packet, which may be cut, and its protocol.
pub fn ends(quoted: &[u8]) -> Option<((IpAddr, IpAddr), u8)> {
    match quoted.first()? >> 4 {
        4 => {
            let address = |at: usize| {
                let octets = quoted.get(at..at + 4)?.first_chunk::<4>()?;
                Some(IpAddr::V4(Ipv4Addr::from(*octets)))
            };
            Some(((address(12)?, address(16)?), *quoted.get(9)?))
        }
        6 => {
            let address = |at: usize| {
                let octets = quoted.get(at..at + 16)?.first_chunk::<16>()?;
                Some(IpAddr::V6(Ipv6Addr::from(*octets)))
            };
            Some(((address(8)?, address(24)?), *quoted.get(6)?))
        }
        _ => None,
    }
}
