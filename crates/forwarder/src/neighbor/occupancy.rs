//! How many neighbours there are on each interface and of each family, how many there
//! may be, and who goes first: a scan of a whole network must not push out those who
//! answer (RFC 6583).

use std::collections::{HashMap, VecDeque};

use super::entry::Key;

/// An interface, and whether it is IPv4 that is meant.
pub type LinkFamily = (u32, bool);

/// The side that a neighbour is on.
pub fn link_family(key: &Key) -> LinkFamily {
    (key.0, key.1.is_ipv4())
}

/// What a neighbour's place rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionClass {
    /// Asked for, not answered, or no longer.
    Unresolved,
    /// Somebody says where it is; it has never answered us.
    Unverified,
    /// It has answered us.
    Verified,
    /// It is configured, or an entry of our own: no share of its interface is used for it.
    Configured,
}

/// Whether there is a place for a new neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Yes.
    Free,
    /// That of this one.
    Evict(Key),
    /// No: its interface has as many as it may have.
    InterfaceFull,
    /// No: the table is full.
    TableFull,
}

/// Why somebody has to go, and from where.
#[derive(Clone, Copy, Debug)]
pub struct Shortage {
    /// Whose neighbours are too many.
    pub side: LinkFamily,
    /// Only the unresolved ones are.
    pub is_unresolved_only: bool,
    /// The interface has too many, not the table.
    pub of_interface: bool,
}

/// Least number of unresolved neighbours that an interface may have.
const MIN_UNRESOLVED: usize = 16;

#[derive(Default)]
struct Count {
    all: usize,
    configured: usize,
    unresolved: usize,
    /// Names of the unresolved in the order in which they came to be so; some are gone.
    unresolved_queue: VecDeque<u32>,
    /// The same of those that have never answered.
    unverified_queue: VecDeque<u32>,
}

/// The numbers of all interfaces.
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

    /// Unresolved neighbours, and how many there may be in all.
    pub fn unresolved(&self) -> (usize, usize) {
        (self.unresolved, (self.limit / 2).max(MIN_UNRESOLVED))
    }

    /// Interfaces and families that have neighbours, with how many of those their limits bound.
    pub fn link_families(&self) -> impl Iterator<Item = (LinkFamily, usize)> {
        self.link_families.iter().map(|(side, count)| (*side, count.all - count.configured))
    }

    /// Neighbours that an interface may have in a family unless told otherwise.
    pub fn default_limit(&self) -> usize {
        (self.limit / 2).max(1)
    }

    /// What is short for another neighbour; `None`: nothing is.
    pub(super) fn shortage(&self, key: &Key, limit: usize, is_desired: bool) -> Option<Shortage> {
        let side = link_family(key);
        let limit = if limit == 0 { self.default_limit() } else { limit };
        let (learnt, unresolved) =
            self.link_families.get(&side).map_or((0, 0), |c| (c.all - c.configured, c.unresolved));
        if !is_desired {
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

    /// The first who goes: who was not answered for longest, then who never answered.
    /// `may_go` tells of a name whether it still stands so, who it is, and if it may go.
    pub(super) fn first(
        &mut self,
        shortage: &Shortage,
        may_go: impl Fn(u32, EvictionClass) -> Option<(Key, bool)>,
    ) -> Option<Key> {
        let count = self.link_families.get_mut(&shortage.side)?;
        let unresolved_queue =
            first(&mut count.unresolved_queue, |serial| may_go(serial, EvictionClass::Unresolved));
        if unresolved_queue.is_some() || shortage.is_unresolved_only {
            return unresolved_queue;
        }
        first(&mut count.unverified_queue, |serial| may_go(serial, EvictionClass::Unverified))
    }

    /// A neighbour came, went, or changed its standing.
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

    /// Forgets names of those that are gone, when they have become many.
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

/// Takes the first name out that may go; those that may not, but stand so, stay.
fn first(queue: &mut VecDeque<u32>, may_go: impl Fn(u32) -> Option<(Key, bool)>) -> Option<Key> {
    for _ in 0..queue.len() {
        let serial = queue.pop_front()?;
        match may_go(serial) {
            Some((key, true)) => return Some(key),
            Some((_, false)) => queue.push_back(serial),
            None => {}
        }
    }
    None
}
