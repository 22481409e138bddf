//! `ethernet-input`: the first node after the ports. It classifies the frame by VLAN tags to find the
//! interface, checks the destination MAC address, advances to the payload and selects the next node
//! by ethertype (IEEE 802.3, 802.1Q, 802.1ad).

use std::sync::Arc;

use stoa_engine::vector::flags;
use stoa_engine::{Context, Next, Node, Vector};

use super::InterfaceLine;
use super::ethernet_kernel::{self, FramePattern};
use super::interface_flags::{CROSS_CONNECT, UP, VIRTUAL};
use super::vlan_table::{Outer, VlanTables, tag_key};
use crate::drops::Drop;
use crate::host_interface::{Payload, to_host};
use crate::kernel::Kernel;
use crate::shared::Shared;

/// Next nodes.
pub const EDGES: &[&str] =
    &["ip4-input", "ip6-input", "arp-input", "host-interface-output", "cross-connect"];
const IP4: u16 = 0;
const IP6: u16 = 1;
const ARP: u16 = 2;
const HOST_INTERFACE: u16 = 3;
const XCONNECT: u16 = 4;

/// Number of lanes to prefetch ahead.
const AHEAD: usize = 12;

/// Below, the type is a length (IEEE 802.3 3.2.6).
const LENGTH_MAX: u16 = 1500;
const LLDP: u16 = 0x88cc;

const MAC_MASK: u64 = 0xffff_ffff_ffff;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(EthernetInput { shared: shared.clone() })
}

struct EthernetInput {
    shared: Arc<Shared>,
}

impl Node for EthernetInput {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let port = vector.rx_if.uniform(vector.len());
        let vlans = self.shared.vlans.read(cx.reader);
        if let Some(port) = port {
            if self.is_cross_connected(port) {
                return Next::All(XCONNECT);
            }
            if self.shared.kernel != Kernel::Scalar
                && let Some(next) = self.uniform(vector, port, vlans, cx)
            {
                return next;
            }
        } else if (0..vector.len()).any(|lane| self.is_cross_connected(vector.rx_if[lane])) {
            return self.one_by_one(vector, vlans, cx);
        }
        if self.shared.virtual_macs.read(cx.reader).is_empty() {
            self.scalar::<false>(vector, vlans, cx);
        } else {
            self.with_virtual(vector, vlans, cx);
        }
        Next::Lanes
    }
}

impl EthernetInput {
    /// Whether this port is cross-connected.
    #[inline(always)]
    fn is_cross_connected(&self, port: u32) -> bool {
        self.shared.interface(port).flags() & CROSS_CONNECT != 0
    }

    /// Classifies frames one by one. `VIRTUAL`: a virtual router is active, so that MAC addresses of
    /// virtual routers are checked, too; evaluated once per vector.
    #[inline(always)]
    fn scalar<const VIRTUAL: bool>(
        &self,
        vector: &mut Vector,
        vlans: &VlanTables,
        cx: &Context<'_>,
    ) {
        for lane in 0..AHEAD.min(vector.len()) {
            vector.prefetch(lane);
        }
        for lane in 0..vector.len() {
            vector.prefetch(lane + AHEAD);
            vector.next[lane] = self.any::<VIRTUAL>(vector, lane, vlans, cx);
        }
    }

    /// [`Self::scalar`] while virtual routers are active.
    #[cold]
    #[inline(never)]
    fn with_virtual(&self, vector: &mut Vector, vlans: &VlanTables, cx: &Context<'_>) {
        self.scalar::<true>(vector, vlans, cx);
    }

    /// Classifies frames of several ports, some of which are cross-connected.
    #[cold]
    fn one_by_one(&self, vector: &mut Vector, vlans: &VlanTables, cx: &Context<'_>) -> Next {
        for lane in 0..vector.len() {
            vector.next[lane] = match self.is_cross_connected(vector.rx_if[lane]) {
                true => XCONNECT,
                false => self.any::<true>(vector, lane, vlans, cx),
            };
        }
        Next::Lanes
    }

    /// Classifies frames of one port that have the same header as the first one, untagged or in its
    /// VLAN, in parallel, and the others one by one. `None`: the first frame is an exception; nothing
    /// is changed.
    #[inline(always)]
    fn uniform(
        &self,
        vector: &mut Vector,
        port: u32,
        vlans: &VlanTables,
        cx: &Context<'_>,
    ) -> Option<Next> {
        let lanes = vector.len();
        let tag = vector.bytes(0).get(12..16)?.first_chunk::<4>()?;
        let (interface, pattern) = if matches!(tag, [0x81, 0x00, ..] | [0x88, 0xa8, ..]) {
            let (_, key, _) = split_tag(vector.bytes(0), 12)?;
            let Outer::Interface(interface) = vlans.outer(port, key) else { return None };
            (interface, FramePattern::tagged(self.mac_of_first(vector, interface, cx), *tag))
        } else {
            (port, FramePattern::untagged(self.mac_of_first(vector, port, cx)))
        };
        if self.shared.interface(interface).flags() & UP == 0 {
            return None;
        }
        let classified = ethernet_kernel::classify(self.shared.kernel, vector, &pattern)?;
        let is_exception = |lane: usize| classified.exceptions[lane / 8] >> (lane % 8) & 1 == 1;
        if interface != port {
            count(cx, interface, classified.counts);
            vector.rx_if[..lanes].fill(interface);
        }
        if classified.exceptions != [0; _] {
            for lane in (0..lanes).filter(|lane| is_exception(*lane)) {
                vector.rx_if[lane] = port;
                vector.next[lane] = self.any::<true>(vector, lane, vlans, cx);
            }
            return Some(Next::Lanes);
        }
        Some(match classified.families {
            [true, true] => Next::Lanes,
            [_, ip6] => Next::All(if ip6 { IP6 } else { IP4 }),
        })
    }

