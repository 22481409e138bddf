//! The neighbour cache as a pure state machine: it is told what happened and
//! says what to do. The [`crate::control`] thread does it.

use std::collections::{BTreeMap, HashMap};

use super::entry::{
    DELAY_MS, Entry, FAILED_MS, FORGET_MS, Key, Millis, QUEUE, RETRANSMIT_MS, SOLICITS, State,
};
use crate::drops::Drop;
use stoa_engine::Packet;

/// What is to be done about a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Ask the whole link.
    Solicit(Key),
    /// Ask the neighbour itself.
    Probe(Key),
    /// It does not answer: refuse its packets for a while.
    Fail(Key),
    /// Nobody needs it any more.
    Forget(Key),
}

/// Neighbours of all interfaces.
pub struct Cache {
    entries: HashMap<Key, Entry>,
    serials: HashMap<u64, Key>,
    last_serial: u64,
    limit: usize,
}

impl Cache {
    /// Room for `limit` neighbours.
    pub fn new(limit: usize) -> Self {
        Self { entries: HashMap::new(), serials: HashMap::new(), last_serial: 0, limit }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All neighbours in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Entry)> {
        self.entries.iter().collect::<BTreeMap<_, _>>().into_iter()
    }

    /// One neighbour.
    pub fn get(&self, key: &Key) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// One neighbour, to change.
    pub fn get_mut(&mut self, key: &Key) -> Option<&mut Entry> {
        self.entries.get_mut(key)
    }

    /// Whether another neighbour fits.
    pub fn has_room(&self) -> bool {
        self.entries.len() < self.limit
    }

    /// Who goes when the table is full: one that did not answer rather than one that
    /// did, and never one that a route needs (RFC 6583 7.1). Looks at a bounded number.
    pub fn victim(&self) -> Option<Key> {
        const LOOKED_AT: usize = 1024;
        let may_go = |entry: &Entry| entry.pins == 0 && entry.state != State::Permanent;
        let looked_at = self.entries.iter().filter(|(_, entry)| may_go(entry)).take(LOOKED_AT);
        let oldest =
            looked_at.min_by_key(|(_, entry)| (entry.state.is_resolved(), entry.confirmed));
        oldest.map(|(key, _)| *key)
    }

    /// A name that no neighbour has had.
    pub fn serial(&mut self) -> u64 {
        self.last_serial += 1;
        self.last_serial
    }

    /// The neighbour of that name.
    pub fn of_serial(&self, serial: u64) -> Option<&Key> {
        self.serials.get(&serial)
    }

    /// Adds a neighbour that is not there yet.
    pub fn insert(&mut self, key: Key, entry: Entry) {
        self.serials.insert(entry.serial, key);
        self.entries.insert(key, entry);
    }

    /// Takes a neighbour out.
    pub fn remove(&mut self, key: &Key) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        self.serials.remove(&entry.serial);
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

    /// What is due. `used` tells how many packets an adjacency has sent.
    pub fn tick(&mut self, now: Millis, used: impl Fn(u32) -> u64) -> Vec<Act> {
        let mut acts = Vec::new();
        for (key, entry) in &mut self.entries {
            if entry.state == State::Stale {
                let sent = used(entry.adjacency);
                if sent != entry.used {
                    entry.used = sent;
                    (entry.state, entry.deadline) = (State::Delay, now + DELAY_MS);
                }
            }
            if now >= entry.deadline
                && let Some(act) = expire(key, entry, now, &used)
            {
                acts.push(act);
            }
        }
        acts
    }
}

