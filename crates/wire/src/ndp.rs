//! Neighbour discovery (RFC 4861): the MAC addresses and the routers of an IPv6 link.

use crate::checksum::{self, Pseudo};
use crate::ethernet::Mac;
use crate::icmp6::{kind, seal};
use crate::ipv6::{self, is_solicited_node};
use crate::ndp_options::{self, Options, kind as option_kind};
use crate::{BuildError, build_error::prefix_of, protocol};
use core::net::Ipv6Addr;
use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

mod build_probe;
mod build_redirect;
mod build_router;

pub use build_probe::build_probe;
pub use build_redirect::build_redirect;
pub use build_router::{
    AdvertisedPrefix, AdvertisementOptions, Nat64Prefix, build_router_advertisement, is_name,
    names_of, prefix_flag, router_flag,
};

/// The hop limit that proves that a message has passed no router.
pub const HOP_LIMIT: u8 = 255;
/// Bytes of a neighbour solicitation or advertisement with its link-layer address option.
pub const LENGTH_WITH_MAC: usize = 32;

causes! {
    /// Why a neighbour discovery message is not believed.
    NdpError {
        Truncated = "ndp-truncated", "the message is shorter than its type requires";
        NotNdp = "ndp-unknown-type", "the ICMPv6 type is no neighbour discovery message";
        BadHopLimit = "ndp-bad-hop-limit", "the hop limit is not 255: the message passed a router";
        BadChecksum = "ndp-bad-checksum", "the ICMPv6 checksum is wrong";
        BadCode = "ndp-bad-code", "the ICMPv6 code is not 0";
        BadOption = "ndp-bad-option", "an option has length 0 or is longer than the message";
        TooManyOptions = "ndp-too-many-options", "the message has more than 64 options";
        BadSource = "ndp-bad-source",
            "the source address may not send this: a group, or a router's that is not link-local";
        BadDestination = "ndp-bad-destination",
            "a solicitation from :: must go to a solicited-node group";
        BadTarget = "ndp-bad-target", "the target address is a group, or not what it may be";
        SolicitedToGroup = "ndp-solicited-to-group",
            "an advertisement to a group must not have the solicited flag";
        MacFromUnspecified = "ndp-mac-from-unspecified",
            "a solicitation from :: must not have a source link-layer address";
    }
}

/// A neighbour solicitation or advertisement, options left out.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Neighbor {
    /// Type.
    pub kind: u8,
    /// 0.
    pub code: u8,
    /// Checksum of pseudo-header and message.
    pub checksum: U16,
    /// Advertisement: flags in the high three bits; else 0.
    pub flags: U32,
    /// The address solicited or advertised.
    pub target: [u8; 16],
}

/// Bits of [`Neighbor::flags`] in an advertisement (RFC 4861 section 4.4).
pub mod flag {
    /// The sender routes.
    pub const ROUTER: u32 = 0x8000_0000;
    /// This answers a solicitation.
    pub const SOLICITED: u32 = 0x4000_0000;
    /// Override: replace a cached link-layer address.
    pub const OVERRIDE: u32 = 0x2000_0000;
}

impl Neighbor {
    /// The address solicited or advertised.
    #[inline]
    pub const fn target(&self) -> Ipv6Addr {
        Ipv6Addr::from_octets(self.target)
    }

    /// Whether all `flags`, bits of [`flag`], are set.
    #[inline]
    pub fn has(&self, flags: u32) -> bool {
        self.flags.get() & flags == flags
    }
}

/// A router advertisement, options left out (RFC 4861 section 4.2).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct RouterAdvertisement {
    /// Type.
    pub kind: u8,
    /// 0.
    pub code: u8,
    /// Checksum of pseudo-header and message.
    pub checksum: U16,
    /// Hop limit that hosts should use; 0 when unspecified.
    pub hop_limit: u8,
    /// Managed addresses (0x80), other configuration (0x40), preference (RFC 4191: 0x18).
    pub flags: u8,
    /// Seconds for which the sender is a default router; 0 when it is none.
    pub lifetime: U16,
    /// Milliseconds for which a neighbour counts as reachable; 0 when unspecified.
    pub reachable_time: U32,
    /// Milliseconds between solicitations; 0 when unspecified.
    pub retransmit_time: U32,
}

