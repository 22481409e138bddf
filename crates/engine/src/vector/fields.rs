//! The fields of the headers of each lane's packet, in columns: what rules and flow tables compare. They are made when
//! a feature asks for them, and then known for all lanes of the vector.

use super::Vector;
use super::beside::{FIELDS, FLOW, WIDE};
use super::lanes::{Lanes, copy};
use crate::column::{Column, Here};

/// The columns. Their maker defines what they hold; a vector only keeps and moves them.
#[derive(Clone)]
pub struct Fields {
    /// Words of source addresses, the most significant first. IPv4 addresses are in the first column only; what the
    /// others hold for their lanes means nothing.
    pub source: [Column<u32>; 4],
    /// Words of destination addresses.
    pub destination: [Column<u32>; 4],
    /// Ports, or what takes their place.
    pub ports: Column<u32>,
    /// Protocol, flags, and kinds of packets.
    pub kind: Column<u32>,
    /// Places and lengths.
    pub place: Column<u32>,
    /// The flow that was found by the other columns, for nodes that come later in the same walk of the graph;
    /// [`NONE`]: none, or nobody has looked. No maker of the columns writes it.
    pub flow: Column<u32>,
}

/// No flow.
pub const NONE: u32 = u32::MAX;

impl Fields {
    /// Columns of zeros.
    pub fn new() -> Box<Self> {
        let zero = || Column::of(0);
        let words = || [zero(), zero(), zero(), zero()];
        Box::new(Self {
            source: words(),
            destination: words(),
            ports: zero(),
            kind: zero(),
            place: zero(),
            flow: Column::of(NONE),
        })
    }

    /// Copies lanes to those from `end` on; `is_wide`: all words of addresses are in use.
    pub(super) fn copy(&self, here: Here, lanes: &Lanes, to: &mut Self, end: usize, is_wide: bool) {
        let words = if is_wide { 4 } else { 1 };
        for word in 0..words {
            copy(here, &self.source[word], lanes, &mut to.source[word], end);
            copy(here, &self.destination[word], lanes, &mut to.destination[word], end);
        }
        copy(here, &self.ports, lanes, &mut to.ports, end);
        copy(here, &self.kind, lanes, &mut to.kind, end);
        copy(here, &self.place, lanes, &mut to.place, end);
        copy(here, &self.flow, lanes, &mut to.flow, end);
    }
}

impl Vector {
    /// The fields of all lanes. `make` writes them unless they are known, because another node has asked before, and
    /// returns whether any lane uses all words of its addresses. They stay known as flows do.
    #[inline]
    pub fn fields(&mut self, make: impl FnOnce(&Self, &mut Fields) -> bool) -> &Fields {
        let mut fields = self.beside.fields.take().unwrap_or_else(Fields::new);
        if self.beside.known & FIELDS == 0 {
            let is_wide = make(self, &mut fields);
            fields.flow[..self.len].fill(NONE);
            self.beside.known |= FIELDS | if is_wide { WIDE } else { 0 };
        }
        self.beside.fields.insert(fields)
    }

    /// The fields of all lanes, if they are known.
    #[inline]
    pub fn known_fields(&self) -> Option<&Fields> {
        if self.beside.known & FIELDS == 0 { None } else { self.beside.fields.as_deref() }
    }

    /// The same, for a node that changes a header and keeps the columns true.
    #[inline]
    pub fn known_fields_mut(&mut self) -> Option<&mut Fields> {
        if self.beside.known & FIELDS == 0 { None } else { self.beside.fields.as_deref_mut() }
    }

    /// To be called by a node that changes a header of a packet, and not its flow.
    #[inline(always)]
    pub fn forget_fields(&mut self) {
        self.beside.known &= !(FIELDS | WIDE);
    }

    /// To be called by a node that changes addresses or ports, and keeps the columns of fields true.
    #[inline(always)]
    pub fn forget_hash(&mut self) {
        self.beside.known &= !FLOW;
    }

