//! Fragments follow their first one: a bounded table of what was decided about the first fragment of a packet, for
//! those that have no ports. It keeps no packets and looks at no data.
//!
//! - Fragments come in any order. One before the first has to wait ([`Fate::Wait`]); the caller may keep such packets
//!   by the number of the entry ([`held`]), and send them behind the first one.
//! - A fragment that overlaps what has passed is dropped, so that hosts never see two versions of a byte. After an
//!   overlap that is no repetition, nothing of the packet passes any more (RFC 5722, RFC 8200 section 4.5).
//! - An entry ends after its time, or when another one needs its place: those that wait for a first fragment give way
//!   before others, older ones before younger ones.
//! - When all of a packet has passed, its entry refuses repetitions and overlaps for a while: the receiver may have
//!   lost a fragment, and would join another version of it with the rest (RFC 8900 section 3.7). It gives way before
//!   all others, and soon: fast sources use an identification again within seconds (RFC 6864 section 4).

mod entry;
pub mod held;
#[cfg(test)]
mod tests;

use stoa_tables::flow_hash::fold_product;

use entry::{Entry, State};

/// Entries of which one is chosen for a key.
const WAYS: usize = 8;
/// Gaps that a packet may have at a time, and one: each fragment that arrives out of order makes one. The longest
/// packet on Ethernet has no more, in whatever order its 45 fragments come.
const RANGES: usize = 24;
/// Packets that may wait for one first fragment: those of the longest packet on Ethernet, 65,535 bytes, are 45.
pub const WAITING_MAX: u8 = 64;
/// Packets of which fragments are missing, of one worker and family.
pub const PACKETS: usize = 512;
/// The same of one source.
pub const PACKETS_OF_SOURCE: u16 = 128;
/// The part of the lifetime for which a complete entry remains: 0.2 of 6 seconds.
const COMPLETE_PART: u64 = 30;

/// What identifies the fragments of a packet (RFC 791, RFC 8200 section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The virtual router.
    pub vrf: u32,
    /// Source address; IPv4 as an IPv4-mapped IPv6 address.
    pub source: u128,
    /// Destination address.
    pub destination: u128,
    /// Protocol of the IPv4 header; 0 for IPv6, whose fragments need not name the same one.
    pub protocol: u8,
    /// Identification.
    pub identification: u32,
}

/// Which part of its packet a fragment is, in units of 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where it begins, 0..=8,191.
    pub start: u16,
    /// Where it ends: above `start`, rounded up.
    pub end: u16,
    /// No more fragments follow.
    pub is_last: bool,
}

/// What happens to a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate<V> {
    /// It follows the first one.
    Follow(V),
    /// The first one has not come. `entry` is the number of its entry; `is_new`: this is the first fragment of an
    /// entry, so that packets kept by this number before are of another packet.
    Wait {
        /// The number, below [`Fragments::capacity`].
        entry: u32,
        /// The entry is new.
        is_new: bool,
    },
    /// Drop it.
    Drop(Refusal),
}

/// Why a fragment is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// It repeats or overlaps what has passed, or its packet had an overlap, or is a first fragment before too many
    /// gaps to tell.
    Overlap,
    /// It is empty, beyond 65,535 bytes, or beyond the last one.
    BadRange,
    /// Too many gaps, or too many that wait.
    Scattered,
    /// Its source has too many packets of which fragments are missing.
    SourceLimit,
}

/// The table. `V` is what was decided about the first fragment: a verdict, a translation. One owner; nothing is
/// allocated after construction.
pub struct Fragments<V> {
    entries: Box<[Entry<V>]>,
    /// Entries of each source. Sources share a number by chance, and then a limit.
    sources: Box<[u16]>,
    limit: u16,
    lifetime: u64,
    /// How long a first fragment is waited for.
    patience: u64,
    seed: [u64; 2],
    swept: usize,
}

impl<V: Copy> Fragments<V> {
    /// A table of at least `capacity` entries, a power of two from 8 on, of which each source may have `limit`. An
    /// entry lives for `lifetime` of the unit in which the caller counts (RFC 8200 section 4.5: 60 seconds at most).
    /// `seed` is random and secret, so that nobody chooses who shares a place with whom.
    pub fn new(capacity: usize, limit: u16, lifetime: u64, seed: [u64; 2]) -> Self {
        let capacity = capacity.clamp(WAYS, 1 << 24).next_power_of_two();
        let key = Key { vrf: 0, source: 0, destination: 0, protocol: 0, identification: 0 };
        let (ranges, state) = ([(0, 0); RANGES], State::Free);
        let free = Entry { key, born: 0, state, ranges, count: 0, end: 0, source: 0 };
        Self {
            entries: vec![free; capacity].into_boxed_slice(),
            sources: vec![0; capacity].into_boxed_slice(),
            limit,
            lifetime,
            patience: lifetime,
            seed: [seed[0] | 1, seed[1] | 1],
            swept: 0,
        }
    }

