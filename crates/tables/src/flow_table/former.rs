//! Flows in the memory of a process that has ended.
//!
//! Its lines, records, counters and addresses are read as they lie; its index, its lists and its counts are not. A flow
//! is there if its line is live: that flag is stored behind all that identifies the flow, and cleared before any of it
//! changes. Nothing is trusted: what no table can have written is left out.
//!
//! A process may have been killed between two stores about one packet. Then the flow has some fields from before that
//! packet and others from after it: a state of TCP of which each word is valid, or packets without their bytes.

use core::ops::Range;

use super::key::{ADDRESS_WORDS, CONTEXT, Canonical, FlowKey, IS_IP6, KEY_WORDS, REVERSED};
use super::line::{
    BYTES_HIGH, Counters, LIVE, OWNER_SHIFT, RULE, SECOND, SEEN, START, TCP, TCP_WORDS, UPPER_BITS,
    VERDICT, ZONES,
};
use super::memory::{
    ARRAYS, Bounds, COUNTER_WORDS, FlowCapacity, Kind, LINE_WORDS, RECORD_WORDS, address_at,
    counters_at, kind_of,
};

/// Flows that are read at a time, at most.
const CHUNK: u32 = 1024;
/// The bits of [`CONTEXT`] that a key may have: VRF, protocol, family and direction.
const CONTEXT_BITS: u32 = 0x00ff_ffff | IS_IP6 | REVERSED;
/// Where the spare words are among the counters.
const SPARE: usize = 4;

/// What has happened to a flow before, in ticks of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// The tick of the first packet.
    pub start: u32,
    /// The tick of the last packet.
    pub seen: u32,
    /// What has passed in the original direction, and in the other one.
    pub counters: [Counters; 2],
    /// The rule that had admitted it, below 2^24: what the number means, that process knew.
    pub rule: u32,
}

/// A flow of the former process, with times in its ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormerFlow {
    /// The key of the packets in the original direction.
    pub key: FlowKey,
    /// The key of the replies, if it was translated.
    pub reply_key: Option<FlowKey>,
    /// The timeout class.
    pub class: u8,
    /// Its flags, without those that say how the table uses the line.
    pub flags: u8,
    /// The owner.
    pub owner: u8,
    /// The pair of zones.
    pub zone_pair: u16,
    /// The state of TCP.
    pub tcp: [u32; TCP_WORDS],
    /// When it began, when it was last seen, and what has passed.
    pub past: Past,
    /// The spare words of a translated flow.
    pub spare: [u32; 2],
}

/// A line of the former process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "it is read and used at once")]
pub enum Reading {
    /// A flow.
    Flow(FormerFlow),
    /// A live line with content that no table writes.
    Damaged,
}

/// The arrays of a former table.
#[derive(Clone, Copy, Debug)]
pub struct FormerTable {
    bounds: Bounds,
    words: [u64; ARRAYS],
}

/// The words of some flows of one kind.
#[derive(Debug, Default)]
struct Chunk {
    lines: Vec<u32>,
    records: Vec<u32>,
    counters: Vec<u32>,
    addresses: Vec<u32>,
}

impl FormerTable {
    /// A table of this capacity; `None`: no table has so many flows.
    pub fn of(capacity: &FlowCapacity) -> Option<Self> {
        Some(Self { bounds: capacity.bounds()?, words: capacity.words() })
    }

    /// Words of the arrays, in the order of [`FlowTable::arrays`](super::FlowTable::arrays).
    pub fn words(&self) -> [u64; ARRAYS] {
        self.words
    }

    /// Reads the flows with ids in a range. `read` reads words of an array, from one on; `false`: it cannot, and the
    /// reading ends. Returns whether everything could be read.
    pub fn read(
        &self,
        ids: Range<u32>,
        mut read: impl FnMut(usize, u64, &mut [u32]) -> bool,
        mut each: impl FnMut(Reading),
    ) -> bool {
        let mut chunk = Chunk::default();
        let (mut first, end) = (ids.start, ids.end.min(self.ids()));
        while first < end {
            let of_kind = self.bounds.iter().find(|bound| first < **bound);
            let last = end.min(first.saturating_add(CHUNK)).min(*of_kind.unwrap_or(&end));
            if !chunk.read(&self.bounds, first..last, &mut read, &mut each) {
                return false;
            }
            first = last;
        }
        true
    }

    /// Number of ids.
    pub fn ids(&self) -> u32 {
        let [.., end] = self.bounds;
        end
    }
}

