//! Classifies one frame of any kind: `ethernet-input` for what the kernels leave over.

use stoa_engine::column::Column;
use stoa_engine::counters::WorkerCounters;
use stoa_engine::vector::flags;
use stoa_engine::{Context, Vector};

use super::InterfaceLine;
use super::ethernet_input::{ARP, HOST_INTERFACE, IP4, IP6};
use super::ethernet_kernel::{Lanes, STEP};
use super::interface_flags::{UP, VIRTUAL};
use super::vlan_table::{TagKey, VlanTables, tag_key};
use crate::drops::Drop;
use crate::host_interface::{Payload, to_host};
use crate::shared::Shared;

/// Below, the type is a length (IEEE 802.3 3.2.6).
const LENGTH_MAX: u16 = 1500;
const LLDP: u16 = 0x88cc;

const MAC_MASK: u64 = 0xffff_ffff_ffff;

/// Classifies the frames of one vector.
#[derive(Clone, Copy)]
pub struct Classifier<'a, 'b> {
    pub shared: &'a Shared,
    pub vlans: &'a VlanTables,
    pub cx: &'a Context<'b>,
}

impl Classifier<'_, '_> {
    /// Whether this is the MAC address of an active virtual router.
    #[cold]
    pub fn is_virtual(&self, line: &InterfaceLine, interface: u32, mac: u64) -> bool {
        line.flags() & VIRTUAL != 0
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
            return Some(Drop::EthernetTruncated.next());
        };
        let ethertype = u16::from_be_bytes([header[12], header[13]]);
        if matches!(ethertype, 0x8100 | 0x88a8) {
            return None;
        }
        let head = u64::from_le_bytes([
            header[0], header[1], header[2], header[3], header[4], header[5], header[6], header[7],
        ]);
        let line = self.shared.interface(vector.rx_if[lane]);
        let mac = head & MAC_MASK;
        let is_virtual =
            || VIRTUAL && head & 1 == 0 && self.is_virtual(line, vector.rx_if[lane], mac);
        let is_ours = mac == line.mac() || is_virtual();
        Some(finish(vector, lane, (mac, ethertype, 14), (line, is_ours)))
    }

    /// Classifies a frame with one or two tags.
    #[cold]
    #[inline(never)]
    fn tagged<const VIRTUAL: bool>(&self, vector: &mut Vector, lane: usize) -> u16 {
        let frame = vector.bytes(lane);
        let port = vector.rx_if[lane];
        let Some((head, outer, after_outer)) = split_tag(frame, 12) else {
            return Drop::EthernetTruncated.next();
        };
        let (inner, ethertype, length) = match split_tag(frame, 16) {
            Some((_, inner, after_inner)) => (Some(inner), after_inner, 22),
            None => (None, after_outer, 18),
        };
        if matches!(ethertype, 0x8100 | 0x88a8) {
            return Drop::VlanUnknown.next();
        }
        let interface = match self.vlans.get(port, outer, inner) {
            Some(interface) => interface,
            // A priority tag: handled as untagged (IEEE 802.1Q 6.9.1).
            None if outer == 0 && inner.is_none() => port,
            None => return Drop::VlanUnknown.next(),
        };
        let bytes = frame.len() as u64;
        vector.rx_if[lane] = interface;
        if interface != port {
            count(self.cx.counters, interface, (1, bytes));
        }
        let line = self.shared.interface(interface);
        let is_ours = head == line.mac() || VIRTUAL && self.is_virtual(line, interface, head);
        finish(vector, lane, (head, ethertype, length), (line, is_ours))
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

/// Checks the destination MAC address and selects the edge.
#[inline(always)]
fn finish(
    vector: &mut Vector,
    lane: usize,
    (destination, ethertype, length): (u64, u16, i32),
    (line, is_ours): (&InterfaceLine, bool),
) -> u16 {
    if line.flags() & UP == 0 {
        return Drop::InterfaceDown.next();
    }
    if !is_ours {
        if destination & 1 == 0 {
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
        0x0806 => ARP,
        _ => unknown(vector, lane, ethertype, line),
    }
}

/// Neither IP nor ARP: LLDP and frames with a length (IS-IS, ISO 10589) go to the host interface.
#[cold]
#[inline(never)]
fn unknown(vector: &mut Vector, lane: usize, ethertype: u16, line: &InterfaceLine) -> u16 {
    match line.host_pair() {
        Some(host_device) if ethertype <= LENGTH_MAX || ethertype == LLDP => {
            to_host(vector, lane, (host_device, Payload::Link), HOST_INTERFACE)
        }
        _ => Drop::EthernetUnknownType.next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lane_counts_for_its_interface() {
        let counters = WorkerCounters::new(0, 0, 0);
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
