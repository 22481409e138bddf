//! Numbers of the protocols that IPv4 "protocol" and IPv6 "next header" fields name (IANA).

/// IPv6 hop-by-hop options (RFC 8200 section 4.3).
pub const HOP_BY_HOP: u8 = 0;
/// ICMP for IPv4 (RFC 792).
pub const ICMP4: u8 = 1;
/// IGMP (RFC 3376).
pub const IGMP: u8 = 2;
/// IPv4 inside IP (RFC 2003).
pub const IP4: u8 = 4;
/// TCP (RFC 9293).
pub const TCP: u8 = 6;
/// UDP (RFC 768).
pub const UDP: u8 = 17;
/// DCCP (RFC 4340).
pub const DCCP: u8 = 33;
/// IPv6 inside IP (RFC 2473).
pub const IP6: u8 = 41;
/// IPv6 routing header (RFC 8200 section 4.4).
pub const ROUTING: u8 = 43;
/// IPv6 fragment header (RFC 8200 section 4.5).
pub const FRAGMENT: u8 = 44;
/// GRE (RFC 2784).
pub const GRE: u8 = 47;
/// Encapsulating security payload (RFC 4303).
pub const ESP: u8 = 50;
/// Authentication header (RFC 4302).
pub const AH: u8 = 51;
/// ICMP for IPv6 (RFC 4443).
pub const ICMP6: u8 = 58;
/// Nothing follows (RFC 8200 section 4.7).
pub const NO_NEXT_HEADER: u8 = 59;
/// IPv6 destination options (RFC 8200 section 4.6).
pub const DESTINATION_OPTIONS: u8 = 60;
/// OSPF (RFC 2328, RFC 5340).
pub const OSPF: u8 = 89;
/// VRRP (RFC 9568).
pub const VRRP: u8 = 112;
/// SCTP (RFC 9260).
pub const SCTP: u8 = 132;
/// IPv6 mobility header (RFC 6275 section 6.1).
pub const MOBILITY: u8 = 135;
/// UDP-Lite (RFC 3828).
pub const UDP_LITE: u8 = 136;
/// Host identity protocol (RFC 7401 section 5.1).
pub const HIP: u8 = 139;
/// Shim6 (RFC 5533 section 5.1).
pub const SHIM6: u8 = 140;

/// Whether a protocol begins with a source and a destination port: TCP, UDP, DCCP, SCTP and UDP-Lite.
pub const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | DCCP | SCTP | UDP_LITE)
}
