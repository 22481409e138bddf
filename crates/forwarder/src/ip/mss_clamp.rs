//! `ip4-mss-clamp-input`, `ip4-mss-clamp-output` and those of IPv6: lower the maximum segment size that TCP connections
//! announce (RFC 9293 section 3.7.1) to what passes an interface, in SYNs that it receives and in those that it sends.
//! So connections across links with a smaller MTU work where ICMP is filtered.

use std::sync::Arc;

use stoa_engine::arc::{ArcHook, FeatureArc};
use stoa_engine::gather::gather_32;
use stoa_engine::vector::{Column, LaneSet};
use stoa_engine::{Context, Next, Node, Vector};
use stoa_wire::protocol::TCP;
use stoa_wire::tcp::flag::SYN;
use stoa_wire::tcp_options::lower_segment_size;
use stoa_wire::{ipv4, ipv6, ipv6_extensions};

use crate::arcs::{self, Arcs, IP4_INPUT, IP4_OUTPUT, IP6_INPUT, IP6_OUTPUT};
use crate::shared::Shared;

/// The byte of the flags in a TCP header.
const FLAGS: usize = 13;
/// An IPv4 header without options, up to the flags of a segment.
const HEAD4: usize = ipv4::LENGTH + FLAGS + 1;
/// An IPv6 header without extensions, up to the flags of a segment.
const HEAD6: usize = ipv6::LENGTH + FLAGS + 1;

/// The nodes of received packets, IPv4 and IPv6.
pub const INPUT_NODES: [&str; 2] = ["ip4-mss-clamp-input", "ip6-mss-clamp-input"];
/// The nodes of sent packets, IPv4 and IPv6.
pub const OUTPUT_NODES: [&str; 2] = ["ip4-mss-clamp-output", "ip6-mss-clamp-output"];

/// Makes the node of received IPv4 packets of one worker.
pub fn make_input4(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    MssClamp::boxed(shared, (IP4_INPUT, INPUT_NODES[0]), |arcs| &arcs.ip4_input)
}

/// Makes the node of received IPv6 packets of one worker.
pub fn make_input6(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    MssClamp::boxed(shared, (IP6_INPUT, INPUT_NODES[1]), |arcs| &arcs.ip6_input)
}

/// Makes the node of sent IPv4 packets of one worker.
pub fn make_output4(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    MssClamp::boxed(shared, (IP4_OUTPUT, OUTPUT_NODES[0]), |arcs| &arcs.ip4_output)
}

/// Makes the node of sent IPv6 packets of one worker.
pub fn make_output6(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    MssClamp::boxed(shared, (IP6_OUTPUT, OUTPUT_NODES[1]), |arcs| &arcs.ip6_output)
}

struct MssClamp {
    shared: Arc<Shared>,
    hook: ArcHook,
    arc: fn(&Arcs) -> &FeatureArc,
    is_ip4: bool,
    is_output: bool,
    /// The largest segment of the interface of each lane: the argument of the feature.
    most: Column<u32>,
}

impl Node for MssClamp {
    fn process(&mut self, _: &mut Context<'_>, vector: &mut Vector) -> Next {
        let lanes = vector.len();
        let may_be_syn = if self.is_ip4 { may_be_syn4 } else { may_be_syn6 };
        let mut syns = LaneSet::first_of(0);
        for lane in 0..lanes {
            if may_be_syn(vector.bytes(lane)) {
                syns.insert(lane);
            }
        }
        let arc = (self.arc)(&self.shared.arcs);
        let interfaces = if self.is_output { &vector.tx_if } else { &vector.rx_if };
        if !syns.is_empty() {
            gather_32(self.hook.arguments(arc), interfaces, lanes, &mut self.most);
        }
        let next = self.hook.proceed(arc, interfaces, lanes, &mut vector.next);
        if !syns.is_empty() {
            self.clamp(vector, &syns);
        }
        next
    }
}

impl MssClamp {
    fn boxed(
        shared: &Arc<Shared>,
        (arc, node): (&'static str, &'static str),
        of: fn(&Arcs) -> &FeatureArc,
    ) -> Box<dyn Node> {
        let hook = arcs::hook(arc, node);
        let is_ip4 = INPUT_NODES[0] == node || OUTPUT_NODES[0] == node;
        let is_output = OUTPUT_NODES.contains(&node);
        let (shared, most) = (shared.clone(), Column::of(0));
        Box::new(Self { shared, hook, arc: of, is_ip4, is_output, most })
    }

    #[inline(never)]
    fn clamp(&self, vector: &mut Vector, syns: &LaneSet) {
        for lane in syns.iter() {
            // 0: the feature is off at the interface of this lane.
            let Ok(most @ 1..) = u16::try_from(self.most[lane]) else { continue };
            let bytes = vector.bytes_mut(lane);
            let offset = if self.is_ip4 { tcp_of4(bytes) } else { tcp_of6(bytes) };
            if let Some(segment) = offset.and_then(|offset| bytes.get_mut(offset..)) {
                lower_segment_size(segment, most);
            }
        }
    }
}

/// Whether a packet may be a SYN: TCP behind options, or with the flag.
#[inline(always)]
fn may_be_syn4(bytes: &[u8]) -> bool {
    let Some(head) = bytes.first_chunk::<HEAD4>() else { return false };
    let has_options = head[0] != 0x45;
    (head[9] == TCP) & (has_options | (head[HEAD4 - 1] & SYN != 0))
}

/// The same for IPv6, where extension headers may be in front.
#[inline(always)]
fn may_be_syn6(bytes: &[u8]) -> bool {
    let Some(head) = bytes.first_chunk::<HEAD6>() else { return false };
    let is_syn = (head[6] == TCP) & (head[HEAD6 - 1] & SYN != 0);
    is_syn || head[6] != TCP && ipv6_extensions::is_extension(head[6])
}

/// Where the TCP header of a packet begins, if this packet has it.
fn tcp_of4(bytes: &[u8]) -> Option<usize> {
    let head = bytes.first_chunk::<{ ipv4::LENGTH }>()?;
    let is_first = u16::from_be_bytes([head[6], head[7]]) & 0x1fff == 0;
    (head[9] == TCP && is_first).then_some(usize::from(head[0] & 0xf) * 4)
}

/// The same for IPv6.
fn tcp_of6(bytes: &[u8]) -> Option<usize> {
    let upper = ipv6_extensions::quoted(bytes).ok()?;
    (upper.protocol == TCP && upper.has_header()).then_some(upper.offset)
}
