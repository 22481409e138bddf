//! `ip4-reverse-path` and `ip6-reverse-path`: unicast reverse path forwarding (uRPF: RFC 2827,
//! RFC 3704). The sources of all lanes are looked up together.

use std::sync::Arc;

use stoa_engine::arc::{ArcHook, FeatureArc};
use stoa_engine::gather::gather_32;
use stoa_engine::quiescence::Reader;
use stoa_engine::vector::{Column, LaneSet};
use stoa_engine::{Context, Next, Node, VECTOR, Vector};
use stoa_tables::lpm::Counted;
use stoa_tables::next_hop::Resolved;

use super::header_words;
use super::lookup::{Address, Lookup, SomeLanes};
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

    fn load(shared: &Shared, vector: &Vector, sources: &mut [Self; VECTOR]) {
        header_words::load_addresses::<8>(shared.kernel, vector, sources);
    }

    fn is_exempt(self) -> bool {
        false
    }
}

/// The lanes of interfaces that check sources, and those of them that do so strictly.
struct Checked {
    all: LaneSet,
    strict: LaneSet,
}

/// The mode of an interface.
#[inline(always)]
fn mode_of<K: Source>(shared: &Shared, interface: u32) -> u32 {
    K::mode(shared.attributes.flags_of(interface) >> REVERSE_PATH)
}

struct ReversePath<K> {
    shared: Arc<Shared>,
    hook: ArcHook,
    lookup: Box<Lookup>,
    some: Box<SomeLanes<K>>,
    sources: Box<[K; VECTOR]>,
    /// The mode of the interface of each lane, where they are several.
    modes: Column<u32>,
    values: Column<u32>,
    /// The adjacencies of the routes to the sources.
    adjacencies: Column<u32>,
}

impl<K: Source + Send> Node for ReversePath<K> {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let lanes = vector.len();
        K::load(&self.shared, vector, &mut self.sources);
        let suspicious = self.suspicious(cx.reader, vector);
        let arc = K::arc(&self.shared);
        let next = self.hook.proceed(arc, &vector.rx_if, lanes, &mut vector.next);
        if suspicious.is_empty() { next } else { self.drop_failed(vector, &suspicious, next) }
    }
}

impl<K: Source> ReversePath<K> {
    fn new(shared: &Arc<Shared>, hook: ArcHook) -> Self {
        Self {
            shared: shared.clone(),
            hook,
            lookup: Lookup::new(),
            some: SomeLanes::new(),
            sources: Box::new([K::default(); VECTOR]),
            modes: Column::of(0),
            values: Column::of(0),
            adjacencies: Column::of(0),
        }
    }

    /// The lanes that may fail the check of their interface.
    #[inline(always)]
    fn suspicious(&mut self, reader: &Reader, vector: &Vector) -> LaneSet {
        let lanes = vector.len();
        let Checked { all, strict } = self.look_up(reader, vector);
        let shared = &*self.shared;
        let kernel = shared.kernel.lookup();
        let (values, adjacencies) = (&self.values[..lanes], &mut self.adjacencies[..lanes]);
        // Most sources have one path; only others are resolved one by one.
        let mut suspicious =
            LaneSet::from(shared.next_hops.resolve_batch(kernel, values, adjacencies));
        if !strict.is_empty() {
            let interfaces = &vector.rx_if[..lanes];
            let elsewhere = shared.adjacencies.leave_elsewhere(kernel, adjacencies, interfaces);
            let mut elsewhere = LaneSet::from(elsewhere);
            elsewhere.retain(&strict);
            suspicious.insert_all(&elsewhere);
        }
        suspicious.retain(&all);
        // A packet without a whole header has this source, too.
        let none = K::default();
        if self.sources[..lanes].iter().fold(false, |any, source| any | (*source == none)) {
            let lanes = (0..lanes).filter(|lane| self.sources[*lane] == none);
            lanes.for_each(|lane| suspicious.insert(lane));
        }
        suspicious
    }

    /// Looks up all sources, each by the mode of its interface.
    #[inline(always)]
    fn look_up(&mut self, reader: &Reader, vector: &Vector) -> Checked {
        let lanes = vector.len();
        let shared = &*self.shared;
        let (keys, values) = (&self.sources[..lanes], &mut self.values[..lanes]);
        let routes = |is_loose| if is_loose { Counted::BeyondDefault } else { Counted::All };
        let mode = if let Some(interface) = vector.rx_if.uniform(lanes) {
            Some(mode_of::<K>(shared, interface))
        } else {
            gather_32(shared.attributes.flags(), &vector.rx_if, lanes, &mut self.modes);
            self.modes[..lanes].iter_mut().for_each(|mode| *mode = K::mode(*mode >> REVERSE_PATH));
            self.modes.uniform(lanes)
        };
        if let Some(mode) = mode {
            let interfaces = &vector.rx_if;
            self.lookup.run((shared, reader), interfaces, keys, values, routes(mode == LOOSE));
            let all_if = |is| LaneSet::first_of(if is { lanes } else { 0 });
            return Checked { all: all_if(mode != OFF), strict: all_if(mode == STRICT) };
        }
        let mut all = LaneSet::first_of(lanes);
        all.take_equal(&self.modes, OFF);
        let mut left = all.clone();
        let strict = left.take_equal(&self.modes, STRICT);
        let loose = left.take_equal(&self.modes, LOOSE);
        let tables = (shared, reader);
        let mut others = LaneSet::first_of(lanes);
        others.remove_all(&loose);
        for (some, is_loose) in [(&others, false), (&loose, true)] {
            self.some.run(&mut self.lookup, tables, vector, (some, keys, routes(is_loose)), values);
        }
        Checked { all, strict }
    }

    /// Drops those `suspicious` lanes whose sources fail the check of their interface; the others go
    /// where `next` says.
    #[inline(never)]
    fn drop_failed(&self, vector: &mut Vector, suspicious: &LaneSet, next: Next) -> Next {
        let mut next = next;
        let (truncated, length) = K::TRUNCATED;
        for lane in suspicious.iter() {
            let interface = vector.rx_if[lane];
            let mode = mode_of::<K>(&self.shared, interface);
            let passes = match mode {
                OFF => true,
                STRICT => is_via(&self.shared, self.values[lane], interface),
                _ => self.has_path(self.values[lane]),
            };
            let is_whole = vector.length[lane] >= length;
            if is_whole && (passes || self.sources[lane].is_exempt()) {
                continue;
            }
            if let Next::All(edge) = next {
                vector.next[..].fill(edge);
                next = Next::Lanes;
            }
            let reason = match mode {
                _ if !is_whole => truncated,
                STRICT => Drop::ReversePathStrict,
                _ => Drop::ReversePathLoose,
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
}

/// Whether a path of the route leaves by the interface.
#[inline(always)]
pub(crate) fn is_via(shared: &Shared, value: u32, interface: u32) -> bool {
    let by = |adjacency| {
        let line = shared.adjacencies.get(adjacency);
        line.is_some_and(|line| line.head().interface() == interface)
    };
    if !shared.next_hops.is_group(value) {
        return match shared.next_hops.resolve(value, 0) {
            Resolved::Adjacency(adjacency) => by(adjacency),
            _ => false,
        };
    }
    shared.next_hops.adjacencies(value).any(by)
}
