//! `host-interface-output`: passes packets for local addresses to Linux, as received but without the
//! tags of the sub-interface, through the transmit queue of the host interface and under the
//! control-plane policer.

use std::sync::Arc;

use stoa_engine::pool::HEADROOM;
use stoa_engine::{Context, Next, Node, Vector};
use stoa_wire::ethernet::ethertype;

use super::Payload;
use super::traffic::class;
use crate::drops::Drop;
use crate::output;
use crate::shared::Shared;

pub use crate::output::EDGES;

/// Bytes of an Ethernet header, and of headers with 0, 1 and 2 tags.
const HEADER: usize = 14;
const TAGGED: [usize; 3] = [14, 18, 22];

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(HostInterfaceOutput { shared: shared.clone() })
}

struct HostInterfaceOutput {
    shared: Arc<Shared>,
}

impl Node for HostInterfaceOutput {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        for lane in 0..vector.len() {
            let (carried, interface) = (Payload::of(vector.arg[lane]), vector.rx_if[lane]);
            let class = class(carried, vector.bytes(lane), |source| {
                let vrf = self.shared.attributes.vrf_of(interface);
                self.shared.routing_peers.contains(vrf, source, cx.now)
            });
            vector.next[lane] = if !self.shared.policers.admit(cx, class, interface) {
                class.policer_drop().next()
            } else if restore(vector, (lane, carried), self.shared.interface(interface).mac()) {
                output::edge(&self.shared, vector.tx_if[lane])
            } else {
                Drop::EthernetTruncated.next()
            };
        }
        Next::Lanes
    }
}

/// Restores the Ethernet header without tags. Drivers write frames to the start of the data of a new
/// buffer, so the bytes from there to the payload are the header.
fn restore(vector: &mut Vector, (lane, carried): (usize, Payload), mac: u64) -> bool {
    let header = usize::from(vector.offset[lane]).saturating_sub(HEADROOM);
    if !TAGGED.contains(&header) {
        return add_header(vector, (lane, carried), mac);
    }
    if !vector.advance(lane, -(header as i32)) {
        return false;
    }
    // The ethertype is already at the end; the addresses move over the tags.
    vector.bytes_mut(lane).copy_within(..12, header - HEADER);
    let is_there = vector.advance(lane, (header - HEADER) as i32);
    if let Some(to) = vector.bytes_mut(lane).first_chunk_mut::<6>().filter(|to| to[0] & 1 == 0) {
        // The frame may have the MAC address of a virtual router.
        to.copy_from_slice(&mac.to_le_bytes()[..6]);
    }
    is_there
}

/// Adds an Ethernet header to a packet without one: from the all-zero address to the interface.
fn add_header(vector: &mut Vector, (lane, carried): (usize, Payload), mac: u64) -> bool {
    let ethertype = match carried {
        Payload::Ip4 => ethertype::IP4,
        Payload::Ip6 => ethertype::IP6,
        Payload::Link => return false,
    };
    if usize::from(vector.offset[lane]) < HEADER || !vector.advance(lane, -(HEADER as i32)) {
        return false;
    }
    let bytes = vector.bytes_mut(lane);
    bytes[..6].copy_from_slice(&mac.to_le_bytes()[..6]);
    bytes[6..12].fill(0);
    bytes[12..HEADER].copy_from_slice(&ethertype.to_be_bytes());
    true
}
