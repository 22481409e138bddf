//! The scale lab: how long it takes until routes that a daemon learns by BGP carry traffic, and how long when they change.
//!
//! ```text
//!  peers ── veth ── Stoa ── memif ── test packets: in, out, out2
//!                     │ mirrors
//!                   local: FRR or BIRD
//! ```
//!
//! The peers' next hops are neighbours of the router at `out` and `out2`. A prefix is learned when a packet to it, to an address that no
//! other prefix has, leaves to its next hop.

mod daemons;
mod hops;
mod kernel;
mod links;
mod peers;
mod prober;
mod repair;
mod table;
mod world;

use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::measure::usage;
use crate::{Result, wait_until};

use hops::Out;
use peers::Peers;
use prober::Wanted;
use world::World;

pub use hops::PEERS_MAX;
pub use table::Table;

/// The daemon that learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Daemon {
    /// FRR: bgpd, and zebra where it takes part.
    Frr,
    /// BIRD 2.
    Bird,
}

/// Where its routes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// To Stoa by zebra's FPM (FRR only).
    Fpm,
    /// To Stoa by the Linux kernel's table.
    Linux,
    /// To Stoa by an internal BGP session.
    Bgp,
    /// To the Linux kernel, without Stoa: the comparison.
    Kernel,
}

/// What is measured.
#[derive(Debug)]
pub struct Workload {
    /// Who learns.
    pub daemon: Daemon,
    /// Where the routes go.
    pub target: Target,
    /// The routes.
    pub table: Table,
    /// BGP peers, 1 to [`PEERS_MAX`]; each says all the routes, the first one with the best paths.
    pub peers: u8,
    /// How long each phase may take.
    pub deadline: Duration,
}

/// What was measured. A time is `None` when the deadline passed before, or where it does not apply.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Who learned.
    pub daemon: Daemon,
    /// Where the routes went.
    pub door: Target,
    /// How many there were.
    pub routes: usize,
    /// Peers that said them.
    pub peers: u8,
    /// Seconds from the session's establishment until the test packet of every prefix had arrived; of the comparison: until the kernel
    /// held all.
    pub learn_s: Option<f64>,
    /// Prefixes whose test packet arrived.
    pub verified_by_traffic: usize,
    /// Prefixes that more specific ones cover, so that no packet can prove them.
    pub covered: usize,
    /// Seconds from when the first peer began to take all back, and to say it anew with other next hops, until all packets arrived there.
    pub reconverge_s: Option<f64>,
    /// Milliseconds from when Stoa saw that the link of all best paths is down until packets arrived by another peer's; with two peers
    /// or more.
    pub repair_ms: Option<f64>,
    /// The same with 1,000 routes.
    pub repair_ms_1k: Option<f64>,
    /// Milliseconds of `repair_ms` and those until Stoa saw it.
    pub repair_from_failure_ms: Option<f64>,
    /// Test packets that were lost from when the link was cut, of 50,000 a second.
    pub repair_lost: Option<usize>,
    /// Processor seconds of controller and forwarder until all was learned.
    pub ours_s: f64,
    /// Those of them that the controller took.
    pub controller_s: f64,
    /// Those of them that the forwarder took beside its workers.
    pub forwarder_s: f64,
    /// Those of them that the forwarder's workers took: test packets, and the daemon's sessions.
    pub workers_s: f64,
    /// Processor seconds of the daemon until all was learned.
    pub daemon_s: f64,
    /// Seconds until TCP had taken the last byte of what the peers said.
    pub transfer_s: Option<f64>,
    /// Memory of controller and forwarder that the routes take, 10^6 bytes: resident after, less before.
    pub rss_mb: f64,
    /// Memory of the daemon, 10^6 bytes.
    pub daemon_rss_mb: f64,
    /// What `stoa show routes audit` says in the end: `equal`, or what is not.
    pub audit: String,
}

impl Figures {
    fn new(workload: &Workload) -> Self {
        let routes = workload.table.prefixes.len();
        Self {
            daemon: workload.daemon,
            door: workload.target,
            routes,
            peers: workload.peers,
            learn_s: None,
            verified_by_traffic: 0,
            covered: routes - workload.table.provable(),
            reconverge_s: None,
            repair_ms: None,
            repair_ms_1k: None,
            repair_from_failure_ms: None,
            repair_lost: None,
            ours_s: 0.0,
            controller_s: 0.0,
            forwarder_s: 0.0,
            workers_s: 0.0,
            daemon_s: 0.0,
            transfer_s: None,
            rss_mb: 0.0,
            daemon_rss_mb: 0.0,
            audit: "unknown".to_owned(),
        }
    }
}

/// How long the daemon may take to connect.
const DOOR: Duration = Duration::from_secs(60);
/// How long the audit may find what is still under way.
const AUDIT: Duration = Duration::from_secs(15);
/// Routes of the small lab whose repair is measured beside that of the large one.
const FEW: u32 = 1000;

/// Makes the lab, measures, and removes it. `binary` is the router; `progress` hears what is done and how far it is, 0..=1.
///
/// # Errors
/// What the lab says: rights or tools that are missing, a daemon that does not start, a session that ends.
pub fn measure(
    binary: &Path,
    workload: &Workload,
    progress: &mut dyn FnMut(&str, f64),
) -> Result<Figures> {
    if workload.target == Target::Kernel {
        return kernel::measure(workload, progress);
    }
    let mut figures = by_stoa(binary, workload, progress)?;
    if figures.repair_ms.is_some() && workload.table.prefixes.len() > FEW as usize {
        let few = Workload { table: Table::synthetic(FEW), ..*workload };
        let few = by_stoa(binary, &few, &mut |_, done| progress("repair of 1,000 routes", done))?;
        figures.repair_ms_1k = few.repair_ms;
    }
    Ok(figures)
}

