//! Classifies one frame of any kind: `ethernet-input` and `ethernet-dispatch` for what the kernels
//! leave over.

use stoa_engine::arc::ArcHook;
use stoa_engine::column::Column;
use stoa_engine::counters::WorkerCounters;
use stoa_engine::protocol::NumberTable;
use stoa_engine::vector::flags;
use stoa_engine::{Context, Vector};

use super::ethernet_input::{HOST_INTERFACE, IP4, IP6, PUNT};
use super::ethernet_kernel::{Lanes, STEP};
use super::ethernet_mixed::{FEATURES, IP as IS_UP, MAC};
use super::interface_flags::{SUB_INTERFACE, VIRTUAL};
use super::vlan_table::{TagKey, VlanTables, tag_key};
use crate::attributes::LINK_FLAGS;
use crate::drops::Drop;
use crate::host_interface::{Payload, to_host};
use crate::shared::Shared;

/// Below, the type is a length (IEEE 802.3 3.2.6).
const LENGTH_MAX: u16 = 1500;
const LLDP: u16 = 0x88cc;

/// Of the link of an interface: it is up and has features.
const TO_FEATURES: u64 = IS_UP | FEATURES;

/// Classifies the frames of one vector: finds their interfaces or, `BEHIND` the features of the
/// arc `ethernet-input`, knows them.
#[derive(Clone, Copy)]
pub struct Classifier<'a, 'b, const BEHIND: bool> {
    pub shared: &'a Shared,
    pub vlans: &'a VlanTables,
    /// How frames begin the arc.
    pub hook: ArcHook,
    /// Edges by ethertype.
    pub types: &'a NumberTable<u16>,
    pub cx: &'a Context<'b>,
}

impl<const BEHIND: bool> Classifier<'_, '_, BEHIND> {
    /// MAC address and flags of an interface: see [`crate::attributes::Attributes::link`].
    #[inline(always)]
    pub fn link(&self, interface: u32) -> u64 {
        self.shared.attributes.link_of(interface)
    }

    /// Whether frames of the interface with this link pass features first.
    #[inline(always)]
    pub fn has_features(link: u64) -> bool {
        !BEHIND && link & TO_FEATURES == TO_FEATURES
    }

    /// The edge to the first feature of an interface.
    #[inline(always)]
    pub fn first_feature(&self, interface: u32) -> u16 {
        self.hook.edge(self.shared.arcs.ethernet_input.enabled(interface))
    }

    /// Whether this is the MAC address of an active virtual router on the interface with this link.
    #[cold]
    pub fn is_virtual(&self, link: u64, interface: u32, mac: u64) -> bool {
        link & u64::from(VIRTUAL) << LINK_FLAGS != 0
            && self.shared.virtual_macs.read(self.cx.reader).has(interface, mac)
    }

    /// Classifies any frame. `VIRTUAL`: a virtual router may be active, so that MAC addresses of
    /// virtual routers are checked, too.
    #[inline(always)]
    pub fn any<const VIRTUAL: bool>(&self, vector: &mut Vector, lane: usize) -> u16 {
        match self.untagged::<VIRTUAL>(vector, lane) {
            Some(next) => next,
            None => self.tagged::<VIRTUAL>(vector, lane),
        }
    }

    /// Classifies an untagged frame; `None`: it has a tag.
    #[inline(always)]
    fn untagged<const VIRTUAL: bool>(&self, vector: &mut Vector, lane: usize) -> Option<u16> {
        let Some((header, _)) = vector.bytes(lane).split_first_chunk::<14>() else {
            return Some(self.of_port(vector.rx_if[lane], Drop::EthernetTruncated));
        };
        let ethertype = u16::from_be_bytes([header[12], header[13]]);
        if matches!(ethertype, 0x8100 | 0x88a8) {
            return None;
        }
        let head = u64::from_le_bytes([
            header[0], header[1], header[2], header[3], header[4], header[5], header[6], header[7],
        ]);
        Some(self.finish::<VIRTUAL>(vector, lane, (head & MAC, ethertype, 14)))
    }

    /// Classifies a frame with one or two tags.
    #[cold]
    #[inline(never)]
    fn tagged<const VIRTUAL: bool>(&self, vector: &mut Vector, lane: usize) -> u16 {
        let frame = vector.bytes(lane);
        let port = vector.rx_if[lane];
        let Some((head, outer, after_outer)) = split_tag(frame, 12) else {
            return self.of_port(port, Drop::EthernetTruncated);
        };
        let (inner, ethertype, length) = match split_tag(frame, 16) {
            Some((_, inner, after_inner)) => (Some(inner), after_inner, 22),
            None => (None, after_outer, 18),
        };
        if matches!(ethertype, 0x8100 | 0x88a8) {
            return self.of_port(port, Drop::VlanUnknown);
        }
        // A priority tag: handled as untagged (IEEE 802.1Q 6.9.1).
        let at_port = outer == 0 && inner.is_none();
        let interface = if BEHIND {
            let is_sub = self.link(port) & u64::from(SUB_INTERFACE) << LINK_FLAGS != 0;
            is_sub.then_some(port)
        } else {
            self.vlans.get(port, outer, inner)
        };
        let Some(interface) = interface.or(at_port.then_some(port)) else {
            return self.of_port(port, Drop::VlanUnknown);
        };
        let bytes = frame.len() as u64;
        vector.rx_if[lane] = interface;
        if interface != port {
            count(self.cx.counters, interface, (1, bytes));
        }
        self.finish::<VIRTUAL>(vector, lane, (head, ethertype, length))
    }

