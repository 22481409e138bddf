//! The neighbour cache as a pure state machine: it returns the actions for the [`crate::control`]
//! thread.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::ops::Bound;

use super::entry::{
    DELAY_MS, Entry, FAILED_MS, GC_STALE_MS, Key, MAX_SOLICITS, Millis, QUEUE, REACHABLE_MS,
    RETRANSMIT_MS, State, keys_of,
};
use super::occupancy::{Admission, EvictionClass, LinkFamily, Occupancy, link_family};
use super::waiting::Waiting;
use crate::drops::Drop;
use stoa_engine::Packet;

/// An action of the control thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a multicast solicitation.
    Solicit(Key),
    /// Send a unicast probe.
    Probe(Key),
    /// Resolution failed: drop packets to the neighbour for a while.
    Fail(Key),
    /// The entry is unused: delete it.
    Delete(Key),
}

/// The most solicitations of unresolved neighbours in one tick, so that a scan of a network does not
/// flood the link. The others follow in the next ticks.
const MAX_SOLICITATIONS_PER_TICK: usize = 256;
/// Milliseconds after which the reachable time is recomputed (RFC 4861 6.3.4).
const REACHABLE_RECOMPUTE_MS: Millis = 3_600_000;

/// Neighbours of all interfaces.
pub struct Cache {
    entries: HashMap<Key, Entry>,
    /// The keys of all entries in order.
    keys: BTreeSet<Key>,
    serials: HashMap<u32, Key>,
    pub(crate) last_serial: u32,
    occupancy: Occupancy,
    waiting: Waiting,
    /// Evicted neighbours: unresolved ones and others.
    evicted: (u64, u64),
    /// The reachable time, and when it is recomputed.
    reachable: (Millis, Millis),
}

/// A random time between 0.5 and 1.5 times REACHABLE_TIME.
fn reachable_time(now: Millis) -> Millis {
    REACHABLE_MS / 2 + RandomState::new().hash_one(now) % (REACHABLE_MS + 1)
}

impl Cache {
    /// An empty cache for `limit` neighbours.
    pub fn new(limit: usize) -> Self {
        Self {
            entries: HashMap::new(),
            keys: BTreeSet::new(),
            serials: HashMap::new(),
            last_serial: 0,
            occupancy: Occupancy::new(limit),
            waiting: Waiting::default(),
            evicted: (0, 0),
            reachable: (reachable_time(0), REACHABLE_RECOMPUTE_MS),
        }
    }

    /// Number of neighbours.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The numbers of neighbours and their limits.
    pub fn occupancy(&self) -> &Occupancy {
        &self.occupancy
    }

    /// Evicted neighbours: because of too many unresolved ones, and because of too many in total.
    pub fn evicted(&self) -> (u64, u64) {
        self.evicted
    }

    /// The current reachable time.
    pub fn reachable_ms(&self) -> Millis {
        self.reachable.0
    }

