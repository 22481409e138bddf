//! Classifies vectors with frames of several ports or of various VLANs: looks up the tags of all
//! lanes together, and compares each destination MAC address with that of the lane's interface.
//!
//! The three steps, each for all lanes: read the headers, look up the sub-interfaces, finish the
//! lanes. Here is their interface, the choice of the kernel, and the reference.

use std::sync::atomic::{AtomicU64, Ordering};

use stoa_engine::Vector;
use stoa_engine::column::Column;
use stoa_engine::gather::gather_32;
use stoa_engine::pool::SLOT;
use stoa_tables::exact_match::ABSENT;

use super::ethernet_frame::split_tag;
use super::ethernet_kernel::{Lanes, STEP};
use super::interface_flags::{FEATURES_ETHERNET, SUB_INTERFACE, UP};
use super::mac_word;
use super::vlan_table::{NO_KEY, VlanTables, key};
use crate::attributes::{Attributes, LINK_FLAGS};
use crate::kernel::Kernel;

/// Bytes of each frame that kernels read; the frame may be shorter, but not its buffer.
pub(super) const READ: usize = 32;

/// A destination MAC address.
pub(super) const MAC: u64 = (1 << LINK_FLAGS) - 1;
/// Set in [`Headers::words`] of a lane with IPv4 or IPv6. As a flag in
/// [`Attributes::link`](crate::attributes::Attributes::link): administratively up.
pub(super) const IP: u64 = (UP as u64) << LINK_FLAGS;
/// Set in [`Headers::words`] of a lane behind the features of its interface. As a flag in the link:
/// the interface has such features.
pub(super) const FEATURES: u64 = (FEATURES_ETHERNET as u64) << LINK_FLAGS;
/// What must be the same in [`Headers::words`] and in the link of the interface: the frame is to the
/// interface, which is up and has no features that the frame has yet to pass.
pub(super) const COMPARED: u64 = MAC | IP | FEATURES;
/// The first bit of the length of the header, and the mask of the length.
pub(super) const HEADER: u32 = 56;
pub(super) const HEADER_MASK: u64 = 31;
/// The packet is IPv6.
pub(super) const IP6: u64 = 1 << 61;
/// The interface is that of the port if there is no sub-interface: the frame is untagged or has a
/// priority tag (IEEE 802.1Q 6.9.1).
pub(super) const AT_PORT: u64 = 1 << 62;

/// The headers of all lanes, between the steps.
pub struct Headers {
    /// The keys of the tags, [`NO_KEY`] without a tag. Neither these nor the others are up to date
    /// in lanes that are not pending.
    pub(super) keys: Column<u64>,
    /// The destination MAC address and the bits above; 0: an exception.
    pub(super) words: Column<u64>,
    /// Sub-interfaces or [`ABSENT`].
    pub(super) found: Column<u32>,
    /// The lengths of the frames, with their headers.
    pub lengths: Column<u16>,
}

impl Default for Headers {
    fn default() -> Self {
        Self {
            keys: Column::of(NO_KEY),
            words: Column::of(0),
            found: Column::of(ABSENT),
            lengths: Column::of(0),
        }
    }
}

/// The result of the classification; only bits of pending lanes are set.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Mixed {
    /// Lanes that are not changed.
    pub exceptions: Lanes,
    /// Lanes with a sub-interface.
    pub tagged: Lanes,
    /// Whether there are classified lanes with IPv4, and with IPv6.
    pub families: [bool; 2],
}

/// Sets the interface of pending lanes with IPv4 or IPv6 to that interface, advances them to the
/// payload and sets their `next` to 0 for IPv4 and 1 for IPv6. Without `vlans`, the interfaces of
/// the lanes are known already, and the lanes have passed the features there.
pub fn classify(
    kernel: Kernel,
    vector: &mut Vector,
    pending: &Lanes,
    headers: &mut Headers,
    (vlans, attributes): (Option<&VlanTables>, &Attributes),
) -> Mixed {
    let lanes = vector.len();
    headers.lengths.copy_from_slice(&vector.length[..]);
    let has_keys = match kernel {
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx512 => super::ethernet_mixed_avx512::read(vector, pending, headers),
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2 => super::ethernet_mixed_avx2::read(vector, pending, headers),
        _ => read(vector, pending, headers),
    };
    match vlans {
        Some(vlans) if has_keys => {
            vlans.lookup_batch(&headers.keys[..lanes], &mut headers.found[..lanes]);
        }
        Some(_) => headers.found[..lanes].fill(ABSENT),
        None => keep_interfaces(vector, headers, attributes),
    }
    let links = attributes.link();
    assert!(links.len().is_power_of_two());
    match kernel {
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx512 => super::ethernet_mixed_avx512::finish(vector, pending, headers, links),
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2 => super::ethernet_mixed_avx2::finish(vector, pending, headers, links),
        _ => finish(vector, pending, headers, links),
    }
}

/// Finds the interfaces that lanes have already: a sub-interface by any tags, another one only
/// [at the port](AT_PORT).
fn keep_interfaces(vector: &Vector, headers: &mut Headers, attributes: &Attributes) {
    let lanes = vector.len();
    gather_32(attributes.flags(), &vector.rx_if, lanes, &mut headers.found);
    let found = headers.found.iter_mut().zip(headers.words.iter_mut());
    for ((found, word), interface) in found.zip(&vector.rx_if[..lanes]) {
        *found = if *found & SUB_INTERFACE == 0 { ABSENT } else { *interface };
        *word |= FEATURES;
    }
}