impl Chunk {
    /// Reads flows of one kind.
    fn read(
        &mut self,
        bounds: &Bounds,
        ids: Range<u32>,
        read: &mut impl FnMut(usize, u64, &mut [u32]) -> bool,
        each: &mut impl FnMut(Reading),
    ) -> bool {
        let (first, count, kind) = (ids.start, ids.len(), kind_of(bounds, ids.start));
        let mut fill = |to: &mut Vec<u32>, array, (at, words): (usize, usize)| {
            to.resize(count * words, 0);
            read(array, at as u64, to)
        };
        if !fill(&mut self.lines, 0, (first as usize * LINE_WORDS, LINE_WORDS)) {
            return false;
        }
        let is_live = |line: &[u32; LINE_WORDS]| line[VERDICT] as u8 & LIVE != 0;
        let (lines, _) = self.lines.as_chunks::<LINE_WORDS>();
        if !lines.iter().any(is_live) {
            return true;
        }
        let keys = match kind {
            Kind::Ip4 | Kind::TranslatedIp4 => 0,
            Kind::Ip6 => 1,
            Kind::TranslatedIp6 => 2,
        };
        let counters = counters_at(bounds, first);
        let is_read = fill(&mut self.records, 1, (first as usize * RECORD_WORDS, RECORD_WORDS))
            && counters
                .is_none_or(|at| fill(&mut self.counters, 2, (at * COUNTER_WORDS, COUNTER_WORDS)))
            && (keys == 0 || {
                let at = address_at(bounds, first, false) * ADDRESS_WORDS;
                fill(&mut self.addresses, 3, (at, keys * ADDRESS_WORDS))
            });
        if !is_read {
            return false;
        }
        let (lines, _) = self.lines.as_chunks::<LINE_WORDS>();
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| is_live(line)) {
            each(self.flow(kind, at, line, keys).map_or(Reading::Damaged, Reading::Flow));
        }
        true
    }

    /// The flow of a line, if it can be one.
    fn flow(
        &self,
        kind: Kind,
        at: usize,
        line: &[u32; LINE_WORDS],
        keys: usize,
    ) -> Option<FormerFlow> {
        let record = self.records.as_chunks::<RECORD_WORDS>().0.get(at)?;
        let (addresses, _) = self.addresses.as_chunks::<ADDRESS_WORDS>();
        let key = |from: usize, which: usize| {
            let words = *line.get(from..)?.first_chunk::<KEY_WORDS>()?;
            let is_ip6 = words[CONTEXT] & IS_IP6 != 0;
            let addresses = match keys.checked_sub(1) {
                Some(more) if is_ip6 => *addresses.get(at * (more + 1) + which.min(more))?,
                None if is_ip6 => return None,
                _ => [0; ADDRESS_WORDS],
            };
            valid(&Canonical { words, addresses })
        };
        let first = key(0, 0)?;
        let counters = match kind.is_translated() {
            true => *self.counters.as_chunks::<COUNTER_WORDS>().0.get(at)?,
            false => {
                let [a, b, c, d] = *line.get(SECOND..)?.first_chunk::<4>()?;
                [a, b, c, d, 0, 0]
            }
        };
        let second = if kind.is_translated() { Some(key(SECOND, 1)?) } else { None };
        let is_of_kind = match (kind, second) {
            (Kind::Ip4, _) => !first.is_ip6(),
            (Kind::Ip6, _) => first.is_ip6(),
            (Kind::TranslatedIp4, second) => {
                !first.is_ip6() && second.is_some_and(|it| !it.is_ip6())
            }
            (Kind::TranslatedIp6, second) => first.is_ip6() || second.is_some_and(|it| it.is_ip6()),
        };
        let is_twice = second.is_some_and(|it| it == first || it == first.reversed());
        if !is_of_kind || is_twice {
            return None;
        }
        let passed = |direction: usize| {
            let [packets, bytes] = [counters[direction * 2], counters[direction * 2 + 1]];
            let upper = |word: u32, bits: u32| {
                u64::from(word >> (direction as u32 * bits) & ((1 << bits) - 1)) << 32
            };
            Counters {
                packets: upper(record[ZONES], UPPER_BITS[0]) | u64::from(packets),
                bytes: upper(record[BYTES_HIGH], UPPER_BITS[1]) | u64::from(bytes),
            }
        };
        let [start, seen] = [record[START], line[SEEN]];
        let rule = record[RULE] & ((1 << OWNER_SHIFT) - 1);
        Some(FormerFlow {
            key: first,
            reply_key: second,
            class: (line[VERDICT] >> 8) as u8,
            flags: line[VERDICT] as u8 & !LIVE,
            owner: (record[RULE] >> OWNER_SHIFT) as u8,
            zone_pair: (record[ZONES] >> 16) as u16,
            tcp: core::array::from_fn(|word| line[TCP + word]),
            past: Past { start, seen, counters: [passed(0), passed(1)], rule },
            spare: [counters[SPARE], counters[SPARE + 1]],
        })
    }
}

/// The key that these words are, if a table can have written them: with the lower end first.
fn valid(words: &Canonical) -> Option<FlowKey> {
    let is_known = words.words[CONTEXT] & !CONTEXT_BITS == 0;
    let key = words.key();
    (is_known && Canonical::new(&key) == *words).then_some(key)
}
