//! Drop reasons: there is no anonymous drop.

/// Why a packet was dropped: an index into the forwarder's list of reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reason(pub u16);

/// Name and description of a reason, for `stoa show drops`.
#[derive(Clone, Copy, Debug)]
pub struct ReasonSpec {
    /// Short name with dashes, layer first.
    pub name: &'static str,
    /// What happened, for an operator.
    pub description: &'static str,
}

/// The port took fewer packets than it was given.
pub const TX_FULL: Reason = Reason(0);
/// The packet's interface has no port that sends now.
pub const TX_NO_PORT: Reason = Reason(1);
/// The device behind the port refused the frame for good.
pub const TX_REFUSED: Reason = Reason(2);
/// The ring to the worker that owns the port was full.
pub const HANDOFF_FULL: Reason = Reason(3);
/// The graph had no vector left for the packet.
pub const GRAPH_FULL: Reason = Reason(4);
/// The ring towards the control thread was full.
pub const PUNT_FULL: Reason = Reason(5);
/// The ring to the worker of a flow was full when its packet was received.
pub const SOFTWARE_RSS_FULL: Reason = Reason(6);
/// The NUMA node of the worker that took the packet in had no free buffer for it.
pub const NO_BUFFER: Reason = Reason(7);
/// No buffer was free for a copy of the packet.
pub const COPY_NO_BUFFER: Reason = Reason(8);

/// The engine's own reasons; a forwarder's reasons follow after them.
pub const ENGINE: &[ReasonSpec] = &[
    ReasonSpec { name: "tx-full", description: "the port's transmit queue was full" },
    ReasonSpec { name: "tx-no-port", description: "the interface has no port that sends now" },
    ReasonSpec {
        name: "tx-refused",
        description: "the device refused the frame: longer than its MTU, or malformed",
    },
    ReasonSpec { name: "handoff-full", description: "the worker that owns the port is overloaded" },
    ReasonSpec { name: "graph-full", description: "the graph had no vector left" },
    ReasonSpec { name: "punt-full", description: "the control thread is overloaded" },
    ReasonSpec {
        name: "software-rss-full",
        description: "the worker that processes the flow is overloaded",
    },
    ReasonSpec {
        name: "no-buffer",
        description: "no buffer was free for a packet from another NUMA node",
    },
    ReasonSpec {
        name: "copy-no-buffer",
        description: "no buffer was free for a copy of the packet",
    },
];
