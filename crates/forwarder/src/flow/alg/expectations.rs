//! Connections that are expected: announced by a control connection, between its two hosts, for some seconds, once.
//!
//! A table of fixed size that all workers share, without locks. The pair of hosts and the port give the bucket, so that
//! a look-up reads 8 slots at most. A slot has a generation: who reads it sees whether it has changed meanwhile.
//!
//! Counters limit what a host may have that listens, and what two hosts may have. They are about the host itself:
//! behind address translation, many have one external address. Those of SIP are counted apart, and get half of the
//! table: whoever sends a datagram, from whatever address, announces media. What nobody has answered gets an eighth,
//! and is counted for the other host, too.

mod calls;
mod expected;
mod full;
mod slot;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering};

use stoa_engine::prepared::Prepared;
use stoa_tables::flow_hash::mix;
use stoa_wire::protocol::GRE;

use super::{Alg, AlgCounts};
use crate::nat::mappings::Mappings;
use expected::Counters;
pub use expected::{Becomes, Control, Expectation, Expected, ExpectedKey, Origin};
pub use full::Full;
use full::FullPair;
use slot::Slot;

/// Expectations of all hosts.
pub const CAPACITY: u32 = 4_096;
const BUCKET: usize = 8;
const BUCKETS: usize = CAPACITY as usize / BUCKET;
/// Those of SIP, of all hosts.
pub const OF_SIP: u32 = CAPACITY / 2;
/// Those of SIP which a host has announced that nobody has answered, and that may not exist.
pub const UNANSWERED: u32 = CAPACITY / 8;
/// Those that registrars have bound, of all hosts, and of one: they stay for an hour, and may hold a port set.
pub const BOUND: u32 = OF_SIP / 2;
/// As above.
pub const BOUND_OF_HOST: u16 = 16;
/// Expectations of connections to one host; and of those from it that are unanswered.
pub const OF_HOST: Most = Most { sip: 256, others: 64 };
/// Expectations of two hosts.
pub const OF_PAIR: Most = Most { sip: 128, others: 32 };

/// How many there may be: a call takes more than a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Most {
    /// Of SIP.
    pub sip: u16,
    /// Of other protocols together.
    pub others: u16,
}

impl Most {
    fn of(self, alg: Alg) -> u16 {
        if alg == Alg::Sip { self.sip } else { self.others }
    }
}

/// Counters of hosts and of pairs: a keyed hash of the addresses gives the counter, so that others may have the same
/// one.
const HOSTS: usize = 1_024;
const PAIRS: usize = 4_096;
/// What an expectation is counted by.
const STEPS: usize = 7;

/// All expectations. There is no memory for them before a rule names a gateway.
pub struct Expectations {
    slots: Prepared<Slot>,
    /// What has announced the last expectation of each slot.
    origins: Prepared<AtomicU32>,
    /// Expectations for each counter of hosts that listen, of the other ones of what is unanswered, of hosts that have
    /// registered, and of pairs.
    hosts: Box<[AtomicU16; HOSTS]>,
    peers: Box<[AtomicU16; HOSTS]>,
    bound_hosts: Box<[AtomicU16; HOSTS]>,
    pairs: Box<[AtomicU16; PAIRS]>,
    live: AtomicU32,
    /// Those of SIP, those of them that are unanswered, and those that registrars have bound.
    of_sip: AtomicU32,
    unanswered: AtomicU32,
    bound: AtomicU32,
    /// Whether calls of PPTP were ever expected.
    has_calls: AtomicBool,
    /// The tick at which all were looked at last.
    swept: AtomicU32,
    seed: u32,
    counts: AlgCounts,
    /// Two hosts that had no room.
    full_pair: FullPair,
    /// The mappings that bindings use.
    mappings: Arc<Mappings>,
}

impl Expectations {
    /// None. `seed`: what others cannot foresee. `mappings`: those that bindings use.
    pub fn new(seed: u32, mappings: Arc<Mappings>) -> Self {
        Self {
            slots: Prepared::default(),
            origins: Prepared::default(),
            hosts: Box::new([const { AtomicU16::new(0) }; HOSTS]),
            peers: Box::new([const { AtomicU16::new(0) }; HOSTS]),
            bound_hosts: Box::new([const { AtomicU16::new(0) }; HOSTS]),
            pairs: Box::new([const { AtomicU16::new(0) }; PAIRS]),
            live: AtomicU32::new(0),
            of_sip: AtomicU32::new(0),
            unanswered: AtomicU32::new(0),
            bound: AtomicU32::new(0),
            has_calls: AtomicBool::new(false),
            swept: AtomicU32::new(0),
            seed,
            counts: AlgCounts::default(),
            full_pair: FullPair::default(),
            mappings,
        }
    }

