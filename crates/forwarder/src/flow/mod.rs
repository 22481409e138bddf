//! Which flow a packet belongs to, as a hash. The *flow* of a packet ([`of`], [`of_frame`]) is the same
//! for both directions; the *flow hash* ([`hash4`], [`hash6`]) chooses one of several paths of a route
//! and differs between directions (RFC 2992, RFC 6438).
//!
//! A flow is: addresses, protocol, and the ports of TCP, UDP and SCTP.
//! - IPv4 fragments have no ports, so that all fragments of a protocol between two hosts share a flow.
//! - IPv6 extension headers are passed to find protocol and ports, so that packets with and without
//!   them are of one flow. IPv6 fragments have the protocol 44 and no ports; an atomic fragment
//!   (RFC 6946) is a whole packet.
//! - If the extension headers cannot be read, the protocol is the next header of the IPv6 header.

pub mod adoption;
pub mod alg;
pub mod column;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod column_avx2;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod column_avx512;
pub mod cookie;
pub mod exchange;
pub mod fields;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod fields_avx2;
mod flow_counts;
pub mod flow_words;
pub mod flows;
pub mod foreign;
pub mod fragment_order;
pub mod fragments;
pub mod limits;
pub mod profiles;
pub mod quoted;
mod random;
pub mod selection;
pub mod splice;
pub mod syn_cookies;
pub mod tcp;
pub mod time;
pub mod timeouts;
pub mod tracker;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use stoa_tables::flow_hash::{Flow, mix};
use stoa_wire::ipv6_extensions::is_extension;
use stoa_wire::{ipv6, protocol};

pub use column::{Packets, of};

/// Seed of flows, and the seed of the choice of paths unless another one is configured.
pub(crate) const SEED: u32 = 0x5704_a001;
/// What makes the seed of software RSS of that of paths: flows that a router before this one sent by
/// the same path are spread over all workers.
const OF_WORKERS: u32 = 0x9e37_79b9;

/// The seeds of hashes that choose: each router has others, so that routers along a path choose
/// independently of each other.
pub struct Seeds {
    paths: AtomicU32,
    workers: Arc<AtomicU32>,
}

impl Default for Seeds {
    fn default() -> Self {
        let seeds = Self { paths: AtomicU32::new(0), workers: Arc::default() };
        seeds.set(0);
        seeds
    }
}

impl Seeds {
    /// Sets the seed of the choice of paths, and one derived from it for software RSS; 0: the default.
    /// Flows may change their path and their worker.
    pub fn set(&self, seed: u32) {
        let seed = if seed == 0 { SEED } else { seed };
        self.paths.store(seed, Ordering::Relaxed);
        self.workers.store(mix(seed ^ OF_WORKERS), Ordering::Relaxed);
    }

    /// The seed that was set; `None`: that of software RSS does not follow from it.
    pub fn seed(&self) -> Option<u32> {
        let (paths, workers) = (self.paths(), self.workers.load(Ordering::Relaxed));
        (workers == mix(paths ^ OF_WORKERS)).then_some(paths)
    }

    /// The seed of [`hash4`] and [`hash6`].
    #[inline(always)]
    pub fn paths(&self) -> u32 {
        self.paths.load(Ordering::Relaxed)
    }

    /// The seed of [`of_frame`].
    pub fn workers(&self) -> &Arc<AtomicU32> {
        &self.workers
    }
}
/// The bits of a flow label (RFC 8200 3).
const FLOW_LABEL: u32 = 0xf_ffff;
/// SCTP, whose ports are where TCP has them (RFC 9260 3.1).
const SCTP: u8 = 132;

fn be32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
}

fn ports(upper: &[u8], protocol: u8) -> (u16, u16) {
    let has_ports = matches!(protocol, protocol::TCP | protocol::UDP | SCTP);
    let word = if has_ports { be32(upper, 0) } else { 0 };
    ((word >> 16) as u16, word as u16)
}

/// The flow of an IPv4 packet.
#[inline(always)]
fn flow4(bytes: &[u8]) -> Flow<u32> {
    let header_length = usize::from(bytes.first().copied().unwrap_or(0) & 0xf) * 4;
    let protocol = bytes.get(9).copied().unwrap_or(0);
    let is_fragment = be32(bytes, 4) & 0x3fff != 0;
    let upper = bytes.get(header_length..).filter(|_| !is_fragment).unwrap_or(&[]);
    let (source_port, destination_port) = ports(upper, protocol);
    let (source, destination) = (be32(bytes, 12), be32(bytes, 16));
    Flow { source, destination, source_port, destination_port, protocol }
}

