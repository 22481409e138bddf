//! Drop reasons of the forwarder, each with the sentence that an operator reads.

use stoa_engine::Reason;
use stoa_engine::drops::{ENGINE, ReasonSpec};

macro_rules! reasons {
    ($($name:ident $text:literal $description:literal;)*) => {
        /// Why the forwarder dropped a packet.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub enum Drop { $(#[doc = $description] $name,)* }

        /// All reasons of the forwarder, in the order of [`Drop`].
        pub const REASONS: &[ReasonSpec] = &[$(ReasonSpec { name: $text, description: $description },)*];
    };
}

reasons! {
    EthernetTruncated "ethernet-truncated" "the frame is shorter than its headers";
    EthernetNotForUs "ethernet-not-for-us" "the destination MAC address is neither ours nor a group";
    EthernetUnknownType "ethernet-unknown-type" "the ethertype is none that is handled here";
    VlanUnknown "vlan-unknown" "no sub-interface has these VLAN tags";
    InterfaceDown "interface-down" "the interface is administratively down";
    ArpMalformed "arp-malformed" "an ARP packet that is cut short or not Ethernet over IPv4";
    ArpSenderMac "arp-sender-mac" "an ARP sender with the MAC address of a group, or none (RFC 1812 3.3.2)";
    ArpSenderAddress "arp-sender-address" "an ARP sender with an address that no host may have";
    ArpOffLink "arp-off-link" "an ARP sender that is in none of the networks of the interface";
    ArpUnasked "arp-unasked" "an ARP reply to what nobody has asked";
    ArpLimited "arp-limited" "more ARP packets than the control budget allows";
    BfdMalformed "bfd-malformed" "a BFD packet of a neighbour with a session that is cut, wrong, or from beyond the link";
    Ip4Disabled "ip4-disabled" "IPv4 is not enabled on the interface";
    Ip4Truncated "ip4-truncated" "shorter than an IPv4 header";
    Ip4Version "ip4-version" "the version is not 4";
    Ip4HeaderLength "ip4-header-length" "the header length is below 20 bytes or beyond the packet";
    Ip4TotalLength "ip4-total-length" "the total length is below the header or beyond the frame";
    Ip4Checksum "ip4-checksum" "the header checksum is wrong";
    Ip4MartianSource "ip4-martian-source" "a source address that no host may use (RFC 1812 5.3.7)";
    Ip4MartianDestination "ip4-martian-destination" "a destination that may not be forwarded (RFC 1812 5.3.7)";
    Ip4LinkBroadcast "ip4-link-broadcast" "unicast IPv4 in a broadcast or multicast frame (RFC 1812 5.3.4)";
    Ip4Multicast "ip4-multicast" "a multicast group that nobody here has joined";
    Ip4Broadcast "ip4-broadcast" "a broadcast: limited, or directed at one of our networks (RFC 2644)";
    Ip4SourceRoute "ip4-source-route" "source routing is refused (RFC 1812 5.3.13.4, RFC 7126)";
    Ip4Options "ip4-options" "an option whose length or pointer is wrong";
    Ip4NoRoute "ip4-no-route" "no route to the destination";
    Ip4Blackhole "ip4-blackhole" "a blackhole route";
    Ip4Unreachable "ip4-unreachable" "an unreachable route";
    Ip4Prohibited "ip4-prohibited" "a prohibit route";
    Ip4TtlExpired "ip4-ttl-expired" "the time to live ran out";
    Ip4TooBig "ip4-too-big" "larger than the MTU and not to be fragmented";
    Ip4NotForwarding "ip4-not-forwarding" "forwarding is switched off on the interface";
    Ip4LocalProtocol "ip4-local-protocol" "a protocol that nothing here speaks";
    Ip4LocalPort "ip4-local-port" "a port that nothing here listens on";
    Icmp4Malformed "icmp4-malformed" "an ICMP message for us that is cut short or has a wrong checksum";
    Icmp4Ignored "icmp4-ignored" "an ICMP message for us that needs no answer";
    Ip6Disabled "ip6-disabled" "IPv6 is not enabled on the interface";
    Ip6Truncated "ip6-truncated" "shorter than an IPv6 header";
    Ip6Version "ip6-version" "the version is not 6";
    Ip6PayloadLength "ip6-payload-length" "the payload length is beyond the frame";
    Ip6MartianSource "ip6-martian-source" "a source address that may not be on a link";
    Ip6MartianDestination "ip6-martian-destination" "a destination that may not be forwarded";
    Ip6LinkMulticast "ip6-link-multicast" "unicast IPv6 in a multicast frame";
    Ip6Multicast "ip6-multicast" "a multicast group that nobody here has joined";
    Ip6LinkLocal "ip6-link-local" "a link-local address that is not ours: never forwarded (RFC 4291 2.5.6)";
    Ip6NoRoute "ip6-no-route" "no route to the destination";
    Ip6Blackhole "ip6-blackhole" "a blackhole route";
    Ip6Unreachable "ip6-unreachable" "an unreachable route";
    Ip6Prohibited "ip6-prohibited" "a prohibit route";
    Ip6HopLimit "ip6-hop-limit" "the hop limit ran out";
    Ip6TooBig "ip6-too-big" "larger than the MTU";
    Ip6NotForwarding "ip6-not-forwarding" "forwarding is switched off on the interface";
    Ip6Extension "ip6-extension" "an extension header chain that is malformed or too long";
    Ip6LocalProtocol "ip6-local-protocol" "a protocol that nothing here speaks";
    Ip6LocalPort "ip6-local-port" "a port that nothing here listens on";
    Icmp6Malformed "icmp6-malformed" "an ICMPv6 message for us that is cut short or has a wrong checksum";
    Icmp6Ignored "icmp6-ignored" "an ICMPv6 message for us that needs no answer";
    NdMalformed "nd-malformed" "a neighbour discovery message that fails its checks (RFC 4861 7.1)";
    NdHopLimit "nd-hop-limit" "neighbour discovery that passed a router: the hop limit is not 255 (RFC 4861 7.1)";
    NdOption "nd-option" "an option of neighbour discovery that has length 0, is cut, or one of too many";
    NdSource "nd-source" "neighbour discovery from a source that may not send it (RFC 4861 6.1, 7.1)";
    NdDestination "nd-destination" "a solicitation from :: that goes to no solicited-node group (RFC 4861 7.1.1)";
    NdTarget "nd-target" "neighbour discovery about a group (RFC 4861 7.1)";
    NdSolicitedToGroup "nd-solicited-to-group" "an advertisement to all that claims to be an answer (RFC 4861 7.1.2)";
    NdMacFromNobody "nd-mac-from-nobody" "a solicitation from :: that says where its sender is (RFC 4861 7.1.1)";
    NdBadMac "nd-bad-mac" "neighbour discovery with the MAC address of a group, or none";
    NdUnasked "nd-unasked" "an advertisement of somebody whom nobody has asked for (RFC 4861 7.2.5)";
    LoopedBack "looped-back" "a frame of our own that the link gave back";
    NdLimited "nd-limited" "more neighbour discovery than the control budget allows";
    TcpNoListener "tcp-no-listener" "a TCP segment for ourselves: nothing listens";
    ReversePathStrict "reverse-path-strict" "the way back to the source does not lead through this interface (uRPF, RFC 3704 2.2)";
    ReversePathLoose "reverse-path-loose" "there is no way back to the source (uRPF, RFC 3704 2.4)";
    RuleBlackhole "rule-blackhole" "a rule of policy routing drops it";
    RuleUnreachable "rule-unreachable" "a rule of policy routing says that its destination is unreachable";
    RuleProhibited "rule-prohibited" "a rule of policy routing prohibits it";
    IcmpLimited "icmp-limited" "an ICMP error or echo reply beyond the rate limit (RFC 1812 4.3.2.8, RFC 4443 2.4 f)";
    IcmpNotAllowed "icmp-not-allowed" "an error about an ICMP error, a group, or a later fragment: never answered";
    RoutingLimited "routing-limited" "more packets of routing protocols than the control budget allows";
    HostLimited "host-limited" "more packets for our addresses than the control budget allows";
    FragmentLimited "fragment-limited" "more fragments for our addresses than the control budget allows";
    NeighborLimited "neighbor-limited" "more packets to unresolved neighbours than the control budget allows";
    NeighborQueue "neighbor-queue" "too many packets wait for this neighbour already";
    NeighborFailed "neighbor-failed" "the neighbour does not answer";
    NeighborTable "neighbor-table" "the neighbour table is full";
    InterfaceNeighbors "interface-neighbors" "the interface has as many neighbours as it may have (neighbor-limit)";
    NoAddress "no-address" "we have no address to answer from on this interface";
    AddressConflict "address-conflict" "somebody else on the link has one of our addresses (RFC 5227 2.4)";
    Land "land" "a packet to us that claims to come from us";
    FragmentRoom "fragment-room" "no room for all pieces of a packet that must be cut";
    FragmentBeyond "fragment-beyond" "a fragment that ends beyond 65,535 bytes";
    FragmentMalformed "fragment-malformed" "a fragment without data, or of a length that no middle part has";
    FragmentTiny "fragment-tiny" "a fragment that splits a TCP header (RFC 1858, RFC 3128)";
    FragmentOverlap "fragment-overlap" "fragments that overlap or do not agree: the whole packet is refused (RFC 5722)";
    FragmentDuplicate "fragment-duplicate" "a fragment that was there already";
    FragmentTooLong "fragment-too-long" "a part of a packet for us that is longer than we put together";
    ReassemblyFull "reassembly-full" "pushed out by younger fragments: the table or the source's share is full";
    Ip4ReassemblyTime "ip4-reassembly-time" "the other fragments did not come in time";
    Ip6ReassemblyTime "ip6-reassembly-time" "the other fragments did not come in time";
    Ip6Header "ip6-header" "an extension header that makes no sense, or a routing header (RFC 5095)";
    Ip6Option "ip6-option" "an option that is not known and must not be skipped (RFC 8200 4.2)";
    Ip6FirstFragment "ip6-first-fragment" "a first fragment without all headers (RFC 7112)";
    Ip6NoNextHeader "ip6-no-next-header" "a packet to us that carries nothing (RFC 8200 4.7)";
    IgmpHeard "igmp-heard" "an IGMP message: heard, and done with";
    MldHeard "mld-heard" "a multicast listener message: heard, and done with";
    RedirectIgnored "redirect-ignored" "a redirect to us: a router does not follow it (RFC 1812 5.2.7.2)";
    TunnelMalformed "tunnel-malformed" "the inside of a tunnel's packet is cut short";
    GreVersion "gre-version" "the GRE version is not 0: PPTP is not spoken here";
    GreReserved "gre-reserved" "a GRE key, sequence number or routing: the other end must send none";
    GreChecksum "gre-checksum" "the GRE checksum is wrong";
    TunnelNeighbor "tunnel-neighbor" "neighbour discovery through a tunnel, which has no neighbours";
    TunnelProtocol "tunnel-protocol" "a tunnel brought neither IPv4 nor IPv6";
    TunnelGone "tunnel-gone" "the tunnel is no more";
    TunnelCongestion "tunnel-congestion" "congestion in a tunnel, and a sender that learns of it by losses only (RFC 6040)";
    TunnelLoop "tunnel-loop" "into more than three tunnels: the way to the other end leads into the tunnel itself";
    TunnelRoom "tunnel-room" "no room for a tunnel's header: too many tunnels in each other, or a packet that gets too long";
    VrrpMalformed "vrrp-malformed" "a VRRP advertisement that is cut short, or none (RFC 9568 7.1)";
    VrrpHopLimit "vrrp-hop-limit" "a VRRP advertisement that passed a router: the TTL is not 255 (RFC 9568 7.1)";
    VrrpVersion "vrrp-version" "a VRRP advertisement of another version than the virtual router here";
    VrrpChecksum "vrrp-checksum" "a VRRP advertisement with a wrong checksum";
    VrrpUnknown "vrrp-unknown" "a VRRP advertisement of a virtual router that is not configured here";
    VrrpIgnored "vrrp-ignored" "a VRRP advertisement for addresses that are our own (RFC 9568 7.1), or with an interval that is none of ours";
    VirtualAddress "virtual-address" "a packet to a virtual router that takes none in (accept-mode)";
    LinkDown "link-down" "the port of the next hop is down";
}

impl Drop {
    /// The engine's index of this reason.
    #[inline(always)]
    pub const fn reason(self) -> Reason {
        Reason(ENGINE.len() as u16 + self as u16)
    }

    /// What a node writes into the `next` column.
    #[inline(always)]
    pub const fn next(self) -> u16 {
        stoa_engine::vector::DROP | self.reason().0
    }
}

/// Name and sentence of every reason, the engine's first: index as in [`Reason`].
pub fn all() -> impl Iterator<Item = &'static ReasonSpec> {
    ENGINE.iter().chain(REASONS)
}

/// How many reasons there are.
pub const COUNT: usize = ENGINE.len() + REASONS.len();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_sentences_said() {
        let mut names: Vec<_> = all().map(|reason| reason.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), COUNT);
        assert!(all().all(|reason| !reason.description.is_empty()));
        let last = REASONS.last().map(|reason| reason.name);
        assert_eq!(last, Some("link-down"));
        assert_eq!(Drop::LinkDown.reason().0 as usize, COUNT - 1);
    }
}
