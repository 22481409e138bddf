//! Packets that pass access lists unless a rule matches them: without them links and paths do not work (RFC 4890,
//! RFC 1191).

use stoa_wire::icmp6::kind;
use stoa_wire::ndp;

use super::fields::{Family, Fields};

/// Destination unreachable of ICMPv4, and its code for packets that are too big (RFC 1191).
const UNREACHABLE4: u16 = 3;
const FRAGMENTATION_NEEDED: u16 = 4;

/// Whether a packet that no rule matches passes: neighbour discovery and listener discovery from the link, and errors
/// on which path MTU discovery and traceroute depend.
#[inline]
pub(super) fn is_essential<K: Family>(fields: &Fields<K>) -> bool {
    if fields.protocol != u16::from(K::ICMP) || !fields.has_upper() {
        return false;
    }
    let (message, code) = fields.ports;
    if K::IS_IP4 {
        return (message, code) == (UNREACHABLE4, FRAGMENTATION_NEEDED);
    }
    match message as u8 {
        kind::UNREACHABLE
        | kind::PACKET_TOO_BIG
        | kind::TIME_EXCEEDED
        | kind::PARAMETER_PROBLEM => true,
        kind::LISTENER_QUERY
        | kind::LISTENER_REPORT
        | kind::LISTENER_DONE
        | kind::LISTENER_REPORT_2 => fields.hop_limit == 1,
        message => ndp::is_ndp(message) && fields.hop_limit == 255,
    }
}
