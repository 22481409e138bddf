//! `ip4-reverse-path` and `ip6-reverse-path`: unicast reverse path forwarding (uRPF: RFC 2827,
//! RFC 3704). The sources of all lanes are looked up together.

use std::sync::Arc;

use stoa_engine::arc::{ArcHook, FeatureArc};
use stoa_engine::gather::gather_32;
use stoa_engine::vector::Column;
use stoa_engine::{Context, Next, Node, VECTOR, Vector};
use stoa_tables::next_hop::Resolved;

use super::header_words;
use super::lookup::{Address, Lookup, Routes};
use crate::arcs::{self, IP4_INPUT, IP6_INPUT};
use crate::attributes::REVERSE_PATH;
use crate::drops::Drop;
use crate::shared::Shared;

/// Off, as a mode of an interface: see [`REVERSE_PATH`].
pub const OFF: u32 = 0;
/// The route to the source must lead through the receiving interface.
pub const STRICT: u32 = 1;
/// There must be a route to the source other than the default route.
pub const LOOSE: u32 = 2;
/// There must be a route to the source; the default route suffices.
pub const LOOSE_OR_DEFAULT: u32 = 3;

/// Makes the IPv4 node of one worker.
pub fn make4(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(ReversePath::<u32>::new(shared, arcs::hook(IP4_INPUT, "ip4-reverse-path")))
}

/// Makes the IPv6 node of one worker.
pub fn make6(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(ReversePath::<u128>::new(shared, arcs::hook(IP6_INPUT, "ip6-reverse-path")))
}

/// The differences between the families.
trait Source: Address {
    /// The drop reason of a packet without a whole header, and its length.
    const TRUNCATED: (Drop, u16);

    /// The arc of the node.
    fn arc(shared: &Shared) -> &FeatureArc;
    /// The mode of this family among those of both.
    fn mode(modes: u32) -> u32;
    /// Loads the source of each lane.
    fn load(shared: &Shared, vector: &Vector, sources: &mut [Self; VECTOR]);
    /// Whether a source passes without a route: that of a host without an address (RFC 1122
    /// 3.2.1.3). Only local delivery of broadcasts receives such packets.
    fn is_exempt(self) -> bool;
}

impl Source for u32 {
    const TRUNCATED: (Drop, u16) = (Drop::Ip4Truncated, 20);

    fn arc(shared: &Shared) -> &FeatureArc {
        &shared.arcs.ip4_input
    }

    fn mode(modes: u32) -> u32 {
        modes & 3
    }

    fn load(shared: &Shared, vector: &Vector, sources: &mut [Self; VECTOR]) {
        header_words::load(shared.kernel, vector, [12], [sources]);
    }

    fn is_exempt(self) -> bool {
        self == 0
    }
}

impl Source for u128 {
    const TRUNCATED: (Drop, u16) = (Drop::Ip6Truncated, 40);

    fn arc(shared: &Shared) -> &FeatureArc {
        &shared.arcs.ip6_input
    }

    fn mode(modes: u32) -> u32 {
        modes >> 2 & 3
    }

    fn load(_: &Shared, vector: &Vector, sources: &mut [Self; VECTOR]) {
        for (lane, source) in sources.iter_mut().enumerate().take(vector.len()) {
            let octets = vector.bytes(lane).get(8..24).and_then(<[u8]>::first_chunk::<16>);
            *source = octets.map_or(0, |octets| Self::from_be_bytes(*octets));
        }
    }

    fn is_exempt(self) -> bool {
        false
    }
}

struct ReversePath<K> {
    shared: Arc<Shared>,
    hook: ArcHook,
    lookup: Box<Lookup<K>>,
    sources: Box<[K; VECTOR]>,
    /// The mode of the interface of each lane.
    modes: Column<u32>,
    values: Column<u32>,
    /// The adjacencies of the routes to the sources.
    adjacencies: Column<u32>,
}