/// Moves an entry whose deadline has come to its next state.
fn expire(key: &Key, entry: &mut Entry, now: Millis, used: impl Fn(u32) -> u64) -> Option<Act> {
    match entry.state {
        State::Permanent => None,
        State::Incomplete if entry.tries < SOLICITS => {
            entry.tries += 1;
            entry.deadline = now + RETRANSMIT_MS;
            Some(Act::Solicit(*key))
        }
        State::Probe if entry.tries < SOLICITS => {
            entry.tries += 1;
            entry.deadline = now + RETRANSMIT_MS;
            Some(Act::Probe(*key))
        }
        State::Incomplete | State::Probe => {
            (entry.state, entry.deadline, entry.tries) = (State::Failed, now + FAILED_MS, 0);
            Some(Act::Fail(*key))
        }
        State::Reachable => {
            entry.used = used(entry.adjacency);
            (entry.state, entry.deadline) = (State::Stale, now + FORGET_MS);
            None
        }
        State::Delay => {
            (entry.state, entry.tries, entry.deadline) = (State::Probe, 1, now + RETRANSMIT_MS);
            Some(Act::Probe(*key))
        }
        State::Failed | State::Stale if entry.pins == 0 => Some(Act::Forget(*key)),
        State::Failed => {
            (entry.state, entry.tries, entry.deadline) =
                (State::Incomplete, 1, now + RETRANSMIT_MS);
            Some(Act::Solicit(*key))
        }
        State::Stale => {
            (entry.state, entry.tries, entry.deadline) = (State::Probe, 1, now + RETRANSMIT_MS);
            Some(Act::Probe(*key))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::neighbor::entry::REACHABLE_MS;

    const KEY: Key = (1, std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 9)));

    fn acts(cache: &mut Cache, now: Millis, used: u64) -> Vec<Act> {
        cache.tick(now, |_| used)
    }

    #[test]
    fn nobody_answers() {
        let mut cache = Cache::new(4);
        cache.insert(KEY, Entry::new(0));
        assert_eq!(acts(&mut cache, 0, 0), [Act::Solicit(KEY)]);
        assert_eq!(acts(&mut cache, 999, 0), []);
        assert_eq!(acts(&mut cache, 1000, 0), [Act::Solicit(KEY)]);
        assert_eq!(acts(&mut cache, 2000, 0), [Act::Solicit(KEY)]);
        assert_eq!(acts(&mut cache, 3000, 0), [Act::Fail(KEY)]);
        assert_eq!(acts(&mut cache, 3000 + FAILED_MS, 0), [Act::Forget(KEY)]);
    }

    #[test]
    fn who_does_not_answer_makes_room_first() {
        let mut cache = Cache::new(3);
        let key = |last| (1, std::net::IpAddr::from([10, 0, 0, last]));
        cache.insert(key(1), Entry { serial: 1, ..Entry::new(5) });
        cache.insert(key(2), Entry { serial: 2, state: State::Stale, ..Entry::new(1) });
        cache.insert(key(3), Entry { serial: 3, pins: 1, ..Entry::new(0) });
        assert!(!cache.has_room());
        assert_eq!(cache.victim(), Some(key(1)));
        cache.remove(&key(1));
        assert_eq!(cache.victim(), Some(key(2)));
        cache.remove(&key(2));
        assert_eq!(cache.victim(), None);
    }

    #[test]
    fn a_gateway_is_asked_again_for_ever() {
        let mut cache = Cache::new(4);
        cache.insert(KEY, Entry { state: State::Failed, pins: 1, ..Entry::new(0) });
        assert_eq!(acts(&mut cache, 0, 0), [Act::Solicit(KEY)]);
        assert_eq!(cache.get(&KEY).unwrap().state, State::Incomplete);
    }

    #[test]
    fn a_used_neighbor_is_probed_and_an_unused_one_forgotten() {
        let mut cache = Cache::new(4);
        cache.insert(KEY, Entry::new(0));
        cache.get_mut(&KEY).unwrap().confirm([2, 0, 0, 0, 0, 9], 0);
        assert_eq!(acts(&mut cache, REACHABLE_MS, 7), []);
        assert_eq!(cache.get(&KEY).unwrap().state, State::Stale);
        assert_eq!(acts(&mut cache, REACHABLE_MS + 1, 7), []);
        assert_eq!(acts(&mut cache, REACHABLE_MS + 2, 8), []);
        assert_eq!(cache.get(&KEY).unwrap().state, State::Delay);
        let probe = REACHABLE_MS + 2 + DELAY_MS;
        for at in 0..u64::from(SOLICITS) {
            assert_eq!(acts(&mut cache, probe + at * RETRANSMIT_MS, 8), [Act::Probe(KEY)]);
        }
        assert_eq!(acts(&mut cache, probe + 3 * RETRANSMIT_MS, 8), [Act::Fail(KEY)]);
        let mut cache = Cache::new(4);
        cache.insert(KEY, Entry::new(0));
        cache.get_mut(&KEY).unwrap().hint([2, 0, 0, 0, 0, 9], 0);
        assert_eq!(acts(&mut cache, FORGET_MS, 0), [Act::Forget(KEY)]);
    }
}
