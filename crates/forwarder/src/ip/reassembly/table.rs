//! The table of packets in reassembly, bounded in total and for each source. A full table evicts the
//! oldest packet: legitimate packets complete long before. The cost of a fragment does not depend on
//! the number of packets in the table, so that a flood does not slow it down. When a limit is lowered,
//! the next packet evicts all packets beyond the limit.
//!
//! The table stores the bytes in its own memory, not in packet buffers: incomplete packets do not use
//! up the buffer pool.

use super::FragmentView;
use super::context::{Context, Fit, MAX_DATA, MAX_HEADERS};
use super::hash_index::HashIndex;
use super::list::{List, ListLinks};
use crate::drops::Drop;

/// The key of a packet in reassembly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Source address; an IPv4 address in the low bits.
    pub source: u128,
    /// Destination address.
    pub destination: u128,
    /// Identification.
    pub identification: u32,
    /// IPv4: the protocol (RFC 791); IPv6: 0 (RFC 8200 4.5).
    pub protocol: u8,
    /// The zone of the addresses: see [`zone`].
    pub zone: u32,
}

/// The zone in which addresses are unique: the interface for link-local addresses, else the VRF.
/// Fragments of different VRFs never combine.
pub fn zone(is_on_link: bool, rx_if: u32, vrf: u32) -> u32 {
    if is_on_link { 1 << 31 | rx_if } else { vrf }
}

/// The outcome of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The packet is still incomplete.
    Incomplete,
    /// The packet in this slot is complete.
    Complete(usize),
    /// The fragment is dropped.
    Refused(Drop),
}

/// Bytes of memory for one packet: headers, then data.
const SLOT: usize = MAX_HEADERS + MAX_DATA;

/// The packets of one source.
#[derive(Clone, Copy, Default)]
struct Source {
    address: u128,
    /// Packets that can still complete, the oldest first.
    active: List,
    /// Poisoned packets, the first poisoned one first.
    poisoned: List,
    count: usize,
}

/// See the module.
pub struct Table {
    /// By slot; `None`: the slot is free.
    contexts: Vec<Option<Context>>,
    /// Zeroed memory, which the kernel allocates page by page on first use.
    memory: Box<[u8]>,
    capacity: usize,
    /// Slots by packet.
    index: HashIndex,
    /// At most one for each packet.
    sources: Vec<Source>,
    source_index: HashIndex,
    /// Free elements of `sources`.
    free_sources: Vec<u16>,
    /// The source of each slot.
    source_of: Box<[u16]>,
    /// Freed slots.
    free: Vec<u16>,
    by_age: ListLinks,
    all: List,
    by_source: ListLinks,
    by_poison: ListLinks,
    poisoned: List,
    losses: [(Drop, u64); 2],
}