    /// The edge of a frame that is in no sub-interface, and no frame for the interface of the port:
    /// the features of the port get it, else it is dropped.
    #[cold]
    #[inline(never)]
    fn of_port(&self, port: u32, reason: Drop) -> u16 {
        let link = self.link(port);
        match link & FEATURES != 0 && !BEHIND {
            true if link & IS_UP == 0 => Drop::InterfaceDown.next(),
            true => self.first_feature(port),
            false => reason.next(),
        }
    }

    /// Sends a frame of a known interface to the features there, or checks the destination MAC
    /// address and selects the edge.
    #[inline(always)]
    fn finish<const VIRTUAL: bool>(
        &self,
        vector: &mut Vector,
        lane: usize,
        (destination, ethertype, length): (u64, u16, i32),
    ) -> u16 {
        let interface = vector.rx_if[lane];
        let link = self.link(interface);
        if Self::has_features(link) {
            return self.first_feature(interface);
        }
        if link & IS_UP == 0 {
            return Drop::InterfaceDown.next();
        }
        let is_group = destination & 1 != 0;
        let is_virtual = || VIRTUAL && !is_group && self.is_virtual(link, interface, destination);
        if destination != link & MAC && !is_virtual() {
            if !is_group {
                return Drop::EthernetMacMismatch.next();
            }
            vector.flags[lane] |= flags::MULTICAST;
        }
        if !vector.advance(lane, length) {
            return Drop::EthernetTruncated.next();
        }
        match ethertype {
            0x0800 => IP4,
            0x86dd => IP6,
            _ => self.not_ip(vector, lane, ethertype),
        }
    }

    /// Not IP: by the table; to the controller, if it has subscribed to the ethertype; LLDP and frames with a length
    /// (IS-IS, ISO 10589) go to the host interface.
    #[cold]
    #[inline(never)]
    fn not_ip(&self, vector: &mut Vector, lane: usize, ethertype: u16) -> u16 {
        if let Some(edge) = self.types.get(ethertype) {
            return edge;
        }
        if let Some(class) = self.shared.subscriptions.read(self.cx.reader).of_ethertype(ethertype)
        {
            vector.arg[lane] = class as u32;
            return PUNT;
        }
        match self.shared.interface(vector.rx_if[lane]).host_pair() {
            Some(host_device) if ethertype <= LENGTH_MAX || ethertype == LLDP => {
                to_host(vector, lane, (host_device, Payload::Link), HOST_INTERFACE)
            }
            _ => Drop::EthernetUnknownType.next(),
        }
    }
}

/// Counts packets and bytes received by a sub-interface.
#[inline(always)]
pub fn count(counters: &WorkerCounters, interface: u32, (packets, bytes): (u64, u64)) {
    if let Some(counters) = counters.interfaces.get(interface as usize) {
        counters.rx_packets.add(packets);
        counters.rx_bytes.add(bytes);
    }
}

/// Counts each of these lanes for its interface. Runs of an interface are not summed: comparing with
/// the lane before is a branch that goes either way.
pub fn count_lanes(
    counters: &WorkerCounters,
    lanes: &Lanes,
    interfaces: &Column<u32>,
    lengths: &Column<u16>,
) {
    let interfaces = interfaces.as_chunks::<STEP>().0;
    let lengths = lengths.as_chunks::<STEP>().0;
    for ((lanes, interfaces), lengths) in lanes.iter().zip(interfaces).zip(lengths) {
        let step = interfaces.iter().zip(lengths);
        if *lanes == u8::MAX {
            // Most often, and without a test of each bit.
            for (interface, length) in step {
                count(counters, *interface, (1, (*length).into()));
            }
        } else if *lanes != 0 {
            for (_, (interface, length)) in step.enumerate().filter(|(it, _)| lanes >> it & 1 == 1)
            {
                count(counters, *interface, (1, (*length).into()));
            }
        }
    }
}

/// The destination MAC, the key of the tag at `at`, and the ethertype behind it. `None`: there is no
/// tag, or it is truncated.
pub fn split_tag(frame: &[u8], at: usize) -> Option<(u64, TagKey, u16)> {
    let tag = frame.get(at..at + 6)?;
    let head = frame.first_chunk::<6>()?;
    let word = |i: usize| u16::from_be_bytes([tag[i], tag[i + 1]]);
    Some((super::mac_word(head), tag_key(word(0), word(2))?, word(4)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lane_counts_for_its_interface() {
        let counters = WorkerCounters::new(0, 0, 0).unwrap();
        let (mut interfaces, mut lengths) = (Column::of(9), Column::of(60));
        (interfaces[1], interfaces[2], lengths[2]) = (5, 5, 1500);
        (interfaces[4], interfaces[250]) = (u32::MAX, 5);
        let mut lanes = [0; _];
        // The second step is full; the first one is not.
        (lanes[0], lanes[1], lanes[31]) = (0b1_0110, u8::MAX, 0b100);
        count_lanes(&counters, &lanes, &interfaces, &lengths);
        let counted = [5, 9].map(|interface: usize| {
            let counters = &counters.interfaces[interface];
            (counters.rx_packets.get(), counters.rx_bytes.get())
        });
        assert_eq!(counted, [(3, 60 + 1500 + 60), (8, 8 * 60)]);
    }
}
