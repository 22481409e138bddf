//! Punts: packets that workers hand to the control thread or to Linux, and replies that workers send
//! themselves. Each packet belongs to a class, and each class has a policer on every interface, so that a
//! flood on one interface or in one class does not affect the others.

pub mod classify;
pub mod known_neighbors;
pub mod policer;
pub mod punt_input;
pub mod routing_peers;
pub mod stream_queues;
pub mod streamed;
pub mod subscriptions;

use stoa_api::punts;
use stoa_engine::Urgency;

use crate::drops::Drop;

/// The class of a packet that needs the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum Class {
    /// ARP reply of a neighbour that is in the cache or being resolved.
    ArpReply = 0,
    /// All other ARP: requests, announcements, conflicts.
    Arp = 1,
    /// Neighbour advertisement of a neighbour that is in the cache or being resolved.
    NdReply = 2,
    /// All other neighbour discovery.
    Nd = 3,
    /// Packet to forward whose next hop is not resolved.
    Resolve = 4,
    /// Locally generated packet whose next hop is not resolved.
    LocalResolve = 5,
    /// Routing protocols that only hosts on the link can send: OSPF, PIM, EIGRP, IGMP, MLD, RIP, LDP hellos, BFD of
    /// daemons, router advertisements to Linux.
    Routing = 6,
    /// ICMP to the router that Linux handles, but for pings.
    Icmp = 7,
    /// Everything else to the router's addresses.
    Host = 8,
    /// Fragments to the router's addresses.
    Fragment = 9,
    /// Echo requests, which workers or Linux answer.
    Echo = 10,
    /// ICMP errors that workers send, but for those of path MTU discovery.
    Error = 11,
    /// Multicast listener queries.
    Listener = 12,
    /// Packets for whose senders a redirect is due.
    Redirect = 13,
    /// Frames that are not IP, for programs behind host interfaces: IS-IS (ISO 10589), LLDP (IEEE 802.1AB),
    /// and other frames with a length in place of an Ethertype.
    Link = 14,
    /// Router solicitations, and router advertisements of others, on interfaces that advertise.
    Solicitation = 15,
    /// BFD of the sessions of the forwarder, with the TTL that only hosts on the link can send.
    Bfd = 16,
    /// VRRP to its group, which no router forwards.
    Vrrp = 17,
    /// Routing protocols from addresses with which daemons have sessions.
    RoutingPeer = 18,
    /// Routing protocols from all other addresses.
    RoutingOther = 19,
    /// ICMP errors that tell the path MTU.
    TooBig = 20,
    /// UDP datagrams that the controller echoes: for tests.
    Test = 21,
    /// Frames that the controller echoes: for tests.
    TestLink = 22,
    /// Answers to echo requests of the controller: `ping` and `traceroute`.
    Probe = 23,
    /// PCP and NAT-PMP of hosts that may ask for mappings.
    Pcp = 24,
    /// HTTP of hosts that have not logged in, which workers answer.
    Login = 25,
}

/// The policer of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Packets per second on one interface.
    pub rate: u32,
    /// Burst on one interface, in packets.
    pub burst: u32,
    /// Packets per second on all interfaces together.
    pub total: u32,
}

impl Class {
    /// All classes, each at the index of its number.
    pub const ALL: [Class; 26] = [
        Self::ArpReply,
        Self::Arp,
        Self::NdReply,
        Self::Nd,
        Self::Resolve,
        Self::LocalResolve,
        Self::Routing,
        Self::Icmp,
        Self::Host,
        Self::Fragment,
        Self::Echo,
        Self::Error,
        Self::Listener,
        Self::Redirect,
        Self::Link,
        Self::Solicitation,
        Self::Bfd,
        Self::Vrrp,
        Self::RoutingPeer,
        Self::RoutingOther,
        Self::TooBig,
        Self::Test,
        Self::TestLink,
        Self::Probe,
        Self::Pcp,
        Self::Login,
    ];

