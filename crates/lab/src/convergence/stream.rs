//! A stream of test packets to a sample of the prefixes: when each was sent, and whether it arrived. It measures an
//! outage.

use std::time::{Duration, Instant};

use super::frames::Arrival;
use super::hops::Hop;
use super::links::Links;
use super::prober::ExpectedHop;
use super::table::Table;
use crate::{LabError, Result, interrupt};

/// The most prefixes of the sample.
const SAMPLE: usize = 1000;
/// How long a stream runs without loss before the failure.
const BEFORE: Duration = Duration::from_millis(500);
/// The longest delay of a packet.
pub(super) const LATE: Duration = Duration::from_millis(200);
/// How long the daemon may be busy with earlier changes.
const PATIENCE: Duration = Duration::from_secs(90);

/// The rate of packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Packets per burst.
    pub(super) burst: usize,
    /// The time between two bursts.
    pub(super) gap: Duration,
}

/// The packets of the stream.
pub(super) struct Stream {
    /// Prefix index, address and, before the failure, the next hop of each.
    sample: Vec<(u32, u128, Hop)>,
    /// Whether packets must use that next hop: until the failure.
    is_before: bool,
    pace: Pace,
    sent: Vec<Instant>,
    came: Vec<bool>,
}

impl Stream {
    /// A stream to at most 1,000 prefixes, evenly spread over the table, which must leave at `expected`.
    pub(super) fn new(table: &Table, expected: ExpectedHop, pace: Pace) -> Self {
        let ExpectedHop { peer, out } = expected;
        let step = table.provable().div_ceil(SAMPLE).max(1);
        let provable = (0..table.len()).filter_map(|at| {
            let depth = table.depth(at)?;
            Some((at as u32, table.address(at)?, Hop { peer, out, depth }))
        });
        let sample = provable.step_by(step).collect();
        Self { sample, is_before: true, pace, sent: Vec::new(), came: Vec::new() }
    }

