//! The memory of a flow table: arrays of words, by the number of the flow.
//!
//! | array | bytes | for | content |
//! |---|---:|---|---|
//! | lines | 64 | each flow | see [`line`](super::line) |
//! | records | 24 | each flow | list, start, rule, owner, zone pair, upper parts of the counters |
//! | counters | 24 | translated flows | counters, whose place in the line the second key has; two spare words |
//! | addresses | 32 | each IPv6 key | both addresses |
//!
//! The ids of each kind are one range, so that each array has members only for the kinds that need it.

use core::sync::atomic::Ordering::Relaxed;

use super::hash::Secret;
use super::index::Index;
use super::key::ADDRESS_WORDS;
use super::sources::Sources;
use super::{FlowError, prefetch};
use crate::aligned::{Aligned, Region};
use crate::sync::{AtomicU32, AtomicU64, zeroed};

/// Words of a line.
pub(super) const LINE_WORDS: usize = 16;
/// Words of a record.
pub(super) const RECORD_WORDS: usize = 6;
/// Words of the counters of a translated flow.
pub(super) const COUNTER_WORDS: usize = 6;
/// Lines, records, counters and addresses.
pub(super) const ARRAYS: usize = 4;
/// Kinds of flows.
pub(super) const KINDS: usize = 4;
/// The most owners of a table.
pub(super) const OWNERS_MAX: usize = 256;
/// The most flows of a table.
const FLOWS_MAX: u64 = (1 << 30) - 1;

/// What memory a flow needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// An IPv4 flow.
    Ip4,
    /// A flow whose packets are IPv4, with a second key.
    TranslatedIp4,
    /// An IPv6 flow.
    Ip6,
    /// A flow with a second key whose first or second key is IPv6.
    TranslatedIp6,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; KINDS] = [Self::Ip4, Self::TranslatedIp4, Self::Ip6, Self::TranslatedIp6];

    /// Whether its flows have a second key.
    #[inline(always)]
    pub const fn is_translated(self) -> bool {
        matches!(self, Self::TranslatedIp4 | Self::TranslatedIp6)
    }
}

/// How many flows of each kind a table can hold. What is not used costs address space only, and 8 bytes of
/// the index for each key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCapacity {
    /// Of [`Kind::Ip4`].
    pub ip4: u32,
    /// Of [`Kind::TranslatedIp4`].
    pub translated_ip4: u32,
    /// Of [`Kind::Ip6`].
    pub ip6: u32,
    /// Of [`Kind::TranslatedIp6`].
    pub translated_ip6: u32,
}

impl FlowCapacity {
    fn by_kind(&self) -> [u32; KINDS] {
        [self.ip4, self.translated_ip4, self.ip6, self.translated_ip6]
    }

    /// Keys of all flows.
    fn keys(&self) -> u64 {
        let [ip4, translated_ip4, ip6, translated_ip6] = self.by_kind().map(u64::from);
        ip4 + 2 * translated_ip4 + ip6 + 2 * translated_ip6
    }
}

/// Where the ids of each kind begin; where the last one's end.
pub(super) type Bounds = [u32; KINDS + 1];

impl FlowCapacity {
    /// Where the ids of each kind are; `None`: there are too many.
    pub(super) fn bounds(&self) -> Option<Bounds> {
        let kinds = self.by_kind();
        if kinds.iter().map(|kind| u64::from(*kind)).sum::<u64>() > FLOWS_MAX {
            return None;
        }
        let mut bounds = [0; KINDS + 1];
        for (kind, count) in kinds.into_iter().enumerate() {
            bounds[kind + 1] = bounds[kind] + count;
        }
        Some(bounds)
    }

    /// Words of all lines, records, counters and addresses.
    pub(super) fn words(&self) -> [u64; ARRAYS] {
        let [ip4, translated_ip4, ip6, translated_ip6] = self.by_kind().map(u64::from);
        let flows = ip4 + translated_ip4 + ip6 + translated_ip6;
        [
            flows * LINE_WORDS as u64,
            flows * RECORD_WORDS as u64,
            (translated_ip4 + translated_ip6) * COUNTER_WORDS as u64,
            (ip6 + 2 * translated_ip6) * ADDRESS_WORDS as u64,
        ]
    }
}