    /// Makes room; whether there is memory.
    pub fn prepare(&self) -> bool {
        self.origins.prepare(CAPACITY as usize) && self.slots.prepare(CAPACITY as usize)
    }

    /// Whether any connection is expected.
    #[inline(always)]
    pub fn is_any(&self) -> bool {
        self.live.load(Ordering::Relaxed) != 0
    }

    /// Whether there may be flows of calls: packets of enhanced GRE with a call ID in their keys.
    #[inline(always)]
    pub fn has_calls(&self) -> bool {
        self.has_calls.load(Ordering::Relaxed)
    }

    /// How many connections are expected.
    pub fn live(&self) -> u32 {
        self.live.load(Ordering::Relaxed)
    }

    /// What gateways have done.
    pub fn counts(&self) -> &AlgCounts {
        &self.counts
    }

    /// A number that others cannot foresee, for each `number`.
    pub fn random(&self, number: u32) -> u32 {
        mix(self.seed ^ mix(number))
    }

    /// Where the bucket of a key begins.
    fn first(&self, key: &ExpectedKey) -> usize {
        key.hash(self.seed) as usize % BUCKETS * BUCKET
    }

    fn bucket(&self, key: &ExpectedKey) -> &[Slot] {
        let at = self.first(key);
        self.slots.get(at..at + BUCKET).unwrap_or(&[])
    }

    /// Frees a slot that is as it was when it was read; whether it is.
    fn release(&self, slot: &Slot, (state, it): &(u32, Expectation)) -> bool {
        let is_free = slot.free(*state);
        if is_free {
            self.live.fetch_sub(1, Ordering::Relaxed);
            self.give_back(it, STEPS);
            if let Some(id) = it.mapping {
                self.mappings.release(id);
            }
        }
        is_free
    }

    /// Gives back what [`Self::reserve`] has taken in its first steps.
    fn give_back(&self, it: &Expectation, steps: usize) {
        let Counters { host, peer, pair } = it.counters(self.seed);
        let is_bound = it.kind == Expected::Bound;
        for step in 0..steps {
            match step {
                0 => Self::count_less(&self.hosts[..], host),
                1 if it.is_unanswered => Self::count_less(&self.peers[..], peer),
                2 => Self::count_less(&self.pairs[..], pair),
                3 if it.alg == Alg::Sip => drop(self.of_sip.fetch_sub(1, Ordering::Relaxed)),
                4 if it.is_unanswered => drop(self.unanswered.fetch_sub(1, Ordering::Relaxed)),
                5 if is_bound => Self::count_less(&self.bound_hosts[..], host),
                6 if is_bound => drop(self.bound.fetch_sub(1, Ordering::Relaxed)),
                _ => {}
            }
        }
    }

    /// Counts an expectation, if all limits allow it.
    fn reserve(&self, it: &Expectation) -> Result<(), Full> {
        let Counters { host, peer, pair } = it.counters(self.seed);
        let is_bound = it.kind == Expected::Bound;
        let share = |counter: &AtomicU32, most: u32| {
            let more = |count: u32| (count < most).then(|| count + 1);
            let done = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
            done.map(drop).map_err(|_| Full::All)
        };
        for step in 0..STEPS {
            let done = match step {
                0 => Self::count_more(&self.hosts[..], host, OF_HOST.of(it.alg)),
                1 if it.is_unanswered => {
                    Self::count_more(&self.peers[..], peer, OF_HOST.of(it.alg))
                }
                2 => Self::count_more(&self.pairs[..], pair, OF_PAIR.of(it.alg))
                    .map_err(|_| self.full_pair.note(it)),
                3 if it.alg == Alg::Sip => share(&self.of_sip, OF_SIP),
                4 if it.is_unanswered => share(&self.unanswered, UNANSWERED),
                5 if is_bound => Self::count_more(&self.bound_hosts[..], host, BOUND_OF_HOST),
                6 if is_bound => share(&self.bound, BOUND),
                _ => Ok(()),
            };
            if let Err(full) = done {
                self.give_back(it, step);
                return Err(full);
            }
        }
        Ok(())
    }