    /// The destination MAC address to expect: that of an active virtual router if the first frame has
    /// it, else that of the interface.
    #[inline(always)]
    fn mac_of_first(&self, vector: &Vector, interface: u32, cx: &Context<'_>) -> u64 {
        let line = self.shared.interface(interface);
        if line.flags() & VIRTUAL != 0
            && let Some(mac) = vector.bytes(0).first_chunk::<6>().map(super::mac_word)
            && self.is_virtual(line, interface, mac, cx)
        {
            return mac;
        }
        line.mac()
    }

    /// Whether this is the MAC address of an active virtual router.
    #[cold]
    fn is_virtual(&self, line: &InterfaceLine, interface: u32, mac: u64, cx: &Context<'_>) -> bool {
        line.flags() & VIRTUAL != 0 && self.shared.virtual_macs.read(cx.reader).has(interface, mac)
    }

    /// Classifies any frame.
    #[inline(always)]
    fn any<const VIRTUAL: bool>(
        &self,
        vector: &mut Vector,
        lane: usize,
        vlans: &VlanTables,
        cx: &Context<'_>,
    ) -> u16 {
        match self.lane::<VIRTUAL>(vector, lane, cx) {
            Some(next) => next,
            None => self.tagged::<VIRTUAL>(vector, lane, vlans, cx),
        }
    }

    /// Classifies an untagged frame; `None`: it has a tag.
    #[inline(always)]
    fn lane<const VIRTUAL: bool>(
        &self,
        vector: &mut Vector,
        lane: usize,
        cx: &Context<'_>,
    ) -> Option<u16> {
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
            || VIRTUAL && head & 1 == 0 && self.is_virtual(line, vector.rx_if[lane], mac, cx);
        let is_ours = mac == line.mac() || is_virtual();
        Some(finish(vector, lane, (mac, ethertype, 14), (line, is_ours)))
    }

    /// Classifies a frame with one or two tags.
    #[cold]
    #[inline(never)]
    fn tagged<const VIRTUAL: bool>(
        &self,
        vector: &mut Vector,
        lane: usize,
        vlans: &VlanTables,
        cx: &Context<'_>,
    ) -> u16 {
        let frame = vector.bytes(lane);
        let port = vector.rx_if[lane];
        let Some((head, outer, rest)) = split_tag(frame, 12) else {
            return Drop::EthernetTruncated.next();
        };
        let (interface, ethertype, length) = match vlans.outer(port, outer) {
            Outer::Interface(interface) => (interface, rest, 18),
            // A priority tag: handled as untagged (IEEE 802.1Q 6.9.1).
            Outer::Unknown if outer == 0 => (port, rest, 18),
            Outer::Unknown => return Drop::VlanUnknown.next(),
            Outer::Row(row) => {
                let found = match split_tag(frame, 16) {
                    Some((_, inner, rest)) => vlans.inner(row, inner).map(|at| (at, rest, 22)),
                    None => vlans.untagged(row).map(|at| (at, rest, 18)),
                };
                let Some(found) = found else { return Drop::VlanUnknown.next() };
                found
            }
        };
        if matches!(ethertype, 0x8100 | 0x88a8) {
            return Drop::VlanUnknown.next();
        }
        let bytes = frame.len() as u64;
        vector.rx_if[lane] = interface;
        if interface != port {
            count(cx, interface, (1, bytes));
        }
        let line = self.shared.interface(interface);
        let is_ours = head == line.mac() || VIRTUAL && self.is_virtual(line, interface, head, cx);
        finish(vector, lane, (head, ethertype, length), (line, is_ours))
    }
}

/// Counts packets and bytes received by a sub-interface.
fn count(cx: &Context<'_>, interface: u32, (packets, bytes): (u64, u64)) {
    if let Some(counters) = cx.counters.interfaces.get(interface as usize) {
        counters.rx_packets.add(packets);
        counters.rx_bytes.add(bytes);
    }
}

/// The destination MAC, the key of the tag at `at`, and the ethertype behind it.
fn split_tag(frame: &[u8], at: usize) -> Option<(u64, u16, u16)> {
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
