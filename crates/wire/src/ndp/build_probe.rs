//! Duplicate address detection (RFC 4862 section 5.4.2) with a nonce by which the sender recognises its own
//! looped-back solicitation (RFC 7527).

use core::net::Ipv6Addr;

use super::{LENGTH_WITH_MAC, build};
use crate::checksum::Pseudo;
use crate::icmp6::{kind, seal};
use crate::ndp_options::kind as option_kind;
use crate::{BuildError, build_error::prefix_of};

/// Writes a neighbour solicitation from :: that probes `target`; returns its
/// length, 32. `pseudo` has :: and the solicited-node group of `target`. Send it with hop
/// limit 255.
///
/// # Errors
/// [`BuildError::NoSpace`].
pub fn build_probe(
    out: &mut [u8],
    pseudo: &Pseudo,
    target: Ipv6Addr,
    nonce: [u8; 6],
) -> Result<usize, BuildError> {
    let out = prefix_of(out, LENGTH_WITH_MAC)?;
    let fixed = build(out, pseudo, (kind::NEIGHBOR_SOLICITATION, 0, target), None)?;
    out[fixed..fixed + 2].copy_from_slice(&[option_kind::NONCE, 1]);
    out[fixed + 2..].copy_from_slice(&nonce);
    out[2..4].fill(0);
    seal(out, pseudo);
    Ok(LENGTH_WITH_MAC)
}
