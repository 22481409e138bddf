//! The packets that the control thread drops, in the packet accounting: workers have counted them as
//! consumed, but each counts once.

use stoa_api::v1;
use stoa_engine::drops::Reason;

/// Packets that this thread has dropped or made.
pub(super) struct DropCounts {
    by_reason: Vec<u64>,
    /// Packets that this thread made and then queued or dropped: no worker has counted these.
    made: u64,
}

impl DropCounts {
    /// Counts of so many reasons.
    pub(super) fn new(reasons: usize) -> Self {
        Self { by_reason: vec![0; reasons], made: 0 }
    }

    /// Counts a dropped packet, which a worker has counted as consumed, or [`Self::count_made`].
    pub(super) fn count(&mut self, reason: Reason) {
        self.count_packets(reason, 1);
    }

    /// The same for a number of packets.
    pub(super) fn count_packets(&mut self, reason: Reason, packets: u64) {
        self.by_reason[reason.0 as usize] += packets;
    }

    /// Counts a packet that this thread made, as if a worker had made and punted it.
    pub(super) fn count_made(&mut self) {
        self.made += 1;
    }

    /// Packets dropped for the reason with this index.
    pub(super) fn of(&self, reason: usize) -> u64 {
        self.by_reason.get(reason).copied().unwrap_or(0)
    }

    /// Adds them to the accounting of the workers: what was dropped was not consumed.
    pub(super) fn add_to(&self, total: &mut v1::Conservation) {
        let dropped: u64 = self.by_reason.iter().sum();
        total.generated += self.made;
        total.dropped += dropped;
        total.consumed = (total.consumed + self.made).saturating_sub(dropped);
    }
}
