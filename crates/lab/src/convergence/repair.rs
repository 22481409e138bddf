//! What a link that goes down costs: a stream to a sample of the prefixes, and when the last packet of it was lost.

use std::time::{Duration, Instant};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

use super::hops::Out;
use super::links::Links;
use super::table::Table;
use crate::{LabError, Namespace, Result, interrupt};

/// Prefixes of the sample at most.
const SAMPLE: usize = 1000;
/// Packets of a burst, and the time between two: 50,000 a second.
const BURST: usize = 25;
const GAP: Duration = Duration::from_micros(500);
/// How long the stream runs before the link is cut; nothing may be lost then.
const BEFORE: Duration = Duration::from_millis(500);
/// The outage is over when nothing was lost for so long.
const QUIET: Duration = Duration::from_secs(2);
/// How long a packet may take to come out.
const LATE: Duration = Duration::from_millis(200);
/// How long an outage is followed at most.
const PATIENCE: Duration = Duration::from_secs(90);

/// An outage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outage {
    /// From when Stoa said that the link is down until packets arrived again, milliseconds; 0 when none was lost since.
    pub(super) after_detection_ms: f64,
    /// From when the link was cut.
    pub(super) after_failure_ms: f64,
    /// Packets that were lost.
    pub(super) lost: usize,
}

/// The packets of the stream: when each was sent, and whether it came.
#[derive(Default)]
struct Stream {
    sent: Vec<Instant>,
    came: Vec<bool>,
}

/// Cuts `out` while packets go to the prefixes and follows them until all arrive again; `None`: they did not within 90 s. `local` has the mirror whose carrier tells when
/// Stoa has seen it.
///
/// # Errors
/// [`LabError::NotUnderstood`] when packets were lost before, or Stoa does not see that the link is down.
pub(super) fn follow(
    links: &mut Links,
    table: &Table,
    local: &Namespace,
    out: Out,
) -> Result<Option<Outage>> {
    let provable: Vec<(u32, u32)> = table
        .addresses
        .iter()
        .enumerate()
        .filter_map(|(at, address)| Some((at as u32, (*address)?)))
        .collect();
    let sample: Vec<(u32, u32)> =
        provable.iter().step_by(provable.len().div_ceil(SAMPLE).max(1)).copied().collect();
    let mut stream = undisturbed(links, &sample)?;
    let failed = Instant::now();
    links.cut(out);
    let mut is_over = true;
    let detected = std::thread::scope(|scope| -> Result<Instant> {
        let watch = scope.spawn(|| local.enter(|| carrier_lost(out.name(), failed + PATIENCE)));
        let end = failed + PATIENCE;
        loop {
            stream.run(links, &sample, Instant::now() + GAP * 20)?;
            let lost = stream.last_lost_before(Instant::now() - LATE);
            let over = lost.is_none_or(|at| stream.sent[at].elapsed() > QUIET + LATE);
            if over && failed.elapsed() > QUIET + LATE {
                break;
            }
            if Instant::now() > end {
                is_over = false;
                break;
            }
        }
        stream.settle(links);
        match watch.join() {
            Ok(seen) => seen?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })?;
    Ok(is_over.then(|| stream.outage(failed, detected)))
}

/// A stream of which nothing was lost so far: the daemon may still be busy with what came before.
fn undisturbed(links: &mut Links, sample: &[(u32, u32)]) -> Result<Stream> {
    let end = Instant::now() + PATIENCE;
    loop {
        let mut stream = Stream::default();
        stream.run(links, sample, Instant::now() + BEFORE)?;
        stream.settle(links);
        match stream.last_lost() {
            None => return Ok(stream),
            Some(lost) if Instant::now() > end => {
                return Err(LabError::NotUnderstood {
                    what: "the stream before the link was cut".to_owned(),
                    why: format!("packet {lost} of {} was lost already", stream.sent.len()),
                });
            }
            Some(_) => {}
        }
    }
}

impl Stream {
    fn run(&mut self, links: &mut Links, sample: &[(u32, u32)], until: Instant) -> Result<()> {
        interrupt::check()?;
        let mut due = Instant::now();
        while Instant::now() < until {
            let first = self.sent.len();
            let packets = (first..first + BURST).map(|number| {
                let (index, address) = sample[number % sample.len()];
                (index, address, number as u32)
            });
            let now = Instant::now();
            self.sent.extend(std::iter::repeat_n(now, BURST));
            self.came.resize(first + BURST, false);
            let came = &mut self.came;
            links.send(packets, |arrival| note(came, arrival.sequence));
            due += GAP;
            while Instant::now() < due {
                std::thread::sleep(due.saturating_duration_since(Instant::now()).min(GAP));
                links.receive(|arrival| note(came, arrival.sequence));
            }
        }
        Ok(())
    }

    /// Waits for what is on its way.
    fn settle(&mut self, links: &mut Links) {
        let until = Instant::now() + LATE;
        while Instant::now() < until {
            links.receive(|arrival| note(&mut self.came, arrival.sequence));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn last_lost(&self) -> Option<usize> {
        self.came.iter().rposition(|came| !came)
    }

    fn last_lost_before(&self, when: Instant) -> Option<usize> {
        let old = self.sent.partition_point(|sent| *sent < when);
        self.came[..old].iter().rposition(|came| !came)
    }

    /// The outage lasted until the first packet was sent that came, and after which none was lost.
    fn outage(&self, failed: Instant, detected: Instant) -> Outage {
        let lost = self.came.iter().filter(|came| !**came).count();
        let over = self.last_lost().and_then(|last| self.sent.get(last + 1));
        let since = |when: Instant| {
            over.map_or(0.0, |over| over.saturating_duration_since(when).as_secs_f64() * 1e3)
        };
        Outage { after_detection_ms: since(detected), after_failure_ms: since(failed), lost }
    }
}

fn note(came: &mut [bool], sequence: u32) {
    if let Some(one) = came.get_mut(sequence as usize) {
        *one = true;
    }
}

/// When the device in this thread's namespace lost its carrier: the mirror follows the router's interface.
fn carrier_lost(device: &str, end: Instant) -> Result<Instant> {
    loop {
        let list = getifaddrs().map_err(|errno| LabError::system("list interfaces", errno))?;
        let mut of_device = list.filter(|one| one.interface_name == device);
        let runs = of_device.any(|one| one.flags.contains(InterfaceFlags::IFF_RUNNING));
        let now = Instant::now();
        if !runs {
            return Ok(now);
        }
        if now > end {
            return Err(LabError::NotUnderstood {
                what: format!("the mirror of {device}"),
                why: "it kept its carrier when the link was cut".to_owned(),
            });
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_ends_with_the_first_packet_after_the_last_loss() {
        let begun = Instant::now();
        let at = |ms: u64| begun + Duration::from_millis(ms);
        let stream = Stream {
            sent: (0..10).map(|number| at(number * 10)).collect(),
            came: vec![true, true, false, false, true, false, true, true, true, true],
        };
        let outage = stream.outage(at(15), at(25));
        assert_eq!((outage.lost, outage.after_failure_ms), (3, 45.0));
        assert_eq!(outage.after_detection_ms, 35.0);
        assert_eq!(stream.last_lost_before(at(45)), Some(3));
        let none = Stream { sent: vec![at(0)], came: vec![true] }.outage(at(0), at(1));
        assert_eq!((none.lost, none.after_detection_ms), (0, 0.0));
    }
}
