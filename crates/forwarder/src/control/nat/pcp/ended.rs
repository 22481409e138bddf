//! Mappings whose flows end because leases have: workers search for them, one search after the other. Each worker looks
//! at all of its translated flows, so a search that began while another one runs would never let that end.

use std::collections::BTreeSet;

use crate::nat::mappings::Mappings;

/// Milliseconds from one search to the next one, at least.
const SEARCH_MS: u64 = 1_000;

/// Mappings whose flows end.
#[derive(Debug, Default)]
pub(super) struct EndedLeases {
    /// The next search looks for them.
    waiting: BTreeSet<u32>,
    /// The search that is under way, and the mappings that it looks for.
    search: Option<(u32, BTreeSet<u32>)>,
    /// When the next one begins, at the earliest.
    next_ms: u64,
}

impl EndedLeases {
    /// Flows of a mapping are to end.
    pub(super) fn insert(&mut self, mapping: u32) {
        self.waiting.insert(mapping);
        if let Some((_, all)) = &mut self.search {
            // Workers may have looked at its flows already.
            all.remove(&mapping);
        }
    }

    /// Whether flows of a mapping are to end.
    pub(super) fn contains(&self, mapping: u32) -> bool {
        self.waiting.contains(&mapping)
            || self.search.as_ref().is_some_and(|(_, all)| all.contains(&mapping))
    }

    /// Ends a search that so many workers have finished, and begins the next one.
    pub(super) fn go_on(&mut self, mappings: &Mappings, workers: usize, now_ms: u64) {
        if self.search.as_ref().is_some_and(|(epoch, _)| mappings.is_swept(workers, *epoch))
            && let Some((_, all)) = self.search.take()
        {
            all.iter().for_each(|id| mappings.forget_lease(*id));
        }
        if self.search.is_none() && !self.waiting.is_empty() && now_ms >= self.next_ms {
            let epoch = mappings.end_flows_of_leases();
            self.search = Some((epoch, std::mem::take(&mut self.waiting)));
            self.next_ms = now_ms + SEARCH_MS;
        }
    }
}

#[cfg(test)]
mod tests {
    use stoa_tables::flow_table::Secret;

    use super::*;
    use crate::nat::quotas::Quotas;

    #[test]
    fn a_search_ends_before_the_next_one_begins() {
        let mappings = Mappings::new(16, Quotas::new(16, [1, 2]), &Secret([7; 64])).unwrap();
        let mut ended = EndedLeases::default();
        ended.go_on(&mappings, 2, 0);
        assert_eq!(mappings.lease_epoch(), 0, "nothing has ended");
        // Whatever ends meanwhile, and for how long, one search goes on.
        for now in 0..100 {
            ended.insert(now as u32);
            ended.go_on(&mappings, 2, now * 1_000);
            assert_eq!(mappings.lease_epoch(), 1);
            mappings.note_swept(0, 1);
        }
        assert!((0..100).all(|id| ended.contains(id)));
        mappings.note_swept(1, 1);
        ended.go_on(&mappings, 2, 100_000);
        assert_eq!(mappings.lease_epoch(), 2, "the next one has all others");
        assert!(!ended.contains(0) && (1..100).all(|id| ended.contains(id)));
        // What ends again during a search is looked for by the next one.
        ended.insert(7);
        [0, 1].into_iter().for_each(|worker| mappings.note_swept(worker, 2));
        ended.go_on(&mappings, 2, 100_500);
        assert!((1..100).all(|id| ended.contains(id) == (id == 7)));
        assert_eq!(mappings.lease_epoch(), 2, "not before its time");
        ended.go_on(&mappings, 2, 101_000);
        assert_eq!(mappings.lease_epoch(), 3);
    }
}
