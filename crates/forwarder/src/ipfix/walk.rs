//! Reads flows that go on from the tables, in turns: those whose active or idle timeout has passed get a record.

use std::sync::atomic::{Ordering, fence};

use stoa_tables::flow_table::{FlowEntry, FlowReader};

use super::record::{EndReason, FlowRecord};
use super::reported::{Report, Reported, has_gone_back, since};
use super::settings::Settings;
use crate::flow::flows::Flows;
use crate::flow::time::ticks;

/// Turns that a walk over a table takes: at 50 a second, some seconds, but at least one.
const TURNS: u32 = 250;
/// Ids of a turn, at least.
const TURN: u32 = 1_024;
/// Ids that are looked at before records of workers are taken again: about a millisecond, in which workers end far
/// fewer flows than a ring has room for.
pub const SLICE: u32 = 4_096;

/// Where the walk over a table is.
#[derive(Default)]
pub struct Walk {
    next: u32,
    pub(super) reported: Reported,
}

/// A flow that is due.
pub struct Due {
    /// With its counters since the last report.
    pub record: FlowRecord,
    /// The tick of the last report; `None`: there was none.
    pub reported_at: Option<u32>,
}

/// What a turn has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Flows that are due, but for whose report no room is.
    pub left_out: u64,
    /// Whether the walk is at the end of the table.
    pub is_done: bool,
}

/// A copy of a flow, if that is live and whole: its worker may end it, and use its memory again, at any time. What has
/// left the index has a record in the ring of its worker, or will have.
fn copy(reader: &FlowReader, flow: &FlowEntry<'_>, reason: EndReason) -> Option<FlowRecord> {
    let record = FlowRecord::of(flow, reason);
    fence(Ordering::Acquire);
    let is_there = reader.find(&record.key).id() == Some(record.id);
    let is_same = flow.is_live() && (flow.start(), flow.key()) == (record.start, record.key);
    (is_there && is_same).then_some(record)
}

impl Walk {
    /// Begins anew.
    pub fn restart(&mut self) {
        self.next = 0;
    }

    /// Ids of a turn over a table, which may be several slices.
    pub fn ids_of_turn(capacity: u32) -> u32 {
        (capacity / TURNS).max(TURN)
    }

    /// Looks at a slice of the flows of a family. `is_last`: all of them are reported, as the export ends.
    pub fn turn(
        &mut self,
        (flows, is_ip4): (&Flows, bool),
        settings: &Settings,
        (now, is_last): (u32, bool),
        mut each: impl FnMut(Due),
    ) -> Turn {
        let capacity = flows.capacity(is_ip4);
        if self.reported.is_empty() && flows.live(is_ip4) == 0 {
            self.next = 0;
            return Turn { is_done: true, ..Turn::default() };
        }
        let slice = Self::ids_of_turn(capacity).min(SLICE);
        let end = self.next.saturating_add(slice).min(capacity);
        let (reader, mut turn) = (flows.reader(is_ip4), Turn::default());
        for id in self.next..end {
            let flow = reader.entry(id);
            if !flow.is_live() {
                self.reported.note_gone(id, now);
                continue;
            }
            let reason = match (is_last, self.due(&flow, settings, now)) {
                (true, _) => EndReason::Forced,
                (false, Some(reason)) => reason,
                (false, None) => continue,
            };
            let record = copy(reader, &flow, reason).filter(|it| flows.exports().samples(&it.key));
            let Some(mut record) = record else { continue };
            let former = self.reported.get(id, record.start);
            let (start, counters) = (record.start, record.counters);
            if !is_last && has_gone_back(counters, former.as_ref()) {
                // Its worker carries at this moment: the next turn over the table reports it.
                continue;
            }
            let report = Report { start, at: now, counters, gone: None };
            record.counters = since(record.counters, former.as_ref());
            if record.counters.iter().all(|it| it.packets == 0) {
                continue;
            }
            // There is no later report that needs to know the last one.
            if self.reported.set(id, report) || is_last {
                each(Due { record, reported_at: former.map(|it| it.at) });
            } else {
                turn.left_out += 1;
            }
        }
        turn.is_done = end >= capacity;
        self.next = if turn.is_done { 0 } else { end };
        turn
    }

    /// Whether a live flow is due, and why.
    fn due(&self, flow: &FlowEntry<'_>, settings: &Settings, now: u32) -> Option<EndReason> {
        let (start, seen) = (flow.start(), flow.seen());
        let (age, idle) = (ticks(start, now), ticks(seen, now));
        if age < settings.active_s && idle < settings.idle_s {
            return None;
        }
        let former = self.reported.get(flow.id(), start);
        if former.is_some_and(|it| ticks(it.at, seen) == 0 && it.at != seen) {
            // Nothing has come since then.
            return None;
        }
        if idle >= settings.idle_s {
            // The timeout of a closed connection may be longer than that of the export.
            return Some(EndReason::of_expired(flow.class()));
        }
        let since = former.map_or(age, |it| ticks(it.at, now));
        (since >= settings.active_s).then_some(EndReason::Active)
    }
}

#[cfg(test)]
mod tests {
    use stoa_engine::quiescence::Quiescence;
    use stoa_tables::lpm::Kernel;

    use super::*;
    use crate::flow::flows::Sizes;

    /// Workers can fill a ring in the time that a sixteenth of a large table takes.
    #[test]
    fn a_turn_over_a_large_table_is_several_slices() {
        let sizes = Sizes { ip4: 16 * 250 * SLICE, ..Sizes::default() };
        let quiescence = Quiescence::new(1);
        let flows = Flows::new(sizes, Kernel::Bits, 1, &quiescence).unwrap();
        let capacity = flows.capacity(true);
        assert_eq!(Walk::ids_of_turn(capacity), 16 * SLICE);
        // As if something were reported already.
        let mut walk = Walk::default();
        let report = Report { start: 0, at: 0, counters: Default::default(), gone: None };
        walk.reported.set(capacity - 1, report);
        for slice in 1..=16 {
            walk.turn((&flows, true), &Settings::default(), (0, false), |_| {});
            assert_eq!(walk.next, slice * SLICE);
        }
    }
}
