//! Counters: plain memory that one worker writes and any thread reads.

use std::sync::atomic::{AtomicU64, Ordering};

use zerocopy::FromZeros;

use crate::INTERFACES;
use crate::vector::flags;

/// A counter with a single writer: an increment is a load, an add and a store,
/// without a locked instruction.
#[derive(Default, FromZeros)]
#[repr(transparent)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`; only the worker that owns the counter may call this.
    #[inline(always)]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Replaces the value; only the owner may call this.
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// The value now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters of a node on one worker.
#[derive(Default, FromZeros)]
#[repr(C, align(64))]
pub struct NodeCounters {
    /// Times that the node ran.
    pub calls: Counter,
    /// Packets that it saw.
    pub packets: Counter,
    /// Cycles that it took, dispatch and polls included.
    pub cycles: Counter,
}

/// Counters of an interface on one worker.
#[derive(Default, FromZeros)]
#[repr(C, align(64))]
pub struct InterfaceCounters {
    /// Packets received.
    pub rx_packets: Counter,
    /// Bytes received, without FCS.
    pub rx_bytes: Counter,
    /// Packets sent.
    pub tx_packets: Counter,
    /// Bytes sent, without FCS.
    pub tx_bytes: Counter,
    /// Packets dropped after this interface received them.
    pub rx_drops: Counter,
    /// Packets that its port did not take.
    pub tx_drops: Counter,
}

/// Packets and bytes through one adjacency on one worker.
#[derive(Default, FromZeros)]
#[repr(C, align(16))]
pub struct AdjacencyCounters {
    /// Packets.
    pub packets: Counter,
    /// Bytes of the IP packets.
    pub bytes: Counter,
}

/// The packet accounting of one worker: `received + generated = sent + consumed + dropped + held`.
#[derive(Default, FromZeros)]
#[repr(C, align(64))]
pub struct Ledger {
    /// Packets received from ports.
    pub received: Counter,
    /// Packets that entered the graph from us (emitted or injected).
    pub generated: Counter,
    /// Packets that ports took.
    pub sent: Counter,
    /// Packets that left the graph to us (punted or kept).
    pub consumed: Counter,
    /// Packets handed to another worker.
    pub handed_out: Counter,
    /// Packets received from another worker.
    pub handed_in: Counter,
    /// Packets received from another NUMA node, from workers or the control thread: each was copied.
    pub cross_node: Counter,
}

/// Counters of one worker's main loop.
#[derive(Default, FromZeros)]
#[repr(C, align(64))]
pub struct LoopCounters {
    /// Iterations of the main loop.
    pub iterations: Counter,
    /// Iterations with packets.
    pub busy_iterations: Counter,
    /// Cycles of iterations with packets.
    pub busy_cycles: Counter,
    /// Times that the worker slept.
    pub sleeps: Counter,
    /// Packets from other workers that wait in the worker's rings, counted at the end of its
    /// last busy iteration: 0 at rest.
    pub waiting: Counter,
    /// Buffers in the worker's own cache.
    pub cached: Counter,
    /// Times that no plain buffer was free.
    pub exhausted: Counter,
    /// Times that no jumbo buffer was free.
    pub jumbo_exhausted: Counter,
    /// Packets that found the urgent ring to the control thread full.
    pub urgent_full: Counter,
}

/// All counters of one worker.
pub struct WorkerCounters {
    /// By node.
    pub nodes: Box<[NodeCounters]>,
    /// By drop reason.
    pub drops: Box<[Counter]>,
    /// By interface.
    pub interfaces: Box<[InterfaceCounters]>,
    /// By adjacency.
    pub adjacencies: Box<[AdjacencyCounters]>,
    /// The packet accounting.
    pub ledger: Ledger,
    /// The main loop.
    pub main_loop: LoopCounters,
}

/// The system refused memory for an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no memory of {bytes} bytes: configure fewer workers or lower limits")]
pub struct OutOfMemory {
    /// What was needed.
    pub bytes: usize,
}

/// So many zeroed values. Large blocks are mapped lazily: entries that nobody writes cost nothing, so
/// arrays by interface cost what is used of them.
pub fn zeroed<T: FromZeros>(count: usize) -> Result<Box<[T]>, OutOfMemory> {
    match T::new_vec_zeroed(count) {
        Ok(values) => Ok(values.into_boxed_slice()),
        Err(_) => Err(OutOfMemory { bytes: count.saturating_mul(size_of::<T>()) }),
    }
}

impl WorkerCounters {
    /// Counters for so many nodes, drop reasons and adjacencies.
    pub fn new(nodes: usize, drops: usize, adjacencies: usize) -> Result<Self, OutOfMemory> {
        Ok(Self {
            nodes: zeroed(nodes)?,
            drops: zeroed(drops)?,
            interfaces: zeroed(INTERFACES)?,
            adjacencies: zeroed(adjacencies)?,
            ledger: Ledger::default(),
            main_loop: LoopCounters::default(),
        })
    }

    /// Counts the drop of a packet with these flags at the interface that received it, unless it is an
    /// own packet or a copy.
    pub(crate) fn blame(&self, flags: u16, rx_if: u32) {
        if flags & (flags::OWN | flags::COPY) == 0
            && let Some(interface) = self.interfaces.get(rx_if as usize)
        {
            interface.rx_drops.add(1);
        }
    }

    /// Packets dropped for any reason.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().map(Counter::get).sum()
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn memory_that_the_system_refuses_is_an_error() {
        // More than an address space, and more than a number of bytes can be.
        for count in [1 << 50, usize::MAX] {
            let bytes = count.saturating_mul(size_of::<Counter>());
            assert_eq!(zeroed::<Counter>(count).err(), Some(OutOfMemory { bytes }));
        }
        assert!(WorkerCounters::new(1, 1, 1 << 50).is_err());
        let some = zeroed::<Counter>(3).unwrap();
        assert!(some.len() == 3 && some.iter().all(|counter| counter.get() == 0));
    }
}