/// Addresses of an IPv6 header.
#[inline(always)]
fn ends6(header: &[u8; ipv6::LENGTH]) -> (u128, u128) {
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&header[at..at + 16]);
        u128::from_be_bytes(octets)
    };
    (address(8), address(24))
}

/// Flow hash of a validated IPv4 packet.
pub fn hash4(bytes: &[u8], seed: u32) -> u32 {
    flow4(bytes).hash(seed)
}

/// Flow hash of a validated IPv6 packet: with the flow label in place of ports when it has extension
/// headers (RFC 6438).
pub fn hash6(bytes: &[u8], seed: u32) -> u32 {
    let Some((header, upper)) = bytes.split_first_chunk::<{ ipv6::LENGTH }>() else { return 0 };
    let protocol = header[6];
    let (source_port, destination_port) = match ports(upper, protocol) {
        (0, 0) => {
            let label = be32(header, 0) & 0xf_ffff;
            ((label >> 16) as u16, label as u16)
        }
        ports => ports,
    };
    let (source, destination) = ends6(header);
    Flow { source, destination, source_port, destination_port, protocol }.hash(seed)
}

/// The flow label of the outer IPv6 header of a tunnel for this packet inside (RFC 6438 3): never 0, which
/// means none.
#[inline]
pub fn label(inner: &[u8], seed: u32) -> u32 {
    let is_ip4 = inner.first().is_some_and(|first| first >> 4 == 4);
    let hash = if is_ip4 { hash4(inner, seed) } else { hash6(inner, seed) };
    (hash & FLOW_LABEL).max(1)
}

/// The flow of an IPv4 packet: the reference of [`of`].
#[inline]
pub fn of_ip4(bytes: &[u8]) -> u32 {
    flow4(bytes).symmetric_hash(SEED)
}

/// The flow of an IPv6 packet: the reference of [`of`]; 0 for less than a header.
#[inline]
pub fn of_ip6(bytes: &[u8]) -> u32 {
    flow6(bytes).map_or(0, |flow| flow.symmetric_hash(SEED))
}

/// The flow of an IPv6 packet; `None` for less than a header.
#[inline(always)]
fn flow6(bytes: &[u8]) -> Option<Flow<u128>> {
    let (header, upper) = bytes.split_first_chunk::<{ ipv6::LENGTH }>()?;
    let (protocol, upper) =
        if is_extension(header[6]) { behind_extensions(bytes) } else { (header[6], upper) };
    let (source_port, destination_port) = ports(upper, protocol);
    let (source, destination) = ends6(header);
    Some(Flow { source, destination, source_port, destination_port, protocol })
}

/// Protocol and header of the upper layer of an IPv6 packet with extension headers.
#[cold]
fn behind_extensions(bytes: &[u8]) -> (u8, &[u8]) {
    match ipv6::check(bytes).and_then(|view| view.upper()) {
        Ok(upper) if upper.fragment.is_some_and(|fragment| !fragment.is_atomic()) => {
            (protocol::FRAGMENT, &[])
        }
        Ok(upper) => (upper.protocol, upper.payload),
        Err(_) => (bytes[6], &[]),
    }
}

