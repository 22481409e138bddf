//! `ethernet-input`: the first node after the ports. It classifies the frame by VLAN tags to find the
//! interface, checks the destination MAC address, advances to the payload and selects the next node
//! by ethertype (IEEE 802.3, 802.1Q, 802.1ad). If the interface has features of the arc, the frame
//! passes them first, from its Ethernet header on; `ethernet-dispatch` does the rest behind them.
//!
//! A frame without a sub-interface is in the interface of its port: if that has features, they get
//! frames with unknown tags and frames that are truncated, too.
//!
//! A vector takes the first of three ways that fits, and the lanes that are left over take the next
//! one: all frames have the same header, but for the family ([`super::ethernet_kernel`]); all are
//! looked up together ([`super::ethernet_mixed`]); one by one ([`super::ethernet_frame`]).

use std::sync::Arc;

use stoa_engine::arc::ArcHook;
use stoa_engine::protocol::NumberTable;
use stoa_engine::{Context, Next, Node, Vector};

use super::ethernet_frame::{Classifier, count, count_lanes, split_tag};
use super::ethernet_kernel::{self, FramePattern, Lanes, STEP};
use super::ethernet_mixed::{self, Headers, IP as IS_UP, MAC, Mixed, set_bits};
use super::interface_flags::{SUB_INTERFACE, VIRTUAL};
use super::mac_word;
use crate::arcs::{self, ETHERNET_INPUT};
use crate::attributes::LINK_FLAGS;
use crate::kernel::Kernel;
use crate::protocols;
use crate::shared::Shared;

/// Next nodes of both nodes, besides those of the arc and of the table of ethertypes.
pub const EDGES: &[&str] = &["ip4-input", "ip6-input", "host-interface-output", "punt-input"];
pub(super) const IP4: u16 = 0;
pub(super) const IP6: u16 = 1;
pub(super) const HOST_INTERFACE: u16 = 2;
pub(super) const PUNT: u16 = 3;

/// Number of lanes to prefetch ahead.
const AHEAD: usize = 12;
/// So many lanes are classified one by one: it takes as long as a step of a kernel does.
const FEW: usize = 3;
/// So are exceptions to a uniform vector up to one lane of so many.
const RARE: usize = 16;

/// Makes `ethernet-input` of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    let types = protocols::ethertypes("ethernet-input");
    EthernetInput::<false>::boxed(shared, types)
}

/// Makes `ethernet-dispatch` of one worker.
pub fn make_dispatch(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    let types = protocols::ethertypes("ethernet-dispatch");
    EthernetInput::<true>::boxed(shared, types)
}

/// `ethernet-input` or, `BEHIND` the features, `ethernet-dispatch`.
struct EthernetInput<const BEHIND: bool> {
    shared: Arc<Shared>,
    /// How frames begin the arc: they do only in `ethernet-input`.
    hook: ArcHook,
    types: NumberTable<u16>,
    headers: Box<Headers>,
}

impl<const BEHIND: bool> EthernetInput<BEHIND> {
    fn boxed(shared: &Arc<Shared>, types: NumberTable<u16>) -> Box<dyn Node> {
        let hook = arcs::hook(ETHERNET_INPUT, "ethernet-input");
        Box::new(Self { shared: shared.clone(), hook, types, headers: Box::default() })
    }
}

impl<const BEHIND: bool> Node for EthernetInput<BEHIND> {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let Self { shared, hook, types, headers } = self;
        let vlans = shared.vlans.read(cx.reader);
        let classifier = Classifier::<BEHIND> { shared, vlans, hook: *hook, types, cx };
        let port = vector.rx_if.uniform(vector.len());
        if let Some(port) = port
            && Classifier::<BEHIND>::has_features(classifier.link(port))
            && !vlans.has_any(port)
        {
            return Next::All(classifier.first_feature(port));
        }
        if shared.kernel != Kernel::Scalar {
            return classifier.lanes(vector, port, headers);
        }
        if shared.virtual_macs.read(cx.reader).is_empty() {
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

impl<const BEHIND: bool> Classifier<'_, '_, BEHIND> {
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

    /// Classifies frames of one interface or, if `port` is none, of several in parallel, and
    /// exceptions one by one.
    #[inline(always)]
    fn lanes(&self, vector: &mut Vector, port: Option<u32>, headers: &mut Headers) -> Next {
        let lanes = vector.len();
        let mut pending = lanes_in_use(lanes);
        let (mut families, mut has_features) = ([false; 2], false);
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
            if !BEHIND && pending != [0; _] {
                has_features = self.featured(vector, &mut pending, headers);
            }
        }
        if pending != [0; _] || has_features {
            for lane in set_bits(&pending) {
                vector.next[lane] = self.any::<true>(vector, lane);
            }
            return Next::Lanes;
        }
        match families {
            [true, true] => Next::Lanes,
            [_, ip6] => Next::All(if ip6 { IP6 } else { IP4 }),
        }
    }

    /// Classifies frames of one port that have the same header as the first one, untagged or in its
    /// VLAN: returns the others, which are not changed, and whether there is IPv4 and IPv6. `None`:
    /// the first frame is an exception, or there are features; nothing is changed.
    #[inline(always)]
    fn uniform(&self, vector: &mut Vector, port: u32) -> Option<(Lanes, [bool; 2])> {
        let lanes = vector.len();
        let tag = vector.bytes(0).get(12..16)?.first_chunk::<4>()?;
        let is_tagged = matches!(tag, [0x81, 0x00, ..] | [0x88, 0xa8, ..]);
        let interface = if is_tagged && !BEHIND {
            let (_, key, _) = split_tag(vector.bytes(0), 12)?;
            self.vlans.get(port, key, None)?
        } else {
            port
        };
        let link = self.link(interface);
        let is_sub = link & u64::from(SUB_INTERFACE) << LINK_FLAGS != 0;
        if link & IS_UP == 0 || Self::has_features(link) || BEHIND && is_tagged && !is_sub {
            return None;
        }
        let mac = self.mac_of_first(vector, interface, link);
        let pattern = match is_tagged {
            true => FramePattern::tagged(mac, *tag),
            false => FramePattern::untagged(mac),
        };
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
        let tables = ((!BEHIND).then_some(self.vlans), &self.shared.attributes);
        let mixed = ethernet_mixed::classify(self.shared.kernel, vector, pending, headers, tables);
        count_lanes(self.cx.counters, &mixed.tagged, &vector.rx_if, &headers.lengths);
        mixed
    }

    /// Sends frames to the features of their interfaces; returns whether there are any.
    #[inline(never)]
    fn featured(&self, vector: &mut Vector, pending: &mut Lanes, headers: &Headers) -> bool {
        let links = self.shared.attributes.link();
        let edge = |interface| self.first_feature(interface);
        let [featured, tagged] =
            ethernet_mixed::take_featured(vector, pending, headers, links, edge);
        count_lanes(self.cx.counters, &tagged, &vector.rx_if, &headers.lengths);
        featured != [0; _]
    }

    /// The destination MAC address to expect: that of an active virtual router if the first frame has
    /// it, else that of the interface.
    #[inline(always)]
    fn mac_of_first(&self, vector: &Vector, interface: u32, link: u64) -> u64 {
        if link & u64::from(VIRTUAL) << LINK_FLAGS != 0
            && let Some(mac) = vector.bytes(0).first_chunk::<6>().map(mac_word)
            && self.is_virtual(link, interface, mac)
        {
            return mac;
        }
        link & MAC
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
