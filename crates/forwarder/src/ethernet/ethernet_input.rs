//! `ethernet-input`: the first node after the ports. It classifies the frame by VLAN tags to find the
//! interface, checks the destination MAC address, advances to the payload and selects the next node
//! by ethertype (IEEE 802.3, 802.1Q, 802.1ad).
//!
//! A vector takes the first of three ways that fits, and the lanes that are left over take the next
//! one: all frames have the same header, but for the family ([`super::ethernet_kernel`]); all are
//! looked up together ([`super::ethernet_mixed`]); one by one ([`super::ethernet_frame`]).

use std::sync::Arc;

use stoa_engine::{Context, Next, Node, Vector};

use super::ethernet_frame::{Classifier, count, count_lanes, split_tag};
use super::ethernet_kernel::{self, FramePattern, Lanes, STEP};
use super::ethernet_mixed::{self, Headers, Mixed, set_bits};
use super::interface_flags::{CROSS_CONNECT, UP, VIRTUAL};
use super::mac_word;
use crate::kernel::Kernel;
use crate::shared::Shared;

/// Next nodes.
pub const EDGES: &[&str] =
    &["ip4-input", "ip6-input", "arp-input", "host-interface-output", "cross-connect"];
pub(super) const IP4: u16 = 0;
pub(super) const IP6: u16 = 1;
pub(super) const ARP: u16 = 2;
pub(super) const HOST_INTERFACE: u16 = 3;
const XCONNECT: u16 = 4;

/// Number of lanes to prefetch ahead.
const AHEAD: usize = 12;
/// So many lanes are classified one by one: it takes as long as a step of a kernel does.
const FEW: usize = 3;
/// So are exceptions to a uniform vector up to one lane of so many.
const RARE: usize = 16;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(EthernetInput { shared: shared.clone(), headers: Box::default() })
}

struct EthernetInput {
    shared: Arc<Shared>,
    headers: Box<Headers>,
}

impl Node for EthernetInput {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let Self { shared, headers } = self;
        let vlans = shared.vlans.read(cx.reader);
        let classifier = Classifier { shared, vlans, cx };
        let port = vector.rx_if.uniform(vector.len());
        if port.is_some_and(|port| classifier.is_cross_connected(port)) {
            return Next::All(XCONNECT);
        }
        if shared.kernel != Kernel::Scalar {
            return classifier.lanes(vector, port, headers);
        }
        let is_cross_connected = |lane: usize| classifier.is_cross_connected(vector.rx_if[lane]);
        if port.is_none() && (0..vector.len()).any(is_cross_connected) {
            classifier.one_by_one(vector, port, &lanes_in_use(vector.len()));
        } else if shared.virtual_macs.read(cx.reader).is_empty() {
            classifier.scalar::<false>(vector);
        } else {
            classifier.with_virtual(vector);
        }
        Next::Lanes
    }
}

/// The first lanes.
#[inline(always)]
fn lanes_in_use(lanes: usize) -> Lanes {
    std::array::from_fn(|step| match lanes.saturating_sub(step * STEP) {
        left @ 0..STEP => (1 << left) - 1,
        _ => u8::MAX,
    })
}

/// The outermost tag of a frame, with any priority and DEI: 0 without one.
#[inline(always)]
fn outermost_tag(frame: &[u8]) -> u32 {
    match frame.get(12..16).and_then(|tag| tag.first_chunk::<4>()) {
        Some(tag @ ([0x81, 0x00, ..] | [0x88, 0xa8, ..])) => u32::from_be_bytes(*tag) & 0xffff_0fff,
        _ => 0,
    }
}

/// Whether a few frames, far from each other and side by side, have the same outermost tag: if not,
/// comparing all with the first one is a waste.
#[inline(always)]
fn looks_uniform(vector: &Vector) -> bool {
    let lanes = vector.len();
    let first = outermost_tag(vector.bytes(0));
    [1, lanes / 2, lanes - 1]
        .iter()
        .all(|lane| outermost_tag(vector.bytes((*lane).min(lanes - 1))) == first)
}

impl Classifier<'_, '_> {
    /// Whether this port is cross-connected.
    #[inline(always)]
    fn is_cross_connected(&self, port: u32) -> bool {
        self.shared.interface(port).flags() & CROSS_CONNECT != 0
    }

    /// Classifies frames one by one. `VIRTUAL`: a virtual router is active; evaluated once per
    /// vector.
    #[inline(always)]
    fn scalar<const VIRTUAL: bool>(&self, vector: &mut Vector) {
        for lane in 0..AHEAD.min(vector.len()) {
            vector.prefetch(lane);
        }
        for lane in 0..vector.len() {
            vector.prefetch(lane + AHEAD);
            vector.next[lane] = self.any::<VIRTUAL>(vector, lane);
        }
    }

