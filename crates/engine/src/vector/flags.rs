//! Bits of the `flags` column, which stay with a packet from node to node.

/// The frame's destination was a multicast address (broadcast included).
pub const MULTICAST: u16 = 1;
/// We made this packet: its TTL is not ours to decrement, and a failure is
/// not answered by ICMP.
pub const OWN: u16 = 2;
/// It came as a packet of the other family of IP (NAT64): errors about it are made in that family.
pub const CROSSED: u16 = 4;
/// It was translated without state (SIIT): with [`CROSSED`] to the other family, without it there and back.
pub const STATELESS: u16 = 8;
/// How often the packet went into a tunnel: a number of these bits.
pub const TUNNELS: u16 = 0x30;
/// One time of [`TUNNELS`].
pub const ONE_TUNNEL: u16 = 0x10;
/// A copy of a packet that goes its own way, or one of its fragments but the last: when it is dropped,
/// the interface that received the packet has lost nothing.
pub const COPY: u16 = 0x40;
/// A packet of our own whose link-layer header lies in front of its data already, `arg` bytes: no look-up follows.
pub const FRAMED: u16 = 0x80;
/// A packet of IPv6 that was one of IPv4 without DF, and is cut into fragments on its way out, as none of our own is:
/// it has the bit of [`FRAMED`], which others do not have.
pub const CUT: u16 = FRAMED;
/// The flow of the packet has counted it already.
pub const TRACKED: u16 = 0x100;
/// Its flow was admitted: it passes access lists without a rule.
pub const ADMITTED: u16 = 0x200;
/// A SYN that stateful rules have accepted, and that has no flow: the last one decides whether it gets one.
pub const DEFERRED: u16 = 0x400;
/// A fragment that does not come before the first one of its packet, or waits for it no more, on its way to the node
/// that follows flows: it has the bit of [`DEFERRED`], which that node gives to packets that leave it.
pub const ORDERED: u16 = DEFERRED;
/// A SYN in place of the acknowledgement of a SYN cookie, with both in its fields that a SYN does not use.
pub const COOKIE: u16 = 0x800;
/// Its addresses are those behind the router: whatever is translated of it has been.
pub const TRANSLATED: u16 = 0x1000;
/// With [`TRACKED`]: its flow is translated, and does not give it another destination.
pub const KEEPS_DESTINATION: u16 = 0x2000;
/// What the packet inside of a tunnel does not have of the outer one: it is another packet, of another flow.
pub const OF_OUTER: u16 = OWN
    | COPY
    | MULTICAST
    | TUNNELS
    | TRACKED
    | ADMITTED
    | DEFERRED
    | COOKIE
    | TRANSLATED
    | CROSSED
    | STATELESS
    | KEEPS_DESTINATION;
/// The device behind a port refused the frame, which [`crate::TxQueue::transmit`] took.
pub const REFUSED: u16 = 0x4000;
/// The packet is traced: see [`crate::trace_capture::trace`].
pub const TRACED: u16 = 0x8000;
