//! `host-interface-input`: sends frames from a host interface out of the paired interface, with its
//! VLAN tags and otherwise unchanged: Linux has resolved the neighbour. Addresses to which routing
//! daemons send become known as their peers.

use std::sync::Arc;

use stoa_engine::{Context, Next, Node, Vector};

use crate::drops::Drop;
use crate::ethernet::interface_flags::UP;
use crate::output;
use crate::punt::classify::{Packet, Shown};
use crate::shared::Shared;

pub use crate::output::EDGES;

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(HostInterfaceInput { shared: shared.clone() })
}

struct HostInterfaceInput {
    shared: Arc<Shared>,
}

impl Node for HostInterfaceInput {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        for lane in 0..vector.len() {
            vector.next[lane] = self.lane(vector, lane, cx.now);
        }
        Next::Lanes
    }
}

impl HostInterfaceInput {
    fn lane(&self, vector: &mut Vector, lane: usize, now: u64) -> u16 {
        let Some(interface) = self.shared.interface(vector.rx_if[lane]).host_pair() else {
            return Drop::InterfaceDown.next();
        };
        let line = self.shared.interface(interface);
        if line.flags() & UP == 0 {
            return Drop::InterfaceDown.next();
        }
        let (tags, length) = line.tags();
        let packet = vector.bytes(lane).get(ETHERNET..).and_then(Packet::read);
        if let Some((peer, shown)) = packet.and_then(|packet| packet.shown_peer()) {
            let vrf = self.shared.attributes.vrf_of(interface);
            match shown {
                Shown::Session => self.shared.routing_peers.add(vrf, peer, now),
                Shown::Use => self.shared.routing_peers.renew(vrf, peer, now),
            }
        }
        if vector.bytes(lane).len() < ETHERNET || !vector.advance(lane, -(length as i32)) {
            return Drop::EthernetTruncated.next();
        }
        if length > 0 {
            let bytes = vector.bytes_mut(lane);
            bytes.copy_within(length..length + 12, 0);
            bytes[12..12 + length].copy_from_slice(&tags[..length]);
        }
        vector.tx_if[lane] = interface;
        vector.make_own(lane);
        output::edge(&self.shared, interface)
    }
}
