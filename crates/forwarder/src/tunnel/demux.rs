//! Finds the packets of tunnels among packets for local addresses, for `ip4-local` and `ip6-local`:
//! the endpoints of all lanes are looked up together, and so are the routes to their sources.
//!
//! Only plain packets are found here: without options, extension headers and fragmentation. The nodes
//! look up the others one by one.

use stoa_engine::arc::{ArcHook, FeatureArc};
use stoa_engine::quiescence::Reader;
use stoa_engine::vector::{Column, LaneSet, prefetch};
use stoa_engine::{VECTOR, Vector};
use stoa_tables::exact_match::ABSENT;
use stoa_tables::lpm::Counted;
use stoa_tables::next_hop::Resolved;
use stoa_wire::{ipv4, ipv6};

use super::table::{Scope, Tunnels, key4, key6};
use crate::ip::lookup::{Address, Lookup};
use crate::shared::{Shared, SpecialNextHop};

/// No tunnel has this key.
const NO_KEY: u64 = u64::MAX;

/// The addresses of outer packets.
pub trait Outer: Address {
    /// The source, the protocol, and the key of a plain packet in a VRF; `None`: not plain, or not
    /// of a tunnel.
    fn read(packet: &[u8], seed: u64, vrf: u32) -> Option<(Self, u64)>;

    /// Whether a plain packet is of the tunnel with this line.
    fn is_of(tunnels: &Tunnels, line: u32, packet: &[u8], vrf: u32) -> bool;
}

impl Outer for u32 {
    #[inline(always)]
    fn read(packet: &[u8], seed: u64, vrf: u32) -> Option<(Self, u64)> {
        let header = packet.first_chunk::<{ ipv4::LENGTH }>()?;
        let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let whole = usize::from(word(2));
        let is_fragment = word(6) & (ipv4::MORE_FRAGMENTS | ipv4::OFFSET_MASK) != 0;
        if header[0] != 0x45 || is_fragment || whole < ipv4::LENGTH || whole > packet.len() {
            return None;
        }
        let scope = Scope::of(vrf, header[9])?;
        let ends = u64::from_be_bytes(*header.last_chunk()?);
        Some(((ends >> 32) as u32, key4(seed, scope, ends)))
    }

    #[inline(always)]
    fn is_of(tunnels: &Tunnels, line: u32, packet: &[u8], vrf: u32) -> bool {
        let header = packet.first_chunk::<{ ipv4::LENGTH }>();
        header.is_some_and(|header| {
            let ends = header.last_chunk::<8>();
            let scope = Scope::of(vrf, header[9]);
            ends.zip(scope)
                .is_some_and(|(ends, scope)| tunnels.line(line).is_from(vrf, scope.is_gre, ends))
        })
    }
}

impl Outer for u128 {
    #[inline(always)]
    fn read(packet: &[u8], seed: u64, vrf: u32) -> Option<(Self, u64)> {
        let header = packet.first_chunk::<{ ipv6::LENGTH }>()?;
        let whole = ipv6::LENGTH + usize::from(u16::from_be_bytes([header[4], header[5]]));
        // A link-local source is one of the interface, not of its VRF.
        let is_link_local = (header[8], header[9] >> 6) == (0xfe, 2);
        if header[0] >> 4 != 6 || is_link_local || whole > packet.len() {
            return None;
        }
        let scope = Scope::of(vrf, header[6])?;
        let words = header.last_chunk::<32>()?.as_chunks::<8>().0;
        let words: [u64; 4] = std::array::from_fn(|at| u64::from_be_bytes(words[at]));
        let source = u128::from(words[0]) << 64 | u128::from(words[1]);
        Some((source, key6(seed, scope, words)))
    }

    #[inline(always)]
    fn is_of(tunnels: &Tunnels, line: u32, packet: &[u8], vrf: u32) -> bool {
        let header = packet.first_chunk::<{ ipv6::LENGTH }>();
        header.is_some_and(|header| {
            let ends = header.last_chunk::<32>();
            let scope = Scope::of(vrf, header[6]);
            ends.zip(scope)
                .is_some_and(|(ends, scope)| tunnels.line(line).is_from(vrf, scope.is_gre, ends))
        })
    }
}

