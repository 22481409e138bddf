//! The fields of a flow, in its line, its record and, if it is translated, its counters.
//!
//! ```text
//! line     0 to 3    first key: lower end's address, higher end's, ports, VRF and protocol
//!          4 to 7    second key, or packets and bytes of the original direction and of the replies
//!          8 to 13   TCP
//!          14        when the last packet came
//!          15        epoch (16), timeout class (8), flags (8)
//! record   0, 1      next and previous flow of the list
//!          2         when the first packet came
//!          3         owner (8), rule (24)
//!          4         zone pair (16), upper 8 bits of the packets of replies (8), of the original ones (8)
//!          5         upper 16 bits of the bytes of replies, of the original packets
//! ```
//!
//! Words are stored relaxed. Keys are published by the index; the other fields are written by the owner, and
//! whoever else reads them gets each word as it was at some moment.

use core::sync::atomic::Ordering::{Relaxed, Release};

use super::key::{CONTEXT, Canonical, KEY_WORDS, REVERSED};
use super::memory::{Kind, LINE_WORDS, Memory};
use crate::sync::AtomicU32;

use super::counter::counter;
use super::ends::Ends;
use super::key::FlowKey;
use super::owned_flows::add;

/// Where the second key begins, or the counters.
pub(super) const SECOND: usize = KEY_WORDS;
pub(super) const TCP: usize = 8;
pub(super) const SEEN: usize = TCP + TCP_WORDS;
pub(super) const VERDICT: usize = SEEN + 1;
const _: () = assert!(VERDICT + 1 == LINE_WORDS);
pub(super) const START: usize = 2;
pub(super) const RULE: usize = 3;
pub(super) const ZONES: usize = 4;
pub(super) const BYTES_HIGH: usize = 5;
/// Upper bits of packets and of bytes in one direction.
pub(super) const UPPER_BITS: [u32; 2] = [8, 16];
pub(super) const OWNER_SHIFT: u32 = 24;

/// Words for the state of TCP.
pub const TCP_WORDS: usize = 6;
/// The flag of a flow that is never evicted: both ends have agreed to it. The three highest flags are the
/// table's, the other ones are free for its users.
pub const ASSURED: u8 = 1 << 7;
/// The flag of a flow that gives way only when all that are left are answered or assured.
pub const ANSWERED: u8 = 1 << 5;
/// The flag of a flow that has not been removed.
pub(super) const LIVE: u8 = 1 << 6;

/// Of a packet within its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Direction {
    /// That of the flow's first packet.
    Original = 0,
    /// The other one.
    Reply = 1,
}

impl Direction {
    /// The other direction.
    #[inline(always)]
    pub const fn reverse(self) -> Self {
        match self {
            Self::Original => Self::Reply,
            Self::Reply => Self::Original,
        }
    }
}

/// What has passed in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets, modulo 2^40.
    pub packets: u64,
    /// Bytes, modulo 2^48.
    pub bytes: u64,
}

/// One flow.
#[derive(Clone, Copy, Debug)]
pub struct FlowEntry<'a> {
    pub(super) memory: &'a Memory,
    line: &'a [AtomicU32; LINE_WORDS],
    pub(super) id: u32,
}

impl<'a> FlowEntry<'a> {
    #[inline(always)]
    pub(super) fn new(memory: &'a Memory, id: u32) -> Self {
        Self { memory, line: memory.line(id), id }
    }

    /// Its id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// What memory it has.
    pub fn kind(&self) -> Kind {
        self.memory.kind(self.id)
    }

    /// The key of the packets in the original direction.
    pub fn key(&self) -> FlowKey {
        self.canonical(false).key()
    }

    /// The key of the replies: for a flow without a second key, the reversed first one.
    pub fn reply_key(&self) -> FlowKey {
        if self.has_second() { self.canonical(true).key() } else { self.key().reversed() }
    }

    /// Whether it is translated.
    #[inline(always)]
    pub fn has_second(&self) -> bool {
        self.kind().is_translated()
    }

    #[inline(always)]
    pub(super) fn canonical(&self, is_second: bool) -> Canonical {
        let from = if is_second { SECOND } else { 0 };
        let words = core::array::from_fn(|at| self.line[from + at].load(Relaxed));
        let mut key = Canonical { words, addresses: [0; _] };
        let at = self.memory.address_at(self.id, is_second);
        if let (true, Some(words)) = (key.is_ip6(), self.memory.addresses().get(at)) {
            key.addresses = core::array::from_fn(|at| words[at].load(Relaxed));
        }
        key
    }