/// The flow of a received frame, for software RSS; `None`: not an IP packet. The frame is not
/// validated yet.
pub fn of_frame(frame: &[u8], seed: u32) -> Option<u32> {
    let kind = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    let mut at = 12;
    for _ in 0..2 {
        if matches!(kind(at)?, 0x8100 | 0x88a8) {
            at += 4;
        }
    }
    let ip = frame.get(at + 2..)?;
    match kind(at)? {
        0x0800 if ip.len() >= 20 => Some(flow4(ip).symmetric_hash(seed)),
        0x86dd => Some(flow6(ip)?.symmetric_hash(seed)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ip4(ends: [[u8; 4]; 2], ports: [[u8; 2]; 2], protocol: u8) -> Vec<u8> {
        let head = [0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, protocol, 0, 0];
        [&head[..], &ends.concat(), &ports.concat(), &[0; 16]].concat()
    }

    fn ip6(ends: [[u8; 16]; 2], next: u8, payload: &[&[u8]]) -> Vec<u8> {
        let payload = payload.concat();
        let head = [0x60, 0, 0, 0, 0, payload.len() as u8, next, 64];
        [&head[..], &ends.concat(), &payload].concat()
    }

    proptest! {
        #[test]
        fn both_directions_are_one_flow(
            [source4, destination4] in any::<[[u8; 4]; 2]>(),
            [source6, destination6] in any::<[[u8; 16]; 2]>(),
            [from, to] in any::<[[u8; 2]; 2]>(),
            protocol in prop::sample::select(vec![6_u8, 17, 132, 1, 58, 50]),
        ) {
            let there = ip4([source4, destination4], [from, to], protocol);
            let back = ip4([destination4, source4], [to, from], protocol);
            prop_assert_eq!(of_ip4(&there), of_ip4(&back));
            let there = ip6([source6, destination6], protocol, &[&from, &to]);
            let back = ip6([destination6, source6], protocol, &[&to, &from]);
            prop_assert_eq!(of_ip6(&there), of_ip6(&back));
            // A tag, and an Ethernet header.
            let frame = [&[0; 12][..], &[0x81, 0, 0, 7, 0x86, 0xdd], &there].concat();
            prop_assert_eq!(of_frame(&frame, SEED), Some(of_ip6(&there)));
        }
    }

    #[test]
    fn extension_headers_belong_to_no_flow() {
        let ends = [[1; 16], [2; 16]];
        let upper: &[u8] = &[0, 80, 9, 9, 0, 0, 0, 0];
        let plain = of_ip6(&ip6(ends, protocol::TCP, &[upper]));
        let options = |next: u8| [next, 0, 1, 4, 0, 0, 0, 0];
        let fragment = |offset_more: u8| [protocol::TCP, 0, 0, offset_more, 7, 7, 7, 7];
        let behind =
            |next: u8, headers: &[&[u8]]| of_ip6(&ip6(ends, next, &[headers, &[upper]].concat()));
        let hop_by_hop = options(protocol::DESTINATION_OPTIONS);
        let chain: [&[u8]; 2] = [&hop_by_hop, &options(protocol::TCP)];
        assert_eq!(behind(protocol::HOP_BY_HOP, &chain), plain);
        assert_eq!(behind(protocol::FRAGMENT, &[&fragment(0)]), plain, "an atomic fragment");
        let first = behind(protocol::FRAGMENT, &[&fragment(1)]);
        assert_ne!(first, plain, "without ports");
        let later = ip6(ends, protocol::FRAGMENT, &[&fragment(8), &[5; 30]]);
        assert_eq!(of_ip6(&later), first, "all fragments share a flow");
        let unreadable = ip6(ends, protocol::HOP_BY_HOP, &[&[protocol::TCP, 200]]);
        let empty = ip6(ends, protocol::HOP_BY_HOP, &[]);
        assert_eq!(of_ip6(&unreadable), of_ip6(&empty));
        assert_eq!(of_ip6(&empty[..39]), 0);
    }

    #[test]
    fn software_rss_has_a_seed_of_its_own() {
        let seeds = Seeds::default();
        for seed in [0, 1, 0xdead_beef] {
            seeds.set(seed);
            let workers = seeds.workers().load(Ordering::Relaxed);
            let frame = |host: u8| {
                let packet = ip4([[10, 0, 0, host], [10, 1, 0, 1]], [[0, host], [0, 80]], 6);
                [&[0; 12][..], &[8, 0], &packet].concat()
            };
            let bit = |host, seed| of_frame(&frame(host), seed).unwrap() >> 31;
            // Those that a choice by the seed of the paths sends one way.
            let one_way = (0..=255).filter(|host| bit(*host, seeds.paths()) == 0);
            let (total, first) = one_way.fold((0, 0), |(total, first), host| {
                (total + 1, first + u32::from(bit(host, workers) == 0))
            });
            assert!((total / 3..=total * 2 / 3).contains(&first), "{seed}: {first} of {total}");
        }
    }

    #[test]
    fn fragments_of_a_packet_share_a_hash() {
        let mut first = [0u8; 28];
        first[0] = 0x45;
        first[9] = protocol::UDP;
        first[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        first[20..24].copy_from_slice(&[0, 53, 0, 54]);
        let whole = hash4(&first, SEED);
        first[6] = 0x20;
        let mut later = first;
        later[7] = 3;
        later[20..24].copy_from_slice(&[9, 9, 9, 9]);
        assert_eq!(hash4(&first, SEED), hash4(&later, SEED));
        assert_eq!(of_ip4(&first), of_ip4(&later));
        assert_ne!(hash4(&first, SEED), whole);
        assert_eq!(hash4(&[], SEED), hash4(&[], SEED));
    }

    #[test]
    fn ports_or_flow_labels_distinguish_flows() {
        let mut packet = [0u8; 48];
        packet[0] = 0x60;
        packet[6] = protocol::TCP;
        packet[41] = 80;
        let one = hash6(&packet, SEED);
        packet[41] = 81;
        assert_ne!(one, hash6(&packet, SEED));
        packet[6] = protocol::FRAGMENT;
        let one = hash6(&packet, SEED);
        packet[3] = 7;
        assert_ne!(one, hash6(&packet, SEED));
        assert_eq!(hash6(&packet[..20], SEED), 0);
    }
}
