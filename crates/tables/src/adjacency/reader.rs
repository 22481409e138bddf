//! Adjacencies as workers read them.

use std::sync::Arc;

use super::{AdjacencyLine, MAX_REWRITE, rewrite_of};
use crate::lpm::Kernel;
use crate::sync::Cells;

/// Lanes that are compared together at most.
pub(super) const LANES: usize = 256;
/// Some of these lanes, one bit each.
pub(super) type Lanes = [u64; LANES / 64];

/// Adjacencies as workers read them. Cheap to clone; give one to each worker.
#[derive(Clone, Debug)]
pub struct AdjacencyReader(pub(super) Arc<Cells<AdjacencyLine>>);

impl AdjacencyReader {
    /// The line of an id; `None` when the id is beyond the table. The id must come from a word
    /// that was published after the adjacency was added (a next hop), and be used no longer than
    /// until the next quiescent point.
    #[inline(always)]
    pub fn get(&self, id: u32) -> Option<&AdjacencyLine> {
        self.0.get(id as usize)
    }

    /// The 64 bytes that end with the rewrite of an adjacency of this table.
    #[inline]
    pub fn rewrite(&self, line: &AdjacencyLine) -> [u8; MAX_REWRITE] {
        rewrite_of(&self.0, line)
    }

    /// All lines, for kernels that index themselves.
    #[inline(always)]
    pub fn lines(&self) -> &[AdjacencyLine] {
        &self.0
    }

    /// The lanes whose adjacency does not leave by the interface of the lane, one bit each; an id beyond
    /// the table leaves by none.
    ///
    /// # Panics
    /// When there are more than 256 lanes, or not as many interfaces as ids.
    #[inline]
    pub fn leave_elsewhere(&self, kernel: Kernel, ids: &[u32], interfaces: &[u32]) -> Lanes {
        assert!(ids.len() <= LANES && ids.len() == interfaces.len());
        let mut elsewhere = [0; _];
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        let done = match kernel {
            Kernel::Avx512 => {
                super::kernel::leave_elsewhere(&self.0, ids, interfaces, &mut elsewhere)
            }
            _ => 0,
        };
        #[cfg(not(all(target_arch = "x86_64", not(loom))))]
        let (done, _) = (0, kernel);
        for (lane, (id, interface)) in ids.iter().zip(interfaces).enumerate().skip(done) {
            let leaves = self.get(*id).is_some_and(|line| line.head().interface() == *interface);
            elsewhere[lane / 64] |= u64::from(!leaves) << (lane % 64);
        }
        elsewhere
    }
}