/// Processor time so far.
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
    let anew = peers::anew(&workload.table);
    let mut world = World::new(binary, workload)?;
    let [forwarder, controller] = world.ours()?;
    let daemon =
        daemons::Running::start(&world.local, workload.daemon, workload.target, workload.peers)?;
    let daemon = (daemon.pids(), daemon);
    let spent = || -> Result<Spent> {
        let workers = usage::spent_by(forwarder, "worker-")?;
        let all = usage::spent(&[forwarder])?;
        Ok(Spent {
            controller: usage::spent(&[controller])?,
            forwarder: all.saturating_sub(workers),
            workers,
            daemon: usage::spent(&daemon.0)?,
        })
    };
    wait_door(&world)?;
    let (before, resident) = (spent()?, usage::resident(&[forwarder, controller])?);
    let told = Peers::start(world.peers(), workload)?;
    let begun = told.established(workload.deadline)?;
    let first = Wanted { peer: 0, out: Out::First };
    figures.verified_by_traffic =
        prove(&mut world, workload, &told, first, (begun, &mut figures.learn_s), |done| {
            progress("learning", done);
        })?;
    let after = spent()?;
    let seconds = |after: Duration, before: Duration| (after.saturating_sub(before)).as_secs_f64();
    figures.controller_s = seconds(after.controller, before.controller);
    figures.forwarder_s = seconds(after.forwarder, before.forwarder);
    figures.workers_s = seconds(after.workers, before.workers);
    figures.ours_s = figures.controller_s + figures.forwarder_s + figures.workers_s;
    figures.daemon_s = seconds(after.daemon, before.daemon);
    let grown = usage::resident(&[forwarder, controller])?.saturating_sub(resident);
    figures.rss_mb = grown as f64 / 1e6;
    figures.daemon_rss_mb = usage::resident(&daemon.0)? as f64 / 1e6;
    figures.transfer_s = told.transfer().map(|time| time.as_secs_f64());
    figures.audit = audit(&world);
    if figures.learn_s.is_none() {
        return Ok(figures);
    }
    let begun = told.say_anew(anew);
    let second = Wanted { peer: 0, out: Out::Second };
    prove(&mut world, workload, &told, second, (begun, &mut figures.reconverge_s), |done| {
        progress("converging anew", done);
    })?;
    if workload.peers > 1 && figures.reconverge_s.is_some() {
        progress("cutting a link", 0.0);
        let World { links, local, .. } = &mut world;
        // `None`: nobody knew another way.
        if let Some(outage) = repair::follow(links, &workload.table, local, Out::Second)? {
            figures.repair_ms = Some(outage.after_detection_ms);
            figures.repair_from_failure_ms = Some(outage.after_failure_ms);
            figures.repair_lost = Some(outage.lost);
        }
        // What the daemon says after it has seen the link go.
        figures.audit = audit(&world);
    }
    Ok(figures)
}

/// Sends packets until every prefix has been proved. `(since, time)`: from when it is counted, and where the seconds go if all were.
fn prove(
    world: &mut World,
    workload: &Workload,
    told: &Peers,
    wanted: Wanted,
    (since, time): (Instant, &mut Option<f64>),
    mut progress: impl FnMut(f64),
) -> Result<usize> {
    let provable = workload.table.provable();
    let end = Instant::now() + workload.deadline;
    let proof = prober::prove(&mut world.links, &workload.table, wanted, end, |arrived| {
        progress(arrived as f64 / provable as f64);
        told.still_established()
    })?;
    if proof.arrived == provable {
        *time = Some(proof.last.saturating_duration_since(since).as_secs_f64());
    }
    Ok(proof.arrived)
}

/// Waits until the door has its session with the daemon: that it connects is no part of what is measured.
fn wait_door(world: &World) -> Result<()> {
    wait_until("the daemon is connected to Stoa", DOOR, || {
        let said = world.router.json(&["show", "routes", "audit", "--json"]);
        let said = said.map_err(|error| error.to_string())?;
        let doors = said["doors"].as_array().map_or(&[][..], Vec::as_slice);
        let is_up =
            doors.iter().any(|door| door["session"] == "begun" || door["session"] == "complete");
        if is_up { Ok(()) } else { Err(said.to_string()) }
    })
}

/// What the audit says once nothing is under way any more: `equal`, what differs, or `unknown` when it says nothing.
fn audit(world: &World) -> String {
    let end = Instant::now() + AUDIT;
    loop {
        let answer = world.router.json(&["show", "routes", "audit", "--json"]);
        let answer = answer.ok();
        // An audit mends what differs: the first that could compare everything is the one that counts.
        let is_compared = answer.as_ref().is_some_and(|said| {
            let tables = said["tables"].as_array().map_or(&[][..], Vec::as_slice);
            said["complete"] == true && tables.iter().all(|table| table["compared"] == true)
        });
        let verdict = answer.and_then(|said| said["audit"].as_str().map(str::to_owned));
        match verdict {
            Some(verdict) if is_compared || Instant::now() > end => return verdict,
            None if Instant::now() > end => return "unknown".to_owned(),
            _ => std::thread::sleep(Duration::from_millis(200)),
        }
    }
}
