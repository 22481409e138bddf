//! The effect of killing the controller or the daemon: lost packets, and the time until all routes are announced
//! again and are in the forwarder.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::daemons::Running;
use super::hops::OutPort;
use super::links::Links;
use super::prober::ExpectedHop;
use super::stream::{Pace, Stream};
use super::testbed::Testbed;
use super::{Announcers, Target, Workload};
use crate::measure::usage;
use crate::{Command, LabError, Result, Router};

/// 10,000 packets a second: the restarted process needs the processor.
const PACE: Pace = Pace { burst: 20, gap: Duration::from_millis(2) };
/// Time between killing and restarting the daemon.
const AWAY: Duration = Duration::from_secs(1);
/// How often the daemon's routes are counted.
const LOOK: Duration = Duration::from_millis(250);
/// The daemon counts as idle after this long below [`IDLE_SHARE`] of a processor.
const IDLE: Duration = Duration::from_millis(500);
const IDLE_SHARE: f64 = 0.2;
/// How often the state of the route sources is read.
const PERIOD: Duration = Duration::from_millis(100);
/// How long the stream continues after recovery.
const AFTER: Duration = Duration::from_millis(500);

/// Results.
#[derive(Clone, Debug)]
pub(super) struct Killed {
    /// Seconds until all routes were announced again and the audit was equal: from the controller's death (its
    /// supervisor restarts it), or from the daemon's restart by this test. `None`: not in time, or the daemon of
    /// [`Target::Netlink`] was killed, whose routes stay in the kernel.
    pub(super) back_s: Option<f64>,
    /// Seconds from the daemon's restart until it reported that it had learned all routes.
    pub(super) learned_s: Option<f64>,
    /// Packets lost, at 10,000 a second.
    pub(super) lost: usize,
    /// Result of the first audit that could compare everything: `equal`, `different`, or `unknown`.
    pub(super) audit: String,
}

/// The recovery.
struct Recovery {
    /// Seconds since the death or the restart; `None`: the route source received no new announcement.
    seconds: Option<f64>,
    /// Result of the first audit that could compare everything.
    audit: String,
}

