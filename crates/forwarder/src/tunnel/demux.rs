//! Finds the packets of tunnels among packets for local addresses, for `ip4-local` and `ip6-local`:
//! the endpoints of all lanes are looked up together, and so are the routes to their sources.
//!
//! Only plain packets are found here: without options, extension headers and fragmentation. The nodes
//! look up the others one by one.

use stoa_engine::arc::{ArcHook, FeatureArc};
use stoa_engine::gather::gather_32;
use stoa_engine::quiescence::Reader;
use stoa_engine::vector::{Column, LaneSet, prefetch};
use stoa_engine::{VECTOR, Vector};
use stoa_tables::exact_match::ABSENT;
use stoa_tables::lpm::Counted;
use stoa_tables::next_hop::Resolved;
use stoa_wire::{ipv4, ipv6};

use super::line::TunnelLine;
use super::table::{Scope, Tunnels, key4, key6};
use crate::addresses::Addresses;
use crate::ip::lookup::{Address, Lookup};
use crate::kernel::Kernel;
use crate::shared::{Shared, SpecialNextHop};

/// No tunnel has this key.
pub(super) const NO_KEY: u64 = u64::MAX;

/// The addresses of outer packets.
pub trait Outer: Address {
    /// Reads the plain packets that may be of tunnels; the others get [`NO_KEY`]. `ends.vrfs` are known.
    fn read_all(kernel: Kernel, seed: u64, vector: &Vector, ends: &mut Ends<Self>);

    /// Reads a packet in a VRF; `None`: it is not plain, or not of a tunnel.
    fn read(packet: &[u8], seed: u64, vrf: u32) -> Option<End<Self>>;

    /// Whether a plain packet is of the tunnel with this line.
    fn is_of(line: &TunnelLine, scope: Scope, ends: (Self, Self)) -> bool;
}

/// The outer header of a plain packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End<K> {
    source: K,
    destination: K,
    is_gre: bool,
    key: u64,
}

/// The outer headers of all lanes.
#[derive(Clone)]
pub struct Ends<K> {
    pub(super) vrfs: Column<u32>,
    pub(super) keys: Column<u64>,
    pub(super) sources: [K; VECTOR],
    pub(super) destinations: [K; VECTOR],
    /// One bit for each lane with a GRE header: lane 0 is the lowest bit of the first byte.
    pub(super) gre: [u8; VECTOR / 8],
}

impl<K: Outer> Ends<K> {
    /// Without any lanes.
    fn new() -> Self {
        Self {
            vrfs: Column::of(0),
            keys: Column::of(NO_KEY),
            sources: [K::default(); VECTOR],
            destinations: [K::default(); VECTOR],
            gre: [0; VECTOR / 8],
        }
    }

    /// Reads one lane: the reference.
    #[inline(always)]
    pub(super) fn read(&mut self, seed: u64, vector: &Vector, lane: usize) {
        let read = K::read(vector.bytes(lane), seed, self.vrfs[lane]);
        let none = (K::default(), K::default());
        let end =
            read.unwrap_or(End { source: none.0, destination: none.1, is_gre: false, key: NO_KEY });
        (self.sources[lane], self.destinations[lane]) = (end.source, end.destination);
        self.keys[lane] = end.key;
        let (byte, bit) = (&mut self.gre[lane / 8], 1 << (lane % 8));
        *byte = if end.is_gre { *byte | bit } else { *byte & !bit };
    }

    /// Whether the packet of a lane is of the tunnel with this line.
    #[inline(always)]
    fn is_of(&self, line: &TunnelLine, lane: usize) -> bool {
        let is_gre = self.gre[lane / 8] >> (lane % 8) & 1 == 1;
        let scope = Scope { vrf: self.vrfs[lane], is_gre };
        K::is_of(line, scope, (self.sources[lane], self.destinations[lane]))
    }
}

