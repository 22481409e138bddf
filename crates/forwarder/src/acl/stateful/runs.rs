//! Runs: packets of one kind and flow that follow each other in a vector, as a sender's burst does. Their flow is
//! looked up and followed once.

use std::ops::Range;

use stoa_engine::VECTOR;
use stoa_engine::vector::{Column, Fields, LaneSet};
use stoa_tables::flow_table::{FlowReader, Match};

use super::super::keys::Family;

/// Lanes that show whether it pays to look for runs. Vectors that have fewer take no time to look for any.
const SAMPLE: usize = 32;
/// The least number of packets in a run, on average.
const LEAST: usize = 2;

/// The runs of a vector.
pub(super) struct Runs {
    /// Whether there are few enough of them.
    are_few: bool,
    /// Where each begins.
    starts: Vec<u8>,
    differs: Column<u32>,
    /// What is looked up for each.
    fields: Box<Fields>,
    ports: Column<u32>,
    contexts: Column<u32>,
    found: Box<[Match; VECTOR]>,
}

impl Runs {
    pub(super) fn new() -> Self {
        Self {
            are_few: false,
            starts: Vec::with_capacity(VECTOR),
            differs: Column::of(0),
            fields: Fields::new(),
            ports: Column::of(0),
            contexts: Column::of(0),
            found: Box::new([Match::NONE; VECTOR]),
        }
    }

    /// Whether it pays to look at runs in place of lanes.
    pub(super) fn are_few(&self) -> bool {
        self.are_few
    }

    /// Finds the runs of a vector, if they are few. `contexts`: with protocols and VRFs.
    pub(super) fn find<F: Family>(
        &mut self,
        fields: &Fields,
        contexts: &Column<u32>,
        lanes: usize,
    ) {
        self.are_few = false;
        if lanes < SAMPLE {
            return;
        }
        let pairs = fields.ports[1..SAMPLE].iter().zip(&fields.ports[..SAMPLE - 1]);
        let same: usize = pairs.map(|(it, last)| usize::from(it == last)).sum();
        if same * LEAST >= SAMPLE {
            self.find_all::<F>(fields, contexts, lanes);
        }
    }

    fn find_all<F: Family>(&mut self, fields: &Fields, contexts: &Column<u32>, lanes: usize) {
        let words = if F::IS_IP4 { 1 } else { 4 };
        self.differs[..lanes].fill(0);
        let mut compare = |column: &Column<u32>| {
            let pairs = column[1..lanes].iter().zip(&column[..lanes - 1]);
            for (differs, (it, last)) in self.differs[1..lanes].iter_mut().zip(pairs) {
                *differs |= it ^ last;
            }
        };
        [&fields.kind, &fields.ports, contexts].into_iter().for_each(&mut compare);
        fields.source[..words].iter().chain(&fields.destination[..words]).for_each(compare);
        let mut starts = LaneSet::first_of(lanes);
        let _ = starts.take_equal(&self.differs, 0);
        starts.insert(0);
        self.are_few = starts.count() * LEAST <= lanes;
        self.starts.clear();
        starts.append_to(&mut self.starts);
    }

    /// Looks up the flow of each run, and notes it for all of its lanes.
    pub(super) fn look_up<F: Family>(
        &mut self,
        reader: &FlowReader,
        fields: &Fields,
        (ports, contexts): (&Column<u32>, &Column<u32>),
        known: &mut [Match],
    ) {
        let (words, count) = (if F::IS_IP4 { 1 } else { 4 }, self.starts.len());
        for (at, lane) in self.starts.iter().map(|lane| usize::from(*lane)).enumerate() {
            for word in 0..words {
                self.fields.source[word][at] = fields.source[word][lane];
                self.fields.destination[word][at] = fields.destination[word][lane];
            }
            (self.ports[at], self.contexts[at]) = (ports[lane], contexts[lane]);
        }
        let keys = (&self.ports[..count], &self.contexts[..count]);
        F::look_up_flows(reader, &self.fields, keys, &mut self.found[..count]);
        let lanes = known.len();
        for (run, found) in self.of(lanes).zip(&self.found[..]) {
            known[run].fill(*found);
        }
    }

