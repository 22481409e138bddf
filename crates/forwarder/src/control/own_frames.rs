//! The way of frames that the control thread has completed: ARP, neighbour discovery, VRRP, listener reports, frames
//! of the controller. IP packets among them pass the arc `ip4-origin` or `ip6-origin` if it has features
//! (decision 60).

use stoa_engine::vector::flags;
use stoa_engine::{Packet, graph};
use stoa_wire::ethernet::{self, ethertype};
use stoa_wire::{ipv4, ipv6};

use super::forwarder_state::ForwarderState;
use crate::arcs::ROUTER;
use crate::output::interface_output;

/// Where the IP packet of a frame begins, and whether it is IPv4; `None`: it has none that is valid.
fn ip_of(frame: &[u8]) -> Option<(usize, bool)> {
    let view = ethernet::check(frame).ok()?;
    let (start, packet) = (view.payload_range().start, view.payload());
    match view.ethertype() {
        ethertype::IP4 => ipv4::check(packet).is_ok().then_some((start, true)),
        ethertype::IP6 => ipv6::check(packet).is_ok().then_some((start, false)),
        _ => None,
    }
}

impl ForwarderState {
    /// Sends a packet with its link-layer header out of an interface; `false`: the ring to the worker is full.
    pub(super) fn transmit(&mut self, interface: u32, mut packet: Packet) -> bool {
        packet.set_own();
        packet.tx_if = interface;
        let node = self.origin_of(interface, &mut packet);
        self.inject(packet, node)
    }

    /// The node that a frame goes to. An IP packet on its way to the features of what the router sends begins at its
    /// IP header.
    fn origin_of(&self, interface: u32, packet: &mut Packet) -> &'static str {
        let arcs = &self.shared.arcs;
        let [has_ip4, has_ip6] =
            [&arcs.ip4_origin, &arcs.ip6_origin].map(|arc| arc.has_any(ROUTER));
        // Mostly there are none, and the packet needs no check.
        if (has_ip4 || has_ip6)
            && let Some((start, is_ip4)) = ip_of(packet.bytes())
            && (if is_ip4 { has_ip4 } else { has_ip6 })
            && packet.set_span(usize::from(packet.offset()) + start, packet.bytes().len() - start)
        {
            packet.flags |= flags::FRAMED;
            packet.arg = start as u32;
            packet.rx_if = interface;
            return if is_ip4 { "ip4-origin" } else { "ip6-origin" };
        }
        if arcs.port_output.has_any(interface) { interface_output::NAME } else { graph::OUTPUT }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn ip_packets_are_found_behind_tags() {
        let frame = |kinds: &[u16], packet: &[u8]| {
            let kinds = kinds.iter().flat_map(|kind| kind.to_be_bytes());
            [vec![2; 12], kinds.collect(), packet.to_vec()].concat()
        };
        let (mut four, mut six) = ([0; 20], [0; 40]);
        let ends4 = [1, 2].map(|last| Ipv4Addr::new(192, 0, 2, last));
        let ends6 = [1, 2].map(|last| Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, last));
        ipv4::Builder::new(ends4[0], ends4[1], 112).build(&mut four, 0).unwrap();
        ipv6::Builder::new(ends6[0], ends6[1], 59).build(&mut six, 0).unwrap();
        assert_eq!(ip_of(&frame(&[0x0800], &four)), Some((14, true)));
        assert_eq!(ip_of(&frame(&[0x8100, 7, 0x86dd], &six)), Some((18, false)));
        assert_eq!(ip_of(&frame(&[0x88a8, 7, 0x8100, 8, 0x0800], &four)), Some((22, true)));
        assert_eq!(ip_of(&frame(&[0x0800], &six)), None, "not valid");
        assert_eq!(ip_of(&frame(&[0x0806], &four)), None);
        assert_eq!(ip_of(&[8; 9]), None);
    }
}
