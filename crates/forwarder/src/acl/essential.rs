//! Packets that pass access lists unless a rule matches them: without them links and paths do not work (RFC 4890,
//! RFC 1191).

use stoa_tables::classifier::Fragment;
use stoa_wire::icmp6::kind;
use stoa_wire::ndp;

use super::keys::Family;
use crate::flow::fields::PacketFields;

/// Destination unreachable of ICMPv4, and its code for packets that are too big (RFC 1191).
const UNREACHABLE4: u8 = 3;
const FRAGMENTATION_NEEDED: u8 = 4;

/// Whether a packet that no rule matches passes: neighbour discovery and listener discovery from the link, and errors
/// on which path MTU discovery and traceroute depend. It is not malformed.
pub(super) fn is_essential<F: Family>(packet: &PacketFields, hop_limit: u8) -> bool {
    if packet.kind.protocol() != F::ICMP || packet.kind.part() == Fragment::Later {
        return false;
    }
    let [message, code, ..] = packet.ports.to_be_bytes();
    if F::IS_IP4 {
        return (message, code) == (UNREACHABLE4, FRAGMENTATION_NEEDED);
    }
    match message {
        kind::UNREACHABLE
        | kind::PACKET_TOO_BIG
        | kind::TIME_EXCEEDED
        | kind::PARAMETER_PROBLEM => true,
        kind::LISTENER_QUERY
        | kind::LISTENER_REPORT
        | kind::LISTENER_DONE
        | kind::LISTENER_REPORT_2 => hop_limit == 1,
        message => ndp::is_ndp(message) && hop_limit == 255,
    }
}
