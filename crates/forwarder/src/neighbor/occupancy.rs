//! The number of neighbours of each interface and family, their limits, and the order of eviction: a
//! scan of a network must not evict resolved neighbours (RFC 6583).

use std::collections::{HashMap, VecDeque};

use super::entry::Key;

/// An interface and a family; `true`: IPv4.
pub type LinkFamily = (u32, bool);

/// The interface and family of a neighbour.
pub fn link_family(key: &Key) -> LinkFamily {
    (key.0, key.1.is_ipv4())
}

/// The eviction class of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionClass {
    /// Not resolved, or no longer.
    Unresolved,
    /// Resolved from a received message, but it has never replied to a solicitation.
    Unverified,
    /// It has replied to a solicitation.
    Verified,
    /// Configured or local: does not count towards the limit of its interface.
    Configured,
}

/// Whether a new neighbour can be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Yes.
    Free,
    /// After this neighbour is evicted.
    Evict(Key),
    /// No: its interface has reached its limit.
    InterfaceFull,
    /// No: the table is full.
    TableFull,
}

/// A limit that is reached, and where to evict.
#[derive(Clone, Copy, Debug)]
pub struct Shortage {
    /// The interface and family with too many neighbours.
    pub side: LinkFamily,
    /// Whether it has too many unresolved ones.
    pub is_unresolved_only: bool,
    /// Whether the interface has reached its limit, not the table.
    pub of_interface: bool,
}

/// The lowest limit of unresolved neighbours of an interface.
const MIN_UNRESOLVED: usize = 16;

#[derive(Default)]
struct Count {
    all: usize,
    configured: usize,
    unresolved: usize,
    /// Serial numbers of the unresolved neighbours in the order of that state; can hold deleted ones.
    unresolved_queue: VecDeque<u32>,
    /// The same of the unverified neighbours.
    unverified_queue: VecDeque<u32>,
}

/// The numbers of neighbours of all interfaces.
pub struct Occupancy {
    limit: usize,
    all: usize,
    unresolved: usize,
    link_families: HashMap<LinkFamily, Count>,
}

impl Occupancy {
    /// For a table of `limit` neighbours.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, all: 0, unresolved: 0, link_families: HashMap::new() }
    }

    /// Number of unresolved neighbours, and its limit.
    pub fn unresolved(&self) -> (usize, usize) {
        (self.unresolved, (self.limit / 2).max(MIN_UNRESOLVED))
    }

    /// Interfaces and families with neighbours, with the number that counts towards their limit.
    pub fn link_families(&self) -> impl Iterator<Item = (LinkFamily, usize)> {
        self.link_families.iter().map(|(side, count)| (*side, count.all - count.configured))
    }

    /// The default limit of neighbours of an interface and family.
    pub fn default_limit(&self) -> usize {
        (self.limit / 2).max(1)
    }

    /// The limit that another neighbour would exceed; `None`: it can be added.
    pub(super) fn shortage(
        &self,
        key: &Key,
        limit: usize,
        is_configured: bool,
    ) -> Option<Shortage> {
        let side = link_family(key);
        let limit = if limit == 0 { self.default_limit() } else { limit };
        let (learnt, unresolved) =
            self.link_families.get(&side).map_or((0, 0), |c| (c.all - c.configured, c.unresolved));
        if !is_configured {
            let of_interface = true;
            if unresolved >= (limit / 4).max(MIN_UNRESOLVED).min(limit) {
                return Some(Shortage { side, is_unresolved_only: true, of_interface });
            }
            if learnt >= limit {
                return Some(Shortage { side, is_unresolved_only: false, of_interface });
            }
            if self.unresolved >= self.unresolved().1 {
                let most = self.link_families.iter().max_by_key(|(_, count)| count.unresolved);
                return most.map(|(side, _)| Shortage {
                    side: *side,
                    is_unresolved_only: true,
                    of_interface: false,
                });
            }
        }
        if self.all < self.limit {
            return None;
        }
        let most = self.link_families.iter().max_by_key(|(_, count)| count.all);
        most.map(|(side, _)| Shortage {
            side: *side,
            is_unresolved_only: false,
            of_interface: false,
        })
    }

    /// The neighbour to evict: the oldest unresolved one, then the oldest unverified one. `may_evict`
    /// returns the key of a serial number that is still in this class, and whether it can be evicted.
    pub(super) fn victim(
        &mut self,
        shortage: &Shortage,
        may_evict: impl Fn(u32, EvictionClass) -> Option<(Key, bool)>,
    ) -> Option<Key> {
        let count = self.link_families.get_mut(&shortage.side)?;
        let unresolved_queue =
            pop(&mut count.unresolved_queue, |serial| may_evict(serial, EvictionClass::Unresolved));
        if unresolved_queue.is_some() || shortage.is_unresolved_only {
            return unresolved_queue;
        }
        pop(&mut count.unverified_queue, |serial| may_evict(serial, EvictionClass::Unverified))
    }

    /// Counts a neighbour that was added, removed or has changed its class.
    pub(super) fn count(
        &mut self,
        key: &Key,
        serial: u32,
        before: Option<EvictionClass>,
        after: Option<EvictionClass>,
    ) {
        if before == after {
            return;
        }
        let count = self.link_families.entry(link_family(key)).or_default();
        let came = usize::from(before.is_none());
        let went = usize::from(after.is_none());
        count.all = count.all + came - went;
        self.all = self.all + came - went;
        let (was, is) =
            (Some(EvictionClass::Configured) == before, Some(EvictionClass::Configured) == after);
        count.configured = count.configured + usize::from(is) - usize::from(was);
        let was = usize::from(before == Some(EvictionClass::Unresolved));
        let is = usize::from(after == Some(EvictionClass::Unresolved));
        count.unresolved = count.unresolved + is - was;
        self.unresolved = self.unresolved + is - was;
        match after {
            Some(EvictionClass::Unresolved) => count.unresolved_queue.push_back(serial),
            Some(EvictionClass::Unverified) => count.unverified_queue.push_back(serial),
            _ => {}
        }
        if count.all == 0 {
            self.link_families.remove(&link_family(key));
        }
    }

    /// Removes deleted neighbours from long queues.
    pub(super) fn compact(&mut self, is_here: impl Fn(u32) -> bool) {
        for count in self.link_families.values_mut() {
            for queue in [&mut count.unresolved_queue, &mut count.unverified_queue] {
                if queue.len() > 2 * count.all + 64 {
                    let mut seen = std::collections::HashSet::new();
                    queue.retain(|serial| is_here(*serial) && seen.insert(*serial));
                }
            }
        }
    }
}

/// Pops the first neighbour that can be evicted; keeps the others of the class.
fn pop(queue: &mut VecDeque<u32>, may_evict: impl Fn(u32) -> Option<(Key, bool)>) -> Option<Key> {
    for _ in 0..queue.len() {
        let serial = queue.pop_front()?;
        match may_evict(serial) {
            Some((key, true)) => return Some(key),
            Some((_, false)) => queue.push_back(serial),
            None => {}
        }
    }
    None
}
