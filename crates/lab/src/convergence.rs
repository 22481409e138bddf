//! The scale lab: measures how long it takes until routes that a daemon learns by BGP or OSPF carry traffic: after they
//! are announced, after they change, and after a process is killed.
//!
//! ```text
//!  peers ── veth ── Stoa ── memif ── test packets: in, out, out2
//!                     │ host interfaces
//!                   local: FRR or BIRD
//! ```
//!
//! The peers' next hops are neighbours of the router at `out` and `out2`. A prefix counts as learned when a packet to
//! an address that only this prefix covers leaves to its next hop.

mod announcers;
mod daemon_texts;
mod daemons;
mod figures;
mod frames;
mod hops;
mod kernel;
mod kill;
mod links;
mod ospf;
mod peers;
mod prober;
mod repair;
mod stream;
mod table;
mod testbed;

use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::measure::usage;
use crate::{Result, wait_until};

use announcers::Announcers;
use daemons::{Running, Setting};
use hops::OutPort;
use peers::Peers;
use prober::ExpectedHop;
use testbed::Testbed;

pub use figures::Figures;
pub use hops::PEERS_MAX;
pub use table::{FOUR_MAX, SIX_MAX, Table};

/// The daemon that learns the routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Daemon {
    /// FRR: bgpd, and zebra where it is involved.
    Frr,
    /// BIRD 2.
    Bird,
}

/// Where the daemon's routes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// To Stoa through zebra's FPM (FRR only).
    Fpm,
    /// To Stoa over netlink, from a table of the Linux kernel.
    Netlink,
    /// To Stoa over an internal BGP session.
    Bgp,
    /// To the Linux kernel, without Stoa: the baseline.
    Kernel,
}

/// The protocol that the daemon learns the routes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// BGP with each peer.
    Bgp,
    /// OSPFv2 with one neighbour: AS-external LSAs.
    Ospf,
}

/// Processes that are killed once all routes are learned.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kills {
    /// Stoa's controller.
    pub controller: bool,
    /// The daemon with all of its processes. It and its peers then use graceful restart (RFC 4724).
    pub daemon: bool,
}

/// The parameters of the measurement.
#[derive(Debug)]
pub struct Workload {
    /// The daemon.
    pub daemon: Daemon,
    /// Its protocol.
    pub protocol: Protocol,
    /// Where the routes go.
    pub target: Target,
    /// The routes.
    pub table: Table,
    /// BGP peers, 1 to [`PEERS_MAX`]; each announces all routes, the first one with the best paths. With OSPF one.
    pub peers: u8,
    /// Processes to kill.
    pub kills: Kills,
    /// Timeout of each phase.
    pub deadline: Duration,
}

/// Timeout for the daemon to connect.
const ROUTE_SOURCE: Duration = Duration::from_secs(60);
/// How long the audit may find differences that are still being applied.
const AUDIT: Duration = Duration::from_secs(15);
/// Number of routes of the small lab, whose repair time is compared with that of the large one.
const FEW: u32 = 1000;

/// Sets up the lab, measures, and removes it. `binary` is the router; `progress` receives the current phase and its
/// progress, 0..=1.
///
/// # Errors
///
/// The lab's errors: missing privileges or tools, a daemon that does not start, a session that ends.
pub fn measure(
    binary: &Path,
    workload: &Workload,
    progress: &mut dyn FnMut(&str, f64),
) -> Result<Figures> {
    if workload.target == Target::Kernel {
        return kernel::measure(workload, progress);
    }
    let mut figures = by_stoa(binary, workload, progress)?;
    if workload.table.len() == FEW as usize {
        figures.repair_ms_1k = figures.repair_ms;
    }
    if figures.repair_ms.is_some() && workload.table.len() > FEW as usize {
        let table = workload.table.made_alike(FEW);
        let few = Workload { table, kills: Kills::default(), ..*workload };
        let few = by_stoa(binary, &few, &mut |_, done| progress("repair of 1,000 routes", done))?;
        figures.repair_ms_1k = few.repair_ms;
    }
    Ok(figures)
}

/// Processor time used so far.
struct Spent {
    controller: Duration,
    forwarder: Duration,
    workers: Duration,
    daemon: Duration,
}

fn by_stoa(
    binary: &Path,
    workload: &Workload,
    progress: &mut dyn FnMut(&str, f64),
) -> Result<Figures> {
    let mut figures = Figures::new(workload);
    progress("making the lab", 0.0);
    let mut testbed = Testbed::new(binary, workload)?;
    let stoa_pids = testbed.stoa_pids()?;
    let mut daemon = Running::start(&testbed.local, Setting::of(workload))?;
    let pids = daemon.pids();
    wait_route_source(&testbed)?;
    let (before, resident) = (Spent::until_now(stoa_pids, &pids)?, usage::resident(&stoa_pids)?);
    let (announcers, begun) = Announcers::begin(testbed.peers(), workload)?;
    let first = ExpectedHop { peer: 0, out: OutPort::First };
    figures.verified_by_traffic =
        prove(&mut testbed, workload, &announcers, first, (begun, &mut figures.learn_s), |done| {
            progress("learning", done);
        })?;
    figures.spent(&before, &Spent::until_now(stoa_pids, &pids)?);
    figures.rss_mb = usage::resident(&stoa_pids)?.saturating_sub(resident) as f64 / 1e6;
    figures.daemon_rss_mb = usage::resident(&pids)? as f64 / 1e6;
    figures.transfer_s = announcers.transfer().map(|time| time.as_secs_f64());
    figures.audit = audit(&testbed);
    if figures.learn_s.is_none() {
        return Ok(figures);
    }
    kill(&mut testbed, workload, &announcers, &mut daemon, &mut figures, progress)?;
    if let Announcers::Bgp(peers) = &announcers {
        change(&mut testbed, workload, (&announcers, peers), &mut figures, progress)?;
    }
    Ok(figures)
}

