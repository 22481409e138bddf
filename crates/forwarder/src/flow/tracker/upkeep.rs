//! Ends flows: those that are due, those that give way, and all of them when they are cleared.

use std::sync::atomic::Ordering;

use stoa_tables::Reclaim;
use stoa_tables::flow_table::Kind;

use super::Side;
use super::translated::Ended;
use crate::flow::flows::Now;
use crate::ipfix::EndReason;

/// Flows that one call of [`Side::maintain`] looks at because they are due, and because all are cleared.
const DUE: usize = 1_024;
const CLEARED: u32 = 1_024;

impl Side {
    /// Keeps some ids free: the flow that is needed least gives way ([`Eviction`](stoa_tables::flow_table::Eviction)).
    pub(super) fn make_room(&mut self, kind: Kind) {
        let free = self.owner.available(kind) as usize;
        let reserve = self.reserves[usize::from(kind.is_translated())] as usize;
        if free >= reserve {
            return;
        }
        let timeouts = &self.profiles.timeouts;
        if free + self.owner.pending() < reserve
            && let Some(id) = self.owner.evict_candidate(kind.is_translated(), timeouts)
            && let ended = Ended::of(&self.reader.entry(id))
            && self.owner.remove(id).is_ok()
        {
            self.note_ended(&ended);
            self.count(|counts| counts.evicted.add(1));
            self.export.ended(&self.reader.entry(id), || EndReason::Resources);
        }
        if !self.has_reclaimed {
            self.has_reclaimed = true;
            self.reclaim();
        }
    }

    /// Removed ids are free once all workers have passed a quiescent point.
    fn reclaim(&mut self) {
        if self.owner.pending() == 0 {
            return;
        }
        let quiescence = self.flows.quiescence();
        let epoch = quiescence.advance();
        self.owner.retire_mark(epoch);
        self.owner.reclaim(quiescence.safe());
    }

    /// Ends flows that are due or cleared, some of them; whether more are left for another call.
    pub(super) fn maintain(&mut self, now: Now) -> bool {
        self.follow_profiles();
        let cleared = self.flows.cleared();
        if cleared != self.cleared {
            (self.cleared, self.sweep) = (cleared, Some(0));
            self.selection = self.flows.selected(cleared);
        }
        if self.owner.live() == 0 {
            self.sweep = None;
        }
        self.pieces.sweep(now.tick);
        let mut has_more = self.clear_some() | self.recount_some();
        let counts = self.flows.counts(self.is_ip4, self.worker);
        if let Some(counts) = counts.filter(|_| self.sweep.is_none()) {
            counts.followed.store(self.cleared, Ordering::Release);
        }
        let (flows, export) = (&self.flows, &mut self.export);
        has_more |= self.owner.expire(now.tick, &self.profiles.timeouts, DUE, |flow| {
            Ended::of(flow).note(flows);
            export.ended(flow, || EndReason::of_expired(flow.class()));
            if let Some(counts) = counts {
                counts.expired.add(1);
            }
        });
        self.reclaim();
        has_more
    }

    /// Looks at some of the flows, and removes those that are to be cleared; whether it has to go on.
    fn clear_some(&mut self) -> bool {
        let Some(first) = self.sweep else { return false };
        let end = first.saturating_add(CLEARED).min(self.flows.capacity(self.is_ip4));
        for id in first..end {
            let flow = self.reader.entry(id);
            let is_own = flow.is_live() && flow.owner() == self.owner.number();
            if is_own && self.selection.contains(&flow) {
                self.count(|counts| counts.removed.add(1));
                self.remove(id);
            }
        }
        self.sweep = (end < self.flows.capacity(self.is_ip4)).then_some(end);
        self.sweep.is_some()
    }
}