/// Kills the controller, which its supervisor restarts.
pub(super) fn controller(
    testbed: &mut Testbed,
    workload: &Workload,
    announcers: &Announcers,
) -> Result<Killed> {
    let [_, old] = testbed.stoa_pids()?;
    let Testbed { links, router, .. } = testbed;
    let router = &*router;
    let expected = holds(router)?;
    follow(links, workload, announcers, move || {
        // Not from when the new one replies: restart and start-up are time without a controller, too.
        let killed = Instant::now();
        Command::program("/bin/kill").args(["-KILL", &old.to_string()]).run()?.ok()?;
        let end = killed + workload.deadline;
        while controller_pid(router).is_none_or(|pid| pid == old) {
            if Instant::now() > end {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(recovered(router, expected, killed, end)?.map(|found| (None, found)))
    })
}

/// Kills all processes of the daemon, and starts it again a second later.
pub(super) fn daemon(
    testbed: &mut Testbed,
    workload: &Workload,
    announcers: &Announcers,
    daemon: &mut Running,
) -> Result<Killed> {
    let Testbed { links, router, .. } = testbed;
    let router = &*router;
    let expected = holds(router)?;
    follow(links, workload, announcers, move || {
        daemon.kill();
        std::thread::sleep(AWAY);
        let begun = Instant::now();
        daemon.restart()?;
        let end = begun + workload.deadline;
        while daemon.learned().unwrap_or(0) < workload.table.len() {
            if Instant::now() > end {
                return Ok(None);
            }
            crate::interrupt::check()?;
            std::thread::sleep(LOOK);
        }
        let learned = begun.elapsed().as_secs_f64();
        if workload.target == Target::Netlink {
            // The daemon leaves its routes in the kernel: the route source receives no new announcement, so there is
            // nothing to measure.
            while Instant::now() < end {
                let printed = router.json(&["show", "routes", "audit", "--json"])?;
                if let Some(audit) = printed["audit"].as_str().filter(|_| is_compared(&printed)) {
                    let found = Recovery { seconds: None, audit: audit.to_owned() };
                    return Ok(Some((Some(learned), found)));
                }
                crate::interrupt::check()?;
                std::thread::sleep(LOOK);
            }
            return Ok(None);
        }
        let mut first = None;
        while let Some(found) = recovered(router, expected, begun, end)? {
            let audit = first.get_or_insert(found.audit).clone();
            // zebra first announces what it found in the kernel, then processes the routes of the other daemons.
            if usage::busy(&daemon.pids(), IDLE)? < IDLE_SHARE {
                return Ok(Some((Some(learned), Recovery { seconds: found.seconds, audit })));
            }
        }
        Ok(None)
    })
}

/// Runs `work`, which kills a process and waits, during a stream of packets.
fn follow(
    links: &mut Links,
    workload: &Workload,
    announcers: &Announcers,
    work: impl FnOnce() -> Result<Option<(Option<f64>, Recovery)>> + Send,
) -> Result<Killed> {
    announcers.check_running()?;
    let expected = ExpectedHop { peer: 0, out: OutPort::First };
    let mut stream = Stream::new(&workload.table, expected, PACE);
    stream.begin(links)?;
    let back = std::thread::scope(|scope| {
        let work = scope.spawn(work);
        while !work.is_finished() {
            stream.run(links, Instant::now() + PACE.gap * 20)?;
            links.service();
        }
        match work.join() {
            Ok(back) => back,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })?;
    stream.run(links, Instant::now() + AFTER)?;
    stream.settle(links);
    let lost = stream.lost();
    Ok(match back {
        None => Killed { back_s: None, learned_s: None, lost, audit: "unknown".to_owned() },
        Some((learned_s, Recovery { seconds, audit })) => {
            Killed { back_s: seconds, learned_s, lost, audit }
        }
    })
}

fn controller_pid(router: &Router) -> Option<u32> {
    let status = router.status().ok()?;
    status["controller_pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0)
}

/// Number of learned routes in the forwarder.
fn holds(router: &Router) -> Result<u64> {
    let printed = router.json(&["show", "routes", "audit", "--json"])?;
    held(&printed).ok_or_else(|| LabError::ParseFailed {
        what: "stoa show routes audit --json".to_owned(),
        reason: printed.to_string(),
    })
}

fn held(audit: &Value) -> Option<u64> {
    audit["tables"].as_array()?.iter().map(|table| table["held"].as_u64()).sum()
}

/// Waits until the route source has received as many routes as before, no stale one is left, and the audit could
/// compare everything. `None`: not in time.
fn recovered(
    router: &Router,
    expected: u64,
    begun: Instant,
    end: Instant,
) -> Result<Option<Recovery>> {
    let mut first: Option<String> = None;
    loop {
        crate::interrupt::check()?;
        // A starting controller does not reply. An audit walks whole tables, so it runs only after the route sources
        // have received everything.
        if router
            .call(&["show", "metrics"])
            .is_ok_and(|printed| all_received(&printed.stdout, expected))
            && let Ok(printed) = router.json(&["show", "routes", "audit", "--json"])
            && is_compared(&printed)
        {
            let result = printed["audit"].as_str().unwrap_or("unknown").to_owned();
            // An audit fixes differences: the first one that could compare everything counts.
            let first = first.get_or_insert_with(|| result.clone());
            if result == "equal" && is_relearned(&printed, expected) {
                let seconds = Some(begun.elapsed().as_secs_f64());
                return Ok(Some(Recovery { seconds, audit: first.clone() }));
            }
        }
        if Instant::now() > end {
            return Ok(None);
        }
        std::thread::sleep(PERIOD);
    }
}

/// Whether everything could be compared: the forwarder's tables, and the kernel tables that route sources follow.
pub(super) fn is_compared(audit: &Value) -> bool {
    let all = |what: &str| audit[what].as_array().map_or(&[][..], Vec::as_slice);
    let mut compared = all("tables").iter().chain(all("kernels"));
    audit["complete"] == true && compared.all(|table| table["compared"] == true)
}

/// Whether all route sources hold this many routes and no stale one, by the metrics, which need no table walk.
fn all_received(metrics: &str, expected: u64) -> bool {
    let sum = |family: &str| -> f64 {
        let samples = metrics.lines().filter_map(|line| line.strip_prefix(family));
        let samples = samples.filter(|rest| rest.starts_with(['{', ' ']));
        samples.filter_map(|rest| rest.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    };
    sum("stoa_learned_complete") > 0.0
        && sum("stoa_route_source_stale_routes") == 0.0
        && sum("stoa_route_source_routes") >= expected as f64
}

/// Whether the route sources have received this many routes, no stale one is left, and the forwarder holds as many.
fn is_relearned(audit: &Value, expected: u64) -> bool {
    let route_sources = audit["route_sources"].as_array().map_or(&[][..], Vec::as_slice);
    let printed = |route_source: &Value| {
        route_source["ip4_routes"].as_u64().zip(route_source["ip6_routes"].as_u64())
    };
    let routes: u64 = route_sources.iter().filter_map(printed).map(|(four, six)| four + six).sum();
    let is_fresh = |route_source: &Value| {
        route_source["stale"] == 0
            && route_source["session"] != "ended"
            && route_source["session"] != "awaited"
    };
    route_sources.iter().all(is_fresh) && routes >= expected && held(audit) == Some(expected)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_routes_must_be_relearned_and_held() {
        let audit = |complete: bool, routes: u64, stale: u64, held: u64| {
            json!({
                "audit": "equal", "complete": complete,
                "tables": [{ "held": held, "compared": true }, { "held": 0, "compared": true }],
                "route_sources": [{ "ip4_routes": routes, "ip6_routes": 0, "stale": stale, "session": "begun" }],
            })
        };
        assert!(is_compared(&audit(true, 5, 0, 5)) && !is_compared(&audit(false, 5, 0, 5)));
        let mut of_kernel = audit(true, 5, 0, 5);
        of_kernel["kernels"] = json!([{ "compared": true }, { "compared": false }]);
        assert!(!is_compared(&of_kernel), "a kernel's table was not compared");
        assert!(is_relearned(&audit(true, 5, 0, 5), 5));
        for (routes, stale, held) in [(4, 0, 5), (5, 1, 5), (5, 0, 4)] {
            assert!(!is_relearned(&audit(true, routes, stale, held), 5), "{routes} {stale} {held}");
        }
    }

    #[test]
    fn metrics_show_when_to_run_the_audit() {
        let metrics = |complete: u8, ip6: u64, stale: u64| {
            format!(
                "# TYPE stoa_route_source_routes gauge\n\
                 stoa_route_source_routes{{route_source=\"a b\",vrf=\"default\",family=\"ipv4\"}} 4.0\n\
                 stoa_route_source_routes{{route_source=\"a b\",vrf=\"default\",family=\"ipv6\"}} {ip6}.0\n\
                 stoa_route_source_stale_routes{{route_source=\"a b\"}} {stale}.0\n\
                 stoa_learned_complete {complete}.0\n"
            )
        };
        assert!(all_received(&metrics(1, 6, 0), 10));
        for (complete, ip6, stale) in [(0, 6, 0), (1, 5, 0), (1, 6, 1)] {
            assert!(!all_received(&metrics(complete, ip6, stale), 10), "{complete} {ip6} {stale}");
        }
    }
}