impl Outer for u32 {
    #[inline(always)]
    fn read_all(kernel: Kernel, seed: u64, vector: &Vector, ends: &mut Ends<Self>) {
        match kernel {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 | Kernel::Avx2 => super::demux_avx2::read(seed, vector, ends),
            _ => (0..vector.len()).for_each(|lane| ends.read(seed, vector, lane)),
        }
    }

    #[inline(always)]
    fn read(packet: &[u8], seed: u64, vrf: u32) -> Option<End<Self>> {
        let header = packet.first_chunk::<{ ipv4::LENGTH }>()?;
        let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let whole = usize::from(word(2));
        let is_fragment = word(6) & (ipv4::MORE_FRAGMENTS | ipv4::OFFSET_MASK) != 0;
        if header[0] != 0x45 || is_fragment || whole < ipv4::LENGTH || whole > packet.len() {
            return None;
        }
        let scope = Scope::of(vrf, header[9])?;
        let ends = u64::from_be_bytes(*header.last_chunk()?);
        let (source, destination) = ((ends >> 32) as u32, ends as u32);
        Some(End { source, destination, is_gre: scope.is_gre, key: key4(seed, scope, ends) })
    }

    #[inline(always)]
    fn is_of(line: &TunnelLine, scope: Scope, (source, destination): (Self, Self)) -> bool {
        line.is_from4(scope, source, destination)
    }
}

impl Outer for u128 {
    #[inline(always)]
    fn read_all(_: Kernel, seed: u64, vector: &Vector, ends: &mut Ends<Self>) {
        (0..vector.len()).for_each(|lane| ends.read(seed, vector, lane));
    }

    #[inline(always)]
    fn read(packet: &[u8], seed: u64, vrf: u32) -> Option<End<Self>> {
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
        let address = |at: usize| u128::from(words[at]) << 64 | u128::from(words[at + 1]);
        let (source, destination) = (address(0), address(2));
        Some(End { source, destination, is_gre: scope.is_gre, key: key6(seed, scope, words) })
    }

    #[inline(always)]
    fn is_of(line: &TunnelLine, scope: Scope, (source, destination): (Self, Self)) -> bool {
        line.is_from6(scope, source, destination)
    }
}

/// The columns of a vector between the steps.
pub struct Demux<K> {
    ends: Ends<K>,
    /// The index of a tunnel's line, or [`ABSENT`].
    found: Column<u32>,
    lookup: Box<Lookup>,
    values: Column<u32>,
    adjacencies: Column<u32>,
}