/// A redirect, options left out (RFC 4861 section 4.5).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Redirect {
    /// Type.
    pub kind: u8,
    /// 0.
    pub code: u8,
    /// Checksum of pseudo-header and message.
    pub checksum: U16,
    /// 0 when sent, ignored when received.
    pub reserved: U32,
    /// The better first hop.
    pub target: [u8; 16],
    /// What it is the better first hop to.
    pub destination: [u8; 16],
}

/// A message that [`check`] has accepted, with its options, whose lengths are right.
#[derive(Clone, Copy, Debug)]
pub enum Message<'a> {
    /// Router solicitation.
    RouterSolicitation(Options<'a>),
    /// Router advertisement.
    RouterAdvertisement(&'a RouterAdvertisement, Options<'a>),
    /// Neighbour solicitation.
    NeighborSolicitation(&'a Neighbor, Options<'a>),
    /// Neighbour advertisement.
    NeighborAdvertisement(&'a Neighbor, Options<'a>),
    /// Redirect to a better first hop.
    Redirect(&'a Redirect, Options<'a>),
}

impl<'a> Message<'a> {
    /// The options, of whichever message.
    pub const fn options(&self) -> Options<'a> {
        match self {
            Self::RouterSolicitation(options)
            | Self::RouterAdvertisement(_, options)
            | Self::NeighborSolicitation(_, options)
            | Self::NeighborAdvertisement(_, options)
            | Self::Redirect(_, options) => *options,
        }
    }
}

/// Whether messages of this ICMPv6 type are neighbour discovery.
#[inline]
pub const fn is_ndp(kind: u8) -> bool {
    matches!(kind, kind::ROUTER_SOLICITATION..=kind::REDIRECT)
}

/// Checks a message, which must end where the packet under `ip` ends, as RFC 4861 sections 6.1.1,
/// 6.1.2, 7.1.1, 7.1.2 and 8.1 list.
///
/// # Errors
/// One cause per rule broken.
pub fn check<'a>(ip: &ipv6::Header, message: &'a [u8]) -> Result<Message<'a>, NdpError> {
    let [kind, code, _, _, _, _, _, _, ..] = *message else { return Err(NdpError::Truncated) };
    if !is_ndp(kind) {
        return Err(NdpError::NotNdp);
    }
    if ip.hop_limit != HOP_LIMIT {
        return Err(NdpError::BadHopLimit);
    }
    let sum = checksum::sum(message) + ip.pseudo().sum(protocol::ICMP6, message.len());
    if !checksum::is_valid(sum) {
        return Err(NdpError::BadChecksum);
    }
    if code != 0 {
        return Err(NdpError::BadCode);
    }
    if ip.source().is_multicast() {
        return Err(NdpError::BadSource);
    }
    match kind {
        kind::ROUTER_SOLICITATION => router_solicitation(ip, message),
        kind::ROUTER_ADVERTISEMENT => router_advertisement(ip, message),
        kind::NEIGHBOR_SOLICITATION => neighbor_solicitation(ip, message),
        kind::NEIGHBOR_ADVERTISEMENT => neighbor_advertisement(ip, message),
        _ => redirect(ip, message),
    }
}

/// The fixed part of a message and its options, whose lengths are checked.
fn fixed<T>(message: &[u8]) -> Result<(&T, Options<'_>), NdpError>
where
    T: FromBytes + KnownLayout + Immutable + Unaligned,
{
    let (fixed, options) = T::ref_from_prefix(message).map_err(|_| NdpError::Truncated)?;
    Ok((fixed, Options::check(options)?))
}

/// A sender without an address must not include its link-layer address.
fn refuse_mac_from_unspecified(ip: &ipv6::Header, options: Options<'_>) -> Result<(), NdpError> {
    if ip.source().is_unspecified() && options.has(option_kind::SOURCE_LINK_LAYER) {
        return Err(NdpError::MacFromUnspecified);
    }
    Ok(())
}

fn router_solicitation<'a>(ip: &ipv6::Header, message: &'a [u8]) -> Result<Message<'a>, NdpError> {
    let (_, options) = fixed::<[u8; 8]>(message)?;
    refuse_mac_from_unspecified(ip, options)?;
    Ok(Message::RouterSolicitation(options))
}

