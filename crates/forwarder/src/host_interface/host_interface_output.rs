//! `host-interface-output`: gives packets for ourselves to Linux: the whole frame as it came but for the
//! tags of its sub-interface, by the transmit queue of the host interface, within a budget.

use std::sync::Arc;

use stoa_engine::pool::HEADROOM;
use stoa_engine::{Context, Next, Node, Vector};
use stoa_wire::ethernet::ethertype;

use super::Payload;
use super::traffic::class;
use crate::drops::Drop;
use crate::shared::Shared;

/// Where frames go from here.
pub const EDGES: &[&str] = &["port-output"];
const OUTPUT: u16 = 0;

/// Bytes of an Ethernet header, and of one with one or two tags.
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
            let carried = Payload::of(vector.hash[lane]);
            let (class, interface) = (class(carried, vector.bytes(lane)), vector.rx_if[lane]);
            vector.next[lane] = if !self.shared.policers.admit(cx, class, interface) {
                class.policer_drop().next()
            } else if restore(vector, (lane, carried), self.shared.interface(interface).mac()) {
                OUTPUT
            } else {
                Drop::EthernetTruncated.next()
            };
        }
        Next::Lanes
    }
}

/// Puts the Ethernet header before the data again, without tags. Drivers write frames to where a
/// fresh buffer begins, so what lies between is the header.
fn restore(vector: &mut Vector, (lane, carried): (usize, Payload), mac: u64) -> bool {
    let header = usize::from(vector.offset[lane]).saturating_sub(HEADROOM);
    if !TAGGED.contains(&header) {
        return invent(vector, (lane, carried), mac);
    }
    if !vector.advance(lane, -(header as i32)) {
        return false;
    }
    // The ethertype stands last already; the addresses move over the tags.
    vector.bytes_mut(lane).copy_within(..12, header - HEADER);
    let is_there = vector.advance(lane, (header - HEADER) as i32);
    if let Some(to) = vector.bytes_mut(lane).first_chunk_mut::<6>().filter(|to| to[0] & 1 == 0) {
        // It may have come to the MAC address of a virtual router.
        to.copy_from_slice(&mac.to_le_bytes()[..6]);
    }
    is_there
}

/// A header for a packet that has lost its own: from nobody, to us.
fn invent(vector: &mut Vector, (lane, carried): (usize, Payload), mac: u64) -> bool {
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