    /// Entries of packets whose first fragment has not come end after this time already.
    #[must_use]
    pub fn with_patience(self, patience: u64) -> Self {
        Self { patience, ..self }
    }

    /// Entries in all.
    pub fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// Entries of packets of which fragments are missing, expired ones included.
    pub fn len(&self) -> usize {
        self.entries.iter().filter(|entry| entry.state.is_counted()).count()
    }

    /// Whether there is no such entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A first fragment, about which `value` was decided. Returns the number of its entry: packets kept by this number
    /// wait for it no more, or are of another packet.
    ///
    /// # Errors
    /// It is to be dropped.
    pub fn first(&mut self, key: &Key, piece: Piece, value: V, now: u64) -> Result<u32, Refusal> {
        let (at, _) = self.enter(key, piece, now)?;
        self.entries[at].state = State::Known(value);
        self.complete(at, now);
        Ok(at as u32)
    }

    /// Forgets a packet.
    pub fn forget(&mut self, key: &Key) {
        if let Some(at) = self.find(self.start_of(self.hash(key).1), key) {
            self.free(at);
        }
    }

    /// The same as [`Self::later`] for a fragment of a packet that has an entry; others make none.
    pub fn follow(&mut self, key: &Key, piece: Piece, now: u64) -> Option<Fate<V>> {
        let at = self.find(self.start_of(self.hash(key).1), key)?;
        (!self.is_expired(at, now)).then(|| self.later(key, piece, now))
    }

    /// A fragment that is not the first one.
    pub fn later(&mut self, key: &Key, piece: Piece, now: u64) -> Fate<V> {
        let (at, is_new) = match self.enter(key, piece, now) {
            Ok(found) => found,
            Err(reason) => return Fate::Drop(reason),
        };
        match &mut self.entries[at].state {
            State::Known(value) => {
                let value = *value;
                self.complete(at, now);
                Fate::Follow(value)
            }
            State::Waiting(count) => {
                *count += 1;
                Fate::Wait { entry: at as u32, is_new }
            }
            // `enter` has refused them.
            State::Free | State::Poisoned | State::Complete(_) => Fate::Drop(Refusal::Overlap),
        }
    }

    /// What was decided about the first fragment of a packet, if that has passed.
    pub fn known(&self, key: &Key, now: u64) -> Option<V> {
        let at = self.find(self.start_of(self.hash(key).1), key)?;
        match self.entries[at].state {
            State::Known(value) | State::Complete(value) if !self.is_expired(at, now) => {
                Some(value)
            }
            _ => None,
        }
    }

    /// The share of entries that the packet of an entry counts for, below [`Self::capacity`]: that of its source.
    pub fn share(&self, entry: u32) -> u32 {
        self.entries.get(entry as usize).map_or(0, |entry| entry.source)
    }

    /// The entry of a packet of which nothing passes any more because of an overlap.
    pub fn poisoned(&self, key: &Key) -> Option<u32> {
        let at = self.find(self.start_of(self.hash(key).1), key)?;
        matches!(self.entries[at].state, State::Poisoned).then_some(at as u32)
    }

    /// Replaces what was decided about the first fragment of a packet, if that has passed.
    pub fn replace(&mut self, key: &Key, value: V) {
        if let Some(at) = self.find(self.start_of(self.hash(key).1), key)
            && let State::Known(known) | State::Complete(known) = &mut self.entries[at].state
        {
            *known = value;
        }
    }

    /// Frees expired entries among the next `most`, and tells the number of each, so that packets that were kept for it
    /// can be dropped.
    pub fn sweep(&mut self, now: u64, most: usize, mut expired: impl FnMut(u32)) {
        for _ in 0..most.min(self.entries.len()) {
            let at = self.swept;
            self.swept = (at + 1) % self.entries.len();
            if self.is_expired(at, now) {
                // All of a complete one has been sent.
                let may_have_packets = self.entries[at].state.is_counted();
                self.free(at);
                if may_have_packets {
                    expired(at as u32);
                }
            }
        }
    }

