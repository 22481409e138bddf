//! The redirect message (RFC 4861 section 4.5) as a router sends it.

use core::net::Ipv6Addr;

use crate::checksum::Pseudo;
use crate::ethernet::Mac;
use crate::icmp6::{kind, seal};
use crate::ndp_options;
use crate::ndp_options::kind as option_kind;
use crate::{BuildError, build_error::prefix_of, ipv6};

/// Type, code, checksum, reserved, target and destination.
const FIXED: usize = 40;
/// Type, length and reserved bytes of a redirected header option.
const REDIRECTED: usize = 8;

/// Writes a redirect: `target` of the same link is a better first hop to `destination`.
/// `mac` is the target's, when it is known; `packet` is quoted as far as the least MTU allows.
/// Returns the length. Send it with hop limit 255.
///
/// # Errors
/// [`BuildError::NoSpace`]; 1,240 bytes are always enough.
pub fn build_redirect(
    out: &mut [u8],
    pseudo: &Pseudo,
    (target, destination): (Ipv6Addr, Ipv6Addr),
    mac: Option<Mac>,
    packet: &[u8],
) -> Result<usize, BuildError> {
    let mac = mac.map(|mac| ndp_options::link_layer(option_kind::TARGET_LINK_LAYER, mac));
    let option = mac.as_ref().map_or(0, |option| option.len());
    let most = ipv6::LEAST_MTU - ipv6::LENGTH - FIXED - option - REDIRECTED;
    // Options are whole units of 8 bytes: the quote is cut to them.
    let quoted = packet.len().min(most) & !7;
    let length = FIXED + option + REDIRECTED + quoted;
    let out = prefix_of(out, length)?;
    out.fill(0);
    out[0] = kind::REDIRECT;
    out[8..24].copy_from_slice(&target.octets());
    out[24..FIXED].copy_from_slice(&destination.octets());
    if let Some(option) = mac {
        out[FIXED..FIXED + option.len()].copy_from_slice(&option);
    }
    let at = FIXED + option;
    out[at] = option_kind::REDIRECTED;
    out[at + 1] = ((REDIRECTED + quoted) / 8) as u8;
    out[at + REDIRECTED..].copy_from_slice(&packet[..quoted]);
    seal(out, pseudo);
    Ok(length)
}