impl Table {
    /// A table for at most `capacity` packets. Unused slots take no memory.
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.min(usize::from(u16::MAX));
        Self {
            contexts: Vec::with_capacity(capacity),
            memory: vec![0; capacity * SLOT].into_boxed_slice(),
            capacity,
            index: HashIndex::new(capacity),
            sources: Vec::with_capacity(capacity),
            source_index: HashIndex::new(capacity),
            free_sources: Vec::with_capacity(capacity),
            source_of: vec![0; capacity].into_boxed_slice(),
            free: Vec::with_capacity(capacity),
            by_age: ListLinks::new(capacity),
            all: List::default(),
            by_source: ListLinks::new(capacity),
            by_poison: ListLinks::new(capacity),
            poisoned: List::default(),
            losses: [(Drop::FragmentOverlap, 0), (Drop::ReassemblyFull, 0)],
        }
    }

    /// Number of packets in reassembly.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether the table has no packets.
    pub fn is_empty(&self) -> bool {
        self.index.len() == 0
    }

    /// The packet in a slot.
    ///
    /// # Panics
    /// If the slot is free.
    pub fn context(&self, at: usize) -> Context {
        self.contexts[at].expect("the slot is in use")
    }

    /// The slot of the oldest packet, if it is older than `born`.
    pub fn older_than(&self, born: u64) -> Option<usize> {
        let is_old = |slot: &Option<Context>| slot.is_some_and(|context| context.born < born);
        self.all.first().filter(|at| self.contexts.get(*at).is_some_and(is_old))
    }

    /// Fragments lost since the last call, by reason.
    pub fn take_losses(&mut self) -> [(Drop, u64); 2] {
        let losses = self.losses;
        self.losses.iter_mut().for_each(|(_, count)| *count = 0);
        losses
    }

    /// Inserts a fragment, with the limits of packets in total and from one source.
    pub fn insert(
        &mut self,
        piece: &FragmentView<'_>,
        now: u64,
        (limit, per_source): (usize, usize),
    ) -> Outcome {
        let end = piece.offset + piece.data.len();
        if piece.data.is_empty() || (piece.more && !piece.data.len().is_multiple_of(8)) {
            return Outcome::Refused(Drop::FragmentMalformed);
        }
        if end > usize::from(u16::MAX) {
            return Outcome::Refused(Drop::FragmentOverrun);
        }
        if end > MAX_DATA || piece.head.len() > MAX_HEADERS {
            return Outcome::Refused(Drop::ReassemblyTooLong);
        }
        let at = match self.find(&piece.key) {
            Some(at) => at,
            None => match self.open(piece, now, (limit, per_source)) {
                Some(at) => at,
                None => return Outcome::Refused(Drop::ReassemblyFull),
            },
        };
        self.put(at, piece)
    }

    fn find(&self, key: &Key) -> Option<usize> {
        let matches = |at: usize| self.contexts[at].as_ref().is_some_and(|it| it.key == *key);
        self.index.find(key, matches)
    }

    fn put(&mut self, at: usize, piece: &FragmentView<'_>) -> Outcome {
        let Some(Some(context)) = self.contexts.get_mut(at) else {
            return Outcome::Refused(Drop::ReassemblyFull);
        };
        if context.is_poisoned() {
            return Outcome::Refused(Drop::FragmentOverlap);
        }
        let slot = &mut self.memory[at * SLOT..(at + 1) * SLOT];
        let data = MAX_HEADERS + piece.offset..MAX_HEADERS + piece.offset + piece.data.len();
        match context.fit(piece) {
            Fit::New => {}
            Fit::Duplicate if slot[data.clone()] == *piece.data => {
                return Outcome::Refused(Drop::FragmentDuplicate);
            }
            Fit::Duplicate | Fit::Overlap => {
                self.losses[0].1 += context.poison();
                self.by_poison.append(&mut self.poisoned, at);
                let source = &mut self.sources[usize::from(self.source_of[at])];
                self.by_source.unlink(&mut source.active, at);
                self.by_source.append(&mut source.poisoned, at);
                return Outcome::Refused(Drop::FragmentOverlap);
            }
        }
        context.insert(piece);
        slot[data].copy_from_slice(piece.data);
        if piece.offset == 0 {
            slot[..piece.head.len()].copy_from_slice(piece.head);
        }
        if context.whole().is_some() { Outcome::Complete(at) } else { Outcome::Incomplete }
    }

    /// Allocates a slot for a new packet.
    fn open(
        &mut self,
        piece: &FragmentView<'_>,
        now: u64,
        (limit, per_source): (usize, usize),
    ) -> Option<usize> {
        let limit = limit.min(self.capacity);
        while let Some(source) = self.source(piece.key.source).map(|at| self.sources[at])
            && source.count >= per_source.max(1)
            // Poisoned packets first, then the oldest.
            && let Some(at) = source.poisoned.first().or(source.active.first())
        {
            self.evict(at);
        }
        while self.len() >= limit.max(1)
            && let Some(at) = self.poisoned.first().or(self.all.first())
        {
            self.evict(at);
        }
        let context = Some(Context::new(piece.key, now, piece.rx_if));
        let at = match self.free.pop() {
            Some(at) => {
                self.contexts[usize::from(at)] = context;
                usize::from(at)
            }
            None if self.contexts.len() < self.capacity => {
                // Does not allocate: `new` reserves the capacity.
                self.contexts.push(context);
                self.contexts.len() - 1
            }
            None => return None,
        };
        self.index.insert(&piece.key, at);
        self.by_age.append(&mut self.all, at);
        let of = self.source(piece.key.source).unwrap_or_else(|| self.add_source(piece.key.source));
        self.source_of[at] = of as u16;
        self.by_source.append(&mut self.sources[of].active, at);
        self.sources[of].count += 1;
        Some(at)
    }

    /// The index of a source.
    fn source(&self, address: u128) -> Option<usize> {
        self.source_index.find(&address, |at| self.sources[at].address == address)
    }

    /// Adds a source; there is one for each packet.
    fn add_source(&mut self, address: u128) -> usize {
        let source = Source { address, ..Source::default() };
        let at = match self.free_sources.pop() {
            Some(at) => usize::from(at),
            None => {
                // Does not allocate: `new` reserves the capacity.
                self.sources.push(source);
                self.sources.len() - 1
            }
        };
        self.sources[at] = source;
        self.source_index.insert(&address, at);
        at
    }

    fn evict(&mut self, at: usize) {
        self.losses[1].1 += u64::from(self.context(at).fragments());
        self.remove(at);
    }

    /// Frees a slot.
    pub fn remove(&mut self, at: usize) {
        let Some(context) = self.contexts.get_mut(at).and_then(Option::take) else { return };
        self.index.remove(&context.key, at);
        self.by_age.unlink(&mut self.all, at);
        let of = self.source_of[at];
        let source = &mut self.sources[usize::from(of)];
        if context.is_poisoned() {
            self.by_poison.unlink(&mut self.poisoned, at);
            self.by_source.unlink(&mut source.poisoned, at);
        } else {
            self.by_source.unlink(&mut source.active, at);
        }
        source.count -= 1;
        if source.count == 0 {
            self.source_index.remove(&context.key.source, usize::from(of));
            self.free_sources.push(of);
        }
        // Does not allocate: `new` reserves the capacity.
        self.free.push(at as u16);
    }

    /// Headers and data of the fragment at offset 0, once it is received.
    pub fn first_fragment(&self, at: usize) -> Option<(&[u8], &[u8])> {
        let (head, data) = self.contexts.get(at)?.as_ref()?.first()?;
        self.bytes(at, head, data)
    }

    /// Headers of the first fragment and all data of a complete packet.
    pub fn whole(&self, at: usize) -> Option<(&[u8], &[u8])> {
        let context = self.contexts.get(at)?.as_ref()?;
        self.bytes(at, context.first()?.0, context.whole()?)
    }

    fn bytes(&self, at: usize, head: usize, data: usize) -> Option<(&[u8], &[u8])> {
        let slot = self.memory.get(at * SLOT..(at + 1) * SLOT)?;
        Some((slot.get(..head)?, slot.get(MAX_HEADERS..MAX_HEADERS + data)?))
    }
}

#[cfg(test)]
mod tests;
