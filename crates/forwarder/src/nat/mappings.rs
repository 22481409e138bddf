//! Dynamic mappings of endpoint-independent translation (RFC 4787 section 4.1): an internal address and port keeps its
//! external ones for all of its flows. And, for address-dependent filtering, to which hosts a mapping has flows.
//!
//! A mapping is an entry of a flow table of its own: its first key is the internal end, towards the number of its
//! policy, and its second key the external end, which is thus unique. It counts its flows, and ends some time after the
//! last one. All workers use a mapping; the worker that has made it ends it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use stoa_engine::quiescence::Quiescence;
use stoa_tables::Reclaim;
use stoa_tables::flow_hash::Flow;
use stoa_tables::flow_table::{
    Created, FlowCapacity, FlowEntry, FlowError, FlowKey, FlowOwner, FlowReader, FlowTable,
    NewFlow, Secret, Tuple,
};

use super::blocks::Blocks;
use super::quotas::{QUOTA, Quotas};

/// The spare word of a mapping that has the number of its block or of its quota, plus one.
const BLOCK: usize = 0;

/// In place of the number of flows, plus one: the mapping does not count yet, or not any more. So memory is touched
/// only when it is used.
const OVER: u32 = 0;
/// In place of the number of flows, plus one: none.
const UNUSED: u32 = 1;
/// Hosts for each mapping for which there is room, on average.
const HOSTS: u32 = 2;
/// Mappings that one call looks at whose time has come; none has a timeout.
const FINISHED: usize = 256;
const NEVER: [u32; 256] = [u32::MAX; 256];
/// Seconds that a mapping stays without flows: of TCP the port is not used again before the other end's TIME-WAIT ends
/// with its flow, so that little is needed.
const LINGER_S: u32 = 4;

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
        let counts = (0..hosts + capacity).map(|_| AtomicU32::new(OVER)).collect();
        let reader = table.reader();
        let (live, refused, blocks) = Default::default();
        let table = Mutex::new(table);
        Ok(Self { table, reader, counts, capacity, live, refused, blocks, quotas })
    }

    /// How many fit.
    pub fn capacity(&self) -> u32 {
        self.capacity
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
        Some(MappingOwner { owner, at: 0, last: now, is_dirty: false })
    }

    fn count(&self, id: u32) -> Option<&AtomicU32> {
        self.counts.get(id as usize)
    }

    fn mapping(&self, entry: &FlowEntry<'_>) -> Option<Mapping> {
        let (Tuple::Ip4(first), Tuple::Ip4(second)) = (entry.key().tuple, entry.reply_key().tuple)
        else {
            return None;
        };
        let flows = self.count(entry.id())?.load(Ordering::Relaxed).checked_sub(UNUSED)?;
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
        count.is_some_and(|count| count > UNUSED)
    }

    /// Counts one more flow; `false`: the mapping has ended.
    pub fn hold(&self, id: u32) -> bool {
        let more = |count: u32| if count == OVER { None } else { count.checked_add(1) };
        let Some(count) = self.count(id) else { return false };
        count.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more).is_ok()
    }

    /// A flow has ended, or was not created.
    pub fn release(&self, id: u32) {
        let less = |count: u32| (count > UNUSED).then(|| count - 1);
        if let Some(count) = self.count(id) {
            let _ = count.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less);
        }
    }

    /// Has a mapping without flows take no more of them; whether it had none.
    fn end(&self, id: u32) -> bool {
        let unused_to_over = |count: &AtomicU32| {
            count.compare_exchange(UNUSED, OVER, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        self.count(id).is_some_and(unused_to_over)
    }

    /// The same for the flow of an external end to a host.
    pub fn release_host(&self, external: End, host: u32) {
        if let Some(id) = self.reader.find(&external.towards(host)).id() {
            self.release(id);
        }
    }

    /// Mappings with these numbers, of whichever worker.
    pub fn listed(&self, ids: std::ops::Range<u32>) -> impl Iterator<Item = Mapping> {
        let (hosts, end) = (self.counts.len() as u32 - self.capacity, self.counts.len() as u32);
        let ids = ids.start.saturating_add(hosts).min(end)..ids.end.saturating_add(hosts).min(end);
        ids.filter_map(|id| self.mapping(&self.reader.entry(id)))
    }
}

/// The mappings that a worker has made.
pub struct MappingOwner {
    owner: FlowOwner,
    /// Where the next look begins, and when the last one was complete.
    at: u32,
    last: u32,
    /// Whether there may be ids that wait for a grace period.
    is_dirty: bool,
}

impl MappingOwner {
    /// Makes a mapping with one flow, of a policy with this number. It has a use of the block, if there is one, until
    /// it ends.
    ///
    /// # Errors
    /// [`FlowError::ReplyKeyTaken`]: another mapping has the external end. Others: there is no room, or another worker
    /// makes the same one at this moment.
    pub fn create(
        &mut self,
        all: &Mappings,
        (internal, external): (End, End),
        (policy, block): (u32, Option<u32>),
        now: u32,
    ) -> Result<u32, FlowError> {
        let (key, reply) = (internal.towards(policy), Some(external.of_nobody()));
        let made = self.insert(all, &NewFlow::new(key, reply), now);
        if matches!(made, Err(FlowError::Full { .. })) {
            all.refused.fetch_add(1, Ordering::Relaxed);
        }
        let id = made?;
        all.live.fetch_add(1, Ordering::Relaxed);
        // Only this worker ends it, and reads this.
        self.owner.entry(id).set_spare(BLOCK, block.map_or(0, |it| it + 1));
        Ok(id)
    }

    /// Removes a mapping that has ended, and gives back its block.
    fn remove(&mut self, all: &Mappings, id: u32, now: u32) {
        let entry = all.reader.entry(id);
        let block = entry.spare(BLOCK).unwrap_or(0).checked_sub(1);
        let is_host = !entry.has_second();
        let protocol = match entry.key().tuple {
            Tuple::Ip4(it) => it.protocol,
            Tuple::Ip6(_) => 0,
        };
        // One whose bucket another worker holds stays until the next look.
        if self.owner.remove(id).is_ok() {
            self.is_dirty = true;
            all.live.fetch_sub(u32::from(!is_host), Ordering::Relaxed);
            if let Some(block) = block {
                all.give_back(block, protocol, now);
            }
        }
    }

    /// Counts a flow of an external end to a host.
    ///
    /// # Errors
    /// As above.
    pub fn hold_host(
        &mut self,
        all: &Mappings,
        (external, host): (End, u32),
        now: u32,
    ) -> Result<(), FlowError> {
        let key = external.towards(host);
        let found = all.reader.find(&key).id();
        if found.is_some_and(|id| all.hold(id)) {
            return Ok(());
        }
        self.insert(all, &NewFlow::new(key, None), now).map(|_| ())
    }

    fn insert(&mut self, all: &Mappings, new: &NewFlow, now: u32) -> Result<u32, FlowError> {
        match self.owner.create(new, now, now)? {
            Created::New(id) => {
                if let Some(count) = all.count(id) {
                    count.store(UNUSED + 1, Ordering::Release);
                }
                Ok(id)
            }
            // Another worker makes it, or ends it: with the next packet it is one or the other.
            Created::Existing(_) => Err(FlowError::Contended),
        }
    }

    /// Ends a mapping at once if it has no flow: the one that it was made for was refused. Otherwise refused packets
    /// would hold all ports for some seconds.
    pub fn give_up(&mut self, all: &Mappings, id: u32, now: u32) {
        let is_own = all.reader.entry(id).owner() == self.owner.number();
        if is_own && all.end(id) {
            self.remove(all, id, now);
        }
    }

    /// The same for the flow of an external end to a host.
    pub fn give_up_host(&mut self, all: &Mappings, external: End, host: u32, now: u32) {
        if let Some(id) = all.reader.find(&external.towards(host)).id() {
            self.give_up(all, id, now);
        }
    }

    /// Ends mappings without flows, looking at all of them every few seconds.
    pub fn maintain(&mut self, all: &Mappings, now: u32, quiescence: &Arc<Quiescence>) {
        // Finishes those whose external end another worker has held while they ended; others stay.
        self.owner.expire(now, &NEVER, FINISHED, |_| {});
        self.is_dirty |= self.owner.pending() > 0;
        if self.owner.live() == 0 && !self.is_dirty {
            return;
        }
        if self.at == 0 {
            if now.wrapping_sub(self.last) < LINGER_S {
                return self.reclaim(quiescence);
            }
            self.last = now;
        }
        let end = all.counts.len() as u32;
        // All of them within two seconds, when called ten times a second.
        let most = (end / 16).max(4_096);
        let until = self.at.saturating_add(most).min(end);
        for id in self.at..until {
            self.end_unused(all, id, now);
        }
        self.at = if until == end { 0 } else { until };
        self.reclaim(quiescence);
    }

    fn end_unused(&mut self, all: &Mappings, id: u32, now: u32) {
        let entry = all.reader.entry(id);
        if !entry.is_live() || entry.owner() != self.owner.number() {
            return;
        }
        let Some(count) = all.count(id) else { return };
        let is_young = now.wrapping_sub(entry.start()) < LINGER_S;
        let is_over = count.load(Ordering::Relaxed) == OVER || !is_young && all.end(id);
        if is_over {
            self.remove(all, id, now);
        }
    }

    fn reclaim(&mut self, quiescence: &Arc<Quiescence>) {
        if self.owner.pending() == 0 {
            self.is_dirty = false;
            return;
        }
        let epoch = quiescence.advance();
        self.owner.retire_mark(epoch);
        self.owner.reclaim(quiescence.safe());
    }
}

#[cfg(test)]
mod tests;
