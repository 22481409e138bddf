//! Multicast listener reports, version 2 (RFC 3810): how snooping switches learn which groups
//! a link needs, those of neighbour discovery among them.

use core::net::Ipv6Addr;

use crate::checksum::Pseudo;
use crate::icmp6::{kind, seal};
use crate::{BuildError, build_error::prefix_of, ipv6, protocol};

/// All MLDv2 routers: where reports go.
pub const REPORTS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);
/// Hop-by-hop options of eight bytes: router alert for MLD (RFC 2711), and padding.
const ALERT: [u8; 8] = [protocol::ICMP6, 0, 5, 2, 0, 0, 1, 0];
/// Type, code, checksum, reserved, number of records.
const FIXED: usize = 8;
/// Type, auxiliary length, number of sources, group.
const RECORD: usize = 20;

/// The type of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Record {
    /// Answer to a query: the group is received from all sources.
    IsExclude = 2,
    /// The group is joined.
    ToExclude = 4,
}

/// Writes a whole packet from `source` that reports `groups`; returns its length,
/// 56 bytes and 20 for each group.
///
/// # Errors
/// [`BuildError::NoSpace`].
pub fn build_report(
    out: &mut [u8],
    source: Ipv6Addr,
    record: Record,
    groups: &[Ipv6Addr],
) -> Result<usize, BuildError> {
    let message = FIXED + RECORD * groups.len();
    let payload = ALERT.len() + message;
    let out = prefix_of(out, ipv6::LENGTH + payload)?;
    let header =
        ipv6::Builder { hop_limit: 1, ..ipv6::Builder::new(source, REPORTS, protocol::HOP_BY_HOP) };
    header.build(out, payload)?;
    let (alert, body) = out[ipv6::LENGTH..].split_at_mut(ALERT.len());
    alert.copy_from_slice(&ALERT);
    body.fill(0);
    body[0] = kind::LISTENER_REPORT_2;
    body[6..FIXED].copy_from_slice(&(groups.len() as u16).to_be_bytes());
    for (group, place) in groups.iter().zip(body[FIXED..].chunks_exact_mut(RECORD)) {
        place[0] = record as u8;
        place[4..].copy_from_slice(&group.octets());
    }
    seal(body, &Pseudo::Ip6 { source, destination: REPORTS });
    Ok(ipv6::LENGTH + payload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::icmp6;

    #[test]
    fn a_report_is_a_valid_packet() {
        let source: Ipv6Addr = "fe80::1".parse().unwrap();
        let groups = ["ff02::1:ff00:1", "ff02::2"].map(|group| group.parse().unwrap());
        let mut out = [0; 200];
        let length = build_report(&mut out, source, Record::ToExclude, &groups).unwrap();
        assert_eq!(length, 56 + 40);
        let view = ipv6::check(&out[..length]).unwrap();
        assert_eq!((view.header().hop_limit, view.destination()), (1, REPORTS));
        let upper = view.upper().unwrap();
        assert!(upper.hop_by_hop && upper.protocol == protocol::ICMP6);
        let message = icmp6::check(upper.payload, &view.pseudo()).unwrap();
        assert_eq!(message.header().kind, kind::LISTENER_REPORT_2);
        assert_eq!(message.header().word.get(), 2);
        assert_eq!(message.payload()[4..20], groups[0].octets());
    }
}
