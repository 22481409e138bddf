//! Dynamic mappings of endpoint-independent translation (RFC 4787 section 4.1): an internal address and port keeps its
//! external ones for all of its flows. And, for address-dependent filtering, to which hosts a mapping has flows.
//!
//! A mapping is an entry of a flow table of its own: its first key is the internal end, towards the number of its
//! policy, and its second key the external end, which is thus unique. It counts its flows, and ends some time after the
//! last one. All workers use a mapping; the worker that has made it ends it.

mod leases;
mod owner;
mod peers;

pub use leases::{Ending, Lease};
pub use owner::MappingOwner;
pub use peers::{Peers, RemotePeer, RemotePeers};

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use stoa_engine::heap;
use stoa_tables::flow_hash::Flow;
use stoa_tables::flow_table::{
    FlowCapacity, FlowEntry, FlowError, FlowKey, FlowReader, FlowTable, Secret, Tuple,
};

use super::blocks::Blocks;
use super::quotas::{QUOTA, Quotas};

/// In place of the number of flows, plus one: the mapping does not count yet, or not any more. So memory is touched
/// only when it is used.
const OVER: u32 = 0;
/// In place of the number of flows, plus one: none.
const UNUSED: u32 = 1;
/// Bits of the word of a mapping that count; the others are those of [`leases`].
const COUNT: u32 = (1 << 29) - 1;
/// Hosts for each mapping for which there is room, on average.
const HOSTS: u32 = 2;

/// An address and port with their protocol and VRF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Address.
    pub address: u32,
    /// Port, or ICMP identifier.
    pub port: u16,
    /// Protocol.
    pub protocol: u8,
    /// VRF, as in keys of flows.
    pub vrf: u16,
}

impl End {
    /// The key of packets from this end to an address.
    fn towards(self, destination: u32) -> FlowKey {
        let Self { address: source, port: source_port, protocol, vrf } = self;
        let flow = Flow { source, destination, source_port, destination_port: 0, protocol };
        FlowKey::ip4(flow, vrf)
    }

    /// The key of packets from nobody to this end.
    fn of_nobody(self) -> FlowKey {
        let Self { address, port, protocol, vrf } = self;
        let (source, destination, source_port, destination_port) = (0, address, 0, port);
        FlowKey::ip4(Flow { source, destination, source_port, destination_port, protocol }, vrf)
    }
}

/// A mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its number.
    pub id: u32,
    /// The number of its policy.
    pub policy: u32,
    /// The internal end.
    pub internal: End,
    /// The external end.
    pub external: End,
    /// Its flows.
    pub flows: u32,
    /// The tick at which it began.
    pub start: u32,
}

/// The mappings of all workers.
pub struct Mappings {
    table: Mutex<FlowTable>,
    reader: FlowReader,
    counts: Box<[AtomicU32]>,
    capacity: u32,
    /// How many there are, and how often one found no room.
    live: AtomicU32,
    refused: AtomicU64,
    blocks: Blocks,
    quotas: Quotas,
    ended_leases: leases::Ended,
}

impl Mappings {
    /// Room for so many mappings. `quotas`: what counts subscribers of policies with quotas.
    ///
    /// # Errors
    /// The system has no address space.
    pub fn new(capacity: u32, quotas: Quotas, secret: &Secret) -> Result<Self, FlowError> {
        let hosts = capacity.saturating_mul(HOSTS);
        let capacities =
            FlowCapacity { ip4: hosts, translated_ip4: capacity, ..FlowCapacity::default() };
        let table = FlowTable::new(&capacities, secret)?;
        table.regions().into_iter().for_each(|it| heap::expect_huge_pages(it.start, it.bytes));
        let counts = (0..hosts + capacity).map(|_| AtomicU32::new(OVER)).collect();
        let reader = table.reader();
        let (live, refused, blocks, ended_leases) = Default::default();
        let table = Mutex::new(table);
        Ok(Self { table, reader, counts, capacity, live, refused, blocks, quotas, ended_leases })
    }

    /// How many fit.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// How many hosts of mappings fit, for address-dependent filtering.
    pub fn hosts(&self) -> u32 {
        self.counts.len() as u32 - self.capacity
    }

    /// How many there are.
    pub fn live(&self) -> u32 {
        self.live.load(Ordering::Relaxed)
    }

