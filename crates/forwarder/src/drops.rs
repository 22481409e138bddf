//! Drop reasons of the forwarder, each with the description that operators read.

use stoa_engine::Reason;
use stoa_engine::drops::{ENGINE, ReasonSpec};

use crate::flow::tcp::Refusal;
use crate::plugin;

macro_rules! reasons {
    ($($name:ident $text:literal $description:literal;)*) => {
        /// Why the forwarder drops a packet.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub enum Drop { $(#[doc = $description] $name,)* }

        /// All reasons of the forwarder, in the order of [`Drop`].
        pub const REASONS: &[ReasonSpec] = &[$(ReasonSpec { name: $text, description: $description },)*];
    };
}

reasons! {
    EthernetTruncated "ethernet-truncated" "the frame is shorter than its headers";
    EthernetMacMismatch "ethernet-mac-mismatch" "unicast destination MAC address that the interface does not have";
    EthernetUnknownType "ethernet-unknown-type" "unsupported ethertype";
    VlanUnknown "vlan-unknown" "no sub-interface matches the VLAN tags";
    InterfaceDown "interface-down" "the interface is administratively down";
    ArpMalformed "arp-malformed" "truncated ARP packet, or not ARP for IPv4 over Ethernet";
    ArpSenderMac "arp-sender-mac" "the ARP sender MAC address is a group or all-zero address (RFC 1812 3.3.2)";
    ArpSenderAddress "arp-sender-address" "the ARP sender IP address is not a valid host address";
    ArpOffLink "arp-off-link" "the ARP sender IP address is not on a connected network of the interface";
    ArpUnsolicited "arp-unsolicited" "ARP reply without an outstanding request";
    ArpLimited "arp-limited" "ARP over the rate of the control-plane policer";
    BfdMalformed "bfd-malformed" "malformed BFD packet of a configured session, or TTL below 255";
    Ip4Disabled "ip4-disabled" "IPv4 is disabled on the interface";
    Ip4Truncated "ip4-truncated" "shorter than an IPv4 header";
    Ip4Version "ip4-version" "IP version is not 4";
    Ip4HeaderLength "ip4-header-length" "header length below 20 bytes or beyond the end of the packet";
    Ip4TotalLength "ip4-total-length" "total length below the header length or beyond the end of the frame";
    Ip4Checksum "ip4-checksum" "wrong IPv4 header checksum";
    Ip4MartianSource "ip4-martian-source" "invalid source address (RFC 1812 5.3.7)";
    Ip4MartianDestination "ip4-martian-destination" "destination address that must not be forwarded (RFC 1812 5.3.7)";
    Ip4LinkBroadcast "ip4-link-broadcast" "IPv4 unicast in an Ethernet broadcast or multicast frame (RFC 1812 5.3.4)";
    Ip4Multicast "ip4-multicast" "IPv4 multicast group that is not joined on the interface";
    Ip4Broadcast "ip4-broadcast" "limited broadcast, or directed broadcast to a connected network (RFC 2644)";
    Ip4SourceRoute "ip4-source-route" "source-route option (RFC 1812 5.3.13.4, RFC 7126)";
    Ip4Options "ip4-options" "IPv4 option with a wrong length or pointer";
    Ip4NoRoute "ip4-no-route" "no route to the destination";
    Ip4Blackhole "ip4-blackhole" "blackhole route";
    Ip4Unreachable "ip4-unreachable" "unreachable route";
    Ip4Prohibited "ip4-prohibited" "prohibit route";
    Ip4TtlExpired "ip4-ttl-expired" "time to live expired in transit";
    Ip4TooBig "ip4-too-big" "larger than the MTU, with don't-fragment set";
    Ip4NotForwarding "ip4-not-forwarding" "IPv4 forwarding is disabled on the interface";
    Ip4LocalProtocol "ip4-local-protocol" "for a local address, with an unsupported IP protocol";
    Ip4LocalPort "ip4-local-port" "for a local address, with a port that no service uses";
    Icmp4Malformed "icmp4-malformed" "ICMP message for a local address that is truncated or has a wrong checksum";
    Icmp4Ignored "icmp4-ignored" "ICMP message for a local address that needs no reply";
    Ip6Disabled "ip6-disabled" "IPv6 is disabled on the interface";
    Ip6Truncated "ip6-truncated" "shorter than an IPv6 header";
    Ip6Version "ip6-version" "IP version is not 6";
    Ip6PayloadLength "ip6-payload-length" "payload length beyond the end of the frame";
    Ip6Jumbogram "ip6-jumbogram" "payload length 0 before hop-by-hop options: a jumbogram, or cut (RFC 2675)";
    Ip6MartianSource "ip6-martian-source" "invalid source address";
    Ip6MartianDestination "ip6-martian-destination" "destination address that must not be forwarded";
    Ip6LinkMulticast "ip6-link-multicast" "IPv6 unicast in an Ethernet multicast frame";
    Ip6Multicast "ip6-multicast" "IPv6 multicast group that is not joined on the interface";
    Ip6LinkLocal "ip6-link-local" "link-local address of another host: never forwarded (RFC 4291 2.5.6)";
    Ip6NoRoute "ip6-no-route" "no route to the destination";
    Ip6Blackhole "ip6-blackhole" "blackhole route";
    Ip6Unreachable "ip6-unreachable" "unreachable route";
    Ip6Prohibited "ip6-prohibited" "prohibit route";
    Ip6HopLimit "ip6-hop-limit" "hop limit expired in transit";
    Ip6TooBig "ip6-too-big" "larger than the MTU";
    Ip6NotForwarding "ip6-not-forwarding" "IPv6 forwarding is disabled on the interface";
    Ip6Extension "ip6-extension" "malformed or too long chain of extension headers";
    Ip6LocalProtocol "ip6-local-protocol" "for a local address, with an unsupported next header";
    Ip6LocalPort "ip6-local-port" "for a local address, with a port that no service uses";
    Icmp6Malformed "icmp6-malformed" "ICMPv6 message for a local address that is truncated or has a wrong checksum";
    Icmp6Ignored "icmp6-ignored" "ICMPv6 message for a local address that needs no reply";
    NdMalformed "nd-malformed" "malformed neighbour discovery message (RFC 4861 7.1)";
    NdHopLimit "nd-hop-limit" "neighbour discovery from off-link: the hop limit is not 255 (RFC 4861 7.1)";
    NdOption "nd-option" "neighbour discovery option that is truncated or of length 0, or too many options";
    NdSource "nd-source" "neighbour discovery from an invalid source address (RFC 4861 6.1, 7.1)";
    NdDestination "nd-destination" "solicitation from :: to other than a solicited-node group (RFC 4861 7.1.1)";
    NdTarget "nd-target" "neighbour discovery with a multicast target (RFC 4861 7.1)";
    NdSolicitedMulticast "nd-solicited-multicast" "multicast advertisement with the solicited flag (RFC 4861 7.1.2)";
    NdSourceLladdr "nd-source-lladdr" "solicitation from :: with a source link-layer address (RFC 4861 7.1.1)";
    NdInvalidMac "nd-invalid-mac" "neighbour discovery with a group or all-zero MAC address";
    NdUnsolicited "nd-unsolicited" "neighbour advertisement without an outstanding solicitation (RFC 4861 7.2.5)";
    LoopedBack "looped-back" "a frame that this router sent came back";
    NdLimited "nd-limited" "neighbour discovery over the rate of the control-plane policer";
    TcpNoListener "tcp-no-listener" "TCP segment for a local address, with a port that no service uses";
    Ip4MinimumTtl "ip4-minimum-ttl" "TTL below the minimum of the interface (RFC 5082)";
    Ip6MinimumTtl "ip6-minimum-ttl" "hop limit below the minimum of the interface (RFC 5082)";
    ReversePathStrict "reverse-path-strict" "no route to the source by the receiving interface (RFC 3704 2.2)";
    ReversePathLoose "reverse-path-loose" "no route to the source (RFC 3704 2.4)";
    RuleBlackhole "rule-blackhole" "policy routing rule with action blackhole";
    RuleUnreachable "rule-unreachable" "policy routing rule with action unreachable";
    RuleProhibited "rule-prohibited" "policy routing rule with action prohibit";
    IcmpLimited "icmp-limited" "ICMP error or echo reply over the rate limit (RFC 1812 4.3.2.8, RFC 4443 2.4 f)";
    IcmpNotAllowed "icmp-not-allowed" "no ICMP error about an ICMP error, a multicast packet or a later fragment";
    RoutingLimited "routing-limited" "routing protocol packets over the rate of the control-plane policer";
    HostLimited "host-limited" "packets for local addresses over the rate of the control-plane policer";
    FragmentLimited "fragment-limited" "fragments for local addresses over the rate of the control-plane policer";
    NeighborLimited "neighbor-limited" "packets to unresolved neighbours over the rate of the control-plane policer";
    NeighborQueue "neighbor-queue" "the queue of packets waiting for the neighbour is full";
    NeighborFailed "neighbor-failed" "neighbour resolution failed";
    NeighborTable "neighbor-table" "the neighbour table is full";
    InterfaceNeighbors "interface-neighbors" "the interface has reached its neighbour limit (neighbor-limit)";
    NoAddress "no-address" "the interface has no source address for a reply";
    AddressConflict "address-conflict" "ARP from another host that uses a local address (RFC 5227 2.4)";
    Land "land" "the source is a local address (LAND attack)";
    FragmentNoBuffer "fragment-no-buffer" "no buffers for the fragments or for the reassembled packet";
    FragmentOverrun "fragment-overrun" "fragment that ends beyond 65,535 bytes";
    FragmentMalformed "fragment-malformed" "fragment without data, or not the last one and not a multiple of 8 bytes";
    FragmentTiny "fragment-tiny" "fragment that splits a TCP header (RFC 1858, RFC 3128)";
    FragmentOverlap "fragment-overlap" "overlapping or contradicting fragments: the whole packet is dropped (RFC 5722); or too many in disorder";
    FragmentDuplicate "fragment-duplicate" "duplicate fragment";
    ReassemblyTooLong "reassembly-too-long" "fragment of a packet that is longer than reassembly supports";
    ReassemblyFull "reassembly-full" "evicted from reassembly: the table or the share of the source is full";
    Ip4ReassemblyTimeout "ip4-reassembly-timeout" "reassembly timed out";
    Ip6ReassemblyTimeout "ip6-reassembly-timeout" "reassembly timed out";
    Ip6Header "ip6-header" "invalid extension header, or routing header (RFC 5095)";
    Ip6Option "ip6-option" "unknown option that must not be skipped (RFC 8200 4.2)";
    Ip6FirstFragment "ip6-first-fragment" "first fragment without the complete header chain (RFC 7112)";
    Ip6NoNextHeader "ip6-no-next-header" "for a local address, without payload (RFC 8200 4.7)";
    MldLimited "mld-limited" "MLD queries over the rate of the control-plane policer";
    MldMalformed "mld-malformed" "MLD message from off-link, or without router alert (RFC 3810 5, 6.2)";
    RedirectIgnored "redirect-ignored" "ICMP redirect: routers ignore them (RFC 1812 5.2.7.2)";
    TunnelMalformed "tunnel-malformed" "truncated packet inside a tunnel";
    GreVersion "gre-version" "GRE version is not 0 (PPTP is not supported)";
    GreReserved "gre-reserved" "GRE key, sequence number or routing field: not supported";
    GreChecksum "gre-checksum" "wrong GRE checksum";
    TunnelNeighbor "tunnel-neighbor" "neighbour discovery through a tunnel: tunnels have no neighbours";
    TunnelProtocol "tunnel-protocol" "tunnelled packet that is neither IPv4 nor IPv6";
    TunnelDeleted "tunnel-deleted" "the tunnel no longer exists, or has no outbound security association (ESP)";
    TunnelCongestion "tunnel-congestion" "congestion experienced, and the inner packet is not ECN-capable (RFC 6040)";
    TunnelLoop "tunnel-loop" "more than three nested tunnels: the route to the remote end leads into the tunnel itself";
    TunnelHeadroom "tunnel-headroom" "no headroom for the tunnel header, or the packet becomes too long";
    EspUnknownSpi "esp-unknown-spi" "no security association has the SPI of the ESP packet, or it is of another VRF";
    EspMalformed "esp-malformed" "ESP packet that is shorter than its headers, trailer and ICV, or no multiple of a block (RFC 4303 2.4)";
    EspReplayed "esp-replayed" "ESP sequence number that was received before (RFC 4303 3.4.3)";
    EspLate "esp-late" "ESP sequence number behind the anti-replay window (RFC 4303 3.4.3)";
    EspForged "esp-forged" "ESP packet whose ICV is wrong";
    EspPadding "esp-padding" "authentic ESP packet whose padding is not 1, 2, 3 and so on (RFC 4303 2.4)";
    EspNextHeader "esp-next-header" "authentic ESP packet without a whole IPv4 or IPv6 packet inside";
    EspDummy "esp-dummy" "dummy packet of traffic flow confidentiality (RFC 4303 2.6)";
    EspKeepalive "esp-keepalive" "NAT keepalive of ESP in UDP (RFC 3948 2.3)";
    EspSequence "esp-sequence" "all sequence numbers of the outbound security association are used up";
    EspEngine "esp-engine" "the crypto engine did not encrypt the packet";
    VrrpMalformed "vrrp-malformed" "truncated or malformed VRRP advertisement (RFC 9568 7.1)";
    VrrpHopLimit "vrrp-hop-limit" "VRRP advertisement whose TTL is not 255 (RFC 9568 7.1)";
    VrrpVersion "vrrp-version" "VRRP advertisement of another version than configured";
    VrrpChecksum "vrrp-checksum" "wrong VRRP checksum";
    VrrpUnknown "vrrp-unknown" "VRRP advertisement for a virtual router that is not configured";
    VrrpIgnored "vrrp-ignored" "VRRP advertisement to the address owner (RFC 9568 7.1), or with another interval";
    VirtualAddress "virtual-address" "packet to the address of a virtual router without accept-mode";
    PuntLimited "punt-limited" "packets for the controller over the rate of their class";
    PuntQueue "punt-queue" "the queue of the class to the controller is full: the controller does not keep up";
    PuntUnsubscribed "punt-unsubscribed" "packets that a controller has asked for, while none takes them";
    AclInput "acl-input" "refused by an access list of the receiving interface";
    AclOutput "acl-output" "refused by an access list of the sending interface";
    ZonePair "zone-pair" "refused between two zones: there is no pair of them, or its access lists do not accept the packet";
    AclTruncated "acl-truncated" "an upper-layer header that is cut or malformed, so that rules cannot judge it (RFC 1858, RFC 7112)";
    AclRateLimit "acl-rate-limit" "over the rate limit of a rule of an access list";
    TcpImpossibleFlags "tcp-impossible-flags" "TCP flags that no host sends together, in a flow or where one would begin";
    TcpNoConnection "tcp-no-connection" "TCP segment of no connection, which opens none, where a stateful rule or NAT needs one";
    SynCookie "syn-cookie" "TCP segment of no flow that acknowledges no valid SYN cookie, while cookies were sent";
    SynCookieOpening "syn-cookie-opening" "TCP segment that cannot pass before the server of a connection with a SYN cookie has answered";
    TcpOutOfWindow "tcp-out-of-window" "TCP segment outside of the window of its connection";
    TcpBadAcknowledgement "tcp-bad-acknowledgement" "TCP segment that acknowledges what was not sent";
    TcpBlindReset "tcp-blind-reset" "TCP reset outside of the window of its connection (RFC 5961 3)";
    TcpReopening "tcp-reopening" "SYN-ACK of a connection that still seems open: the repeated SYN will replace it";
    FlowTableFull "flow-table-full" "first packet of a flow, while the flow table has no room";
    FlowSourceLimit "flow-source-limit" "first packet of a flow, while its source has as many flows as it may have";
    FlowPrefixLimit "flow-prefix-limit" "first packet of a flow, while the prefix of its source has as many flows as it may have";
    FlowZoneLimit "flow-zone-limit" "first packet of a flow, while the zone it comes from has as many flows as it may have";
    FlowVrfLimit "flow-vrf-limit" "first packet of a flow, while its VRF has as many flows as it may have";
    FlowContended "flow-contended" "first packet of a flow, while another worker changes the same place of the flow table";
    Nat44NoPort "nat44-no-port" "packet that cannot be translated: no external port is free";
    Nat44Quota "nat44-quota" "packet that cannot be translated: its subscriber has as many ports or port sets as it may have";
    Nat44NoAddress "nat44-no-address" "packet that cannot be translated: there is no external address for its source";
    Nat44NoMapping "nat44-no-mapping" "packet to an external address of translation, without a mapping that lets it in";
    Nat44TableFull "nat44-table-full" "packet that cannot be translated: the table of mappings has no room";
    Nat44Untranslated "nat44-untranslated" "packet with an address of the wrong side of the router, or that must not leave untranslated";
    Nat44Icmp "nat44-icmp" "ICMP message that is about no translated flow, or that cannot be translated";
    Nat44Fragment "nat44-fragment" "fragment that cannot be translated: its first one has not come within 2 seconds or was not translated, or there was no room to wait for it";
    Nat44Malformed "nat44-malformed" "packet with a cut or wrong header, or an authentication header, which cannot be translated";
    PcpIgnored "pcp-ignored" "PCP or NAT-PMP message that nobody answers: cut, a response, to an external address, or of a host elsewhere";
    PcpLimited "pcp-limited" "PCP or NAT-PMP over the rate of the control-plane policer";
    Nat64Address "nat64-address" "IPv6 packet to the prefix of NAT64 whose source or IPv4 destination is no address of a host, or an answer to a host that has gone";
    Nat64Full "nat64-full" "IPv6 packet to the prefix of NAT64 from a host for which there is no room";
    Nat64Malformed "nat64-malformed" "packet with a cut or wrong header, or too long, which NAT64 cannot translate";
    Nat64Extension "nat64-extension" "packet with an IPv6 extension header that IPv4 has no counterpart of (RFC 7915)";
    Nat64Icmp "nat64-icmp" "ICMP message without a counterpart in the other family, or in fragments (RFC 7915)";
    Nat64QuotedTruncated "nat64-quoted-truncated" "ICMP error that quotes less than the IP header of a packet";
    Nat64QuotedMalformed "nat64-quoted-malformed" "ICMP error about a packet whose headers are wrong";
    Nat64NoChecksum "nat64-no-checksum" "UDP packet without a checksum, which IPv6 needs (RFC 8200): of an IPv6 host, or an IPv4 fragment (RFC 7915)";
    SiitAddress "siit-address" "packet to a mapped address or to the prefix of SIIT whose other address no host can have, or that the prefix does not stand for";
    SiitSource "siit-source" "IPv6 packet to the prefix of SIIT whose source has no mapping, or one to an address that no host can have or that stays IPv4";
    SiitMalformed "siit-malformed" "packet with a cut or wrong header, or too long, which SIIT cannot translate";
    SiitExtension "siit-extension" "packet with a header that the other family has no counterpart of (RFC 7915): an IPv6 extension header, or a protocol number that means another header there";
    SiitIcmp "siit-icmp" "ICMP message without a counterpart in the other family, or in fragments (RFC 7915)";
    SiitQuoted "siit-quoted" "ICMP error about a packet whose addresses have no mapping, or whose headers are cut or wrong";
    SiitNoChecksum "siit-no-checksum" "UDP packet without a checksum, which IPv6 needs (RFC 8200): of an IPv6 host, or an IPv4 fragment (RFC 7915)";
    Nptv6Unmappable "nptv6-unmappable" "address without a counterpart of the other prefix (RFC 6296)";
    LoginRequired "login-required" "packet of a host that has not logged in, to where such hosts may not send";
    LoginLimited "login-limited" "HTTP of hosts that have not logged in, over the rate of the control-plane policer";
    LoginShare "login-share" "packet of a host that has not logged in, over what each such host may send to name servers, DHCP and the portal, or be answered";
    LinkDown "link-down" "the port of the next hop is down";
}

