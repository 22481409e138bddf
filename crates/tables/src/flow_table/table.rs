//! The table itself, from which readers and owners come.

use core::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use super::FlowError;
use super::hash::Secret;
use super::memory::{FlowCapacity, Memory, OWNERS_MAX};
use super::owner::FlowOwner;
use super::reader::FlowReader;
use crate::aligned::Region;

/// A flow table; see the [module](super).
#[derive(Debug)]
pub struct FlowTable {
    memory: Arc<Memory>,
    owned: Box<[bool]>,
}

impl FlowTable {
    /// An empty table.
    ///
    /// # Errors
    ///
    /// [`FlowError::Capacity`].
    pub fn new(capacity: &FlowCapacity, secret: &Secret) -> Result<Self, FlowError> {
        let memory = Arc::new(Memory::new(capacity, secret)?);
        Ok(Self { memory, owned: vec![false; OWNERS_MAX].into() })
    }

    /// A reader.
    pub fn reader(&self) -> FlowReader {
        FlowReader::new(Arc::clone(&self.memory))
    }

    /// The owner with a number, which begins at tick `now`; `None`: somebody has it already.
    pub fn owner(&mut self, number: u8, now: u32) -> Option<FlowOwner> {
        let is_owned = &mut self.owned[usize::from(number)];
        if core::mem::replace(is_owned, true) {
            return None;
        }
        self.memory.owners.fetch_add(1, Relaxed);
        Some(FlowOwner::new(Arc::clone(&self.memory), number, now))
    }

    /// Flows of all owners.
    pub fn live(&self) -> u64 {
        self.memory.totals()[0]
    }

    /// Flows of all owners that are not assured: half open, or of one packet.
    pub fn evictable(&self) -> u64 {
        self.memory.totals()[1]
    }

    /// Bounds the flows that each source may have: an IPv4 address, or an IPv6 /64, in a VRF. Sources that share a
    /// counter by chance share the limit. `u32::MAX`, as at first: no limit. Flows beyond a lower limit stay.
    pub fn limit_sources(&self, flows: u32) {
        self.memory.sources.set_limit(flows);
    }

    /// The most flows of a source.
    pub fn source_limit(&self) -> u32 {
        self.memory.sources.limit()
    }

    /// Flows of all sources, by the counters of the limit. The same as [`Self::live`] while nobody creates or removes
    /// flows.
    pub fn counted_by_source(&self) -> u64 {
        self.memory.sources.counts().map(u64::from).sum()
    }

    /// Bytes of the table when it is full.
    pub fn bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// Lines, records, counters and addresses of flows, which a [`FormerTable`](super::FormerTable) reads in a later
    /// process. Each begins and ends at a multiple of a huge page and has nothing else on its pages.
    #[cfg(not(loom))]
    pub fn arrays(&self) -> [&[core::sync::atomic::AtomicU32]; 4] {
        self.memory.arrays()
    }

    /// The memory that look-ups read, for advice about huge pages.
    pub fn regions(&self) -> [Region; 5] {
        self.memory.regions()
    }
}