    /// All neighbours in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Entry)> {
        self.keys.iter().filter_map(|key| self.entries.get_key_value(key))
    }

    /// The entries of an interface from one address to another.
    pub fn within(
        &self,
        interface: u32,
        first: IpAddr,
        last: IpAddr,
    ) -> impl Iterator<Item = &Entry> {
        let keys = self.keys.range((interface, first)..=(interface, last));
        keys.filter_map(|key| self.entries.get(key))
    }

    /// The neighbours after one, in order; `None`: from the first one on.
    pub fn following(&self, after: Option<Key>) -> impl Iterator<Item = (&Key, &Entry)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let keys = self.keys.range((from, Bound::Unbounded));
        keys.filter_map(|key| self.entries.get_key_value(key))
    }

    /// All neighbours in arbitrary order.
    pub fn each(&self) -> impl Iterator<Item = (&Key, &Entry)> {
        self.entries.iter()
    }

    /// One neighbour.
    pub fn get(&self, key: &Key) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// One neighbour, for changes of other fields than its state.
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

    /// Whether a new neighbour can be added, or which one must be evicted for it (RFC 6583 7.1).
    /// `limit` is that of its interface and family, 0: the default. For configured neighbours only
    /// the size of the table applies.
    pub fn admit(&mut self, key: &Key, limit: usize, is_configured: bool) -> Admission {
        let shortage = match self.occupancy.shortage(key, limit, is_configured) {
            None => return Admission::Free,
            Some(shortage) => shortage,
        };
        let (entries, serials) = (&self.entries, &self.serials);
        let may_evict = |serial: u32, eviction_class: EvictionClass| {
            let key = serials.get(&serial)?;
            let entry =
                entries.get(key).filter(|entry| entry.eviction_class() == eviction_class)?;
            Some((*key, entry.pins == 0))
        };
        let first = self.occupancy.victim(&shortage, may_evict);
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

    /// The stale neighbour of an interface and family that was confirmed longest ago, among a bounded
    /// number of candidates.
    fn idle(&self, side: LinkFamily) -> Option<Key> {
        const CANDIDATES: usize = 1024;
        let may_evict = |(key, entry): &(&Key, &Entry)| {
            link_family(key) == side && entry.pins == 0 && entry.state == State::Stale
        };
        let candidates = self.entries.iter().filter(may_evict).take(CANDIDATES);
        candidates.min_by_key(|(_, entry)| entry.confirmed).map(|(key, _)| *key)
    }

    /// An unused serial number.
    pub fn serial(&mut self) -> u32 {
        loop {
            self.last_serial = self.last_serial.wrapping_add(1);
            if self.last_serial != 0 && !self.serials.contains_key(&self.last_serial) {
                return self.last_serial;
            }
        }
    }

    /// The neighbour with this serial number.
    pub fn by_serial(&self, serial: u32) -> Option<&Key> {
        self.serials.get(&serial)
    }

    /// Adds a new neighbour.
    pub fn insert(&mut self, key: Key, entry: Entry) {
        self.occupancy.count(&key, entry.serial, None, Some(entry.eviction_class()));
        self.serials.insert(entry.serial, key);
        self.entries.insert(key, entry);
        self.keys.insert(key);
    }

    /// Removes a neighbour.
    pub fn remove(&mut self, key: &Key) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        self.keys.remove(key);
        self.serials.remove(&entry.serial);
        self.waiting.remove(key.0, &entry.queue);
        self.occupancy.count(key, entry.serial, Some(entry.eviction_class()), None);
        Some(entry)
    }

    /// The neighbours of an interface.
    pub fn of_interface(&self, interface: u32) -> Vec<Key> {
        self.keys.range(keys_of(interface)).copied().collect()
    }

    /// Queues a packet until the neighbour is resolved; a full queue drops its oldest packet. Packets that
    /// wait may hold a [share](super::waiting) of the buffers; beyond it, the packet is dropped.
    ///
    /// # Errors
    /// The drop reason of this packet or of the oldest one.
    pub fn enqueue(&mut self, key: &Key, packet: Packet) -> Result<(), Drop> {
        let Some(entry) = self.entries.get_mut(key) else { return Err(Drop::NeighborTable) };
        if entry.state == State::Failed {
            return Err(Drop::NeighborFailed);
        }
        if !self.waiting.add(key.0, &packet) {
            return Err(Drop::NeighborQueue);
        }
        let oldest = if entry.queue.len() < QUEUE { None } else { entry.queue.pop_front() };
        entry.queue.push_back(packet);
        self.waiting.remove(key.0, &oldest);
        if oldest.is_some() { Err(Drop::NeighborQueue) } else { Ok(()) }
    }

    /// Takes all packets that wait for a neighbour.
    pub fn take_queue(&mut self, key: &Key) -> VecDeque<Packet> {
        let entry = self.entries.get_mut(key);
        let queue = entry.map(|entry| std::mem::take(&mut entry.queue)).unwrap_or_default();
        self.waiting.remove(key.0, &queue);
        queue
    }

    /// Number of queued packets.
    pub fn queued(&self) -> usize {
        self.waiting.len()
    }

    /// Runs the timers and returns the actions that are due: refreshes of known neighbours before
    /// solicitations of unresolved ones (RFC 6583 7.1). `used` returns the number of packets that an
    /// adjacency has sent.
    pub fn tick(&mut self, now: Millis, used: impl Fn(u32) -> u64) -> Vec<Action> {
        if now >= self.reachable.1 {
            self.reachable = (reachable_time(now), now + REACHABLE_RECOMPUTE_MS);
        }
        let (mut actions, mut solicitations) = (Vec::new(), 0);
        for (key, entry) in &mut self.entries {
            if entry.state == State::Stale {
                let sent = used(entry.adjacency);
                if sent != entry.used {
                    entry.used = sent;
                    (entry.state, entry.deadline) = (State::Delay, now + DELAY_MS);
                }
            }
            let solicits = matches!(entry.state, State::Incomplete) && entry.tries < MAX_SOLICITS;
            if now < entry.deadline
                || (solicits && entry.pins == 0 && solicitations >= MAX_SOLICITATIONS_PER_TICK)
            {
                continue;
            }
            solicitations += usize::from(solicits);
            let before = entry.eviction_class();
            actions.extend(advance_state(key, entry, now, &used));
            self.occupancy.count(key, entry.serial, Some(before), Some(entry.eviction_class()));
        }
        let serials = &self.serials;
        self.occupancy.compact(|serial| serials.contains_key(&serial));
        actions.sort_by_key(|action| matches!(action, Action::Solicit(_)));
        actions
    }
}

/// Moves an entry whose timer has expired to its next state.
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
mod tests;