    /// Sends until half a second of the stream arrived without loss by the expected next hops, and discards earlier
    /// results: the daemon may still be busy. Later packets count by any next hop.
    ///
    /// # Errors
    ///
    /// [`LabError::ParseFailed`] when packets are still lost or misrouted at the timeout, or the sample is empty.
    /// [`LabError::ParseFailed`] when packets are lost or go astray all the time, or there are none to send.
    pub(super) fn begin(&mut self, links: &mut Links) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            (self.sent, self.came) = Default::default();
            self.run(links, Instant::now() + BEFORE)?;
            self.settle(links);
            match self.reason_not() {
                None => {
                    self.is_before = false;
                    return Ok(());
                }
                Some(reason) if self.sent.is_empty() || Instant::now() > end => {
                    let what = "the stream before the failure".to_owned();
                    return Err(LabError::ParseFailed { what, reason });
                }
                Some(_) => {}
            }
        }
    }

    /// Why a failure cannot be measured now: prefixes that lose packets before it tell nothing about the outage.
    fn reason_not(&self) -> Option<String> {
        if self.sent.is_empty() {
            return Some("no packet was sent: no prefix has an address of its own".to_owned());
        }
        let (lost, count) = (self.last_lost()?, self.sent.len());
        Some(format!("packet {lost} of {count} did not leave by the expected next hop yet"))
    }

    /// Sends until this time.
    pub(super) fn run(&mut self, links: &mut Links, until: Instant) -> Result<()> {
        interrupt::check()?;
        let Pace { burst, gap } = self.pace;
        let mut due = Instant::now();
        while Instant::now() < until && !self.sample.is_empty() {
            let first = self.sent.len();
            let sample = &self.sample;
            let packets = (first..first + burst).map(|number| {
                let (index, address, _) = sample[number % sample.len()];
                (index, address, number as u32)
            });
            let now = Instant::now();
            self.sent.extend(std::iter::repeat_n(now, burst));
            self.came.resize(first + burst, false);
            let (came, is_before) = (&mut self.came, self.is_before);
            links.send(packets, |arrival| note(sample, came, is_before, arrival));
            due += gap;
            while Instant::now() < due {
                std::thread::sleep(due.saturating_duration_since(Instant::now()).min(gap));
                links.receive(|arrival| note(sample, came, is_before, arrival));
            }
        }
        Ok(())
    }

    /// Waits for packets in flight.
    pub(super) fn settle(&mut self, links: &mut Links) {
        let until = Instant::now() + LATE;
        while Instant::now() < until {
            let (sample, is_before) = (&self.sample, self.is_before);
            links.receive(|arrival| note(sample, &mut self.came, is_before, arrival));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// When the last lost packet among those sent before `when` was sent.
    pub(super) fn last_lost_before(&self, when: Instant) -> Option<Instant> {
        let old = self.sent.partition_point(|sent| *sent < when);
        self.came[..old].iter().rposition(|came| !came).map(|at| self.sent[at])
    }

    /// Number of lost packets.
    pub(super) fn lost(&self) -> usize {
        self.came.iter().filter(|came| !**came).count()
    }

    /// When the first packet was sent that arrived and after which none was lost; `None`: none was lost at all, or
    /// the last one was.
    pub(super) fn over(&self) -> Option<Instant> {
        self.last_lost().and_then(|last| self.sent.get(last + 1)).copied()
    }

    fn last_lost(&self) -> Option<usize> {
        self.came.iter().rposition(|came| !came)
    }
}

/// Records an arrival: a packet of this stream and, before the failure, by the expected next hop.
fn note(sample: &[(u32, u128, Hop)], came: &mut [bool], is_before: bool, arrival: Arrival) {
    let number = arrival.sequence as usize;
    let Some((one, at)) = came.get_mut(number).zip(number.checked_rem(sample.len())) else {
        return;
    };
    let (index, address, hop) = sample[at];
    let is_it = (arrival.index, arrival.destination) == (index, address);
    *one |= is_it && (!is_before || arrival.went_by(hop));
}

#[cfg(test)]
impl Stream {
    /// A stream with these send times and arrivals.
    pub(super) fn with_arrivals(sent: Vec<Instant>, came: Vec<bool>) -> Self {
        let pace = Pace { burst: 1, gap: Duration::from_millis(1) };
        Self { sample: Vec::new(), is_before: false, pace, sent, came }
    }
}

#[cfg(test)]
mod tests {
    use super::super::hops::OutPort;
    use super::*;

    const WANTED: ExpectedHop = ExpectedHop { peer: 0, out: OutPort::First };

    #[test]
    fn a_sample_covers_the_whole_table() {
        let pace = Pace { burst: 1, gap: Duration::from_millis(1) };
        let few = Stream::new(&Table::synthetic(10), WANTED, pace);
        assert_eq!(few.sample.len(), 10);
        let many = Stream::new(&Table::synthetic(123_456), WANTED, pace);
        assert!((900..=1000).contains(&many.sample.len()));
        assert!(many.sample.last().is_some_and(|(at, ..)| *at > 123_000));
    }

    #[test]
    fn reports_losses() {
        let begun = Instant::now();
        let at = |ms: u64| begun + Duration::from_millis(ms);
        let came = vec![true, true, false, false, true, false, true, true, true, true];
        let stream = Stream::with_arrivals((0..10).map(|number| at(number * 10)).collect(), came);
        assert_eq!((stream.lost(), stream.over()), (3, Some(at(60))));
        assert_eq!(stream.last_lost_before(at(45)), Some(at(30)));
    }
    #[test]
    fn a_stream_requires_the_expected_next_hop() {
        let pace = Pace { burst: 1, gap: Duration::from_millis(1) };
        let mut stream = Stream::new(&Table::synthetic(2), WANTED, pace);
        assert!(stream.reason_not().is_some(), "nothing was sent");
        let hop = Hop { peer: 0, out: OutPort::First, depth: 0 };
        let arrival = |stream: &Stream, sequence: u32, hop: Hop| {
            let (index, destination, _) = stream.sample[sequence as usize % 2];
            Arrival { index, sequence, destination, mac: hop.mac() }
        };
        (stream.sent, stream.came) = (vec![Instant::now(); 3], vec![false; 3]);
        let by_another = arrival(&stream, 2, Hop { peer: 1, ..hop });
        for show_output in [arrival(&stream, 0, hop), arrival(&stream, 1, hop), by_another] {
            note(&stream.sample, &mut stream.came, stream.is_before, show_output);
        }
        assert_eq!((stream.lost(), stream.reason_not().is_some()), (1, true), "one went astray");
        // A packet of another stream, which was not sent there.
        let foreign = Arrival { sequence: 2, ..arrival(&stream, 1, hop) };
        note(&stream.sample, &mut stream.came, stream.is_before, foreign);
        assert_eq!(stream.lost(), 1);
        // After the failure, any next hop counts.
        note(&stream.sample, &mut stream.came, false, by_another);
        assert_eq!((stream.lost(), stream.reason_not()), (0, None));
    }
}