/// Takes those lanes out of `pending`, the exceptions of [`classify`], that have IPv4 or IPv6 and
/// whose interface has features: sets their interface, and their `next` by `edge`. Returns them, and
/// those with a sub-interface.
pub fn take_featured(
    vector: &mut Vector,
    pending: &mut Lanes,
    headers: &Headers,
    links: &[AtomicU64],
    edge: impl Fn(u32) -> u16,
) -> [Lanes; 2] {
    const READY: u64 = IP | FEATURES;
    let (mut featured, mut tagged) = ([0; _], [0; _]);
    for lane in set_bits(pending) {
        let (port, word, bit) = (vector.rx_if[lane], headers.words[lane], 1 << (lane % STEP));
        let interface = interface_of(headers.found[lane], word, port);
        let link = links[interface as usize & (links.len() - 1)].load(Ordering::Relaxed);
        if word & IP == 0 || interface == ABSENT || link & READY != READY {
            continue;
        }
        featured[lane / STEP] |= bit;
        if interface != port {
            tagged[lane / STEP] |= bit;
        }
        vector.rx_if[lane] = interface;
        vector.next[lane] = edge(interface);
    }
    for (pending, featured) in pending.iter_mut().zip(&featured) {
        *pending &= !featured;
    }
    [featured, tagged]
}

/// The interface of a lane, or [`ABSENT`].
#[inline(always)]
fn interface_of(found: u32, word: u64, port: u32) -> u32 {
    if found == ABSENT && word & AT_PORT != 0 { port } else { found }
}

/// The lanes whose bits are set.
#[inline(always)]
pub fn set_bits(lanes: &Lanes) -> impl Iterator<Item = usize> {
    lanes.iter().enumerate().flat_map(|(step, bits)| {
        let mut bits = *bits;
        std::iter::from_fn(move || {
            let lane = bits.trailing_zeros() as usize;
            bits &= bits.wrapping_sub(1);
            (lane < STEP).then_some(step * STEP + lane)
        })
    })
}

/// The reference of the first step. Whether there is a key.
fn read(vector: &Vector, pending: &Lanes, headers: &mut Headers) -> bool {
    for lane in set_bits(pending) {
        (headers.keys[lane], headers.words[lane]) = read_lane(vector, lane);
    }
    set_bits(pending).any(|lane| headers.keys[lane] != NO_KEY)
}

/// The key and the word of one lane.
pub(super) fn read_lane(vector: &Vector, lane: usize) -> (u64, u64) {
    const EXCEPTION: (u64, u64) = (NO_KEY, 0);
    let is_inside = vector.buffers()[lane] < vector.pool().count()
        && usize::from(vector.offset[lane]) <= SLOT - READ;
    let frame = vector.bytes(lane);
    let (Some(header), true) = (frame.first_chunk::<14>(), is_inside) else { return EXCEPTION };
    let port = vector.rx_if[lane];
    let (key, length, ethertype, at_port) = match (split_tag(frame, 12), split_tag(frame, 16)) {
        (Some((_, outer, _)), Some((_, inner, ethertype))) => {
            (key(port, outer, Some(inner)), 22, ethertype, 0)
        }
        (Some((_, outer, ethertype)), None) => {
            (key(port, outer, None), 18, ethertype, if outer == 0 { AT_PORT } else { 0 })
        }
        (None, _) => (NO_KEY, 14, u16::from_be_bytes([header[12], header[13]]), AT_PORT),
    };
    let family = match ethertype {
        0x0800 => 0,
        0x86dd => IP6,
        _ => return EXCEPTION,
    };
    let [a, b, c, d, e, f, ..] = *header;
    (key, mac_word(&[a, b, c, d, e, f]) | IP | length << HEADER | family | at_port)
}

/// The reference of the last step.
fn finish(vector: &mut Vector, pending: &Lanes, headers: &Headers, links: &[AtomicU64]) -> Mixed {
    let mut mixed = Mixed::default();
    for lane in set_bits(pending) {
        let (port, word, bit) = (vector.rx_if[lane], headers.words[lane], 1 << (lane % STEP));
        let interface = interface_of(headers.found[lane], word, port);
        let link = links[interface as usize & (links.len() - 1)].load(Ordering::Relaxed);
        if word & IP == 0 || interface == ABSENT || (link ^ word) & COMPARED != 0 {
            mixed.exceptions[lane / STEP] |= bit;
            continue;
        }
        let is_ip6 = word & IP6 != 0;
        mixed.families[usize::from(is_ip6)] = true;
        if interface != port {
            mixed.tagged[lane / STEP] |= bit;
        }
        let header = (word >> HEADER & HEADER_MASK) as u16;
        vector.offset[lane] += header;
        vector.length[lane] -= header;
        vector.next[lane] = is_ip6.into();
        vector.rx_if[lane] = interface;
    }
    mixed
}

#[cfg(test)]
#[path = "ethernet_mixed_tests.rs"]
mod tests;
