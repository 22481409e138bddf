//! Translation of IPv6 prefixes (NPTv6, RFC 6296): pairs of an internal and an external prefix, and two nodes.
//!
//! Nothing is remembered about packets, and no checksum changes. `ip6-nptv6-input` gives packets from outside their
//! internal destination before access lists see them, and `ip6-nptv6-output` gives packets that leave their external
//! source behind all access lists: lists, zones, policies and flows know internal addresses alone.

mod errors;
mod input;
mod output;
pub mod pair;
mod rewrite;

pub use errors::restore;
pub use input::make_input;
pub use output::make_output;
pub use pair::{Pair, Prefix6, Traffic};

use stoa_engine::{Next, Vector};

use crate::icmp::IcmpCause;

/// Next nodes of packets besides those of the arc.
pub const EDGES: &[&str] = &["icmp6-error"];
const ERROR: u16 = 0;

/// The node that translates destinations.
pub const INPUT_NODE: &str = "ip6-nptv6-input";
/// The node that translates sources.
pub const OUTPUT_NODE: &str = "ip6-nptv6-output";

/// Refuses a lane with an address that has no counterpart: its sender gets an ICMPv6 error. `next`: where all lanes go
/// so far; returns where they go now.
#[cold]
fn refuse(vector: &mut Vector, (lane, cause): (usize, IcmpCause), next: Next) -> Next {
    if let Next::All(edge) = next {
        let lanes = vector.len();
        vector.next[..lanes].fill(edge);
    }
    (vector.arg[lane], vector.next[lane]) = (cause.code(), ERROR);
    Next::Lanes
}

const _: () = assert!(EDGES.len() == 1);

/// All pairs.
#[derive(Debug, Default)]
pub struct Nptv6 {
    /// By external interface, long prefixes first.
    outward: Vec<Pair>,
    /// By VRF, long prefixes first.
    inward: Vec<Pair>,
}

impl Nptv6 {
    /// Puts pairs in order.
    pub fn of(pairs: Vec<Pair>) -> Self {
        let (mut outward, mut inward) = (pairs.clone(), pairs);
        outward.sort_by_key(|it| (it.interface, u8::MAX - it.internal.length));
        inward.sort_by_key(|it| (it.vrf, u8::MAX - it.external.length));
        Self { outward, inward }
    }

    /// Those of an external interface.
    fn of_interface(&self, interface: u32) -> &[Pair] {
        part(&self.outward, interface, |it| it.interface)
    }

    /// Those whose external interface is in a VRF.
    fn of_vrf(&self, vrf: u32) -> &[Pair] {
        part(&self.inward, vrf, |it| it.vrf)
    }
}

/// The pairs that have a value; they are in the order of these values.
fn part(pairs: &[Pair], value: u32, of: impl Fn(&Pair) -> u32) -> &[Pair] {
    let first = pairs.partition_point(|it| of(it) < value);
    let rest = pairs.get(first..).unwrap_or(&[]);
    rest.get(..rest.partition_point(|it| of(it) == value)).unwrap_or(&[])
}

/// The pair of an internal address.
#[inline]
fn of_internal(pairs: &[Pair], address: u128) -> Option<&Pair> {
    pairs.iter().find(|it| it.internal.contains(address))
}

/// The pair of an external address.
#[inline]
fn of_external(pairs: &[Pair], address: u128) -> Option<&Pair> {
    pairs.iter().find(|it| it.external.contains(address))
}

/// Sums packets of one pair, which most packets of a vector have, before it counts them.
struct Tally<'a> {
    worker: usize,
    is_out: bool,
    pair: Option<&'a Pair>,
    packets: u64,
    bytes: u64,
}

impl<'a> Tally<'a> {
    fn new(worker: usize, is_out: bool) -> Self {
        Self { worker, is_out, pair: None, packets: 0, bytes: 0 }
    }

    #[inline]
    fn add(&mut self, pair: &'a Pair, length: u16) {
        if !self.pair.is_some_and(|it| std::ptr::eq(it, pair)) {
            self.count();
            self.pair = Some(pair);
        }
        (self.packets, self.bytes) = (self.packets + 1, self.bytes + u64::from(length));
    }

    /// Writes what was summed; whether there was a packet.
    fn count(&mut self) -> bool {
        let Some(pair) = self.pair else { return false };
        let (packets, bytes) = (std::mem::take(&mut self.packets), std::mem::take(&mut self.bytes));
        let Some(traffic) = pair.traffic.get(self.worker) else { return true };
        let (of_packets, of_bytes) = match self.is_out {
            true => (&traffic.out_packets, &traffic.out_bytes),
            false => (&traffic.in_packets, &traffic.in_bytes),
        };
        of_packets.0.add(packets);
        of_bytes.0.add(bytes);
        true
    }
}
