//! Which addresses the control thread knows as neighbours, as workers see it: enough
//! to tell an answer to our own question from what nobody has asked for. A filter of
//! one byte per cell: it may take a stranger for somebody known (who then only
//! shares the budget of answers), never the other way round.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU8, Ordering};

/// Cells: four for each neighbour of the default limit.
const CELLS: usize = 1 << 16;

/// Counts the neighbours whose hash falls into each cell.
pub struct KnownNeighbors {
    cells: Box<[AtomicU8]>,
    /// Seeded at random, so that nobody can choose addresses of one cell.
    hash: RandomState,
}

impl Default for KnownNeighbors {
    fn default() -> Self {
        let cells = (0..CELLS).map(|_| AtomicU8::new(0)).collect();
        Self { cells, hash: RandomState::new() }
    }
}

impl KnownNeighbors {
    fn cell(&self, interface: u32, address: IpAddr) -> &AtomicU8 {
        &self.cells[self.hash.hash_one((interface, address)) as usize % CELLS]
    }

    /// A neighbour is known from now on; only the control thread calls this.
    pub fn add(&self, interface: u32, address: IpAddr) {
        let cell = self.cell(interface, address);
        cell.store(cell.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
    }

    /// A neighbour is known no more. A cell that was full once stays so.
    pub fn remove(&self, interface: u32, address: IpAddr) {
        let cell = self.cell(interface, address);
        let count = cell.load(Ordering::Relaxed);
        if count < u8::MAX {
            cell.store(count.saturating_sub(1), Ordering::Relaxed);
        }
    }

    /// Whether the address may be one that is known on that interface.
    pub fn may_contain(&self, interface: u32, address: IpAddr) -> bool {
        self.cell(interface, address).load(Ordering::Relaxed) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_known_is_never_missed() {
        let known_neighbors = KnownNeighbors::default();
        let address = |n: u32| IpAddr::V4(n.into());
        (0..1000).for_each(|n| known_neighbors.add(3, address(n)));
        assert!((0..1000).all(|n| known_neighbors.may_contain(3, address(n))));
        let others = (0..1000).filter(|n| known_neighbors.may_contain(4, address(*n))).count();
        assert!(others < 100, "{others} strangers taken for somebody known");
        (0..1000).for_each(|n| known_neighbors.remove(3, address(n)));
        assert!((0..1000).all(|n| !known_neighbors.may_contain(3, address(n))));
        (0..300).for_each(|_| known_neighbors.add(3, address(1)));
        (0..300).for_each(|_| known_neighbors.remove(3, address(1)));
        assert!(known_neighbors.may_contain(3, address(1)), "a full cell has lost count");
    }
}