    /// [`Self::scalar`] while virtual routers are active.
    #[cold]
    #[inline(never)]
    fn with_virtual(&self, vector: &mut Vector) {
        self.scalar::<true>(vector);
    }

    /// Classifies frames of one port or, if `port` is none, of several, some of which may be
    /// cross-connected.
    fn one_by_one(&self, vector: &mut Vector, port: Option<u32>, lanes: &Lanes) {
        for lane in set_bits(lanes) {
            let is_out = port.is_none() && self.is_cross_connected(vector.rx_if[lane]);
            vector.next[lane] = if is_out { XCONNECT } else { self.any::<true>(vector, lane) };
        }
    }

    /// Classifies frames in parallel, and exceptions one by one.
    #[inline(always)]
    fn lanes(&self, vector: &mut Vector, port: Option<u32>, headers: &mut Headers) -> Next {
        let lanes = vector.len();
        let mut pending = lanes_in_use(lanes);
        let mut families = [false; 2];
        let mut left = lanes;
        if let Some(port) = port
            && looks_uniform(vector)
            && let Some((exceptions, uniform)) = self.uniform(vector, port)
        {
            (pending, families) = (exceptions, uniform);
            left = pending.iter().map(|bits| bits.count_ones() as usize).sum();
        }
        if left > FEW.max(lanes / RARE) {
            let mixed = self.mixed(vector, &pending, headers);
            pending = mixed.exceptions;
            families = [0, 1].map(|family| families[family] || mixed.families[family]);
        }
        if pending != [0; _] {
            self.one_by_one(vector, port, &pending);
            return Next::Lanes;
        }
        match families {
            [true, true] => Next::Lanes,
            [_, ip6] => Next::All(if ip6 { IP6 } else { IP4 }),
        }
    }

    /// Classifies frames of one port that have the same header as the first one, untagged or in its
    /// VLAN: returns the others, which are not changed, and whether there is IPv4 and IPv6. `None`:
    /// the first frame is an exception; nothing is changed.
    #[inline(always)]
    fn uniform(&self, vector: &mut Vector, port: u32) -> Option<(Lanes, [bool; 2])> {
        let lanes = vector.len();
        let tag = vector.bytes(0).get(12..16)?.first_chunk::<4>()?;
        let (interface, pattern) = if matches!(tag, [0x81, 0x00, ..] | [0x88, 0xa8, ..]) {
            let (_, key, _) = split_tag(vector.bytes(0), 12)?;
            let interface = self.vlans.get(port, key, None)?;
            (interface, FramePattern::tagged(self.mac_of_first(vector, interface), *tag))
        } else {
            (port, FramePattern::untagged(self.mac_of_first(vector, port)))
        };
        if self.shared.interface(interface).flags() & UP == 0 {
            return None;
        }
        let classified = ethernet_kernel::classify(self.shared.kernel, vector, &pattern)?;
        if interface != port {
            count(self.cx.counters, interface, classified.counts);
            vector.rx_if[..lanes].fill(interface);
            for lane in set_bits(&classified.exceptions) {
                vector.rx_if[lane] = port;
            }
        }
        Some((classified.exceptions, classified.families))
    }

    /// Classifies frames of several ports or VLANs.
    #[inline(never)]
    fn mixed(&self, vector: &mut Vector, pending: &Lanes, headers: &mut Headers) -> Mixed {
        let tables = (self.vlans, &self.shared.attributes);
        let mixed = ethernet_mixed::classify(self.shared.kernel, vector, pending, headers, tables);
        count_lanes(self.cx.counters, &mixed.tagged, &vector.rx_if, &headers.lengths);
        mixed
    }

    /// The destination MAC address to expect: that of an active virtual router if the first frame has
    /// it, else that of the interface.
    #[inline(always)]
    fn mac_of_first(&self, vector: &Vector, interface: u32) -> u64 {
        let line = self.shared.interface(interface);
        if line.flags() & VIRTUAL != 0
            && let Some(mac) = vector.bytes(0).first_chunk::<6>().map(mac_word)
            && self.is_virtual(line, interface, mac)
        {
            return mac;
        }
        line.mac()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stoa_engine::VECTOR;

    #[test]
    fn lanes_in_use_are_the_first_ones() {
        for lanes in 0..=VECTOR {
            assert!(set_bits(&lanes_in_use(lanes)).eq(0..lanes));
        }
    }

    #[test]
    fn the_outermost_tag_has_no_priority() {
        let frame = |rest: &[u8]| [&[0; 12], rest].concat();
        assert_eq!(outermost_tag(&frame(&[0x81, 0x00, 0xe1, 0x23])), 0x8100_0123);
        assert_eq!(outermost_tag(&frame(&[0x88, 0xa8, 0x01, 0x23, 7])), 0x88a8_0123);
        assert_eq!(outermost_tag(&frame(&[0x08, 0x00, 0x45, 0x00])), 0);
        assert_eq!(outermost_tag(&frame(&[0x81, 0x00])), 0);
    }
}