impl<K: Outer> Demux<K> {
    /// Without any lanes.
    pub fn new() -> Box<Self> {
        Box::new(Self {
            ends: Ends::new(),
            found: Column::of(ABSENT),
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
        (tunnels, addresses): (&Tunnels, &Addresses),
        vector: &mut Vector,
    ) -> LaneSet {
        let lanes = vector.len();
        if tunnels.is_empty() || !self.read(shared, tunnels, vector) {
            return LaneSet::first_of(0);
        }
        tunnels.lookup_batch(&self.ends.keys[..lanes], &mut self.found[..lanes]);
        for line in &self.found[..lanes] {
            // Without a line, of an address that is not read.
            prefetch(tunnels.lines().as_ptr().wrapping_add(*line as usize).cast());
        }
        let (sources, values) = (&self.ends.sources[..lanes], &mut self.values[..lanes]);
        self.lookup.run((shared, reader), &vector.rx_if, sources, values, Counted::All);
        let mut taken = self.confirm(tunnels, vector);
        self.refuse(shared, lanes, &mut taken);
        if addresses.has_virtual() {
            self.refuse_virtual(addresses, vector, &mut taken);
        }
        taken
    }

    /// Reads the headers of all lanes. Whether one of them may be of a tunnel.
    #[inline(always)]
    fn read(&mut self, shared: &Shared, tunnels: &Tunnels, vector: &Vector) -> bool {
        let (lanes, ends) = (vector.len(), &mut self.ends);
        match vector.rx_if.uniform(lanes) {
            Some(interface) => ends.vrfs[..lanes].fill(shared.attributes.vrf_of(interface)),
            None => gather_32(shared.attributes.vrf(), &vector.rx_if, lanes, &mut ends.vrfs),
        }
        K::read_all(shared.kernel, tunnels.seed(), vector, ends);
        ends.keys[..lanes].iter().any(|key| *key != NO_KEY)
    }

    /// The lanes whose packets are of the tunnels that were found; their `arg` becomes its interface.
    #[inline(always)]
    fn confirm(&self, tunnels: &Tunnels, vector: &mut Vector) -> LaneSet {
        // The bits of lanes that are no packet of a tunnel, in bytes of 8 lanes.
        let (lanes, mut others) = (vector.len(), [0_u8; VECTOR / 8]);
        let (found, args) = (self.found.as_chunks::<8>().0, vector.arg.as_chunks_mut::<8>().0);
        let steps = found.iter().zip(args).zip(&mut others);
        // Lanes that are not in use have no line, or one of an earlier vector: they are in no set.
        for (step, ((found, args), others)) in steps.enumerate().take(lanes.div_ceil(8)) {
            let mut bits = 0;
            for (at, (found, arg)) in found.iter().zip(args).enumerate() {
                let line = tunnels.line(*found);
                let is_of = self.ends.is_of(line, step * 8 + at);
                // Of another lane, no node reads it.
                *arg = line.interface();
                bits |= u8::from(!is_of) << at;
            }
            *others = bits;
        }
        let mut taken = LaneSet::first_of(lanes);
        taken.remove(&others);
        taken
    }

    /// Removes packets to the addresses of virtual routers that accept none (RFC 9568 6.4.3): `ip-demux`
    /// drops them.
    #[inline(never)]
    fn refuse_virtual(&self, addresses: &Addresses, vector: &Vector, taken: &mut LaneSet) {
        let (mut refused, mut before) = ([0_u8; VECTOR / 8], None);
        for lane in taken.iter() {
            let key = (vector.rx_if[lane], self.ends.vrfs[lane], self.ends.destinations[lane]);
            // Neighbouring lanes mostly have the same address.
            let is_refused = match before {
                Some((other, is_refused)) if other == key => is_refused,
                _ => addresses.accepts_virtual(key.0, key.1, key.2.ip()) == Some(false),
            };
            before = Some((key, is_refused));
            refused[lane / 8] |= u8::from(is_refused) << (lane % 8);
        }
        taken.remove(&refused);
    }

    /// Removes packets with a source that is local or a broadcast address.
    #[inline(always)]
    fn refuse(&mut self, shared: &Shared, lanes: usize, taken: &mut LaneSet) {
        if let Some(value) = self.values.uniform(lanes) {
            if is_refused(shared, value) {
                *taken = LaneSet::first_of(0);
            }
            return;
        }
        let (kernel, adjacencies) = (shared.kernel.lookup(), &mut self.adjacencies[..lanes]);
        let others = shared.next_hops.resolve_batch(kernel, &self.values[..lanes], adjacencies);
        if others == [0; _] {
            return;
        }
        let mut refused = [0_u8; VECTOR / 8];
        for lane in taken.iter().filter(|lane| others[lane / 64] >> (lane % 64) & 1 == 1) {
            refused[lane / 8] |= u8::from(is_refused(shared, self.values[lane])) << (lane % 8);
        }
        taken.remove(&refused);
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
    let is_last = |interface| hook.is_last(arc.enabled(interface));
    if let Some(interface) = vector.rx_if.uniform(vector.len())
        && is_last(interface)
    {
        left.remove_all(tunneled);
        if !left.is_empty() {
            tunneled.iter().for_each(|lane| vector.next[lane] = tunnel);
        }
        return;
    }
    let mut taken = LaneSet::first_of(0);
    for lane in tunneled.iter() {
        if is_last(vector.rx_if[lane]) {
            vector.next[lane] = tunnel;
            taken.insert(lane);
        }
    }
    left.remove_all(&taken);
}

/// Whether `ip4-local` or `ip6-local` refuses sources with this route.
fn is_refused(shared: &Shared, value: u32) -> bool {
    let resolved = shared.next_hops.resolve(value, 0);
    matches!(resolved, Resolved::Special { code, .. }
        if matches!(SpecialNextHop::of(code), SpecialNextHop::Local | SpecialNextHop::Broadcast))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::OnceLock;
    use stoa_engine::PoolCache;
    use stoa_engine::pool::{HugePages, Pool};
    use stoa_wire::protocol;

    fn pool() -> &'static Pool {
        static POOL: OnceLock<&'static Pool> = OnceLock::new();
        POOL.get_or_init(|| Pool::leak(1024, HugePages::Never).unwrap())
    }

    /// Offset, length, whether it is in a jumbo buffer, and the start of the packet.
    type Packet = (u16, u16, bool, Vec<u8>);

    /// Mostly plain packets of tunnels.
    fn packets() -> impl Strategy<Value = Vec<Packet>> {
        let first = prop_oneof![20 => Just(0x45_u8), 1 => any::<u8>()];
        let total = prop_oneof![20 => 20..60_u16, 1 => any::<u16>()];
        let fragment = prop_oneof![10 => Just(0_u16), 10 => Just(0x4000), 1 => any::<u16>()];
        let protocols = vec![protocol::IP4, protocol::IP6, protocol::GRE, protocol::UDP];
        let protocol = prop::sample::select(protocols);
        let offset = prop_oneof![20 => 100..150_u16, 1 => 2200..2250_u16];
        let length = prop_oneof![20 => 60..90_u16, 1 => 0..60_u16, 1 => any::<u16>()];
        let fields = (first, total, fragment, protocol, offset, length, any::<u64>(), 0..60_u8);
        let packet =
            fields.prop_map(|(first, total, fragment, protocol, offset, length, ends, rare)| {
                let mut bytes = vec![first, 0];
                bytes.extend(total.to_be_bytes());
                bytes.extend([0, 0]);
                bytes.extend(fragment.to_be_bytes());
                bytes.extend([64, protocol, 0, 0]);
                bytes.extend(ends.to_be_bytes());
                (offset, length, rare == 0, bytes)
            });
        prop::collection::vec(packet, 0..=VECTOR)
    }

    proptest! {
        #[test]
        fn kernels_agree_with_the_reference(packets in packets(), seed: u64, vrfs: [u32; 4]) {
            let (mut cache, mut vector) = (PoolCache::new(pool()), Vector::new(pool()));
            prop_assert_eq!(cache.fill(&mut vector, packets.len()), packets.len());
            let mut ends = Ends::<u32>::new();
            for (lane, (offset, length, is_jumbo, bytes)) in packets.iter().enumerate() {
                prop_assert!(!is_jumbo || cache.enlarge(&mut vector, lane));
                let data = vector.buffer_mut(lane).iter_mut().skip(usize::from(*offset));
                data.zip(bytes).for_each(|(byte, value)| *byte = *value);
                (vector.offset[lane], vector.length[lane]) = (*offset, *length);
                ends.vrfs[lane] = vrfs[lane % 4];
            }
            let mut expected = ends.clone();
            u32::read_all(Kernel::Scalar, seed, &vector, &mut expected);
            let plain = expected.keys.iter().filter(|key| **key != NO_KEY).count();
            prop_assert!(packets.len() < 100 || plain > 9, "{} of {}", plain, packets.len());
            for kernel in Kernel::available().skip(1) {
                let mut found = ends.clone();
                u32::read_all(kernel, seed, &vector, &mut found);
                prop_assert_eq!(&found.keys[..], &expected.keys[..], "{:?}", kernel);
                for lane in (0..packets.len()).filter(|lane| expected.keys[*lane] != NO_KEY) {
                    let of = |ends: &Ends<u32>| {
                        let is_gre = ends.gre[lane / 8] >> (lane % 8) & 1;
                        (ends.sources[lane], ends.destinations[lane], is_gre)
                    };
                    prop_assert_eq!(of(&found), of(&expected), "{:?}", kernel);
                }
            }
            cache.free_from(&mut vector, 0);
        }
    }
}
