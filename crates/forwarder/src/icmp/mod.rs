//! ICMP and ICMPv6: echo replies, and errors about packets that cannot be forwarded (RFC 792,
//! RFC 1812 4.3, RFC 4443).

mod error_node;
pub mod icmp4_echo;
pub mod icmp4_error;
pub mod icmp6_echo;
pub mod icmp6_error;

use stoa_engine::Vector;

use crate::drops::Drop;
use crate::punt::Class;

/// Why a packet may begin no flow, as [`IcmpCause::NoFlow`] counts the reasons.
const NO_FLOW: [Drop; 6] = [
    Drop::FlowTableFull,
    Drop::FlowSourceLimit,
    Drop::FlowPrefixLimit,
    Drop::FlowZoneLimit,
    Drop::FlowVrfLimit,
    Drop::Nat44TableFull,
];

/// The cause of an ICMP error, passed to the error node in the `arg` column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpCause {
    /// No route.
    NoRoute,
    /// An unreachable route.
    Unreachable,
    /// A prohibit route.
    Prohibited,
    /// All ports towards the destination are down.
    LinkDown,
    /// TTL or hop limit expired.
    Expired,
    /// Larger than this MTU.
    TooBig(u16),
    /// Unsupported protocol.
    Protocol,
    /// No service on the port.
    Port,
    /// Neighbour resolution failed.
    Neighbor,
    /// Link-local source, but not for this link (RFC 4443 3.1, code 2).
    BeyondScope,
    /// Source route option (RFC 1812 5.3.13.4).
    SourceRoute,
    /// Invalid byte at this offset of the header.
    Header(u16),
    /// Unknown next header, named at this offset.
    NextHeader(u16),
    /// Unknown option at this offset that must not be skipped (RFC 8200 4.2).
    Option(u16),
    /// First fragment without the complete header chain (RFC 7112).
    FirstFragment,
    /// Reassembly timed out; the packet is the first fragment.
    Reassembly,
    /// Policy routing rule with action unreachable.
    RuleUnreachable,
    /// Policy routing rule with action prohibit.
    RuleProhibited,
    /// Rejected by an input access list.
    AclInput,
    /// Rejected by an output access list.
    AclOutput,
    /// Rejected by the access lists between two zones.
    ZonePair,
    /// No external port is free.
    NoPort,
    /// The subscriber has as many external ports as it may have.
    Quota,
    /// The packet may begin no flow: there is no room, or a limit is reached. The number of the reason.
    NoFlow(u16),
    /// The subnet of an address has no counterpart of another prefix (RFC 6296 sections 3.2 and 3.3).
    PrefixSubnet,
    /// The interface identifier of the address at this offset has none (RFC 6296 section 3.7).
    PrefixIdentifier(u16),
    /// The host has not logged in.
    Login,
    /// The well-known prefix of NAT64 does not stand for the IPv4 address (RFC 6052 section 3.1).
    NotGlobal,
    /// The same of SIIT.
    NotGlobalStateless,
}

impl IcmpCause {
    /// The policer class of the error. Errors that anybody can cause, as by a TTL that expires, leave path MTU
    /// discovery alone.
    pub fn class(self) -> Class {
        if matches!(self, Self::TooBig(_)) { Class::TooBig } else { Class::Error }
    }

    /// Whether TCP segments get a reset: an access list rejects them, or their host has not logged in.
    pub fn resets(self) -> bool {
        matches!(self, Self::AclInput | Self::AclOutput | Self::ZonePair | Self::Login)
    }

    /// The value in the column.
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
            Self::AclInput => 18,
            Self::AclOutput => 19,
            Self::ZonePair => 20,
            Self::NoPort => 21,
            Self::Quota => 22,
            Self::PrefixSubnet => 23,
            Self::PrefixIdentifier(pointer) => 24 | u32::from(pointer) << 16,
            Self::Login => 25,
            Self::NotGlobal => 26,
            Self::NotGlobalStateless => 27,
            Self::NoFlow(which) => 28 | u32::from(which) << 16,
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
            18 => Self::AclInput,
            19 => Self::AclOutput,
            20 => Self::ZonePair,
            21 => Self::NoPort,
            22 => Self::Quota,
            23 => Self::PrefixSubnet,
            24 => Self::PrefixIdentifier(value),
            25 => Self::Login,
            26 => Self::NotGlobal,
            27 => Self::NotGlobalStateless,
            28 => Self::NoFlow(value),
            _ => Self::NoRoute,
        }
    }

    /// The drop reason of the packet.
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
            Self::AclInput => Drop::AclInput,
            Self::AclOutput => Drop::AclOutput,
            Self::ZonePair => Drop::ZonePair,
            Self::NoPort => Drop::Nat44NoPort,
            Self::Quota => Drop::Nat44Quota,
            Self::PrefixSubnet | Self::PrefixIdentifier(_) => Drop::Nptv6Unmappable,
            Self::Login => Drop::LoginRequired,
            Self::NotGlobal => Drop::Nat64Address,
            Self::NotGlobalStateless => Drop::SiitAddress,
            Self::NoFlow(which) => NO_FLOW[usize::from(which) % NO_FLOW.len()],
        }
    }

    /// The cause of a packet that is dropped because it may begin no flow; `None`: for another reason.
    pub fn of_flow(reason: Drop) -> Option<Self> {
        let which = NO_FLOW.iter().position(|it| *it == reason)?;
        Some(Self::NoFlow(which as u16))
    }

    /// The drop reason of a packet whose sender is not answered for this reason. A full table and limits of flows keep
    /// their names: a flood of new flows is above the rate of errors.
    pub fn unanswered(self, reason: Drop) -> Drop {
        if matches!(self, Self::NoFlow(_)) { self.drop(true) } else { reason }
    }
}

/// The next node of a lane that is dropped: where it may begin no flow, the edge to the error node, unless refusals are
/// silent.
#[cold]
pub(crate) fn next_of_dropped(
    (vector, lane): (&mut Vector, usize),
    reason: Drop,
    (is_silent, error): (bool, u16),
) -> u16 {
    match IcmpCause::of_flow(reason).filter(|_| !is_silent) {
        Some(cause) => {
            vector.arg[lane] = cause.code();
            error
        }
        None => reason.next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_and_limits_keep_their_names() {
        for reason in NO_FLOW {
            let cause = IcmpCause::of_flow(reason).unwrap();
            assert_eq!(IcmpCause::of(cause.code()), cause);
            assert_eq!([cause.drop(true), cause.unanswered(Drop::IcmpLimited)], [reason; 2]);
        }
        assert_eq!(IcmpCause::of_flow(Drop::FlowContended), None);
        assert_eq!(IcmpCause::NoPort.unanswered(Drop::IcmpLimited), Drop::IcmpLimited);
    }

    #[test]
    fn causes_survive_the_column() {
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
            IcmpCause::AclInput,
            IcmpCause::AclOutput,
            IcmpCause::ZonePair,
            IcmpCause::NoPort,
            IcmpCause::Quota,
            IcmpCause::PrefixSubnet,
            IcmpCause::PrefixIdentifier(24),
            IcmpCause::Login,
            IcmpCause::NotGlobal,
            IcmpCause::NotGlobalStateless,
            IcmpCause::NoFlow(5),
        ];
        for cause in all {
            assert_eq!(IcmpCause::of(cause.code()), cause);
        }
    }
}