impl From<Refusal> for Drop {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::ImpossibleFlags => Self::TcpImpossibleFlags,
            Refusal::NoConnection => Self::TcpNoConnection,
            Refusal::OutOfWindow => Self::TcpOutOfWindow,
            Refusal::BadAcknowledgement => Self::TcpBadAcknowledgement,
            Refusal::BlindReset => Self::TcpBlindReset,
            Refusal::Reopening => Self::TcpReopening,
        }
    }
}

impl Drop {
    /// The index of this reason in the engine.
    #[inline(always)]
    pub const fn reason(self) -> Reason {
        Reason(ENGINE.len() as u16 + self as u16)
    }

    /// The value of the `next` column that drops a packet for this reason.
    #[inline(always)]
    pub const fn next(self) -> u16 {
        stoa_engine::vector::DROP | self.reason().0
    }
}

/// Name and description of every reason, those of the engine first, those of plugins last: index as in
/// [`Reason`].
pub fn all() -> impl Iterator<Item = &'static ReasonSpec> {
    let of_plugins = plugin::all().iter().flat_map(|plugin| plugin.drops);
    ENGINE.iter().chain(REASONS).chain(of_plugins)
}

/// The reason of this name: plugins have no [`Drop`].
pub fn named(name: &str) -> Option<Reason> {
    all().position(|reason| reason.name == name).map(|at| Reason(at as u16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_descriptions_are_not_empty() {
        let mut names: Vec<_> = all().map(|reason| reason.name).collect();
        names.sort_unstable();
        names.dedup();
        let count = ENGINE.len() + REASONS.len();
        assert_eq!([names.len(), all().count()], [count; 2]);
        assert!(all().all(|reason| !reason.description.is_empty()));
        let last = REASONS.last().map(|reason| reason.name);
        assert_eq!(last, Some("link-down"));
        assert_eq!(Drop::LinkDown.reason().0 as usize, count - 1);
        assert_eq!(named("link-down"), Some(Drop::LinkDown.reason()));
        assert_eq!(named("unknown"), None);
        for refusal in Refusal::ALL {
            assert_eq!(named(refusal.name()), Some(Drop::from(refusal).reason()));
        }
    }
}