    /// The runs, as lanes.
    pub(super) fn of(&self, lanes: usize) -> impl Iterator<Item = Range<usize>> {
        let ends = self.starts.iter().skip(1).map(|lane| usize::from(*lane)).chain([lanes]);
        self.starts.iter().map(|lane| usize::from(*lane)).zip(ends).map(|(start, end)| start..end)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use stoa_tables::flow_table::{FlowCapacity, FlowTable, NewFlow, Secret};

    use super::super::super::keys::{Ip4, Ip6};
    use super::*;
    use crate::flow::fields::Kind;

    /// Flows; each differs from its neighbours in one of the words of keys. Those from the last one on have no flow.
    const FLOWS: u32 = 32;
    const CREATED: u32 = 24;

    /// The columns of lanes of these flows.
    fn columns<F: Family>(lanes: &[u32]) -> (Box<Fields>, Column<u32>) {
        let (mut fields, mut contexts) = (Fields::new(), Column::of(0));
        for (lane, flow) in lanes.iter().enumerate() {
            let bit = |at: u32| flow >> at & 1;
            let protocol = if bit(3) == 0 { 17 } else { 132 };
            fields.kind[lane] = protocol | if F::IS_IP4 { 0 } else { Kind::IP6 };
            fields.ports[lane] = 0x1000_0035 + bit(2);
            let last = if F::IS_IP4 { 0 } else { 3 };
            fields.source[last][lane] = 10 + bit(0);
            fields.destination[0][lane] = 20 + bit(1);
            contexts[lane] = protocol << 16 | bit(4);
        }
        (fields, contexts)
    }

    fn check<F: Family>(lanes: &[u32]) -> Result<(), TestCaseError> {
        let capacity = FlowCapacity { ip4: FLOWS, ip6: FLOWS, ..FlowCapacity::default() };
        let mut table = FlowTable::new(&capacity, &Secret([7; 64])).unwrap();
        let (mut owner, reader) = (table.owner(0, 0).unwrap(), table.reader());
        let (fields, _) = columns::<F>(&(0..CREATED).collect::<Vec<_>>());
        for flow in 0..CREATED {
            let key = F::flow_key(&fields, flow as usize, (flow >> 4 & 1) as u16);
            owner.create(&NewFlow::new(key, None), 0, 10).unwrap();
        }
        let (fields, contexts) = columns::<F>(lanes);
        let (count, mut runs) = (lanes.len(), Runs::new());
        let mut expected = [Match::NONE; VECTOR];
        let keys = (&fields.ports[..count], &contexts[..count]);
        F::look_up_flows(&reader, &fields, keys, &mut expected[..count]);
        runs.find::<F>(&fields, &contexts, count);
        let pairs = lanes.windows(2).filter(|pair| pair[0] != pair[1]).count();
        prop_assert!(!runs.are_few() || count >= SAMPLE && (pairs + 1) * LEAST <= count);
        // Whether they are few or not.
        runs.find_all::<F>(&fields, &contexts, count);
        prop_assert_eq!(runs.of(count).count(), pairs + 1);
        let mut next = 0;
        for run in runs.of(count) {
            prop_assert_eq!(run.start, next);
            prop_assert!(lanes[run.clone()].iter().all(|flow| *flow == lanes[next]));
            next = run.end;
        }
        prop_assert_eq!(next, count);
        let mut known = [Match::NONE; VECTOR];
        runs.look_up::<F>(&reader, &fields, (&fields.ports, &contexts), &mut known[..count]);
        prop_assert_eq!(&known[..count], &expected[..count]);
        for (flow, found) in lanes.iter().zip(&known) {
            prop_assert_eq!(found.is_some(), *flow < CREATED);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn a_look_up_of_runs_is_that_of_their_lanes(
            runs in prop::collection::vec((0..FLOWS, 1..60_usize), 1..40),
            most in 1..=VECTOR,
        ) {
            let lanes = runs.into_iter().flat_map(|(flow, count)| std::iter::repeat_n(flow, count));
            let lanes: Vec<_> = lanes.take(most).collect();
            check::<Ip4>(&lanes)?;
            check::<Ip6>(&lanes)?;
        }
    }
}
