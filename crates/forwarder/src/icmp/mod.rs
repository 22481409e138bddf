//! ICMP and ICMPv6: answers to echo requests, and errors about packets that
//! cannot be forwarded (RFC 792, RFC 1812 4.3, RFC 4443).

mod error_node;
pub mod icmp4_echo;
pub mod icmp4_error;
pub mod icmp6_echo;
pub mod icmp6_error;

use crate::drops::Drop;

/// What is wrong with a packet, as it travels in the `adjacency` column to the
/// error node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpCause {
    /// No route.
    NoRoute,
    /// The route says unreachable, or the neighbour does not answer.
    Unreachable,
    /// The route says prohibited.
    Prohibited,
    /// All ports towards the destination are down.
    LinkDown,
    /// TTL or hop limit ran out.
    Expired,
    /// Larger than this MTU.
    TooBig(u16),
    /// Nothing here speaks the protocol.
    Protocol,
    /// Nothing here listens on the port.
    Port,
    /// The neighbour does not answer.
    Neighbor,
    /// A link-local source that wants to leave its link (RFC 4443 3.1, code 2).
    BeyondScope,
    /// A source route, which is refused (RFC 1812 5.3.13.4).
    SourceRoute,
    /// The byte at this place of the header makes no sense.
    Header(u16),
    /// The next header named at this place is not known.
    NextHeader(u16),
    /// The option at this place is not known and must not be skipped (RFC 8200 4.2).
    Option(u16),
    /// The first fragment does not hold all headers (RFC 7112).
    FirstFragment,
    /// Fragments did not all come in time; the packet is the first of them.
    Reassembly,
    /// A rule of policy routing says unreachable.
    RuleUnreachable,
    /// A rule of policy routing prohibits it.
    RuleProhibited,
}

impl IcmpCause {
    /// As a column holds it.
    #[inline]
    pub fn code(self) -> u32 {
        match self {
            Self::NoRoute => 0,
            Self::Unreachable => 1,
            Self::Prohibited => 2,
            Self::LinkDown => 3,
            Self::Expired => 4,
            Self::TooBig(mtu) => 5 | u32::from(mtu) << 16,
            Self::Protocol => 6,
            Self::Port => 7,
            Self::Neighbor => 8,
            Self::BeyondScope => 9,
            Self::SourceRoute => 10,
            Self::Header(pointer) => 11 | u32::from(pointer) << 16,
            Self::NextHeader(pointer) => 12 | u32::from(pointer) << 16,
            Self::Option(pointer) => 13 | u32::from(pointer) << 16,
            Self::FirstFragment => 14,
            Self::Reassembly => 15,
            Self::RuleUnreachable => 16,
            Self::RuleProhibited => 17,
        }
    }

    /// The inverse of [`Self::code`].
    pub fn of(code: u32) -> Self {
        let value = (code >> 16) as u16;
        match code & 0xff {
            1 => Self::Unreachable,
            2 => Self::Prohibited,
            3 => Self::LinkDown,
            4 => Self::Expired,
            5 => Self::TooBig(value),
            6 => Self::Protocol,
            7 => Self::Port,
            8 => Self::Neighbor,
            9 => Self::BeyondScope,
            10 => Self::SourceRoute,
            11 => Self::Header(value),
            12 => Self::NextHeader(value),
            13 => Self::Option(value),
            14 => Self::FirstFragment,
            15 => Self::Reassembly,
            16 => Self::RuleUnreachable,
            17 => Self::RuleProhibited,
            _ => Self::NoRoute,
        }
    }

    /// Why the packet is dropped when no error may be sent about it.
    pub fn drop(self, is_ip4: bool) -> Drop {
        let pick = |ip4, ip6| if is_ip4 { ip4 } else { ip6 };
        match self {
            Self::NoRoute => pick(Drop::Ip4NoRoute, Drop::Ip6NoRoute),
            Self::Unreachable => pick(Drop::Ip4Unreachable, Drop::Ip6Unreachable),
            Self::Prohibited => pick(Drop::Ip4Prohibited, Drop::Ip6Prohibited),
            Self::LinkDown => Drop::LinkDown,
            Self::Expired => pick(Drop::Ip4TtlExpired, Drop::Ip6HopLimit),
            Self::TooBig(_) => pick(Drop::Ip4TooBig, Drop::Ip6TooBig),
            Self::Protocol => pick(Drop::Ip4LocalProtocol, Drop::Ip6LocalProtocol),
            Self::Port => pick(Drop::Ip4LocalPort, Drop::Ip6LocalPort),
            Self::Neighbor => Drop::NeighborFailed,
            Self::BeyondScope => Drop::Ip6LinkLocal,
            Self::SourceRoute => Drop::Ip4SourceRoute,
            Self::Header(_) => pick(Drop::Ip4Options, Drop::Ip6Header),
            Self::NextHeader(_) => pick(Drop::Ip4LocalProtocol, Drop::Ip6LocalProtocol),
            Self::Option(_) => pick(Drop::Ip4Options, Drop::Ip6Option),
            Self::FirstFragment => Drop::Ip6FirstFragment,
            Self::Reassembly => pick(Drop::Ip4ReassemblyTimeout, Drop::Ip6ReassemblyTimeout),
            Self::RuleUnreachable => Drop::RuleUnreachable,
            Self::RuleProhibited => Drop::RuleProhibited,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_survives_its_column() {
        let all = [
            IcmpCause::NoRoute,
            IcmpCause::Unreachable,
            IcmpCause::Prohibited,
            IcmpCause::LinkDown,
            IcmpCause::Expired,
            IcmpCause::TooBig(1280),
            IcmpCause::Protocol,
            IcmpCause::Port,
            IcmpCause::Neighbor,
            IcmpCause::BeyondScope,
            IcmpCause::SourceRoute,
            IcmpCause::Header(20),
            IcmpCause::NextHeader(40),
            IcmpCause::Option(42),
            IcmpCause::FirstFragment,
            IcmpCause::Reassembly,
            IcmpCause::RuleUnreachable,
            IcmpCause::RuleProhibited,
        ];
        for cause in all {
            assert_eq!(IcmpCause::of(cause.code()), cause);
        }
    }
}