    /// Whether it has this key, and if so, whether the directions of both differ.
    #[inline(always)]
    pub(super) fn compare(&self, key: &Canonical, is_second: bool) -> Option<bool> {
        let own = self.canonical(is_second);
        let difference = own.words[CONTEXT] ^ key.words[CONTEXT];
        let is_equal = own.words[..CONTEXT] == key.words[..CONTEXT]
            && difference & !REVERSED == 0
            && own.addresses == key.addresses;
        is_equal.then_some(difference != 0)
    }

    pub(super) fn set_key(&self, key: &Canonical, is_second: bool) {
        let from = if is_second { SECOND } else { 0 };
        for (at, word) in key.words.into_iter().enumerate() {
            self.line[from + at].store(word, Relaxed);
        }
        let at = self.memory.address_at(self.id, is_second);
        if let (true, Some(words)) = (key.is_ip6(), self.memory.addresses().get(at)) {
            for (word, value) in words.iter().zip(key.addresses) {
                word.store(value, Relaxed);
            }
        }
    }

    /// The tick of the last packet.
    #[inline(always)]
    pub fn seen(&self) -> u32 {
        self.line[SEEN].load(Relaxed)
    }

    /// A packet came at tick `now`. Stores only when the tick is another one.
    #[inline(always)]
    pub fn refresh(&self, now: u32) {
        if self.seen() != now {
            self.line[SEEN].store(now, Relaxed);
        }
    }

    pub(super) fn set_seen(&self, now: u32) {
        self.line[SEEN].store(now, Relaxed);
    }

    /// It has been removed, or was never there.
    pub(super) fn set_dead(&self) {
        self.set_verdict(self.epoch(), self.class(), self.flags() & !LIVE);
    }

    /// The state of TCP.
    #[inline(always)]
    pub fn tcp(&self) -> [u32; TCP_WORDS] {
        core::array::from_fn(|at| self.line[TCP + at].load(Relaxed))
    }

    /// The first word of [`Self::tcp`].
    #[inline(always)]
    pub fn tcp_word(&self) -> u32 {
        self.line[TCP].load(Relaxed)
    }

    /// Sets the state of TCP.
    #[inline(always)]
    pub(super) fn set_tcp(&self, words: [u32; TCP_WORDS]) {
        for (at, word) in words.into_iter().enumerate() {
            self.line[TCP + at].store(word, Relaxed);
        }
    }

    /// The epoch of the policy by which it was judged.
    #[inline(always)]
    pub fn epoch(&self) -> u16 {
        (self.line[VERDICT].load(Relaxed) >> 16) as u16
    }

    /// The timeout class.
    #[inline(always)]
    pub fn class(&self) -> u8 {
        (self.line[VERDICT].load(Relaxed) >> 8) as u8
    }

    /// The flags; see [`ASSURED`] and [`ANSWERED`].
    #[inline(always)]
    pub fn flags(&self) -> u8 {
        self.line[VERDICT].load(Relaxed) as u8
    }

    /// The epoch of the policy by which it was judged, and its flags, of one moment; `None`: it has been removed.
    #[inline(always)]
    pub fn judged(&self) -> Option<(u16, u8)> {
        let word = self.line[VERDICT].load(Relaxed);
        (word as u8 & LIVE != 0).then_some(((word >> 16) as u16, word as u8))
    }

    /// Whether it has not been removed.
    pub fn is_live(&self) -> bool {
        self.flags() & LIVE != 0
    }

    /// Sets epoch, class and flags together.
    #[inline(always)]
    pub(super) fn set_verdict(&self, epoch: u16, class: u8, flags: u8) {
        let word = u32::from(epoch) << 16 | u32::from(class) << 8 | u32::from(flags);
        self.line[VERDICT].store(word, Relaxed);
    }

    /// The tick of the first packet.
    pub fn start(&self) -> u32 {
        self.record(START)
    }

    /// The rule that admitted it, below 2^24.
    pub fn rule(&self) -> u32 {
        self.record(RULE) & ((1 << OWNER_SHIFT) - 1)
    }

    /// The owner.
    pub fn owner(&self) -> u8 {
        (self.record(RULE) >> OWNER_SHIFT) as u8
    }

    /// The pair of zones.
    pub fn zone_pair(&self) -> u16 {
        (self.record(ZONES) >> 16) as u16
    }

    fn record(&self, at: usize) -> u32 {
        self.memory.record(self.id)[at].load(Relaxed)
    }

    pub(super) fn set_record(&self, start: u32, owner: u8, rule: u32, zone_pair: u16) {
        let record = self.memory.record(self.id);
        record[START].store(start, Relaxed);
        record[ZONES].store(u32::from(zone_pair) << 16, Relaxed);
        record[BYTES_HIGH].store(0, Relaxed);
        self.set_rule(owner, rule);
    }

    pub(super) fn set_rule(&self, owner: u8, rule: u32) {
        let word = u32::from(owner) << OWNER_SHIFT | rule & ((1 << OWNER_SHIFT) - 1);
        self.memory.record(self.id)[RULE].store(word, Relaxed);
    }

