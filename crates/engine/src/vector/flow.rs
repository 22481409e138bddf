//! The `flow` column: which flow the packet of each lane belongs to. It is made when a feature asks
//! for it, and then known for all lanes of the vector.

use super::Vector;
use super::beside::FLOW;
use crate::column::Column;

impl Vector {
    /// A number for each lane that all packets of its flow share. `make` writes them unless they are
    /// known, because another node has asked before. They stay known on the way through the graph
    /// until [`Self::forget_flow`] or until lanes come together of which some are not known.
    #[inline]
    pub fn flow(&mut self, make: impl FnOnce(&Self, &mut Column<u32>)) -> &Column<u32> {
        let hashes = self.beside.flows.take();
        let mut hashes = hashes.unwrap_or_else(|| Box::new(Column::of(0)));
        if self.beside.known & FLOW == 0 {
            make(self, &mut hashes);
            self.beside.known |= FLOW;
        }
        self.beside.flows.insert(hashes)
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;
    use crate::pool::{HugePages, Pool, PoolCache};
    use crate::vector::Lanes;

    fn flows(vector: &mut Vector) -> Vec<u32> {
        let lanes = vector.len();
        vector.flow(|_, hashes| hashes.fill(0))[..lanes].to_vec()
    }

    #[test]
    fn flows_are_made_once_and_move_with_their_lanes() {
        let pool = Pool::leak(1024, HugePages::Never).unwrap();
        let (mut cache, mut vector) = (PoolCache::new(pool), Vector::new(pool));
        let (mut to, mut all) = (Vector::new(pool), Vector::new(pool));
        cache.fill(&mut vector, 100);
        vector.flow(|_, hashes| (0..).zip(hashes.iter_mut()).for_each(|(at, hash)| *hash = at));
        assert_eq!(flows(&mut vector)[99], 99, "not made again");
        let mut some = Lanes::first_of(100);
        some.remove_all(&Lanes::first_of(90));
        vector.move_lanes(&some, &mut to);
        assert_eq!(flows(&mut to), (90..100).collect::<Vec<_>>());
        vector.move_lanes(&Lanes::first_of(5), &mut to);
        assert_eq!(flows(&mut to)[8..], [98, 99, 0, 1, 2, 3, 4]);
        to.move_all(&mut all);
        assert_eq!(flows(&mut all)[8..], [98, 99, 0, 1, 2, 3, 4]);
        // One lane whose flow is unknown.
        cache.fill(&mut to, 1);
        to.move_all(&mut all);
        assert_eq!(flows(&mut all), [0; 16]);
        let rest: Vec<_> = (5..90).collect();
        let mut lanes = Lanes::first_of(90);
        lanes.remove_all(&Lanes::first_of(5));
        vector.move_lanes(&lanes, &mut to);
        assert_eq!(flows(&mut to), rest);
        to.forget_flow();
        assert_eq!(flows(&mut to), [0; 85]);
        let packet = to.take(0).unwrap();
        to.forget_flow();
        to.flow(|_, hashes| hashes.fill(7));
        assert!(to.push(packet).is_ok());
        assert_eq!(flows(&mut to)[85], 0, "a packet has no flow");
        vector.forget_lanes();
        cache.free_from(&mut to, 0);
        cache.free_from(&mut all, 0);
    }
}
