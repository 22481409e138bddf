//! The neighbour cache as a pure state machine: it says what the [`crate::control`] thread does.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};

use super::entry::{
    DELAY_MS, Entry, FAILED_MS, GC_STALE_MS, Key, MAX_SOLICITS, Millis, QUEUE, REACHABLE_MS,
    RETRANSMIT_MS, State,
};
use super::occupancy::{Admission, EvictionClass, LinkFamily, Occupancy, link_family};
use crate::drops::Drop;
use stoa_engine::Packet;

/// What is to be done about a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask the whole link.
    Solicit(Key),
    /// Ask the neighbour itself.
    Probe(Key),
    /// It does not answer: refuse its packets for a while.
    Fail(Key),
    /// Nobody needs it any more.
    Delete(Key),
}

/// Questions about unresolved neighbours in one tick: who scans a network must not fill
/// the link with them. What is due and left out comes with the next tick.
const MAX_SOLICITATIONS_PER_TICK: usize = 256;
/// Milliseconds after which the time that an answer is trusted is chosen anew (RFC 4861 6.3.4).
const REACHABLE_RECOMPUTE_MS: Millis = 3_600_000;

/// Neighbours of all interfaces.
pub struct Cache {
    entries: HashMap<Key, Entry>,
    serials: HashMap<u32, Key>,
    pub(crate) last_serial: u32,
    occupancy: Occupancy,
    /// Unresolved neighbours and others that made room for a new one.
    evicted: (u64, u64),
    /// How long an answer is trusted, and when that is chosen anew.
    reachable: (Millis, Millis),
}

/// Between half and one and a half of REACHABLE_TIME.
fn reachable_time(now: Millis) -> Millis {
    REACHABLE_MS / 2 + RandomState::new().hash_one(now) % (REACHABLE_MS + 1)
}

impl Cache {
    /// Room for `limit` neighbours.
    pub fn new(limit: usize) -> Self {
        Self {
            entries: HashMap::new(),
            serials: HashMap::new(),
            last_serial: 0,
            occupancy: Occupancy::new(limit),
            evicted: (0, 0),
            reachable: (reachable_time(0), REACHABLE_RECOMPUTE_MS),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many there are of each kind, and how many there may be.
    pub fn occupancy(&self) -> &Occupancy {
        &self.occupancy
    }

    /// Neighbours that made room for a new one: too many were unresolved, or there were too many.
    pub fn evicted(&self) -> (u64, u64) {
        self.evicted
    }

    /// Milliseconds for which an answer is trusted now.
    pub fn reachable_ms(&self) -> Millis {
        self.reachable.0
    }

    /// All neighbours in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Entry)> {
        self.entries.iter().collect::<BTreeMap<_, _>>().into_iter()
    }

    /// All neighbours in no order: for searches.
    pub fn each(&self) -> impl Iterator<Item = (&Key, &Entry)> {
        self.entries.iter()
    }

    /// One neighbour.
    pub fn get(&self, key: &Key) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// One neighbour, to change all but its state.
    pub fn get_mut(&mut self, key: &Key) -> Option<&mut Entry> {
        self.entries.get_mut(key)
    }

    /// Changes the state of a neighbour.
    pub fn change(&mut self, key: &Key, change: impl FnOnce(&mut Entry)) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let before = entry.eviction_class();
        change(entry);
        self.occupancy.count(key, entry.serial, Some(before), Some(entry.eviction_class()));
    }

    /// Whether a neighbour fits, or which one makes room for it (RFC 6583 7.1). `limit`
    /// is that of its interface and family, 0: the usual one. What the configuration
    /// wants is bounded by the table alone.
    pub fn admit(&mut self, key: &Key, limit: usize, is_desired: bool) -> Admission {
        let shortage = match self.occupancy.shortage(key, limit, is_desired) {
            None => return Admission::Free,
            Some(shortage) => shortage,
        };
        let (entries, serials) = (&self.entries, &self.serials);
        let may_go = |serial: u32, eviction_class: EvictionClass| {
            let key = serials.get(&serial)?;
            let entry =
                entries.get(key).filter(|entry| entry.eviction_class() == eviction_class)?;
            Some((*key, entry.pins == 0))
        };
        let first = self.occupancy.first(&shortage, may_go);
        let idle = || self.idle(shortage.side).filter(|_| !shortage.is_unresolved_only);
        let Some(victim) = first.or_else(idle) else {
            return if shortage.of_interface {
                Admission::InterfaceFull
            } else {
                Admission::TableFull
            };
        };
        let (unresolved, others) = &mut self.evicted;
        *if shortage.is_unresolved_only { unresolved } else { others } += 1;
        Admission::Evict(victim)
    }

