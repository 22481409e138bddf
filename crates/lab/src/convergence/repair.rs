//! The effect of a link failure: a stream to a sample of the prefixes, and the time of its last lost packet.

use std::time::{Duration, Instant};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

use super::hops::OutPort;
use super::links::Links;
use super::prober::ExpectedHop;
use super::stream::{LATE, Pace, Stream};
use super::table::Table;
use crate::{LabError, Namespace, Result};

/// 50,000 packets a second.
const PACE: Pace = Pace { burst: 25, gap: Duration::from_micros(500) };
/// The outage is over when nothing is lost for this long.
const QUIET: Duration = Duration::from_secs(2);
/// The longest outage that is measured.
const PATIENCE: Duration = Duration::from_secs(90);

/// An outage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outage {
    /// Milliseconds from Stoa's link-down detection until packets arrived again; 0 when none was lost since.
    pub(super) after_detection_ms: f64,
    /// Milliseconds from the link failure.
    pub(super) after_failure_ms: f64,
    /// Lost packets.
    pub(super) lost: usize,
}

/// Cuts `out` while packets to the prefixes leave there, and measures until all arrive again; `None` when they do not
/// within 90 s. `local` has the host interface whose carrier shows when Stoa detected the failure.
///
/// # Errors
///
/// [`LabError::ParseFailed`] when packets were lost or left elsewhere before the failure, or Stoa does not detect
/// that the link is down.
pub(super) fn follow(
    links: &mut Links,
    table: &Table,
    local: &Namespace,
    out: OutPort,
) -> Result<Option<Outage>> {
    let mut stream = Stream::new(table, ExpectedHop { peer: 0, out }, PACE);
    stream.begin(links)?;
    let failed = Instant::now();
    links.cut(out);
    let mut is_over = true;
    let detected = std::thread::scope(|scope| -> Result<Instant> {
        let watch = scope.spawn(|| local.enter(|| carrier_lost(out.name(), failed + PATIENCE)));
        let end = failed + PATIENCE;
        loop {
            stream.run(links, Instant::now() + PACE.gap * 20)?;
            let lost = stream.last_lost_before(Instant::now() - LATE);
            let over = lost.is_none_or(|lost| lost.elapsed() > QUIET + LATE);
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
            Ok(show_output) => show_output?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })?;
    Ok(is_over.then(|| outage(&stream, failed, detected)))
}

/// The outage ends with the first packet that arrived and after which none was lost.
fn outage(stream: &Stream, failed: Instant, detected: Instant) -> Outage {
    let over = stream.over();
    let since = |when: Instant| {
        over.map_or(0.0, |over| over.saturating_duration_since(when).as_secs_f64() * 1e3)
    };
    let lost = stream.lost();
    Outage { after_detection_ms: since(detected), after_failure_ms: since(failed), lost }
}

/// When the device in this thread's namespace lost its carrier: the host interface follows the state of the router's
/// interface.
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
            return Err(LabError::ParseFailed {
                what: format!("the host interface of {device}"),
                reason: "it kept its carrier when the link was cut".to_owned(),
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
        let came = vec![true, true, false, false, true, false, true, true, true, true];
        let stream = Stream::with_arrivals((0..10).map(|number| at(number * 10)).collect(), came);
        let show_output = outage(&stream, at(15), at(25));
        assert_eq!((show_output.lost, show_output.after_failure_ms), (3, 45.0));
        assert_eq!(show_output.after_detection_ms, 35.0);
        let none = outage(&Stream::with_arrivals(vec![at(0)], vec![true]), at(0), at(1));
        assert_eq!((none.lost, none.after_detection_ms), (0, 0.0));
    }
}