#[inline(always)]
pub(super) fn kind_of(bounds: &Bounds, id: u32) -> Kind {
    match () {
        () if id < bounds[1] => Kind::Ip4,
        () if id < bounds[2] => Kind::TranslatedIp4,
        () if id < bounds[3] => Kind::Ip6,
        () => Kind::TranslatedIp6,
    }
}

/// Which of the counters are those of a flow, if it has some.
#[inline(always)]
pub(super) fn counters_at(bounds: &Bounds, id: u32) -> Option<usize> {
    let [_, ip4, ip6, translated_ip6, _] = *bounds;
    match kind_of(bounds, id) {
        Kind::TranslatedIp4 => Some((id - ip4) as usize),
        Kind::TranslatedIp6 => Some((id - translated_ip6 + (ip6 - ip4)) as usize),
        Kind::Ip4 | Kind::Ip6 => None,
    }
}

/// Which of the addresses are those of a key; past the end for ids of IPv4 flows.
#[inline(always)]
pub(super) fn address_at(bounds: &Bounds, id: u32, is_second: bool) -> usize {
    let [_, _, ip6, translated_ip6, _] = *bounds;
    if id < ip6 {
        return usize::MAX;
    }
    let pairs = id.saturating_sub(translated_ip6);
    (id - ip6) as usize + pairs as usize + usize::from(is_second)
}

/// The counts of one owner, for others to read, in a cache line of their own.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Counts {
    pub(super) live: AtomicU32,
    pub(super) evictable: AtomicU32,
}

/// The arrays; see the [module](self).
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) index: Index,
    pub(super) sources: Sources,
    lines: Aligned<AtomicU32>,
    records: Aligned<AtomicU32>,
    counters: Aligned<AtomicU32>,
    addresses: Aligned<AtomicU32>,
    bounds: Bounds,
    /// Ids of each kind that no owner has had yet begin here, relative to the kind.
    pub(super) fresh: [AtomicU32; KINDS],
    /// Runs of ids that owners have given back; see [`free`](super::free).
    pub(super) returned: [AtomicU64; KINDS],
    /// How many ids these runs have. While an owner gives or takes one, this may be less.
    pub(super) in_runs: [AtomicU32; KINDS],
    pub(super) counts: Box<[Counts]>,
    /// How many owners there are.
    pub(super) owners: AtomicU32,
}

impl Memory {
    pub(super) fn new(capacity: &FlowCapacity, secret: &Secret) -> Result<Self, FlowError> {
        let flows: u64 = capacity.by_kind().iter().map(|kind| u64::from(*kind)).sum();
        let refused = FlowError::Capacity(flows);
        let Some(bounds) = capacity.bounds() else { return Err(refused) };
        let [lines, records, counters, addresses] = capacity.words();
        let words = |count: u64| Aligned::new(usize::try_from(count).ok()?, zeroed);
        let all = || {
            Some(Self {
                index: Index::new(secret, capacity.keys())?,
                sources: Sources::new(secret, flows)?,
                lines: words(lines)?,
                records: words(records)?,
                counters: words(counters)?,
                addresses: words(addresses)?,
                bounds,
                fresh: [0, 0, 0, 0].map(AtomicU32::new),
                returned: [0, 0, 0, 0].map(AtomicU64::new),
                in_runs: [0, 0, 0, 0].map(AtomicU32::new),
                counts: (0..OWNERS_MAX)
                    .map(|_| Counts { live: AtomicU32::new(0), evictable: AtomicU32::new(0) })
                    .collect(),
                owners: AtomicU32::new(0),
            })
        };
        all().ok_or(refused)
    }

    /// Number of ids.
    #[inline(always)]
    pub(super) fn ids(&self) -> u32 {
        self.bounds[KINDS]
    }

    pub(super) fn has_several_owners(&self) -> bool {
        self.owners.load(Relaxed) > 1
    }

