//! The extension headers of a packet for a local address, in order (RFC 8200 4). Transit packets
//! are forwarded without reading them: a router processes hop-by-hop options only if configured to
//! (RFC 8200 4.3), and does not drop packets with unknown headers (RFC 7045 2.1).

use stoa_wire::ipv6::{self, Ip6Error};
use stoa_wire::ipv6_extensions::{Extension, Fragment, MOST_OPTIONS};
use stoa_wire::protocol;
use zerocopy::FromBytes;

use super::ip4_local::Refused;
use crate::drops::Drop;
use crate::icmp::IcmpCause;

const PAD_N: u8 = 1;
/// Router alert (RFC 2711): needs no processing, but MLD is refused without it.
pub(super) const ROUTER_ALERT: u8 = 5;
const PAD_1: u8 = 0;

/// The upper-layer protocol of a packet.
pub(super) struct Carried {
    /// The protocol number.
    pub(super) protocol: u8,
    /// The offset of its header from the start of the IPv6 header.
    pub(super) offset: usize,
    /// The offset of the next-header field with the protocol number.
    pub(super) named_at: usize,
    /// Whether there is a fragment header: the packet is an atomic fragment (RFC 6946).
    pub(super) was_fragment: bool,
}

/// A fragment or a whole packet.
pub(super) enum Chain {
    /// A whole packet.
    Whole(Carried),
    /// One of several fragments.
    Fragment,
}

/// Processes the extension headers of `view`; `is_group`: its destination is a multicast group.
pub(super) fn process(view: &ipv6::View<'_>, is_group: bool) -> Result<Chain, Refused> {
    let mut named_at = 6;
    let mut was_fragment = false;
    for extension in view.extensions() {
        let extension = match extension {
            Ok(extension) => extension,
            Err(Ip6Error::HopByHopNotFirst) => {
                return icmp_error(IcmpCause::NextHeader(named_at as u16));
            }
            Err(_) => return Err(Refused::Drop(Drop::Ip6Extension)),
        };
        let pointer = |at: usize| (extension.offset + at) as u16;
        match extension.kind {
            protocol::HOP_BY_HOP | protocol::DESTINATION_OPTIONS => options(&extension, is_group)?,
            // Type 0 is deprecated (RFC 5095), other types are not supported (RFC 8200 4.4).
            protocol::ROUTING if extension.bytes[3] != 0 => {
                return icmp_error(IcmpCause::Header(pointer(2)));
            }
            protocol::ROUTING => {}
            protocol::FRAGMENT => {
                let Ok(fragment) = Fragment::ref_from_bytes(extension.bytes) else {
                    return Err(Refused::Drop(Drop::Ip6Extension));
                };
                if !fragment.is_atomic() {
                    return complete(view, fragment).map(|()| Chain::Fragment);
                }
                was_fragment = true;
            }
            _ => return icmp_error(IcmpCause::NextHeader(named_at as u16)),
        }
        named_at = extension.offset;
    }
    let upper = view.upper().map_err(|_| Refused::Drop(Drop::Ip6Extension))?;
    let (protocol, offset) = (upper.protocol, upper.offset);
    Ok(Chain::Whole(Carried { protocol, offset, named_at: upper.named_at, was_fragment }))
}

fn icmp_error<T>(cause: IcmpCause) -> Result<T, Refused> {
    Err(Refused::IcmpError(cause))
}

/// A first fragment must hold the complete header chain with the upper-layer header (RFC 7112 5).
fn complete(view: &ipv6::View<'_>, fragment: &Fragment) -> Result<(), Refused> {
    if fragment.offset() > 0 {
        return Ok(());
    }
    let Ok(upper) = view.upper() else { return icmp_error(IcmpCause::FirstFragment) };
    let least = match upper.protocol {
        protocol::TCP => 20,
        protocol::UDP | protocol::ICMP6 => 8,
        protocol::NO_NEXT_HEADER => 0,
        _ => 1,
    };
    if upper.payload.len() < least { icmp_error(IcmpCause::FirstFragment) } else { Ok(()) }
}

/// Processes each option as its type requires (RFC 8200 4.2).
fn options(extension: &Extension<'_>, is_group: bool) -> Result<(), Refused> {
    let bytes = extension.bytes;
    let (mut at, mut count) = (2, 0);
    while let Some(kind) = bytes.get(at) {
        if *kind == PAD_1 {
            at += 1;
            continue;
        }
        let pointer = (extension.offset + at) as u16;
        let end = bytes.get(at + 1).map_or(usize::MAX, |length| at + 2 + usize::from(*length));
        if end > bytes.len() {
            return icmp_error(IcmpCause::Header(pointer.saturating_add(1)));
        }
        at = end;
        count += 1;
        if count > MOST_OPTIONS {
            return Err(Refused::Drop(Drop::Ip6Extension));
        }
        if matches!(*kind, PAD_N | ROUTER_ALERT) {
            continue;
        }
        match kind >> 6 {
            0 => {}
            2 => return icmp_error(IcmpCause::Option(pointer)),
            3 if !is_group => return icmp_error(IcmpCause::Option(pointer)),
            _ => return Err(Refused::Drop(Drop::Ip6Option)),
        }
    }
    Ok(())
}
