//! Which addresses are in the neighbour cache, as workers see it: tells a reply to our request from an
//! unsolicited one. A counting Bloom filter with one byte per cell: it may report an unknown address as known,
//! but never the other way round. Then the packet shares the policer of replies, and the control thread,
//! which has the cache itself, decides about it.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU8, Ordering};

/// Cells: four for each neighbour of the default limit.
const CELLS: usize = 1 << 16;

/// Cells of one neighbour: 16 bits of its hash name each of them. With 1,000 neighbours, one unknown address
/// in 80,000 is taken for a known one; with a single cell it would be one in 66.
const HASHES: usize = 4;

/// Counts the neighbours whose hash names each cell.
pub struct KnownNeighbors {
    cells: Box<[AtomicU8]>,
    /// Randomly seeded, so that nobody can choose addresses that share a cell.
    hash: RandomState,
}

impl Default for KnownNeighbors {
    fn default() -> Self {
        let cells = (0..CELLS).map(|_| AtomicU8::new(0)).collect();
        Self { cells, hash: RandomState::new() }
    }
}

impl KnownNeighbors {
    fn cells_of(&self, interface: u32, address: IpAddr) -> [&AtomicU8; HASHES] {
        let hash = self.hash.hash_one((interface, address));
        std::array::from_fn(|at| &self.cells[(hash >> (16 * at)) as usize % CELLS])
    }

    /// Adds a neighbour; only the control thread calls this.
    pub fn add(&self, interface: u32, address: IpAddr) {
        for cell in self.cells_of(interface, address) {
            cell.store(cell.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
        }
    }

    /// Removes a neighbour. A cell that has saturated stays set.
    pub fn remove(&self, interface: u32, address: IpAddr) {
        for cell in self.cells_of(interface, address) {
            let count = cell.load(Ordering::Relaxed);
            if count < u8::MAX {
                cell.store(count.saturating_sub(1), Ordering::Relaxed);
            }
        }
    }

    /// Whether the address may be a known neighbour on that interface.
    pub fn may_contain(&self, interface: u32, address: IpAddr) -> bool {
        let cells = self.cells_of(interface, address);
        cells.iter().all(|cell| cell.load(Ordering::Relaxed) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_neighbours_are_always_found() {
        let known_neighbors = KnownNeighbors::default();
        let address = |n: u32| IpAddr::V4(n.into());
        (0..1000).for_each(|n| known_neighbors.add(3, address(n)));
        assert!((0..1000).all(|n| known_neighbors.may_contain(3, address(n))));
        let others = (0..1000).filter(|n| known_neighbors.may_contain(4, address(*n))).count();
        // 0.01 are expected.
        assert!(others < 3, "{others} false positives");
        (0..1000).for_each(|n| known_neighbors.remove(3, address(n)));
        assert!((0..1000).all(|n| !known_neighbors.may_contain(3, address(n))));
        (0..300).for_each(|_| known_neighbors.add(3, address(1)));
        (0..300).for_each(|_| known_neighbors.remove(3, address(1)));
        assert!(known_neighbors.may_contain(3, address(1)), "a saturated cell stays set");
    }
}