    /// How often one found no room.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// The blocks of ports.
    #[inline(always)]
    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// What subscribers use of policies with quotas and without blocks.
    pub fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// Gives back a hold of a block of ports or of a quota.
    pub fn give_back(&self, hold: u32, protocol: u8, now: u32) {
        match hold & QUOTA {
            0 => self.blocks.release(hold, protocol, now),
            _ => self.quotas.release(hold, protocol),
        }
    }

    /// The part of a worker; `None`: somebody has it already.
    pub fn owner(&self, worker: usize, now: u32) -> Option<MappingOwner> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let owner = table.owner(u8::try_from(worker).ok()?, now)?;
        Some(MappingOwner::new(owner, now))
    }

    fn count(&self, id: u32) -> Option<&AtomicU32> {
        self.counts.get(id as usize)
    }

    fn mapping(&self, entry: &FlowEntry<'_>) -> Option<Mapping> {
        let (Tuple::Ip4(first), Tuple::Ip4(second)) = (entry.key().tuple, entry.reply_key().tuple)
        else {
            return None;
        };
        let word = self.count(entry.id())?.load(Ordering::Relaxed);
        let flows = (word & COUNT).checked_sub(UNUSED)?;
        if !entry.has_second() || !entry.is_live() {
            return None;
        }
        let (protocol, address) = (first.protocol, first.source);
        let (port, vrf) = (first.source_port, entry.key().vrf);
        let internal = End { address, port, protocol, vrf };
        let (address, port) = (second.destination, second.destination_port);
        let external = End { address, port, protocol, vrf: entry.reply_key().vrf };
        let (id, policy, start) = (entry.id(), first.destination, entry.start());
        Some(Mapping { id, policy, internal, external, flows, start })
    }

    fn find(&self, key: &FlowKey) -> Option<Mapping> {
        self.mapping(&self.reader.entry(self.reader.find(key).id()?))
    }

    /// The mapping of an internal end by a policy.
    pub fn of_internal(&self, internal: End, policy: u32) -> Option<Mapping> {
        self.find(&internal.towards(policy))
    }

    /// The mapping with an external end.
    pub fn of_external(&self, external: End) -> Option<Mapping> {
        self.find(&external.of_nobody())
    }

    /// Whether a mapping has a flow to a host.
    pub fn reaches(&self, external: End, host: u32) -> bool {
        let id = self.reader.find(&external.towards(host)).id();
        let count = id.and_then(|id| self.count(id)).map(|count| count.load(Ordering::Relaxed));
        count.is_some_and(|word| word & COUNT > UNUSED)
    }

    /// Counts one more flow; `false`: the mapping has ended.
    pub fn hold(&self, id: u32) -> bool {
        let more = |word: u32| (word & COUNT != OVER && word & COUNT < COUNT).then(|| word + 1);
        let Some(count) = self.count(id) else { return false };
        count.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more).is_ok()
    }

    /// A flow has ended, or was not created.
    pub fn release(&self, id: u32) {
        let less = |word: u32| (word & COUNT > UNUSED).then(|| word - 1);
        if let Some(count) = self.count(id) {
            let _ = count.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less);
        }
    }

    /// Has a mapping without flows and without a lease take no more flows; whether it had none.
    fn end(&self, id: u32) -> bool {
        let unused_to_over = |word: u32| (leases::without_ended(word) == UNUSED).then_some(OVER);
        self.count(id).is_some_and(|count| {
            count.fetch_update(Ordering::AcqRel, Ordering::Relaxed, unused_to_over).is_ok()
        })
    }

    /// The same for the flow of an external end to a host.
    pub fn release_host(&self, external: End, host: u32) {
        if let Some(id) = self.reader.find(&external.towards(host)).id() {
            self.release(id);
        }
    }

    /// Mappings with these numbers, of whichever worker.
    pub fn listed(&self, ids: std::ops::Range<u32>) -> impl Iterator<Item = Mapping> {
        let (hosts, end) = (self.hosts(), self.counts.len() as u32);
        let ids = ids.start.saturating_add(hosts).min(end)..ids.end.saturating_add(hosts).min(end);
        ids.filter_map(|id| self.mapping(&self.reader.entry(id)))
    }
}

#[cfg(test)]
mod tests;
