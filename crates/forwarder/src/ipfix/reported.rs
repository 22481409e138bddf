//! What was reported of flows that go on, by their ids: later records have what came since then.

use stoa_tables::flow_table::Counters;

/// Flows of a page.
const PAGE: usize = 256;
/// Pages, at most: a million flows, 60 MB.
const PAGES: usize = 4_096;

/// Ticks for which a report is kept when its flow has ended: the last record arrives in a few steps of the exporter.
const GONE: u32 = 2;

/// What was reported of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The tick of its first packet: tells it from others that had its id.
    pub start: u32,
    /// The tick of the report.
    pub at: u32,
    /// Its counters then.
    pub counters: [Counters; 2],
    /// The tick at which its flow was first seen to have ended.
    pub gone: Option<u32>,
}

/// The flows of one table of which something was reported.
#[derive(Default)]
pub struct Reported {
    pages: Vec<Option<Box<Page>>>,
    used: usize,
}

struct Page {
    reports: [Option<Report>; PAGE],
    count: usize,
}

impl Reported {
    /// What was reported of a flow.
    pub fn get(&self, id: u32, start: u32) -> Option<Report> {
        let page = self.pages.get(id as usize / PAGE)?.as_ref()?;
        page.reports[id as usize % PAGE].filter(|report| report.start == start)
    }

    /// Notes a report; whether there is room for it.
    pub fn set(&mut self, id: u32, report: Report) -> bool {
        let at = id as usize / PAGE;
        if self.pages.len() <= at {
            self.pages.resize_with(at + 1, || None);
        }
        let page = match &mut self.pages[at] {
            Some(page) => page,
            None if self.used >= PAGES => return false,
            none => {
                self.used += 1;
                none.insert(Box::new(Page { reports: [None; PAGE], count: 0 }))
            }
        };
        let place = &mut page.reports[id as usize % PAGE];
        page.count += usize::from(place.is_none());
        *place = Some(report);
        true
    }

    /// Forgets a flow, and returns what was reported of it.
    pub fn take(&mut self, id: u32, start: u32) -> Option<Report> {
        let report = self.get(id, start);
        self.forget(id);
        report
    }

    /// Forgets whatever has an id.
    pub fn forget(&mut self, id: u32) {
        let Some(place) = self.pages.get_mut(id as usize / PAGE) else { return };
        let Some(page) = place else { return };
        page.count -= usize::from(page.reports[id as usize % PAGE].take().is_some());
        if page.count == 0 {
            *place = None;
            self.used -= 1;
        }
    }

    /// Notes that there is no flow with this id any more. Its last record may still be on its way, and needs what was
    /// reported: that is forgotten some ticks later only, in case the record was lost.
    pub fn note_gone(&mut self, id: u32, now: u32) {
        let page = self.pages.get_mut(id as usize / PAGE).and_then(Option::as_mut);
        let Some(report) = page.and_then(|it| it.reports[id as usize % PAGE].as_mut()) else {
            return;
        };
        let since = *report.gone.get_or_insert(now);
        if now.wrapping_sub(since) > GONE {
            self.forget(id);
        }
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }
}

/// What has passed since a report.
pub fn since(now: [Counters; 2], report: Option<&Report>) -> [Counters; 2] {
    let Some(report) = report else { return now };
    std::array::from_fn(|at| Counters {
        packets: now[at].packets.saturating_sub(report.counters[at].packets),
        bytes: now[at].bytes.saturating_sub(report.counters[at].bytes),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn report(start: u32, packets: u64) -> Report {
        let both = Counters { packets, bytes: packets * 100 };
        Report { start, at: start + 60, counters: [both, Counters::default()], gone: None }
    }

    #[test]
    fn counters_are_those_since_the_report() {
        let now = [Counters { packets: 9, bytes: 900 }, Counters { packets: 1, bytes: 1 }];
        assert_eq!(since(now, None), now);
        let [there, back] = since(now, Some(&report(1, 7)));
        assert_eq!((there.packets, there.bytes), (2, 200));
        assert_eq!(back, now[1]);
    }

    /// The walk may see that a flow has gone before the exporter takes its last record.
    #[test]
    fn a_report_outlives_its_flow_until_the_last_record() {
        let mut all = Reported::default();
        all.note_gone(7, 99);
        all.set(7, report(1, 5));
        all.note_gone(7, 100);
        all.note_gone(7, 100 + GONE);
        assert_eq!(all.take(7, 1).map(|it| it.counters), Some(report(1, 5).counters));
        all.set(7, report(1, 5));
        all.note_gone(7, 100);
        all.note_gone(7, 101 + GONE);
        assert!(all.is_empty(), "the last record was lost");
    }

    #[test]
    fn there_is_room_for_so_many_pages() {
        let mut all = Reported::default();
        for page in 0..PAGES as u32 {
            assert!(all.set(page * PAGE as u32, report(1, 1)));
        }
        let next = (PAGES * PAGE) as u32;
        assert!(!all.set(next, report(1, 1)));
        assert!(all.set(1, report(1, 1)), "its page is there");
        all.forget(0);
        assert!(!all.set(next, report(1, 1)));
        all.forget(1);
        assert!(all.set(next, report(1, 1)));
    }

    proptest! {
        #[test]
        fn it_is_a_map(
            steps in prop::collection::vec((0..600_u32, 0..3_u32, 0..4_u8), 0..300),
        ) {
            let (mut all, mut model) = (Reported::default(), BTreeMap::new());
            for (at, (id, start, what)) in steps.into_iter().enumerate() {
                match what {
                    0 => {
                        all.forget(id);
                        model.remove(&id);
                    }
                    1 => {
                        let expected = model.remove(&id).filter(|it: &Report| it.start == start);
                        prop_assert_eq!(all.take(id, start), expected);
                    }
                    _ => {
                        prop_assert!(all.set(id, report(start, at as u64)));
                        model.insert(id, report(start, at as u64));
                    }
                }
                prop_assert_eq!(all.is_empty(), model.is_empty());
            }
            for id in 0..600 {
                for start in 0..3 {
                    let expected = model.get(&id).copied().filter(|it| it.start == start);
                    prop_assert_eq!(all.get(id, start), expected);
                }
            }
        }
    }
}
