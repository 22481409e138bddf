//! Punts: packets that leave the workers for the control thread or for Linux, and
//! answers that workers give themselves. Each belongs to a class, and each class has
//! a budget for every interface: a flood on one interface or in one class takes
//! nothing from another.

pub mod policer;
pub mod classify;
pub mod known_neighbors;

use stoa_engine::Urgency;

use crate::drops::Drop;

/// What a packet that needs the control plane is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum Class {
    /// An ARP reply of a neighbour that we know or have asked for.
    ArpReply = 0,
    /// All other ARP: questions, announcements, conflicts.
    Arp = 1,
    /// A neighbour advertisement of a neighbour that we know or have asked for.
    NdReply = 2,
    /// All other neighbour discovery.
    Nd = 3,
    /// A packet to forward whose neighbour is not resolved.
    Resolve = 4,
    /// A packet of our own whose neighbour is not resolved.
    LocalResolve = 5,
    /// Routing protocols for us: OSPF, VRRP, PIM, EIGRP, IGMP, BGP, BFD, RIP, LDP.
    Routing = 6,
    /// ICMP for us that Linux is to see.
    Icmp = 7,
    /// Everything else for our addresses.
    Host = 8,
    /// Fragments for our addresses.
    Fragment = 9,
    /// Pings that workers answer.
    Echo = 10,
    /// ICMP errors that workers send.
    Error = 11,
    /// Multicast listener queries.
    Listener = 12,
    /// Packets whose senders are told of a better router.
    Redirect = 13,
    /// Frames that are no IP, for programs behind host interfaces: IS-IS (ISO 10589), LLDP (IEEE 802.1AB),
    /// and others with a length in place of a type.
    Link = 14,
    /// Hosts that ask for routers, and routers that advertise themselves, where we do so too.
    Solicitation = 15,
}

/// What a class may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Packets per second and interface.
    pub rate: u32,
    /// Packets of one interface at once.
    pub burst: u32,
    /// Packets per second of all interfaces together.
    pub total: u32,
}

impl Class {
    /// All classes, each at its number.
    pub const ALL: [Class; 16] = [
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
        }
    }

    /// The inverse of [`Self::name`].
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }

    /// What it is, for an operator.
    pub fn description(self) -> &'static str {
        match self {
            Self::ArpReply => "ARP replies of neighbours that were asked",
            Self::Arp => "ARP questions and announcements",
            Self::NdReply => "neighbour advertisements of neighbours that were asked",
            Self::Nd => "neighbour solicitations and unasked advertisements",
            Self::Resolve => "packets to neighbours that are not resolved",
            Self::LocalResolve => "our own packets to neighbours that are not resolved",
            Self::Routing => "routing protocols: OSPF, VRRP, PIM, EIGRP, IGMP, BGP, BFD, RIP, LDP",
            Self::Icmp => "ICMP for Linux",
            Self::Host => "other packets for our addresses",
            Self::Fragment => "fragments for our addresses",
            Self::Echo => "pings answered",
            Self::Error => "ICMP errors sent",
            Self::Listener => "multicast listener queries",
            Self::Solicitation => "questions for routers, and advertisements of others",
            Self::Link => "frames that are no IP, for Linux: IS-IS, LLDP",
            Self::Redirect => "packets that leave by where they came, whose senders are redirected",
        }
    }

    /// What it may cost unless the configuration says otherwise.
    pub fn default_limit(self) -> Limit {
        let (rate, burst, total) = match self {
            Self::ArpReply | Self::NdReply => (2000, 512, 20_000),
            Self::Arp | Self::Nd => (1000, 256, 5000),
            Self::Resolve | Self::LocalResolve => (1000, 256, 5000),
            // A million routes by BGP at the peer's speed, or a link-state database, and beside them every hello.
            Self::Routing => (100_000, 16_384, 200_000),
            // Whole link-state databases come at once; a loop of switches brings more than that.
            Self::Link => (2000, 512, 10_000),
            Self::Icmp => (5000, 1000, 20_000),
            // TCP to the router itself (scp) must be fast.
            Self::Host => (500_000, 16_384, 1_000_000),
            Self::Fragment => (20_000, 4096, 100_000),
            Self::Listener | Self::Redirect => (10, 10, 100),
            // All who ask within three seconds get one answer.
            Self::Solicitation => (100, 100, 1000),
            Self::Echo => (20_000, 2000, 100_000),
            Self::Error => (1000, 100, 10_000),
        };
        Limit { rate, burst, total }
    }

    /// Whether the control thread sees it before others.
    pub fn urgency(self) -> Urgency {
        match self {
            Self::ArpReply | Self::NdReply | Self::Routing => Urgency::Urgent,
            _ => Urgency::Usual,
        }
    }

    /// Why a packet beyond the budget is dropped.
    pub fn policer_drop(self) -> Drop {
        match self {
            Self::ArpReply | Self::Arp => Drop::ArpLimited,
            Self::NdReply | Self::Nd | Self::Solicitation => Drop::NdLimited,
            Self::Resolve | Self::LocalResolve => Drop::NeighborLimited,
            Self::Routing | Self::Link => Drop::RoutingLimited,
            Self::Host => Drop::HostLimited,
            Self::Fragment => Drop::FragmentLimited,
            Self::Listener => Drop::MldConsumed,
            Self::Icmp | Self::Echo | Self::Error | Self::Redirect => Drop::IcmpLimited,
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