/// The columns of a vector between the steps.
pub struct Demux<K> {
    keys: Column<u64>,
    vrfs: Column<u32>,
    /// The index of a tunnel's line, or [`ABSENT`].
    found: Column<u32>,
    sources: [K; VECTOR],
    lookup: Box<Lookup>,
    values: Column<u32>,
    adjacencies: Column<u32>,
}

impl<K: Outer> Demux<K> {
    /// Without any lanes.
    pub fn new() -> Box<Self> {
        Box::new(Self {
            keys: Column::of(NO_KEY),
            vrfs: Column::of(0),
            found: Column::of(ABSENT),
            sources: [K::default(); VECTOR],
            lookup: Lookup::new(),
            values: Column::of(0),
            adjacencies: Column::of(0),
        })
    }

    /// Finds the plain packets of tunnels, whose `arg` becomes the interface of the tunnel.
    /// Packets with a source that is local, or a broadcast address, are not among them.
    #[inline]
    pub fn run(
        &mut self,
        (shared, reader): (&Shared, &Reader),
        tunnels: &Tunnels,
        vector: &mut Vector,
    ) -> LaneSet {
        let lanes = vector.len();
        if tunnels.is_empty() || !self.read(shared, tunnels, vector) {
            return LaneSet::first_of(0);
        }
        tunnels.lookup_batch(&self.keys[..lanes], &mut self.found[..lanes]);
        for line in self.found[..lanes].iter().filter(|line| **line != ABSENT) {
            prefetch(std::ptr::from_ref(tunnels.line(*line)).cast());
        }
        let (sources, values) = (&self.sources[..lanes], &mut self.values[..lanes]);
        self.lookup.run((shared, reader), &vector.rx_if, sources, values, Counted::All);
        let adjacencies = &mut self.adjacencies[..lanes];
        let kernel = shared.kernel.lookup();
        let others = shared.next_hops.resolve_batch(kernel, &self.values[..lanes], adjacencies);
        let mut taken = LaneSet::first_of(0);
        for lane in 0..lanes {
            let line = self.found[lane];
            if line == ABSENT || !K::is_of(tunnels, line, vector.bytes(lane), self.vrfs[lane]) {
                continue;
            }
            let is_other = others[lane / 64] >> (lane % 64) & 1 == 1;
            if is_other && is_refused(shared, self.values[lane]) {
                continue;
            }
            vector.arg[lane] = tunnels.line(line).interface();
            taken.insert(lane);
        }
        taken
    }

    /// Reads the headers of all lanes. Whether one of them may be of a tunnel.
    #[inline(always)]
    fn read(&mut self, shared: &Shared, tunnels: &Tunnels, vector: &Vector) -> bool {
        let (seed, mut any) = (tunnels.seed(), false);
        for lane in 0..vector.len() {
            let vrf = shared.attributes.vrf_of(vector.rx_if[lane]);
            let read = K::read(vector.bytes(lane), seed, vrf);
            any |= read.is_some();
            self.vrfs[lane] = vrf;
            (self.sources[lane], self.keys[lane]) = read.unwrap_or((K::default(), NO_KEY));
        }
        any
    }
}

/// Sends the `tunneled` lanes whose interfaces have no features in the arc `ip-local` along the edge
/// `tunnel`, and removes them from `left`.
pub fn take_last(
    tunneled: &LaneSet,
    hook: ArcHook,
    arc: &FeatureArc,
    vector: &mut Vector,
    tunnel: u16,
    left: &mut LaneSet,
) {
    let mut taken = LaneSet::first_of(0);
    for lane in tunneled.iter() {
        if hook.is_last(arc.enabled(vector.rx_if[lane])) {
            vector.next[lane] = tunnel;
            taken.insert(lane);
        }
    }
    left.remove_all(&taken);
}

/// Whether `ip4-local` or `ip6-local` refuses sources with this route.
#[cold]
fn is_refused(shared: &Shared, value: u32) -> bool {
    let resolved = shared.next_hops.resolve(value, 0);
    matches!(resolved, Resolved::Special { code, .. }
        if matches!(SpecialNextHop::of(code), SpecialNextHop::Local | SpecialNextHop::Broadcast))
}
