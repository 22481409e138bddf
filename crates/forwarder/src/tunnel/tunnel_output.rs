//! `tunnel-output`: encapsulates packets that are routed to a tunnel; the outer packets go to the
//! lookup, all lanes together, or first through the features of what the router itself sends (decision 60).

use std::sync::Arc;

use stoa_engine::counters::WorkerCounters;
use stoa_engine::vector::{Column, prefetch};
use stoa_engine::{Context, Next, Node, VECTOR, Vector};

use super::encapsulate::Outer;
use super::line::may_fragment;
use crate::arcs::ROUTER;
use crate::ip::header_words;
use crate::shared::Shared;

/// The next nodes of outer packets.
pub const OUTER_EDGES: &[&str] = &["ip4-lookup", "ip6-lookup", "ip4-origin", "ip6-origin"];
/// The next nodes: those of outer packets, and the one for tunnels with ESP.
pub const EDGES: &[&str] = &["ip4-lookup", "ip6-lookup", "ip4-origin", "ip6-origin", "esp-encrypt"];
const ESP: u16 = 4;
/// How far the last two are behind the first two.
const ORIGIN: u16 = 2;

/// Lanes whose tunnels and counters are prefetched together.
const STEP: usize = 8;
/// Number of lanes to prefetch ahead: three lines for each. Those of a whole vector would evict its
/// packets from the first-level cache.
const AHEAD: usize = 16;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    let words = Box::new([[0; VECTOR]; 2]);
    let (index, is_esp) = (Column::of(0), Box::new([false; VECTOR]));
    Box::new(TunnelOutput { shared: shared.clone(), index, is_esp, words })
}

struct TunnelOutput {
    shared: Arc<Shared>,
    /// The tunnel of each lane.
    index: Column<u32>,
    /// Whether the tunnel of each lane has an outbound security association.
    is_esp: Box<[bool; VECTOR]>,
    /// The first two words of each inner packet.
    words: Box<[[u32; VECTOR]; 2]>,
}

impl Node for TunnelOutput {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let ipsec = &self.shared.ipsec;
        if !ipsec.has_tunnels() {
            return self.encapsulate(cx, vector);
        }
        let lanes = vector.len();
        match ipsec.find(&vector.tx_if, lanes, &mut self.is_esp) {
            0 => self.encapsulate(cx, vector),
            found if found == lanes => Next::All(ESP),
            _ => {
                let next = self.encapsulate(cx, vector);
                to_esp(vector, next, &self.is_esp)
            }
        }
    }
}

impl TunnelOutput {
    /// Encapsulates all packets whose tunnel has no ESP. Those of others stay as they are.
    #[inline(always)]
    fn encapsulate(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let Self { shared, index, words, .. } = self;
        let (tunnels, counters, lanes) =
            (shared.tunnels.read(cx.reader), cx.counters, vector.len());
        // The outer packets are other flows.
        vector.forget_flow();
        tunnels.find(&vector.tx_if, lanes, index);
        let one = vector.tx_if.uniform(lanes).zip(vector.adjacency.uniform(lanes));
        let [first, second] = &mut **words;
        header_words::load(shared.kernel, vector, [0, 4], [&mut *first, &mut *second]);
        let number = reserve(shared, [&first[..lanes], &second[..lanes]]);
        let (lines, seed) = (tunnels.lines(), shared.seeds.paths());
        let outer = Outer { lines, index, words: [first, second], number, seed };
        let next = match one {
            Some(by) => {
                let mut sums = (0, 0);
                let next = outer.encapsulate(
                    shared.kernel,
                    vector,
                    |_, _| {},
                    |_, _, length| {
                        sums.0 += 1;
                        sums.1 += u64::from(length);
                    },
                );
                count(counters, by, sums);
                next
            }
            None => {
                let prefetched = Prefetched { outer: &outer, counters };
                (0..AHEAD).for_each(|lane| prefetched.lane(vector, lane));
                let ahead = |vector: &Vector, lane: usize| {
                    if lane.is_multiple_of(STEP) {
                        let lanes = lane + AHEAD..lane + AHEAD + STEP;
                        lanes.for_each(|lane| prefetched.lane(vector, lane));
                    }
                };
                outer.encapsulate(shared.kernel, vector, ahead, |vector, lane, length| {
                    let by = (vector.tx_if[lane], vector.adjacency[lane]);
                    count(counters, by, (1, length.into()));
                })
            }
        };
        let arcs = &shared.arcs;
        let has_features = [arcs.ip4_origin.has_any(ROUTER), arcs.ip6_origin.has_any(ROUTER)];
        if has_features == [false; 2] { next } else { to_origin(vector, next, has_features) }
    }
}

/// Sends packets of tunnels with ESP to its node.
#[inline(never)]
fn to_esp(vector: &mut Vector, next: Next, is_esp: &[bool; VECTOR]) -> Next {
    let lanes = vector.len();
    if let Next::All(edge) = next {
        vector.next[..lanes].fill(edge);
    }
    for (next, _) in vector.next[..lanes].iter_mut().zip(is_esp).filter(|(_, is)| **is) {
        *next = ESP;
    }
    Next::Lanes
}

/// Sends outer packets through the features of their family, where there are any.
#[cold]
#[inline(never)]
pub(crate) fn to_origin(vector: &mut Vector, next: Next, has_features: [bool; 2]) -> Next {
    let lanes = vector.len();
    if let Next::All(edge) = next {
        vector.next[..lanes].fill(edge);
    }
    for next in &mut vector.next[..lanes] {
        if has_features.get(usize::from(*next)) == Some(&true) {
            *next += ORIGIN;
        }
    }
    Next::Lanes
}

/// Counts packets and bytes sent by an interface and an adjacency.
#[inline(always)]
pub(crate) fn count(counters: &WorkerCounters, by: (u32, u32), (packets, bytes): (u64, u64)) {
    if let Some(counters) = counters.interfaces.get(by.0 as usize) {
        counters.tx_packets.add(packets);
        counters.tx_bytes.add(bytes);
    }
    if let Some(counters) = counters.adjacencies.get(by.1 as usize) {
        counters.packets.add(packets);
        counters.bytes.add(bytes);
    }
}

/// The first of as many numbers of identifications as there are packets that can be fragmented, by
/// their first two words.
#[inline(always)]
fn reserve(shared: &Shared, [first, second]: [&[u32]; 2]) -> u16 {
    let words = first.iter().zip(second);
    let fragmentable: u32 =
        words.map(|(first, second)| u32::from(may_fragment([*first, *second]))).sum();
    if fragmentable == 0 { 0 } else { shared.identifications.reserve(fragmentable.into()) }
}

/// What lanes of several tunnels need.
struct Prefetched<'a> {
    outer: &'a Outer<'a>,
    counters: &'a WorkerCounters,
}

impl Prefetched<'_> {
    /// Prefetches the tunnel and the counters of a lane, in use or not.
    #[inline(always)]
    fn lane(&self, vector: &Vector, lane: usize) {
        let lane = lane % VECTOR;
        let [line, interface, adjacency] =
            [self.outer.index, &vector.tx_if, &vector.adjacency].map(|it| it[lane] as usize);
        let WorkerCounters { interfaces, adjacencies, .. } = self.counters;
        // An address that is out of range is not read.
        prefetch(self.outer.lines.as_ptr().wrapping_add(line).cast());
        prefetch(interfaces.as_ptr().wrapping_add(interface).cast());
        prefetch(adjacencies.as_ptr().wrapping_add(adjacency).cast());
    }
}
