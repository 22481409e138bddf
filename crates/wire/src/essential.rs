//! Messages without which links and paths do not work (RFC 4890, RFC 1191): filters let them pass unless a rule names
//! them.

use crate::{icmp4, icmp6, ndp};

/// The code of "destination unreachable" of ICMPv4 for packets that are too big (RFC 1191).
const FRAGMENTATION_NEEDED: u8 = 4;

/// Whether a message of ICMP of IPv4, or of ICMPv6, is one of them, by its type and code and the TTL or hop limit of
/// its packet: neighbour discovery and listener discovery come from the link, the errors on which path MTU discovery
/// and traceroute depend from anywhere.
pub const fn is_essential(is_ip4: bool, [message, code]: [u8; 2], hop_limit: u8) -> bool {
    use icmp6::kind;
    if is_ip4 {
        return message == icmp4::kind::UNREACHABLE && code == FRAGMENTATION_NEEDED;
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
        message => ndp::is_ndp(message) && hop_limit == ndp::HOP_LIMIT,
    }
}

#[cfg(test)]
mod tests {
    use super::is_essential;

    #[test]
    fn they_come_from_where_they_must() {
        for kind in 0..=255 {
            let always = matches!(kind, 1..=4);
            let from_link = matches!(kind, 133..=137);
            let listener = matches!(kind, 130..=132 | 143);
            let six = |hop_limit| is_essential(false, [kind, 0], hop_limit);
            assert_eq!(six(64), always, "{kind}");
            assert_eq!(six(255), always || from_link, "{kind}");
            assert_eq!(six(1), always || listener, "{kind}");
            assert!(!is_essential(true, [kind, 1], 64), "{kind}");
            assert_eq!(is_essential(true, [kind, 4], 64), kind == 3, "{kind}");
        }
    }
}