    /// The ids of a kind.
    pub(super) fn ids_of(&self, kind: Kind) -> core::ops::Range<u32> {
        self.bounds[kind as usize]..self.bounds[kind as usize + 1]
    }

    #[inline(always)]
    pub(super) fn kind(&self, id: u32) -> Kind {
        kind_of(&self.bounds, id)
    }

    /// All lines.
    #[inline(always)]
    pub(super) fn lines(&self) -> &[[AtomicU32; LINE_WORDS]] {
        self.lines.get().as_chunks().0
    }

    #[inline(always)]
    pub(super) fn line(&self, id: u32) -> &[AtomicU32; LINE_WORDS] {
        &self.lines()[id as usize]
    }

    /// All records.
    #[inline(always)]
    pub(super) fn records(&self) -> &[[AtomicU32; RECORD_WORDS]] {
        self.records.get().as_chunks().0
    }

    #[inline(always)]
    pub(super) fn record(&self, id: u32) -> &[AtomicU32; RECORD_WORDS] {
        &self.records()[id as usize]
    }

    /// The counters of a translated flow.
    #[inline(always)]
    pub(super) fn counters(&self, id: u32) -> Option<&[AtomicU32; COUNTER_WORDS]> {
        let at = counters_at(&self.bounds, id)?;
        self.all_counters().get(at)
    }

    /// The counters of all translated flows: IPv4, then IPv6.
    #[inline(always)]
    pub(super) fn all_counters(&self) -> &[[AtomicU32; COUNTER_WORDS]] {
        self.counters.get().as_chunks().0
    }

    /// All addresses of IPv6 keys.
    #[inline(always)]
    pub(super) fn addresses(&self) -> &[[AtomicU32; ADDRESS_WORDS]] {
        self.addresses.get().as_chunks().0
    }

    /// Which of the addresses are those of a key; past the end for ids of IPv4 flows.
    #[inline(always)]
    pub(super) fn address_at(&self, id: u32, is_second: bool) -> usize {
        address_at(&self.bounds, id, is_second)
    }

    /// Prefetches what holds the keys of a flow.
    #[inline(always)]
    pub(super) fn prefetch_keys(&self, id: u32) {
        prefetch(self.lines(), id as usize);
        prefetch(self.addresses(), self.address_at(id, false));
    }

    /// The stretches of memory, for advice about huge pages.
    pub(super) fn regions(&self) -> [Region; 5] {
        let Self { index, lines, records, counters, addresses, .. } = self;
        let rest = [lines, records, counters, addresses];
        let [lines, records, counters, addresses] = rest.map(|array| array.region());
        [index.region(), lines, records, counters, addresses]
    }

    /// Lines, records, counters and addresses, with what follows them on their last huge pages.
    pub(super) fn arrays(&self) -> [&[AtomicU32]; ARRAYS] {
        [&self.lines, &self.records, &self.counters, &self.addresses].map(Aligned::whole)
    }

    /// Leaves these arrays to the process when the table ends.
    #[cfg(not(loom))]
    pub(super) fn leak_arrays(&self) {
        let Self { lines, records, counters, addresses, .. } = self;
        [lines, records, counters, addresses].into_iter().for_each(Aligned::leak);
    }

    /// Bytes of all arrays if all of them is in use. Lists and counters of sources do not grow with the flows.
    pub(super) fn bytes(&self) -> usize {
        let words = [&self.lines, &self.records, &self.counters, &self.addresses];
        let words: usize = words.iter().map(|array| size_of_val(array.get())).sum();
        words + size_of_val(self.index.words())
    }

    /// Sums of the counts of all owners: live flows, and those of them that are evictable.
    pub(super) fn totals(&self) -> [u64; 2] {
        let sum = |of: fn(&Counts) -> &AtomicU32| {
            self.counts.iter().map(|counts| u64::from(of(counts).load(Relaxed))).sum()
        };
        [sum(|counts| &counts.live), sum(|counts| &counts.evictable)]
    }
}
