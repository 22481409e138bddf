//! What was reported of flows that go on, by their ids: later records have what came since then.

use std::collections::HashMap;

use stoa_tables::flow_table::Counters;

/// Flows, at most: a million, in some 120 MB by the size of an entry.
const FLOWS: usize = 1 << 20;

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

/// The flows of one table of which something was reported, by their ids.
#[derive(Default)]
pub struct Reported(HashMap<u32, Report>);

impl Reported {
    /// What was reported of a flow.
    pub fn get(&self, id: u32, start: u32) -> Option<Report> {
        self.0.get(&id).filter(|report| report.start == start).copied()
    }

    /// Notes a report; whether there is room for it.
    pub fn set(&mut self, id: u32, report: Report) -> bool {
        let has_room = self.0.len() < FLOWS || self.0.contains_key(&id);
        if has_room {
            self.0.insert(id, report);
        }
        has_room
    }

    /// Forgets a flow, and returns what was reported of it. Another one may have its id by now: that stays.
    pub fn take(&mut self, id: u32, start: u32) -> Option<Report> {
        let report = self.get(id, start)?;
        self.0.remove(&id);
        Some(report)
    }

    /// Notes that there is no flow with this id any more. Its last record may still be on its way, and needs what was
    /// reported: that is forgotten some ticks later only, in case the record was lost.
    pub fn note_gone(&mut self, id: u32, now: u32) {
        let Some(report) = self.0.get_mut(&id) else { return };
        let since = *report.gone.get_or_insert(now);
        if now.wrapping_sub(since) > GONE {
            self.0.remove(&id);
        }
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Bits of the counters of a flow.
const PACKET_BITS: u32 = 40;
const BYTE_BITS: u32 = 48;

/// What a counter lacks, at most, without the carry that its worker is about to make.
const CARRY: u64 = 1 << 32;

/// Whether counters have gone back since a report: a reader may get them without the carry that their worker is about
/// to make. Counters that begin again at 0 are much lower: they have not.
pub fn has_gone_back(now: [Counters; 2], report: Option<&Report>) -> bool {
    let lacks_carry = |now: u64, then: u64| (1..=CARRY).contains(&then.saturating_sub(now));
    let is_less = |(now, then): (&Counters, &Counters)| {
        lacks_carry(now.packets, then.packets) || lacks_carry(now.bytes, then.bytes)
    };
    report.is_some_and(|it| now.iter().zip(&it.counters).any(is_less))
}

/// What has passed since a report. Counters begin again at 0 when they are full.
pub fn since(now: [Counters; 2], report: Option<&Report>) -> [Counters; 2] {
    let Some(report) = report else { return now };
    let difference = |now: u64, then: u64, bits: u32| now.wrapping_sub(then) & ((1 << bits) - 1);
    std::array::from_fn(|at| Counters {
        packets: difference(now[at].packets, report.counters[at].packets, PACKET_BITS),
        bytes: difference(now[at].bytes, report.counters[at].bytes, BYTE_BITS),
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
    fn a_counter_without_its_carry_has_gone_back() {
        let of = |bytes| [Counters { packets: 9, bytes }, Counters::default()];
        let report = Report { start: 0, at: 9, counters: of(0xffff_fff0), gone: None };
        assert!(has_gone_back(of(0x10), Some(&report)));
        assert!(!has_gone_back(of(0x1_0000_0010), Some(&report)));
        assert!(!has_gone_back(of(0x10), None));
    }

    /// Bytes begin again every 6 hours at 100 Gb/s. Without a report until the former value is passed, a flow would be
    /// silent for as long.
    #[test]
    fn a_counter_that_begins_again_has_not_gone_back() {
        let of = |packets, bytes| [Counters { packets, bytes }, Counters::default()];
        let report = |counters| Report { start: 0, at: 9, counters, gone: None };
        let full = report(of(9, (1 << BYTE_BITS) - 500));
        for later in [0, 1_000, 100 << 30] {
            assert!(!has_gone_back(of(10, later), Some(&full)), "{later}");
            assert_eq!(since(of(10, later), Some(&full)), of(1, later + 500));
        }
        let packets = report(of((1 << PACKET_BITS) - 3, 7));
        assert!(!has_gone_back(of(4, 1_000), Some(&packets)));
        assert_eq!(since(of(4, 1_000), Some(&packets)), of(7, 993));
        // As far as a carry goes, and no further.
        let high = report(of(9, 7 << 32));
        assert!(has_gone_back(of(9, 6 << 32), Some(&high)));
        assert!(!has_gone_back(of(9, (6 << 32) - 1), Some(&high)));
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
    fn there_is_room_for_so_many_flows() {
        let mut all = Reported::default();
        (0..FLOWS as u32).for_each(|id| assert!(all.set(id, report(1, 1))));
        let next = FLOWS as u32;
        assert!(!all.set(next, report(1, 1)));
        assert!(all.set(1, report(1, 2)), "its report is there");
        all.take(0, 1);
        assert!(all.set(next, report(1, 1)));
    }

    #[test]
    fn counters_begin_again() {
        let full = Counters { packets: (1 << PACKET_BITS) - 1, bytes: (1 << BYTE_BITS) - 10 };
        let former = Report { counters: [full; 2], ..report(1, 0) };
        let now = [Counters { packets: 2, bytes: 20 }; 2];
        assert_eq!(since(now, Some(&former)), [Counters { packets: 3, bytes: 30 }; 2]);
    }

    proptest! {
        #[test]
        fn it_is_a_map(
            steps in prop::collection::vec((0..600_u32, 0..3_u32, 0..4_u8), 0..300),
        ) {
            let (mut all, mut model) = (Reported::default(), BTreeMap::new());
            for (at, (id, start, what)) in steps.into_iter().enumerate() {
                match what {
                    0 | 1 => {
                        let expected = model.get(&id).copied().filter(|it: &Report| it.start == start);
                        if expected.is_some() {
                            model.remove(&id);
                        }
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