fn router_advertisement<'a>(ip: &ipv6::Header, message: &'a [u8]) -> Result<Message<'a>, NdpError> {
    let (advertisement, options) = fixed(message)?;
    if !ip.source().is_unicast_link_local() {
        return Err(NdpError::BadSource);
    }
    Ok(Message::RouterAdvertisement(advertisement, options))
}

fn neighbor_solicitation<'a>(
    ip: &ipv6::Header,
    message: &'a [u8],
) -> Result<Message<'a>, NdpError> {
    let (neighbor, options) = fixed::<Neighbor>(message)?;
    if neighbor.target().is_multicast() {
        return Err(NdpError::BadTarget);
    }
    if ip.source().is_unspecified() && !is_solicited_node(ip.destination()) {
        return Err(NdpError::BadDestination);
    }
    refuse_mac_from_unspecified(ip, options)?;
    Ok(Message::NeighborSolicitation(neighbor, options))
}

fn neighbor_advertisement<'a>(
    ip: &ipv6::Header,
    message: &'a [u8],
) -> Result<Message<'a>, NdpError> {
    let (neighbor, options) = fixed::<Neighbor>(message)?;
    if neighbor.target().is_multicast() {
        return Err(NdpError::BadTarget);
    }
    if ip.destination().is_multicast() && neighbor.has(flag::SOLICITED) {
        return Err(NdpError::SolicitedToGroup);
    }
    Ok(Message::NeighborAdvertisement(neighbor, options))
}

fn redirect<'a>(ip: &ipv6::Header, message: &'a [u8]) -> Result<Message<'a>, NdpError> {
    let (redirect, options) = fixed::<Redirect>(message)?;
    if !ip.source().is_unicast_link_local() {
        return Err(NdpError::BadSource);
    }
    let (target, destination) =
        (Ipv6Addr::from(redirect.target), Ipv6Addr::from(redirect.destination));
    if destination.is_multicast() || !(target.is_unicast_link_local() || target == destination) {
        return Err(NdpError::BadTarget);
    }
    Ok(Message::Redirect(redirect, options))
}

fn build(
    out: &mut [u8],
    pseudo: &Pseudo,
    (kind, flags, target): (u8, u32, Ipv6Addr),
    option: Option<(u8, Mac)>,
) -> Result<usize, BuildError> {
    const FIXED: usize = size_of::<Neighbor>();
    let length = if option.is_some() { LENGTH_WITH_MAC } else { FIXED };
    let out = prefix_of(out, length)?;
    let neighbor = Neighbor {
        kind,
        code: 0,
        checksum: U16::ZERO,
        flags: U32::new(flags),
        target: target.octets(),
    };
    out[..FIXED].copy_from_slice(neighbor.as_bytes());
    if let Some((kind, mac)) = option {
        out[FIXED..].copy_from_slice(&ndp_options::link_layer(kind, mac));
    }
    seal(out, pseudo);
    Ok(length)
}

/// Writes a neighbour solicitation for `target` between the addresses of `pseudo`; returns its
/// length, 24 or 32. Send it with hop limit [`HOP_LIMIT`].
///
/// `mac` is the sender's; leave it out when the source is :: (address detection: RFC 4862).
///
/// # Errors
/// [`BuildError::NoSpace`].
pub fn build_solicitation(
    out: &mut [u8],
    pseudo: &Pseudo,
    target: Ipv6Addr,
    mac: Option<Mac>,
) -> Result<usize, BuildError> {
    let option = mac.map(|mac| (option_kind::SOURCE_LINK_LAYER, mac));
    build(out, pseudo, (kind::NEIGHBOR_SOLICITATION, 0, target), option)
}

/// Writes a neighbour advertisement of `target` with `flags`, bits of [`flag`], between the
/// addresses of `pseudo`; returns its length, 24 or 32. Send it with hop limit [`HOP_LIMIT`].
///
/// `mac` is the target's; it must be there in answer to a solicitation that went to a group.
///
/// # Errors
/// [`BuildError::NoSpace`].
pub fn build_advertisement(
    out: &mut [u8],
    pseudo: &Pseudo,
    target: Ipv6Addr,
    flags: u32,
    mac: Option<Mac>,
) -> Result<usize, BuildError> {
    let option = mac.map(|mac| (option_kind::TARGET_LINK_LAYER, mac));
    build(out, pseudo, (kind::NEIGHBOR_ADVERTISEMENT, flags, target), option)
}

#[cfg(test)]
mod tests;