    /// The neighbour of an interface and family that nobody used for longest, of a bounded number.
    fn idle(&self, side: LinkFamily) -> Option<Key> {
        const LOOKED_AT: usize = 1024;
        let may_go = |(key, entry): &(&Key, &Entry)| {
            link_family(key) == side && entry.pins == 0 && entry.state == State::Stale
        };
        let looked_at = self.entries.iter().filter(may_go).take(LOOKED_AT);
        looked_at.min_by_key(|(_, entry)| entry.confirmed).map(|(key, _)| *key)
    }

    /// A name that no neighbour has.
    pub fn serial(&mut self) -> u32 {
        loop {
            self.last_serial = self.last_serial.wrapping_add(1);
            if self.last_serial != 0 && !self.serials.contains_key(&self.last_serial) {
                return self.last_serial;
            }
        }
    }

    /// The neighbour of that name.
    pub fn by_serial(&self, serial: u32) -> Option<&Key> {
        self.serials.get(&serial)
    }

    /// Adds a neighbour that is not there yet.
    pub fn insert(&mut self, key: Key, entry: Entry) {
        self.occupancy.count(&key, entry.serial, None, Some(entry.eviction_class()));
        self.serials.insert(entry.serial, key);
        self.entries.insert(key, entry);
    }

    /// Takes a neighbour out.
    pub fn remove(&mut self, key: &Key) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        self.serials.remove(&entry.serial);
        self.occupancy.count(key, entry.serial, Some(entry.eviction_class()), None);
        Some(entry)
    }

    /// The neighbours of an interface.
    pub fn of_interface(&self, interface: u32) -> Vec<Key> {
        self.entries.keys().filter(|key| key.0 == interface).copied().collect()
    }

    /// Keeps a packet until the neighbour answers; the oldest makes room.
    ///
    /// # Errors
    /// Why a packet was dropped: this one, or the one that made room.
    pub fn wait(&mut self, key: &Key, packet: Packet) -> Result<(), Drop> {
        let Some(entry) = self.entries.get_mut(key) else { return Err(Drop::NeighborTable) };
        if entry.state == State::Failed {
            return Err(Drop::NeighborFailed);
        }
        let is_full = entry.queue.len() >= QUEUE;
        if is_full {
            entry.queue.pop_front();
        }
        entry.queue.push_back(packet);
        if is_full { Err(Drop::NeighborQueue) } else { Ok(()) }
    }

    /// Packets that wait in all.
    pub fn waiting(&self) -> usize {
        self.entries.values().map(|entry| entry.queue.len()).sum()
    }

    /// What is due, answers to those we know first: their refresh comes before
    /// questions about strangers (RFC 6583 7.1). `used` tells how many packets an
    /// adjacency has sent.
    pub fn tick(&mut self, now: Millis, used: impl Fn(u32) -> u64) -> Vec<Action> {
        if now >= self.reachable.1 {
            self.reachable = (reachable_time(now), now + REACHABLE_RECOMPUTE_MS);
        }
        let (mut acts, mut questions) = (Vec::new(), 0);
        for (key, entry) in &mut self.entries {
            if entry.state == State::Stale {
                let sent = used(entry.adjacency);
                if sent != entry.used {
                    entry.used = sent;
                    (entry.state, entry.deadline) = (State::Delay, now + DELAY_MS);
                }
            }
            let asks = matches!(entry.state, State::Incomplete) && entry.tries < MAX_SOLICITS;
            if now < entry.deadline
                || (asks && entry.pins == 0 && questions >= MAX_SOLICITATIONS_PER_TICK)
            {
                continue;
            }
            questions += usize::from(asks);
            let before = entry.eviction_class();
            acts.extend(advance_state(key, entry, now, &used));
            self.occupancy.count(key, entry.serial, Some(before), Some(entry.eviction_class()));
        }
        let serials = &self.serials;
        self.occupancy.compact(|serial| serials.contains_key(&serial));
        acts.sort_by_key(|act| matches!(act, Action::Solicit(_)));
        acts
    }
}

