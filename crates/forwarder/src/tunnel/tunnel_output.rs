//! `tunnel-output`: encapsulates packets that are routed to a tunnel; the outer packets go to the
//! lookup, all lanes together.

use std::sync::Arc;

use stoa_engine::counters::WorkerCounters;
use stoa_engine::vector::{Column, flags, prefetch};
use stoa_engine::{Context, Next, Node, VECTOR, Vector};

use super::line::Inner;
use super::table::Tunnels;
use crate::drops::Drop;
use crate::shared::Shared;

/// The next nodes of outer packets.
pub const EDGES: &[&str] = &["ip4-lookup", "ip6-lookup"];
const LOOKUP4: u16 = 0;
const LOOKUP6: u16 = 1;

/// Number of lanes to prefetch ahead: three lines for each. Those of a whole vector would evict its
/// packets from the first-level cache.
const AHEAD: usize = 16;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    let none = Inner { class: 0, is_ip4: false, dont_fragment: true, length: 0 };
    Box::new(TunnelOutput { shared: shared.clone(), lines: Column::of(0), inner: Column::of(none) })
}

struct TunnelOutput {
    shared: Arc<Shared>,
    /// The tunnel of each lane.
    lines: Column<u32>,
    inner: Column<Inner>,
}

impl Node for TunnelOutput {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let Self { shared, lines, inner } = self;
        let (tunnels, counters, lanes) =
            (shared.tunnels.read(cx.reader), cx.counters, vector.len());
        tunnels.find(&vector.tx_if, lanes, lines);
        let one = vector.tx_if.uniform(lanes).zip(vector.adjacency.uniform(lanes));
        let number = read(shared, vector, inner);
        let lines = Lines { tunnels, lines, inner, number };
        match one {
            Some(by) => {
                let mut sums = (0, 0);
                let counted = |_: (u32, u32), length: u16| {
                    sums.0 += 1;
                    sums.1 += u64::from(length);
                };
                let next = lines.encapsulate(vector, |_, _| {}, counted);
                count(counters, by, sums);
                next
            }
            None => {
                let ahead = |vector: &Vector, lane| lines.prefetch(counters, vector, lane);
                (0..AHEAD).for_each(|lane| ahead(vector, lane));
                lines.encapsulate(vector, ahead, |by, length| {
                    count(counters, by, (1, length.into()));
                })
            }
        }
    }
}

/// Counts packets and bytes sent by an interface and an adjacency.
#[inline(always)]
fn count(counters: &WorkerCounters, by: (u32, u32), (packets, bytes): (u64, u64)) {
    if let Some(counters) = counters.interfaces.get(by.0 as usize) {
        counters.tx_packets.add(packets);
        counters.tx_bytes.add(bytes);
    }
    if let Some(counters) = counters.adjacencies.get(by.1 as usize) {
        counters.packets.add(packets);
        counters.bytes.add(bytes);
    }
}

/// Reads the inner headers of all lanes. Returns the first of as many numbers of identifications as
/// there are packets that can be fragmented.
#[inline(always)]
fn read(shared: &Shared, vector: &Vector, inner: &mut Column<Inner>) -> u16 {
    let mut fragmentable = 0;
    for (lane, inner) in inner.iter_mut().enumerate().take(vector.len()) {
        *inner = Inner::of(vector.bytes(lane));
        fragmentable += u64::from(!inner.dont_fragment);
    }
    if fragmentable == 0 { 0 } else { shared.identifications.reserve(fragmentable) }
}

/// What the lanes get.
struct Lines<'a> {
    tunnels: &'a Tunnels,
    lines: &'a Column<u32>,
    inner: &'a Column<Inner>,
    /// Of the first identification.
    number: u16,
}

impl Lines<'_> {
    /// Prefetches the tunnel and the counters of a lane, in use or not.
    #[inline(always)]
    fn prefetch(&self, counters: &WorkerCounters, vector: &Vector, lane: usize) {
        let lane = lane % VECTOR;
        prefetch(std::ptr::from_ref(self.tunnels.line(self.lines[lane])).cast());
        if let Some(counters) = counters.interfaces.get(vector.tx_if[lane] as usize) {
            prefetch(std::ptr::from_ref(counters).cast());
        }
        if let Some(counters) = counters.adjacencies.get(vector.adjacency[lane] as usize) {
            prefetch(std::ptr::from_ref(counters).cast());
        }
    }

    /// Adds the outer headers to all lanes; `counted` counts interface and adjacency, and the bytes
    /// of a packet. `ahead` is called for the lane [`AHEAD`] lanes before it is its turn.
    #[inline(always)]
    fn encapsulate(
        &self,
        vector: &mut Vector,
        ahead: impl Fn(&Vector, usize),
        mut counted: impl FnMut((u32, u32), u16),
    ) -> Next {
        let (mut any, mut all, mut number) = (0, u16::MAX, self.number);
        for lane in 0..vector.len() {
            ahead(vector, lane + AHEAD);
            let (inner, interface) = (self.inner[lane], vector.tx_if[lane]);
            let line = self.tunnels.line(self.lines[lane]);
            let next = if !line.is_of(interface) {
                Drop::TunnelDeleted.next()
            } else if vector.flags[lane] & flags::TUNNELS == flags::TUNNELS {
                Drop::TunnelLoop.next()
            } else if !line.encapsulate(vector, lane, (inner, number)) {
                Drop::TunnelHeadroom.next()
            } else {
                counted((interface, vector.adjacency[lane]), inner.length);
                if line.is_ip4() { LOOKUP4 } else { LOOKUP6 }
            };
            number = number.wrapping_add(u16::from(!inner.dont_fragment));
            vector.next[lane] = next;
            any |= next;
            all &= next;
        }
        if any == all && any <= LOOKUP6 { Next::All(any) } else { Next::Lanes }
    }
}
