//! Where access lists apply: the arcs and nodes, and what tells which lists decide.

use stoa_engine::arc::FeatureArc;

use super::zones::{LOCAL_NODES, OUTPUT_NODES};
use crate::arcs::{Arcs, IP_LOCAL, IP4_INPUT, IP4_OUTPUT, IP6_INPUT, IP6_OUTPUT};
use crate::flow::column::Packets;
use crate::icmp::IcmpCause;

/// What the lists depend on that decide about a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// The receiving interface.
    Receiver,
    /// The sending interface.
    Sender,
    /// The zones of both.
    Zones,
    /// The zone of the receiving interface: the packet is for the router.
    ZonesToRouter,
}

/// A family and direction.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) arc: &'static str,
    pub(super) node: &'static str,
    pub(super) of: fn(&Arcs) -> &FeatureArc,
    pub(super) by: By,
    /// The packets of the arc.
    pub(super) packets: Packets,
    /// Why packets are refused.
    pub(super) cause: IcmpCause,
}

impl Place {
    /// Whether flows are looked up here.
    #[inline(always)]
    pub(super) fn is_input(&self) -> bool {
        self.by == By::Receiver
    }

    /// Whether the receiving interface has the feature.
    #[inline(always)]
    pub(super) fn is_received(&self) -> bool {
        matches!(self.by, By::Receiver | By::ZonesToRouter)
    }

    /// Whether no other place decides about its packets any more: flows are confirmed here. Output lists are behind
    /// zones, and are asked at all interfaces while there are zones.
    #[inline(always)]
    pub(super) fn is_last(&self) -> bool {
        self.by == By::Sender
    }

    /// Whether all of its packets are for the router itself.
    #[inline(always)]
    pub(super) fn is_to_router(&self) -> bool {
        self.by == By::ZonesToRouter
    }

    /// Whether its packets go from one zone to another, or are the router's own.
    #[inline(always)]
    pub(super) fn is_between_zones(&self) -> bool {
        self.by == By::Zones
    }

    /// Whether pairs of zones decide.
    #[inline(always)]
    pub(super) fn has_zones(&self) -> bool {
        matches!(self.by, By::Zones | By::ZonesToRouter)
    }
}

pub(super) const INPUT4: Place = Place {
    arc: IP4_INPUT,
    node: "ip4-acl-input",
    of: |arcs| &arcs.ip4_input,
    by: By::Receiver,
    packets: Packets::Ip4,
    cause: IcmpCause::AclInput,
};
pub(super) const INPUT6: Place = Place {
    arc: IP6_INPUT,
    node: "ip6-acl-input",
    of: |arcs| &arcs.ip6_input,
    by: By::Receiver,
    packets: Packets::Ip6,
    cause: IcmpCause::AclInput,
};
pub(super) const OUTPUT4: Place = Place {
    arc: IP4_OUTPUT,
    node: "ip4-acl-output",
    of: |arcs| &arcs.ip4_output,
    by: By::Sender,
    packets: Packets::Ip4,
    cause: IcmpCause::AclOutput,
};
pub(super) const OUTPUT6: Place = Place {
    arc: IP6_OUTPUT,
    node: "ip6-acl-output",
    of: |arcs| &arcs.ip6_output,
    by: By::Sender,
    packets: Packets::Ip6,
    cause: IcmpCause::AclOutput,
};

/// A node of packets that interfaces send to other zones.
pub(super) const ZONES4: Place =
    Place { node: OUTPUT_NODES[0], by: By::Zones, cause: IcmpCause::ZonePair, ..OUTPUT4 };
pub(super) const ZONES6: Place =
    Place { node: OUTPUT_NODES[1], by: By::Zones, cause: IcmpCause::ZonePair, ..OUTPUT6 };
/// A node of packets for the router.
pub(super) const LOCAL4: Place = Place {
    arc: IP_LOCAL,
    node: LOCAL_NODES[0],
    of: |arcs| &arcs.ip_local,
    by: By::ZonesToRouter,
    packets: Packets::Both,
    cause: IcmpCause::ZonePair,
};
pub(super) const LOCAL6: Place = Place { node: LOCAL_NODES[1], ..LOCAL4 };
