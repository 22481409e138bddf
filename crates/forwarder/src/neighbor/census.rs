//! How many neighbours there are on each interface and of each family, how many there
//! may be, and who goes first: a scan of a whole network must not push out those who
//! answer (RFC 6583).

use std::collections::{HashMap, VecDeque};

use super::entry::Key;

/// An interface, and whether it is IPv4 that is meant.
pub type Side = (u32, bool);

/// The side that a neighbour is on.
pub fn side_of(key: &Key) -> Side {
    (key.0, key.1.is_ipv4())
}

/// What a neighbour's place rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Asked for, not answered, or no longer.
    Unresolved,
    /// Somebody says where it is; it has never answered us.
    Hinted,
    /// It has answered us.
    Proven,
    /// It is configured, or an entry of our own: no share of its interface is used for it.
    Configured,
}

/// Whether there is a place for a new neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Yes.
    Free,
    /// That of this one.
    Of(Key),
    /// No: its interface has as many as it may have.
    NotHere,
    /// No: the table is full.
    Nowhere,
}

/// Why somebody has to go, and from where.
#[derive(Clone, Copy, Debug)]
pub struct Shortage {
    /// Whose neighbours are too many.
    pub side: Side,
    /// Only the unresolved ones are.
    pub unresolved_only: bool,
    /// The interface has too many, not the table.
    pub of_interface: bool,
}

/// Least number of unresolved neighbours that an interface may have.
const FEW: usize = 16;

#[derive(Default)]
struct Count {
    all: usize,
    configured: usize,
    unresolved: usize,
    /// Names of the unresolved in the order in which they came to be so; some are gone.
    asked: VecDeque<u32>,
    /// The same of those that have never answered.
    hinted: VecDeque<u32>,
}

/// The numbers of all interfaces.
pub struct Census {
    limit: usize,
    all: usize,
    unresolved: usize,
    sides: HashMap<Side, Count>,
}

impl Census {
    /// For a table of `limit` neighbours.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, all: 0, unresolved: 0, sides: HashMap::new() }
    }

    /// Unresolved neighbours, and how many there may be in all.
    pub fn unresolved(&self) -> (usize, usize) {
        (self.unresolved, (self.limit / 2).max(FEW))
    }

    /// Interfaces and families that have neighbours, with how many of those their limits bound.
    pub fn sides(&self) -> impl Iterator<Item = (Side, usize)> {
        self.sides.iter().map(|(side, count)| (*side, count.all - count.configured))
    }

    /// Neighbours that an interface may have in a family unless told otherwise.
    pub fn usual_limit(&self) -> usize {
        (self.limit / 2).max(1)
    }

    /// What is short for another neighbour; `None`: nothing is.
    pub(super) fn shortage(&self, key: &Key, limit: usize, is_desired: bool) -> Option<Shortage> {
        let side = side_of(key);
        let limit = if limit == 0 { self.usual_limit() } else { limit };
        let (learnt, unresolved) =
            self.sides.get(&side).map_or((0, 0), |c| (c.all - c.configured, c.unresolved));
        if !is_desired {
            let of_interface = true;
            if unresolved >= (limit / 4).max(FEW).min(limit) {
                return Some(Shortage { side, unresolved_only: true, of_interface });
            }
            if learnt >= limit {
                return Some(Shortage { side, unresolved_only: false, of_interface });
            }
            if self.unresolved >= self.unresolved().1 {
                let most = self.sides.iter().max_by_key(|(_, count)| count.unresolved);
                return most.map(|(side, _)| Shortage {
                    side: *side,
                    unresolved_only: true,
                    of_interface: false,
                });
            }
        }
        if self.all < self.limit {
            return None;
        }
        let most = self.sides.iter().max_by_key(|(_, count)| count.all);
        most.map(|(side, _)| Shortage { side: *side, unresolved_only: false, of_interface: false })
    }

    /// The first who goes: who was not answered for longest, then who never answered.
    /// `may_go` tells of a name whether it still stands so, who it is, and if it may go.
    pub(super) fn first(
        &mut self,
        shortage: &Shortage,
        may_go: impl Fn(u32, Standing) -> Option<(Key, bool)>,
    ) -> Option<Key> {
        let count = self.sides.get_mut(&shortage.side)?;
        let asked = first(&mut count.asked, |serial| may_go(serial, Standing::Unresolved));
        if asked.is_some() || shortage.unresolved_only {
            return asked;
        }
        first(&mut count.hinted, |serial| may_go(serial, Standing::Hinted))
    }

    /// A neighbour came, went, or changed its standing.
    pub(super) fn count(
        &mut self,
        key: &Key,
        serial: u32,
        before: Option<Standing>,
        after: Option<Standing>,
    ) {
        if before == after {
            return;
        }
        let count = self.sides.entry(side_of(key)).or_default();
        let came = usize::from(before.is_none());
        let went = usize::from(after.is_none());
        count.all = count.all + came - went;
        self.all = self.all + came - went;
        let (was, is) = (Some(Standing::Configured) == before, Some(Standing::Configured) == after);
        count.configured = count.configured + usize::from(is) - usize::from(was);
        let was = usize::from(before == Some(Standing::Unresolved));
        let is = usize::from(after == Some(Standing::Unresolved));
        count.unresolved = count.unresolved + is - was;
        self.unresolved = self.unresolved + is - was;
        match after {
            Some(Standing::Unresolved) => count.asked.push_back(serial),
            Some(Standing::Hinted) => count.hinted.push_back(serial),
            _ => {}
        }
        if count.all == 0 {
            self.sides.remove(&side_of(key));
        }
    }

    /// Forgets names of those that are gone, when they have become many.
    pub(super) fn tidy(&mut self, is_here: impl Fn(u32) -> bool) {
        for count in self.sides.values_mut() {
            for queue in [&mut count.asked, &mut count.hinted] {
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