    /// To be called by a node that changes addresses, protocol or ports of a packet, or makes another
    /// packet of it.
    #[inline(always)]
    pub fn forget_flow(&mut self) {
        self.beside.known &= !(FLOW | FIELDS | WIDE);
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;
    use crate::column::Width;
    use crate::pool::{HugePages, Pool, PoolCache};

    /// Numbers the lanes from `first` on in each column.
    fn fill(vector: &mut Vector, first: u32, is_wide: bool) {
        vector.fields(|_, fields| {
            for lane in 0..64 {
                let number = first + lane as u32;
                for word in 0..4 {
                    fields.source[word][lane] = number + 1000 * word as u32;
                    fields.destination[word][lane] = number + 5000 * word as u32;
                }
                (fields.ports[lane], fields.kind[lane]) = (number + 1, number + 2);
                fields.place[lane] = number + 3;
            }
            is_wide
        });
    }

    /// The lanes of the columns, which agree about their numbers.
    fn numbers(vector: &Vector, is_wide: bool) -> Option<Vec<u32>> {
        let fields = vector.known_fields()?;
        let number = |lane: usize| {
            let number = fields.source[0][lane];
            let others = [fields.ports[lane], fields.kind[lane], fields.place[lane]];
            assert_eq!(others, [number + 1, number + 2, number + 3]);
            for word in 0..if is_wide { 4 } else { 1 } {
                assert_eq!(fields.source[word][lane], number + 1000 * word as u32);
                assert_eq!(fields.destination[word][lane], number + 5000 * word as u32);
            }
            number
        };
        Some((0..vector.len()).map(number).collect())
    }

    #[test]
    fn fields_move_with_their_lanes_until_they_are_forgotten() {
        let pool = Pool::leak(1024, HugePages::Never).unwrap();
        for (width, is_wide) in [(Width::Plain, true), (Width::Avx2, false), (Width::Avx512, true)]
        {
            let (mut cache, here) = (PoolCache::new(pool), Here::at_most(width));
            let [mut from, mut to, mut all] = [0; 3].map(|_| Vector::new(pool));
            cache.fill(&mut from, 40);
            assert_eq!(numbers(&from, is_wide), None);
            fill(&mut from, 100, is_wide);
            fill(&mut from, 900, is_wide);
            assert_eq!(numbers(&from, is_wide).unwrap()[39], 139, "not made again");
            let mut some = Lanes::first_of(40);
            some.remove_all(&Lanes::first_of(30));
            from.move_by(here, &some, &mut to);
            assert_eq!(numbers(&to, is_wide), Some((130..140).collect()));
            to.move_all(&mut all);
            from.move_by(here, &Lanes::first_of(2), &mut all);
            assert_eq!(numbers(&all, is_wide).unwrap()[8..], [138, 139, 100, 101]);
            // IPv6 lanes join IPv4 lanes.
            cache.fill(&mut to, 3);
            fill(&mut to, 500, true);
            all.move_all(&mut to);
            assert_eq!(numbers(&to, is_wide).unwrap()[..5], [500, 501, 502, 130, 131]);
            // One lane whose fields are unknown.
            cache.fill(&mut all, 1);
            all.move_all(&mut to);
            assert_eq!(numbers(&to, is_wide), None);
            fill(&mut to, 0, is_wide);
            to.forget_fields();
            assert_eq!(numbers(&to, is_wide), None);
            fill(&mut to, 0, is_wide);
            to.make_own(0);
            assert_eq!(numbers(&to, is_wide), None);
            to.flow(|_, flows| flows.fill(7));
            fill(&mut to, 0, is_wide);
            to.forget_fields();
            assert_eq!(to.flow(|_, flows| flows.fill(8))[0], 7);
            fill(&mut to, 0, is_wide);
            to.forget_flow();
            assert_eq!(numbers(&to, is_wide), None);
            let lanes = (2..30).filter_map(|lane| from.release_lane(lane));
            lanes.for_each(|id| pool.give_back(&[id]));
            from.forget_lanes();
            cache.free_from(&mut to, 0);
        }
    }
}
