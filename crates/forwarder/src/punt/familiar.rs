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
pub struct Familiar {
    cells: Box<[AtomicU8]>,
    /// Seeded at random, so that nobody can choose addresses of one cell.
    hash: RandomState,
}

impl Default for Familiar {
    fn default() -> Self {
        let cells = (0..CELLS).map(|_| AtomicU8::new(0)).collect();
        Self { cells, hash: RandomState::new() }
    }
}

impl Familiar {
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
    pub fn may_know(&self, interface: u32, address: IpAddr) -> bool {
        self.cell(interface, address).load(Ordering::Relaxed) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_known_is_never_missed() {
        let familiar = Familiar::default();
        let address = |n: u32| IpAddr::V4(n.into());
        (0..1000).for_each(|n| familiar.add(3, address(n)));
        assert!((0..1000).all(|n| familiar.may_know(3, address(n))));
        let others = (0..1000).filter(|n| familiar.may_know(4, address(*n))).count();
        assert!(others < 100, "{others} strangers taken for somebody known");
        (0..1000).for_each(|n| familiar.remove(3, address(n)));
        assert!((0..1000).all(|n| !familiar.may_know(3, address(n))));
        (0..300).for_each(|_| familiar.add(3, address(1)));
        (0..300).for_each(|_| familiar.remove(3, address(1)));
        assert!(familiar.may_know(3, address(1)), "a full cell has lost count");
    }
}
