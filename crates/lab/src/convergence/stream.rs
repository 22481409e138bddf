//! A stream of test packets to a sample of the prefixes: when each was sent, and whether it came. What an outage costs is told by it.

use std::time::{Duration, Instant};

use super::links::Links;
use super::table::Table;
use crate::{LabError, Result, interrupt};

/// Prefixes of the sample at most.
const SAMPLE: usize = 1000;
/// How long a stream runs before something is broken; nothing may be lost then.
const BEFORE: Duration = Duration::from_millis(500);
/// How long a packet may take to come out.
pub(super) const LATE: Duration = Duration::from_millis(200);
/// How long the daemon may be busy with what came before.
const PATIENCE: Duration = Duration::from_secs(90);

/// How fast packets go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Packets of a burst.
    pub(super) burst: usize,
    /// The time between two bursts.
    pub(super) gap: Duration,
}

/// The packets of the stream.
pub(super) struct Stream {
    /// Numbers of prefixes, and the address of each.
    sample: Vec<(u32, u128)>,
    pace: Pace,
    sent: Vec<Instant>,
    came: Vec<bool>,
}

impl Stream {
    /// To at most 1,000 prefixes, as far from each other as they can be.
    pub(super) fn new(table: &Table, pace: Pace) -> Self {
        let step = table.provable().div_ceil(SAMPLE).max(1);
        let provable = (0..table.len()).filter_map(|at| Some((at as u32, table.address(at)?)));
        let sample = provable.step_by(step).collect();
        Self { sample, pace, sent: Vec::new(), came: Vec::new() }
    }

    /// Sends until half a second of it came out without a loss, and forgets what was before: the daemon may still be busy.
    ///
    /// # Errors
    /// [`LabError::NotUnderstood`] when packets are lost all the time.
    pub(super) fn begin(&mut self, links: &mut Links) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            (self.sent, self.came) = Default::default();
            self.run(links, Instant::now() + BEFORE)?;
            self.settle(links);
            match self.last_lost() {
                None => return Ok(()),
                Some(lost) if Instant::now() > end => {
                    return Err(LabError::NotUnderstood {
                        what: "the stream before something is broken".to_owned(),
                        why: format!("packet {lost} of {} was lost already", self.sent.len()),
                    });
                }
                Some(_) => {}
            }
        }
    }

    /// Sends until then.
    pub(super) fn run(&mut self, links: &mut Links, until: Instant) -> Result<()> {
        interrupt::check()?;
        let Pace { burst, gap } = self.pace;
        let mut due = Instant::now();
        while Instant::now() < until && !self.sample.is_empty() {
            let first = self.sent.len();
            let sample = &self.sample;
            let packets = (first..first + burst).map(|number| {
                let (index, address) = sample[number % sample.len()];
                (index, address, number as u32)
            });
            let now = Instant::now();
            self.sent.extend(std::iter::repeat_n(now, burst));
            self.came.resize(first + burst, false);
            let came = &mut self.came;
            links.send(packets, |arrival| note(came, arrival.sequence));
            due += gap;
            while Instant::now() < due {
                std::thread::sleep(due.saturating_duration_since(Instant::now()).min(gap));
                links.receive(|arrival| note(came, arrival.sequence));
            }
        }
        Ok(())
    }

    /// Waits for what is on its way.
    pub(super) fn settle(&mut self, links: &mut Links) {
        let until = Instant::now() + LATE;
        while Instant::now() < until {
            links.receive(|arrival| note(&mut self.came, arrival.sequence));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// When the last packet was sent that did not come; of those sent before `when`.
    pub(super) fn last_lost_before(&self, when: Instant) -> Option<Instant> {
        let old = self.sent.partition_point(|sent| *sent < when);
        self.came[..old].iter().rposition(|came| !came).map(|at| self.sent[at])
    }

    /// How many did not come.
    pub(super) fn lost(&self) -> usize {
        self.came.iter().filter(|came| !**came).count()
    }

    /// When the first packet was sent that came, and after which none was lost; `None`: none was lost at all, or the last one was.
    pub(super) fn over(&self) -> Option<Instant> {
        self.last_lost().and_then(|last| self.sent.get(last + 1)).copied()
    }

    fn last_lost(&self) -> Option<usize> {
        self.came.iter().rposition(|came| !came)
    }
}

fn note(came: &mut [bool], sequence: u32) {
    if let Some(one) = came.get_mut(sequence as usize) {
        *one = true;
    }
}

#[cfg(test)]
impl Stream {
    /// One whose packets were sent then, and came or did not.
    pub(super) fn made(sent: Vec<Instant>, came: Vec<bool>) -> Self {
        let pace = Pace { burst: 1, gap: Duration::from_millis(1) };
        Self { sample: Vec::new(), pace, sent, came }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_of_the_whole_table() {
        let pace = Pace { burst: 1, gap: Duration::from_millis(1) };
        let few = Stream::new(&Table::synthetic(10), pace);
        assert_eq!(few.sample.len(), 10);
        let many = Stream::new(&Table::synthetic(123_456), pace);
        assert!((900..=1000).contains(&many.sample.len()));
        assert!(many.sample.last().is_some_and(|(at, _)| *at > 123_000));
    }

    #[test]
    fn what_was_lost_is_told() {
        let begun = Instant::now();
        let at = |ms: u64| begun + Duration::from_millis(ms);
        let came = vec![true, true, false, false, true, false, true, true, true, true];
        let stream = Stream::made((0..10).map(|number| at(number * 10)).collect(), came);
        assert_eq!((stream.lost(), stream.over()), (3, Some(at(60))));
        assert_eq!(stream.last_lost_before(at(45)), Some(at(30)));
    }
}
