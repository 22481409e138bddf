//! What a session of a route source has announced of one family, and when that is enough (`session`).

use std::collections::BTreeMap;
use std::time::Instant;

/// Number of routes by protocol.
pub type Counts = BTreeMap<i32, u64>;

/// The announcements of one family in a session.
#[derive(Debug, Default)]
pub struct Announcements {
    /// Routes that were held when the session began.
    pub before: Counts,
    /// Whether the daemon has marked the end.
    pub has_ended: bool,
    /// Whether all routes count as announced.
    pub is_complete: bool,
    /// When to compare although no more routes arrive.
    pub settle_deadline: Option<Instant>,
    /// No comparison before, while routes arrive.
    pub next_comparison: Option<Instant>,
}

impl Announcements {
    /// A session with nothing to wait for.
    pub fn completed() -> Self {
        Self { is_complete: true, ..Self::default() }
    }
}

/// Whether the announced routes are enough, of each kind. `has_settled`: a tenth may be missing.
pub fn covers<K: Ord>(
    announced: &BTreeMap<K, u64>,
    before: &BTreeMap<K, u64>,
    has_settled: bool,
) -> bool {
    before.iter().all(|(kind, before)| {
        let tolerated = if has_settled { before / 10 } else { 0 };
        announced.get(kind).copied().unwrap_or(0) >= before - tolerated
    })
}