impl<K: Source + Send> Node for ReversePath<K> {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let (lanes, shared) = (vector.len(), &*self.shared);
        K::load(shared, vector, &mut self.sources);
        gather_32(shared.attributes.flags(), &vector.rx_if, lanes, &mut self.modes);
        let (mut all_loose, mut any_loose) = (true, false);
        for mode in &mut self.modes[..lanes] {
            *mode = K::mode(*mode >> REVERSE_PATH);
            all_loose &= *mode == LOOSE;
            any_loose |= *mode == LOOSE;
        }
        let routes = if all_loose { Routes::BeyondDefault } else { Routes::All };
        let keys = &self.sources[..lanes];
        let values = &mut self.values[..lanes];
        self.lookup.run((shared, cx.reader), &vector.rx_if, keys, values, routes);
        if any_loose && !all_loose {
            for lane in (0..lanes).filter(|lane| self.modes[*lane] == LOOSE) {
                let vrf = shared.attributes.vrf_of(vector.rx_if[lane]);
                let table = K::table(shared, vrf, cx.reader);
                values[lane] = table.map_or(0, |table| table.lookup_beyond_default(keys[lane]));
            }
        }
        let next = self.hook.proceed(K::arc(shared), &vector.rx_if, lanes, &mut vector.next);
        self.drop_failed(vector, next)
    }
}

impl<K: Source> ReversePath<K> {
    fn new(shared: &Arc<Shared>, hook: ArcHook) -> Self {
        Self {
            shared: shared.clone(),
            hook,
            lookup: Lookup::new(),
            sources: Box::new([K::default(); VECTOR]),
            modes: Column::of(0),
            values: Column::of(0),
            adjacencies: Column::of(0),
        }
    }

    /// Drops the lanes whose sources fail the check of their interface; the others go where `next`
    /// says.
    fn drop_failed(&mut self, vector: &mut Vector, next: Next) -> Next {
        let mut next = next;
        let shared = &*self.shared;
        let lanes = vector.len();
        // Most sources have one path; only others are resolved one by one.
        let others = shared.next_hops.resolve_batch(
            shared.kernel.lookup(),
            &self.values[..lanes],
            &mut self.adjacencies[..lanes],
        );
        let lines = shared.adjacencies.lines();
        for lane in 0..lanes {
            let interface = vector.rx_if[lane];
            let mode = self.modes[lane];
            let value = self.values[lane];
            let passes = match mode {
                OFF => true,
                STRICT if others[lane / 64] >> (lane % 64) & 1 == 0 => {
                    let line = lines.get(self.adjacencies[lane] as usize);
                    line.is_some_and(|line| line.head().interface() == interface)
                }
                STRICT => self.is_via(value, interface),
                _ => others[lane / 64] >> (lane % 64) & 1 == 0 || self.has_path(value),
            };
            let (truncated, length) = K::TRUNCATED;
            let is_whole = vector.length[lane] >= length;
            if is_whole && (passes || self.sources[lane].is_exempt()) {
                continue;
            }
            if let Next::All(edge) = next {
                vector.next[..].fill(edge);
                next = Next::Lanes;
            }
            let strict = mode == STRICT;
            let reason = match strict {
                _ if !is_whole => truncated,
                true => Drop::ReversePathStrict,
                false => Drop::ReversePathLoose,
            };
            vector.next[lane] = reason.next();
        }
        next
    }

    /// Whether the route has an adjacency: it is neither local nor a blackhole.
    #[inline(always)]
    fn has_path(&self, value: u32) -> bool {
        matches!(self.shared.next_hops.resolve(value, 0), Resolved::Adjacency(_))
    }

    /// Whether a path of the route leaves by the interface.
    #[inline(always)]
    fn is_via(&self, value: u32, interface: u32) -> bool {
        let by = |adjacency| {
            let line = self.shared.adjacencies.get(adjacency);
            line.is_some_and(|line| line.head().interface() == interface)
        };
        if !self.shared.next_hops.is_group(value) {
            return match self.shared.next_hops.resolve(value, 0) {
                Resolved::Adjacency(adjacency) => by(adjacency),
                _ => false,
            };
        }
        self.shared.next_hops.adjacencies(value).any(by)
    }
}