    /// Of the source, and of the whole key. A source is an IPv4 address or an IPv6 /64, of which one host may have all.
    fn hash(&self, key: &Key) -> (u64, u64) {
        let [one, two] = self.seed;
        let words = |address: u128| ((address >> 64) as u64, address as u64);
        let ((a, b), (c, d)) = (words(key.source), words(key.destination));
        let host = if a == 0 && b >> 32 == 0xffff { b } else { 0 };
        let source = fold_product(fold_product(a ^ one, two) ^ host, one) ^ u64::from(key.vrf);
        let source = fold_product(source ^ two, one);
        let rest = u64::from(key.protocol) << 32 | u64::from(key.identification);
        let whole = fold_product(fold_product(fold_product(source ^ b, two) ^ c, one) ^ d, two);
        (source, fold_product(whole ^ rest, one))
    }

    fn is_expired(&self, at: usize, now: u64) -> bool {
        let entry = &self.entries[at];
        let time = match entry.state {
            State::Complete(_) => self.lifetime.div_ceil(COMPLETE_PART),
            State::Waiting(_) => self.patience,
            _ => self.lifetime,
        };
        now.saturating_sub(entry.born) >= time
    }

    /// The first entry that a key with this hash may have.
    fn start_of(&self, hash: u64) -> usize {
        hash as usize % (self.entries.len() / WAYS) * WAYS
    }

    /// The entry of a key among those from `start` on.
    fn find(&self, start: usize, key: &Key) -> Option<usize> {
        (start..start + WAYS).find(|at| {
            let entry = &self.entries[*at];
            entry.key == *key && !matches!(entry.state, State::Free)
        })
    }

    /// Finds or makes the entry of a fragment and notes its range; the entry, and whether it is new.
    fn enter(&mut self, key: &Key, piece: Piece, now: u64) -> Result<(usize, bool), Refusal> {
        if piece.start >= piece.end || piece.end > 1 << 13 {
            return Err(Refusal::BadRange);
        }
        let (source, hash) = self.hash(key);
        let start = self.start_of(hash);
        let found = self.find(start, key);
        if let Some(at) = found.filter(|at| !self.is_expired(*at, now)) {
            let waits = matches!(self.entries[at].state, State::Waiting(WAITING_MAX..));
            if waits && piece.start != 0 {
                return Err(Refusal::Scattered);
            }
            return self.entries[at].note(piece).map(|()| (at, false));
        }
        let source = source as usize % self.sources.len();
        // In the place of an expired one, so that packets that were kept for it are known to be of another packet.
        let at = found.unwrap_or_else(|| self.place(start, now));
        let leaving = &self.entries[at];
        let is_own = leaving.state.is_counted() && leaving.source as usize == source;
        if self.sources[source] - u16::from(is_own) >= self.limit {
            return Err(Refusal::SourceLimit);
        }
        self.free(at);
        self.sources[source] += 1;
        let (ranges, state) = ([(0, 0); RANGES], State::Waiting(0));
        let source = source as u32;
        self.entries[at] = Entry { key: *key, born: now, state, ranges, count: 0, end: 0, source };
        self.entries[at].note(piece).map(|()| (at, true))
    }

    /// Which entry of a set is free, or gives way.
    fn place(&self, start: usize, now: u64) -> usize {
        let rank = |at: usize| match self.entries[at].state {
            State::Free => 0,
            State::Complete(_) => 1,
            _ if self.is_expired(at, now) => 1,
            State::Waiting(_) => 2,
            State::Poisoned | State::Known(_) => 3,
        };
        let age = |at: usize| (rank(at), self.entries[at].born);
        (start..start + WAYS).min_by_key(|at| age(*at)).unwrap_or(start)
    }

    fn free(&mut self, at: usize) {
        let entry = &mut self.entries[at];
        if entry.state.is_counted() {
            let count = &mut self.sources[entry.source as usize];
            *count = count.saturating_sub(1);
        }
        entry.state = State::Free;
    }

    /// Notes if all of the packet has passed.
    fn complete(&mut self, at: usize, now: u64) {
        let entry = &self.entries[at];
        let is_whole = entry.count == 1 && entry.end != 0 && entry.ranges[0] == (0, entry.end);
        if let State::Known(value) = entry.state
            && is_whole
        {
            self.free(at);
            (self.entries[at].state, self.entries[at].born) = (State::Complete(value), now);
        }
    }
}