    fn count_less(counters: &[AtomicU16], at: usize) {
        if let Some(counter) = counters.get(at) {
            counter.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn count_more(counters: &[AtomicU16], at: usize, most: u16) -> Result<(), Full> {
        let more = |count: u16| (count < most).then(|| count + 1);
        let counter = counters.get(at).ok_or(Full::All)?;
        let done = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        done.map(drop).map_err(|_| Full::All)
    }

    /// The expectation with this key, if there is one.
    pub fn find(&self, key: &ExpectedKey, now: u32) -> Option<Expectation> {
        let all = self.bucket(key).iter().filter_map(Slot::read);
        all.map(|(_, it)| it).find(|it| it.key == *key && !it.is_over(now))
    }

    /// The same. One whose time is over ends.
    pub fn find_or_end(&self, key: &ExpectedKey, now: u32) -> Option<Expectation> {
        for slot in self.bucket(key) {
            let Some(read) = slot.read().filter(|(_, it)| it.key == *key) else { continue };
            if !read.1.is_over(now) {
                return Some(read.1);
            }
            if self.release(slot, &read) {
                self.counts.note_expired();
            }
        }
        None
    }

    /// Takes away the expectation that a first packet meets, unless a registrar has bound it: that stays. If it begins
    /// a flow, the caller [notes](AlgCounts::note_begun) that; otherwise it [puts](Self::put) back what was taken.
    pub fn take(&self, key: &ExpectedKey, now: u32) -> Option<Expectation> {
        for slot in self.bucket(key) {
            let Some(read) = slot.read() else { continue };
            let it = read.1;
            if it.key == *key && it.kind == Expected::Bound && !it.is_over(now) {
                return Some(it);
            }
            // Another worker may have got a packet of the same connection.
            if it.key == *key && self.release(slot, &read) {
                if it.is_over(now) {
                    self.counts.note_expired();
                    continue;
                }
                return Some(it);
            }
        }
        None
    }

    /// A control connection expects what has this key no more.
    pub fn forget(&self, key: &ExpectedKey, control: Control) {
        for slot in self.bucket(key) {
            if let Some(read) = slot.read()
                && read.1.key == *key
                && read.1.control == control
            {
                self.release(slot, &read);
            }
        }
    }

    /// Expects a connection.
    ///
    /// # Errors
    /// There is no room, or its hosts have as many as they may have.
    pub fn expect(&self, new: &Expectation, now: u32) -> Result<(), Full> {
        self.put(new, now)?;
        self.counts.note_expected();
        Ok(())
    }

    /// As [`Self::expect`], without being counted.
    ///
    /// # Errors
    /// As above. The caller gives back the mapping.
    pub fn put(&self, new: &Expectation, now: u32) -> Result<(), Full> {
        let bucket = self.bucket(&new.key);
        for slot in bucket {
            let Some(read) = slot.read() else { continue };
            let it = read.1;
            let is_former = it.control == new.control && it.key == new.key;
            if it.is_over(now) {
                if self.release(slot, &read) {
                    self.counts.note_expired();
                }
            } else if is_former {
                self.release(slot, &read);
            } else if it.key == new.key {
                return Err(Full::All);
            }
        }
        self.reserve(new)?;
        // Before it can be taken away.
        self.live.fetch_add(1, Ordering::Relaxed);
        if new.key.protocol == GRE {
            self.has_calls.store(true, Ordering::Relaxed);
        }
        if let Some(at) = bucket.iter().position(|slot| slot.fill(new)) {
            self.note_origin(self.first(&new.key) + at, new.origin);
            return Ok(());
        }
        self.live.fetch_sub(1, Ordering::Relaxed);
        self.give_back(new, STEPS);
        Err(Full::All)
    }

    /// Ends what is over, once a tick, whichever worker asks first. What a registrar has bound is over, too, by other
    /// rules than those of `epoch`; `None`: there are none.
    pub fn sweep(&self, now: u32, epoch: Option<u16>) {
        if !self.is_any() {
            return;
        }
        let last = self.swept.load(Ordering::Relaxed);
        let is_mine = last != now
            && self.swept.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        for slot in self.slots.iter().filter(|_| is_mine) {
            let Some(read) = slot.read() else { continue };
            if read.1.is_over(now) {
                if self.release(slot, &read) {
                    self.counts.note_expired();
                }
            } else if read.1.is_of_former_rules(epoch) {
                self.release(slot, &read);
            }
        }
    }

    /// All of them.
    pub fn listed(&self) -> impl Iterator<Item = Expectation> {
        self.slots.iter().filter_map(Slot::read).map(|(_, it)| it)
    }
}

#[cfg(test)]
mod tests;
