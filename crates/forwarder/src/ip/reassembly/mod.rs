//! Reassembly of fragments for local addresses (RFC 791, RFC 815, RFC 8200 4.5). Each worker has a
//! table per family. A hash of addresses and identification selects the worker, so that all
//! fragments of a packet meet in one table.

pub mod context;
mod hash_index;
pub mod ip4_reassembly;
pub mod ip6_reassembly;
mod list;
mod node;
pub mod table;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use stoa_engine::pool::{FRAME_MAX, HEADROOM};
use stoa_engine::worker::WORKERS_MAX;
use stoa_engine::{Context, Packet, Vector, clock};

use crate::drops::Drop;
use crate::icmp::IcmpCause;
use crate::punt::Class;
use crate::shared::Shared;
use table::{Key, Table};

/// The reassembly timeout in seconds: the value of RFC 8200 4.5 for IPv6 and the lower end of the
/// range of RFC 1122 3.3.2 for IPv4. The table is bounded and evicts the oldest packets, so that a
/// shorter timeout has no benefit.
pub const TIMEOUT_S: u64 = 60;
/// The highest configurable number of packets in one table.
pub const CONTEXTS_MAX: u32 = 1024;

/// The configured limits and the current use; shared by all workers.
pub struct Limits {
    contexts: AtomicU32,
    per_source: AtomicU32,
    /// Packets in reassembly, by worker and family.
    in_use: Box<[AtomicU32]>,
    /// Evicted fragments, by family.
    evicted: [AtomicU64; 2],
    /// Skipped time in cycles, for tests.
    skipped: AtomicU64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            contexts: AtomicU32::new(Self::CONTEXTS),
            per_source: AtomicU32::new(Self::PER_SOURCE),
            in_use: (0..2 * WORKERS_MAX).map(|_| AtomicU32::new(0)).collect(),
            evicted: Default::default(),
            skipped: AtomicU64::new(0),
        }
    }
}

impl Limits {
    /// The default limit of packets in reassembly, per worker and family.
    pub const CONTEXTS: u32 = 256;
    /// The default limit of packets in reassembly from one source.
    pub const PER_SOURCE: u32 = 16;

    /// Changes the limits; 0 means the default. Takes effect with the next fragment.
    pub fn set(&self, contexts: u32, per_source: u32) {
        let or_default = |limit, default| if limit == 0 { default } else { limit };
        let contexts = or_default(contexts, Self::CONTEXTS).min(CONTEXTS_MAX);
        self.contexts.store(contexts, Ordering::Relaxed);
        self.per_source.store(or_default(per_source, Self::PER_SOURCE), Ordering::Relaxed);
    }

    /// The limits of packets in reassembly: in total, and from one source.
    pub fn get(&self) -> (usize, usize) {
        let read = |cell: &AtomicU32| cell.load(Ordering::Relaxed) as usize;
        (read(&self.contexts), read(&self.per_source))
    }

    /// Packets in reassembly on the worker with the most, and evicted fragments of all workers since
    /// the start; of IPv4 (`true`) or IPv6.
    pub fn used(&self, is_ip4: bool) -> (usize, u64) {
        let family = usize::from(!is_ip4);
        let in_use = self.in_use.iter().skip(family).step_by(2);
        let most = in_use.map(|in_use| in_use.load(Ordering::Relaxed)).max().unwrap_or(0);
        (most as usize, self.evicted[family].load(Ordering::Relaxed))
    }

    /// Advances the time of reassembly, for tests.
    pub fn skip(&self, ms: u64) {
        self.skipped.fetch_add(ms * clock::tsc_hz() / 1000, Ordering::Relaxed);
    }

    fn now(&self, now: u64) -> u64 {
        now + self.skipped.load(Ordering::Relaxed)
    }
}

/// One worker's fragments of one family.
struct WorkerTable {
    table: Table,
    is_ip4: bool,
}

impl WorkerTable {
    fn new(is_ip4: bool) -> Self {
        Self { table: Table::new(CONTEXTS_MAX as usize), is_ip4 }
    }

    /// The worker in whose table the fragments of a packet meet.
    fn owner(cx: &Context<'_>, hash: u64) -> usize {
        (hash >> 32) as usize % cx.workers()
    }

    /// Whether the policer admits a lane; otherwise it is dropped.
    fn admits(shared: &Shared, cx: &mut Context<'_>, vector: &mut Vector, lane: usize) -> bool {
        if !shared.policers.admit(cx, Class::Fragment, vector.rx_if[lane]) {
            vector.drop_lane(lane, Drop::FragmentLimited.reason());
            return false;
        }
        true
    }

    /// Counts the losses of the table and publishes its size.
    fn publish_counters(&mut self, cx: &Context<'_>, shared: &Shared) {
        let family = usize::from(!self.is_ip4);
        let limits = &shared.reassembly;
        for (reason, fragments) in self.table.take_losses() {
            if fragments > 0 {
                cx.lost(reason.reason(), fragments);
            }
            if reason == Drop::ReassemblyFull {
                limits.evicted[family].fetch_add(fragments, Ordering::Relaxed);
            }
        }
        if let Some(in_use) = limits.in_use.get(2 * cx.worker + family) {
            in_use.store(self.table.len() as u32, Ordering::Relaxed);
        }
    }

    /// Removes timed-out packets; sends an ICMP error if the first fragment was received (RFC 1122
    /// 3.3.2, RFC 8200 4.5).
    fn expire(&mut self, cx: &mut Context<'_>, shared: &Shared, error: u16) {
        let now = shared.reassembly.now(cx.now);
        let born = now.saturating_sub(TIMEOUT_S * clock::tsc_hz());
        let reason =
            if self.is_ip4 { Drop::Ip4ReassemblyTimeout } else { Drop::Ip6ReassemblyTimeout };
        while let Some(at) = self.table.older_than(born) {
            let context = self.table.context(at);
            let mut fragments = u64::from(context.fragments());
            if let Some((head, data)) = self.table.first_fragment(at)
                && let Some(mut first) = packet(cx, head.len() + data.len())
            {
                let bytes = first.bytes_mut();
                bytes[..head.len()].copy_from_slice(head);
                bytes[head.len()..].copy_from_slice(data);
                (first.rx_if, first.flags) = (context.rx_if, 0);
                first.arg = IcmpCause::Reassembly.code();
                // The error node counts this fragment.
                fragments -= u64::from(cx.emit(error, first).is_ok());
            }
            cx.lost(reason.reason(), fragments);
            self.table.remove(at);
        }
        self.publish_counters(cx, shared);
    }
}

/// A packet with `length` bytes of data, in a buffer that is large enough.
fn packet(cx: &mut Context<'_>, length: usize) -> Option<Packet> {
    let mut packet = if length <= FRAME_MAX { cx.packet() } else { cx.jumbo_packet() }?;
    packet.set_span(HEADROOM, length).then_some(packet)
}

/// A parsed fragment of either family.
pub struct FragmentView<'a> {
    /// The key of its packet.
    pub key: Key,
    /// The headers, including the fragment header.
    pub head: &'a [u8],
    /// The offset of the data in bytes.
    pub offset: usize,
    /// The more-fragments flag.
    pub more: bool,
    /// The data.
    pub data: &'a [u8],
    /// The receiving interface.
    pub rx_if: u32,
}