/// Moves an entry whose deadline has come to its next state.
fn advance_state(
    key: &Key,
    entry: &mut Entry,
    now: Millis,
    used: impl Fn(u32) -> u64,
) -> Option<Action> {
    match entry.state {
        State::Permanent => None,
        State::Incomplete if entry.tries < MAX_SOLICITS => {
            entry.tries += 1;
            entry.deadline = now + RETRANSMIT_MS;
            Some(Action::Solicit(*key))
        }
        State::Probe if entry.tries < MAX_SOLICITS => {
            entry.tries += 1;
            entry.deadline = now + RETRANSMIT_MS;
            Some(Action::Probe(*key))
        }
        State::Incomplete | State::Probe => {
            (entry.state, entry.deadline, entry.tries) = (State::Failed, now + FAILED_MS, 0);
            entry.lost = true;
            Some(Action::Fail(*key))
        }
        State::Reachable => {
            entry.used = used(entry.adjacency);
            (entry.state, entry.deadline) = (State::Stale, now + GC_STALE_MS);
            None
        }
        State::Delay => {
            (entry.state, entry.tries, entry.deadline) = (State::Probe, 1, now + RETRANSMIT_MS);
            Some(Action::Probe(*key))
        }
        State::Failed | State::Stale if entry.pins == 0 => Some(Action::Delete(*key)),
        State::Failed => {
            (entry.state, entry.tries, entry.deadline) =
                (State::Incomplete, 1, now + RETRANSMIT_MS);
            Some(Action::Solicit(*key))
        }
        State::Stale => {
            (entry.state, entry.tries, entry.deadline) = (State::Probe, 1, now + RETRANSMIT_MS);
            Some(Action::Probe(*key))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = (1, std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 9)));

    fn acts(cache: &mut Cache, now: Millis, used: u64) -> Vec<Action> {
        cache.tick(now, |_| used)
    }

    #[test]
    fn nobody_answers() {
        let mut cache = Cache::new(4);
        cache.insert(KEY, Entry::new(0));
        assert_eq!(acts(&mut cache, 0, 0), [Action::Solicit(KEY)]);
        assert_eq!(acts(&mut cache, 999, 0), []);
        assert_eq!(acts(&mut cache, 1000, 0), [Action::Solicit(KEY)]);
        assert_eq!(acts(&mut cache, 2000, 0), [Action::Solicit(KEY)]);
        assert_eq!(acts(&mut cache, 3000, 0), [Action::Fail(KEY)]);
        assert_eq!(acts(&mut cache, 3000 + FAILED_MS, 0), [Action::Delete(KEY)]);
    }

    fn key(last: u8) -> Key {
        (1, std::net::IpAddr::from([10, 0, 0, last]))
    }

    fn add(cache: &mut Cache, key: Key, entry: Entry) {
        let serial = cache.serial();
        cache.insert(key, Entry { serial, ..entry });
    }

    #[test]
    fn a_scan_takes_no_place_from_those_who_answer() {
        let mut cache = Cache::new(128);
        for last in 0..10 {
            add(&mut cache, key(last), Entry::new(0));
            cache.change(&key(last), |entry| entry.confirm([2, 0, 0, 0, 0, last], 0, 1000));
        }
        // Half the table for one interface and family, a quarter of that unresolved.
        for last in 10..200 {
            match cache.admit(&key(last), 0, false) {
                Admission::Free => {}
                Admission::Evict(victim) => {
                    assert_eq!(victim, key(last - 16), "the oldest that was not answered goes");
                    cache.remove(&victim);
                }
                Admission::InterfaceFull | Admission::TableFull => panic!("there is room"),
            }
            add(&mut cache, key(last), Entry::new(u64::from(last)));
        }
        assert_eq!((cache.len(), cache.occupancy().unresolved().0), (26, 16));
        assert!((0..10).all(|last| cache.get(&key(last)).is_some()));
        // Another interface has its own.
        assert_eq!(cache.admit(&(2, key(7).1), 0, false), Admission::Free);
    }

    #[test]
    fn who_never_answered_goes_first_then_who_is_idle_and_nobody_else() {
        let mut cache = Cache::new(1000);
        let place = |cache: &mut Cache| cache.admit(&key(99), 4, false);
        let stale = |at| Entry { state: State::Stale, verified: true, ..Entry::new(at) };
        add(&mut cache, key(1), stale(1));
        add(&mut cache, key(2), Entry { verified: false, ..stale(5) });
        add(&mut cache, key(3), Entry { pins: 1, ..Entry::new(0) });
        assert_eq!(place(&mut cache), Admission::Free);
        add(&mut cache, key(4), stale(3));
        for goes in [2, 1, 4] {
            assert_eq!(place(&mut cache), Admission::Evict(key(goes)));
            cache.remove(&key(goes));
            add(
                &mut cache,
                key(goes),
                Entry { state: State::Reachable, verified: true, ..stale(9) },
            );
        }
        assert_eq!(place(&mut cache), Admission::InterfaceFull);
        assert_eq!(cache.admit(&key(99), 4, true), Admission::Free, "what is configured fits");
        // And takes no place from those who are learnt.
        cache.change(&key(4), |entry| entry.state = State::Permanent);
        assert_eq!(place(&mut cache), Admission::Free);
        assert_eq!(cache.occupancy().link_families().collect::<Vec<_>>(), [((1, true), 3)]);
    }

    #[test]
    fn refreshes_come_before_questions_and_those_are_few_at_a_time() {
        let mut cache = Cache::new(100_000);
        for at in 0..1000_u32 {
            add(&mut cache, (1, std::net::IpAddr::V4(at.into())), Entry::new(0));
        }
        add(&mut cache, (2, key(1).1), Entry { state: State::Delay, ..Entry::new(0) });
        let first = acts(&mut cache, 0, 0);
        assert_eq!(
            (first[0], first.len()),
            (Action::Probe((2, key(1).1)), MAX_SOLICITATIONS_PER_TICK + 1)
        );
        let more: usize = (1..4).map(|at| acts(&mut cache, at, 0).len()).sum();
        assert_eq!(first.len() + more, 1001, "each gets its turn");
    }

    #[test]
    fn a_gateway_is_asked_again_for_ever() {
        let mut cache = Cache::new(4);
        cache.insert(KEY, Entry { state: State::Failed, pins: 1, ..Entry::new(0) });
        assert_eq!(acts(&mut cache, 0, 0), [Action::Solicit(KEY)]);
        assert_eq!(cache.get(&KEY).unwrap().state, State::Incomplete);
    }

    #[test]
    fn a_used_neighbor_is_probed_and_an_unused_one_forgotten() {
        let mut cache = Cache::new(4);
        cache.insert(KEY, Entry::new(0));
        cache.get_mut(&KEY).unwrap().confirm([2, 0, 0, 0, 0, 9], 0, REACHABLE_MS);
        assert_eq!(acts(&mut cache, REACHABLE_MS, 7), []);
        assert_eq!(cache.get(&KEY).unwrap().state, State::Stale);
        assert_eq!(acts(&mut cache, REACHABLE_MS + 1, 7), []);
        assert_eq!(acts(&mut cache, REACHABLE_MS + 2, 8), []);
        assert_eq!(cache.get(&KEY).unwrap().state, State::Delay);
        let probe = REACHABLE_MS + 2 + DELAY_MS;
        for at in 0..u64::from(MAX_SOLICITS) {
            assert_eq!(acts(&mut cache, probe + at * RETRANSMIT_MS, 8), [Action::Probe(KEY)]);
        }
        assert_eq!(acts(&mut cache, probe + 3 * RETRANSMIT_MS, 8), [Action::Fail(KEY)]);
        let mut cache = Cache::new(4);
        cache.insert(KEY, Entry::new(0));
        cache.get_mut(&KEY).unwrap().hint([2, 0, 0, 0, 0, 9], 0);
        assert_eq!(acts(&mut cache, GC_STALE_MS, 0), [Action::Delete(KEY)]);
    }
}