    /// The lower words of packets and bytes in a direction.
    #[inline(always)]
    pub(super) fn lower_counters(&self, direction: Direction) -> [&'a AtomicU32; 2] {
        let at = direction as usize * 2;
        match self.memory.counters(self.id) {
            Some(words) => [&words[at], &words[at + 1]],
            None => [&self.line[SECOND + at], &self.line[SECOND + at + 1]],
        }
    }

    pub(super) fn clear_counters(&self) {
        for direction in [Direction::Original, Direction::Reply] {
            let [packets, bytes] = self.lower_counters(direction);
            packets.store(0, Relaxed);
            bytes.store(0, Relaxed);
        }
        if let Some(words) = self.memory.counters(self.id) {
            words[4..].iter().for_each(|word| word.store(0, Relaxed));
        }
    }

    /// The ends of an IPv4 packet of a translated flow on the other side of the router. The packet has a key of the
    /// flow: the second one or the first, as it is or reversed.
    #[inline(always)]
    pub(super) fn other_ends(&self, is_second: bool, is_reversed: bool) -> Ends {
        let from = if is_second { 0 } else { SECOND };
        let [low, high, ports, context] =
            core::array::from_fn(|at| self.line[from + at].load(Relaxed));
        // What has a key as it is gets the other one reversed, and the other way round.
        if (context & REVERSED != 0) == is_reversed {
            Ends { source: high, destination: low, ports: ports.rotate_left(16) }
        } else {
            Ends { source: low, destination: high, ports }
        }
    }

    /// Counts packets in a direction. Of the owner only.
    #[inline(always)]
    fn count(&self, direction: Direction, packets: u32, bytes: u32) {
        let [has_more, has_more_bytes] = add(self.lower_counters(direction), [packets, bytes]);
        if has_more | has_more_bytes {
            self.carry(direction, has_more, has_more_bytes);
        }
    }

    /// Adds 1 to the upper parts of counters.
    #[cold]
    pub(super) fn carry(&self, direction: Direction, packets: bool, bytes: bool) {
        let record = self.memory.record(self.id);
        let add = |at: usize, bits: u32, mask: u32| {
            let old = record[at].load(Relaxed);
            let shift = direction as u32 * bits;
            let field = (old >> shift).wrapping_add(1) & mask;
            // Behind the lower part: who sees the new upper part sees the new lower one.
            record[at].store(old & !(mask << shift) | field << shift, Release);
        };
        if packets {
            add(ZONES, UPPER_BITS[0], 0xff);
        }
        if bytes {
            add(BYTES_HIGH, UPPER_BITS[1], 0xffff);
        }
    }

    /// What has passed. While the owner counts, another thread may get packets and bytes of different moments, and for
    /// the moment of a carry 2^32 less; never more than has passed.
    pub fn counters(&self, direction: Direction) -> Counters {
        let [packets, bytes] = self.lower_counters(direction);
        let record = self.memory.record(self.id);
        let field = |bits: u32| (direction as u32 * bits, (1 << bits) - 1);
        Counters {
            packets: counter(&record[ZONES], field(8), packets),
            bytes: counter(&record[BYTES_HIGH], field(16), bytes),
        }
    }

    /// A spare word of a translated flow (0 or 1), for its mapping; others have none.
    pub fn spare(&self, at: usize) -> Option<u32> {
        self.memory.counters(self.id)?.get(4 + at).map(|word| word.load(Relaxed))
    }
}

/// One flow, for the worker that owns it: the only one that may write to it, as writes are no atomic exchanges.
#[derive(Clone, Copy, Debug)]
pub struct OwnedFlow<'a>(pub(super) FlowEntry<'a>);

impl<'a> core::ops::Deref for OwnedFlow<'a> {
    type Target = FlowEntry<'a>;

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl OwnedFlow<'_> {
    /// Sets the state of TCP.
    #[inline(always)]
    pub fn set_tcp(&self, words: [u32; TCP_WORDS]) {
        self.0.set_tcp(words);
    }

    /// Sets the pair of zones.
    pub fn set_zone_pair(&self, zone_pair: u16) {
        let word = &self.memory.record(self.id)[ZONES];
        word.store(word.load(Relaxed) & 0xffff | u32::from(zone_pair) << 16, Relaxed);
    }

    /// Counts packets in a direction.
    #[inline(always)]
    pub fn count(&self, direction: Direction, packets: u32, bytes: u32) {
        self.0.count(direction, packets, bytes);
    }

    /// Sets a spare word of a translated flow (0 or 1); of others, nothing.
    pub fn set_spare(&self, at: usize, value: u32) {
        if let Some(word) = self.memory.counters(self.id).and_then(|words| words.get(4 + at)) {
            word.store(value, Relaxed);
        }
    }
}
