//! IPv4 packets that are punted to the control thread even if there is a host interface: router
//! solicitations (RFC 1256) where the router advertises itself, and VRRP.

use std::net::Ipv4Addr;

use stoa_wire::{ipv4, irdp, protocol, vrrp};

use crate::ethernet::interface_flags::{DISCOVERY4, VRRP4};
use crate::punt::Class;

/// The punt class of an IPv4 packet from an interface with these flags; `None`: not punted. Packets of
/// a class are validated as all others for local addresses, but that their source may be local.
#[inline]
pub fn punt_class(flags: u32, packet: &[u8]) -> Option<Class> {
    if flags & (DISCOVERY4 | VRRP4) == 0 {
        return None;
    }
    of_protocol(flags, packet)
}

#[cold]
fn of_protocol(flags: u32, packet: &[u8]) -> Option<Class> {
    let header = packet.first_chunk::<{ ipv4::LENGTH }>()?;
    let payload = packet.get(usize::from(header[0] & 0xf) * 4..)?;
    let destination = Ipv4Addr::from(*header[16..].first_chunk::<4>()?);
    let is_fragment = (header[6] & 0x3f, header[7]) != (0, 0);
    match header[9] {
        _ if is_fragment => None,
        // RFC 1256 3: nobody beyond the link can send to these addresses.
        protocol::ICMP4
            if flags & DISCOVERY4 != 0
                && irdp::is_solicitation(payload)
                && [irdp::ALL_ROUTERS, Ipv4Addr::BROADCAST].contains(&destination) =>
        {
            Some(Class::Solicitation)
        }
        protocol::VRRP if flags & VRRP4 != 0 && destination == vrrp::GROUP4 => Some(Class::Vrrp),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_enabled_protocols_are_punted() {
        let mut packet = [0; 28];
        (packet[0], packet[9], packet[20]) = (0x45, protocol::ICMP4, irdp::SOLICITATION);
        assert_eq!(punt_class(DISCOVERY4, &packet), None, "from anywhere");
        packet[16..20].copy_from_slice(&irdp::ALL_ROUTERS.octets());
        assert_eq!(punt_class(DISCOVERY4, &packet), Some(Class::Solicitation));
        assert_eq!(punt_class(!DISCOVERY4, &packet), None);
        packet[20] = 8;
        assert_eq!(punt_class(DISCOVERY4, &packet), None);
        packet[9] = protocol::VRRP;
        assert_eq!(punt_class(VRRP4, &packet), None);
        packet[16..20].copy_from_slice(&vrrp::GROUP4.octets());
        assert_eq!(punt_class(VRRP4, &packet), Some(Class::Vrrp));
        assert_eq!(punt_class(!VRRP4, &packet), None);
        packet[9] = protocol::ICMP4;
        (packet[20], packet[7]) = (irdp::SOLICITATION, 1);
        assert_eq!(punt_class(DISCOVERY4, &packet), None);
        for length in 0..28 {
            assert_eq!(punt_class(!0, &packet[..length]), None);
        }
    }
}