impl Spent {
    fn until_now([forwarder, controller]: [u32; 2], daemon: &[u32]) -> Result<Self> {
        let workers = usage::spent_by(forwarder, "worker-")?;
        let all = usage::spent(&[forwarder])?;
        Ok(Self {
            controller: usage::spent(&[controller])?,
            forwarder: all.saturating_sub(workers),
            workers,
            daemon: usage::spent(daemon)?,
        })
    }
}

impl Figures {
    fn spent(&mut self, before: &Spent, after: &Spent) {
        let seconds = |after: Duration, before| after.saturating_sub(before).as_secs_f64();
        self.controller_s = seconds(after.controller, before.controller);
        self.forwarder_s = seconds(after.forwarder, before.forwarder);
        self.workers_s = seconds(after.workers, before.workers);
        self.ours_s = self.controller_s + self.forwarder_s + self.workers_s;
        self.daemon_s = seconds(after.daemon, before.daemon);
    }
}

/// Kills the chosen processes, one after the other.
fn kill(
    testbed: &mut Testbed,
    workload: &Workload,
    announcers: &Announcers,
    daemon: &mut Running,
    figures: &mut Figures,
    progress: &mut dyn FnMut(&str, f64),
) -> Result<()> {
    if workload.kills.controller {
        progress("killing the controller", 0.0);
        let killed = kill::controller(testbed, workload, announcers)?;
        (figures.kill_controller_s, figures.kill_controller_lost) =
            (killed.back_s, Some(killed.lost));
        figures.kill_controller_audit = Some(killed.audit);
    }
    if workload.kills.daemon {
        progress("killing the daemon", 0.0);
        let killed = kill::daemon(testbed, workload, announcers, daemon)?;
        (figures.kill_daemon_s, figures.kill_daemon_lost) = (killed.back_s, Some(killed.lost));
        figures.kill_daemon_learned_s = killed.learned_s;
        figures.kill_daemon_audit = Some(killed.audit);
    }
    Ok(())
}

/// The first peer announces everything again with other next hops; then the link to them is cut.
fn change(
    testbed: &mut Testbed,
    workload: &Workload,
    (announcers, peers): (&Announcers, &Peers),
    figures: &mut Figures,
    progress: &mut dyn FnMut(&str, f64),
) -> Result<()> {
    let reannouncement = peers::reannouncement(&workload.table);
    let begun = peers.reannounce(reannouncement);
    let second = ExpectedHop { peer: 0, out: OutPort::Second };
    prove(testbed, workload, announcers, second, (begun, &mut figures.reconverge_s), |done| {
        progress("converging anew", done);
    })?;
    if workload.peers > 1 && figures.reconverge_s.is_some() {
        progress("cutting a link", 0.0);
        let Testbed { links, local, .. } = testbed;
        // `None`: there was no other path.
        if let Some(outage) = repair::follow(links, &workload.table, local, OutPort::Second)? {
            figures.repair_ms = Some(outage.after_detection_ms);
            figures.repair_from_failure_ms = Some(outage.after_failure_ms);
            figures.repair_lost = Some(outage.lost);
        }
        // The daemon's routes after the link failure.
        figures.audit = audit(testbed);
    }
    Ok(())
}

/// Sends packets until every prefix is verified. `(since, time)`: the start of the measurement, and where to store
/// the seconds once all are verified.
fn prove(
    testbed: &mut Testbed,
    workload: &Workload,
    announcers: &Announcers,
    expected: ExpectedHop,
    (since, time): (Instant, &mut Option<f64>),
    mut progress: impl FnMut(f64),
) -> Result<usize> {
    let provable = workload.table.provable();
    let end = Instant::now() + workload.deadline;
    let proof = prober::prove(&mut testbed.links, &workload.table, expected, end, |arrived| {
        progress(arrived as f64 / provable as f64);
        announcers.check_running()
    })?;
    if proof.arrived == provable {
        *time = Some(proof.last.saturating_duration_since(since).as_secs_f64());
    }
    Ok(proof.arrived)
}

/// Waits until the route source has its session with the daemon: connecting is not part of the measurement.
fn wait_route_source(testbed: &Testbed) -> Result<()> {
    wait_until("the daemon is connected to Stoa", ROUTE_SOURCE, || {
        let printed = testbed.router.json(&["show", "routes", "audit", "--json"]);
        let printed = printed.map_err(|error| error.to_string())?;
        let route_sources = printed["route_sources"].as_array().map_or(&[][..], Vec::as_slice);
        let is_up = route_sources.iter().any(|route_source| {
            route_source["session"] == "begun" || route_source["session"] == "complete"
        });
        if is_up { Ok(()) } else { Err(printed.to_string()) }
    })
}

/// The audit's result once all changes are applied: `equal`, the differences, or `unknown` without a result.
fn audit(testbed: &Testbed) -> String {
    let end = Instant::now() + AUDIT;
    loop {
        let answer = testbed.router.json(&["show", "routes", "audit", "--json"]);
        let answer = answer.ok();
        // An audit fixes differences: the first one that could compare everything counts.
        let is_compared = answer.as_ref().is_some_and(kill::is_compared);
        let state = answer.and_then(|printed| printed["audit"].as_str().map(str::to_owned));
        match state {
            Some(state) if is_compared || Instant::now() > end => return state,
            None if Instant::now() > end => return "unknown".to_owned(),
            _ => std::thread::sleep(Duration::from_millis(200)),
        }
    }
}