    /// The inverse of `as u16`.
    pub fn of(code: u16) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// The name in `stoa show punts` and in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::ArpReply => "arp-reply",
            Self::Arp => "arp",
            Self::NdReply => "nd-reply",
            Self::Nd => "nd",
            Self::Resolve => "resolve",
            Self::LocalResolve => "local-resolve",
            Self::Routing => "routing",
            Self::Icmp => "icmp",
            Self::Host => "host",
            Self::Fragment => "fragment",
            Self::Echo => "echo",
            Self::Error => "icmp-error",
            Self::Listener => "listener",
            Self::Redirect => "redirect",
            Self::Link => "link",
            Self::Solicitation => "solicitation",
            Self::Bfd => "bfd",
            Self::Vrrp => "vrrp",
            Self::RoutingPeer => "routing-peer",
            Self::RoutingOther => "routing-other",
            Self::TooBig => "packet-too-big",
            Self::Test => punts::test::CLASS,
            Self::TestLink => punts::test::LINK_CLASS,
            Self::Probe => punts::PROBE,
            Self::Pcp => "pcp",
            Self::Login => "login",
        }
    }

    /// The inverse of [`Self::name`].
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }

    /// The description that operators see.
    pub fn description(self) -> &'static str {
        match self {
            Self::ArpReply => "ARP replies of neighbours that were asked",
            Self::Arp => "ARP requests and announcements",
            Self::NdReply => "neighbour advertisements of neighbours that were asked",
            Self::Nd => "neighbour solicitations and unsolicited advertisements",
            Self::Resolve => "packets to unresolved neighbours",
            Self::LocalResolve => "locally generated packets to unresolved neighbours",
            Self::Bfd => "BFD of configured sessions",
            Self::Vrrp => "VRRP",
            Self::Routing => {
                "routing protocols on the link: OSPF, PIM, EIGRP, IGMP, MLD, RIP, LDP, BFD"
            }
            Self::RoutingPeer => "routing protocols from peers: BGP, LDP, OSPF, multihop BFD",
            Self::RoutingOther => "routing protocols from other addresses",
            Self::Icmp => "ICMP to Linux, but for pings; packet too big about tunnels",
            Self::Host => "other packets to the router's addresses",
            Self::Fragment => "fragments to the router's addresses",
            Self::Echo => "echo requests that the router answers",
            Self::Error => "ICMP errors that the router sends, but for packet too big",
            Self::TooBig => "ICMP errors for path MTU discovery that the router sends",
            Self::Listener => "multicast listener queries",
            Self::Solicitation => "router solicitations, and router advertisements of others",
            Self::Link => "frames that are not IP, to Linux: IS-IS, LLDP",
            Self::Test => "UDP datagrams that the controller echoes",
            Self::TestLink => "frames that the controller echoes",
            Self::Probe => "answers to ping and traceroute of the router",
            Self::Pcp => "requests for mappings by PCP and NAT-PMP",
            Self::Login => "HTTP of hosts that have not logged in",
            Self::Redirect => {
                "packets that leave by the interface they came in, whose senders are redirected"
            }
        }
    }

    /// The policer unless the configuration sets another.
    pub fn default_limit(self) -> Limit {
        let (rate, burst, total) = match self {
            Self::ArpReply | Self::NdReply => (2000, 512, 20_000),
            Self::Arp | Self::Nd => (1000, 256, 5000),
            Self::Resolve | Self::LocalResolve => (1000, 256, 5000),
            // A hundred sessions with 3 ms on each interface.
            Self::Bfd => (40_000, 2048, 200_000),
            // All 510 virtual routers of an interface, at the shortest interval of 10 ms.
            Self::Vrrp => (60_000, 2048, 200_000),
            // A link-state database by multicast, and all hellos beside it.
            Self::Routing => (20_000, 4096, 100_000),
            // A full BGP table or link-state database at the peer's speed.
            Self::RoutingPeer => (100_000, 16_384, 200_000),
            // Until the daemon answers the first message.
            Self::RoutingOther => (1000, 256, 5000),
            // Whole link-state databases arrive at once; a switching loop brings more.
            Self::Link => (2000, 512, 10_000),
            Self::Icmp => (5000, 1000, 20_000),
            // TCP to the router itself (scp) needs throughput.
            Self::Host => (500_000, 16_384, 1_000_000),
            Self::Fragment => (20_000, 4096, 100_000),
            Self::Listener | Self::Redirect => (10, 10, 100),
            // A thousand hosts that begin at once. What a request costs is bounded: a search for a port that there is
            // not tries 256, once in a tick for each host.
            Self::Pcp => (500, 256, 2000),
            // A page asks for some objects; workers answer all of them in microseconds.
            Self::Login => (5000, 1000, 20_000),
            // One advertisement answers all solicitations within three seconds.
            Self::Solicitation => (100, 100, 1000),
            Self::Echo => (20_000, 2000, 100_000),
            Self::Error | Self::TooBig => (1000, 100, 10_000),
            Self::Test | Self::TestLink | Self::Probe => (1000, 256, 5000),
        };
        Limit { rate, burst, total }
    }

    /// Whether the control thread handles it before other classes.
    pub fn urgency(self) -> Urgency {
        match self {
            Self::Bfd | Self::Vrrp => Urgency::Hello,
            Self::ArpReply | Self::NdReply => Urgency::Urgent,
            _ => Urgency::Usual,
        }
    }

    /// The drop reason of a packet that exceeds the policer.
    pub fn policer_drop(self) -> Drop {
        match self {
            Self::ArpReply | Self::Arp => Drop::ArpLimited,
            Self::NdReply | Self::Nd | Self::Solicitation => Drop::NdLimited,
            Self::Resolve | Self::LocalResolve => Drop::NeighborLimited,
            Self::Bfd
            | Self::Vrrp
            | Self::Routing
            | Self::RoutingPeer
            | Self::RoutingOther
            | Self::Link => Drop::RoutingLimited,
            Self::Host => Drop::HostLimited,
            Self::Fragment => Drop::FragmentLimited,
            Self::Listener => Drop::MldLimited,
            Self::Pcp => Drop::PcpLimited,
            Self::Login => Drop::LoginLimited,
            Self::Test | Self::TestLink | Self::Probe => Drop::PuntLimited,
            Self::Icmp | Self::Echo | Self::Error | Self::TooBig | Self::Redirect => {
                Drop::IcmpLimited
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_stand_at_their_numbers_and_have_names() {
        for (at, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!((class as usize, Class::of(at as u16)), (at, Some(class)));
            assert_eq!(Class::named(class.name()), Some(class));
            let limit = class.default_limit();
            assert!(limit.rate > 0 && limit.burst > 0 && limit.total >= limit.rate);
        }
        assert_eq!(Class::of(Class::ALL.len() as u16), None);
        assert_eq!(Class::named("everything"), None);
    }
}
