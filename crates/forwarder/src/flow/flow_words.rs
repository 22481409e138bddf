//! What few flows of a table have beside their line and record: words by the id of the flow.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use stoa_engine::prepared::Prepared;

/// `N` words for each flow. There is no memory for them before they are prepared, and then only for the flows that use
/// theirs.
#[derive(Default)]
pub struct FlowWords<const N: usize>(Prepared<[AtomicU32; N]>);

impl<const N: usize> FlowWords<N> {
    /// Makes room for flows with ids below `capacity`; whether there is memory. Only the control thread calls it.
    pub fn prepare(&self, capacity: u32) -> bool {
        self.0.prepare(capacity as usize)
    }

    /// Whether flows may have words.
    #[inline(always)]
    pub fn is_prepared(&self) -> bool {
        self.0.is_prepared()
    }

    /// The words of a flow; `None`: there is no room.
    pub fn load(&self, id: u32) -> Option<[u32; N]> {
        Some(self.0.get(id as usize)?.each_ref().map(|word| word.load(Relaxed)))
    }

    /// Sets the words of a flow; whether there is room. Only the owner of the flow calls this.
    pub fn store(&self, id: u32, values: [u32; N]) -> bool {
        let words = self.0.get(id as usize);
        words
            .into_iter()
            .flatten()
            .zip(values)
            .for_each(|(word, value)| word.store(value, Relaxed));
        words.is_some()
    }
}
