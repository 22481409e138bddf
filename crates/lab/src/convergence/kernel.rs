//! The comparison: the same daemon and the same peers, with the Linux kernel's own table in the place of Stoa.

use std::time::{Duration, Instant};

use super::daemons::Running;
use super::hops::{HOPS_LENGTH, OWN, Out, PEERS_LENGTH, peer_address};
use super::{Figures, Peers, Workload};
use crate::measure::usage;
use crate::{LabError, Namespace, Result, interrupt};

/// How often the kernel is asked how many routes it has: it counts them by a walk.
const PERIOD: Duration = Duration::from_millis(200);

/// Measures until the kernel holds all routes.
///
/// # Errors
/// What the lab says.
pub(super) fn measure(workload: &Workload, progress: &mut dyn FnMut(&str, f64)) -> Result<Figures> {
    let (local, peers) = (Namespace::new("local")?, Namespace::new("peers")?);
    for device in ["peers", "out"] {
        let other = if device == "peers" { "eth0" } else { "out" };
        let kind = ["type", "veth", "peer", "name", other, "netns", peers.name()];
        local.ip(&[&["link", "add", device][..], &kind].concat())?;
        local.ip(&["link", "set", device, "up"])?;
        peers.ip(&["link", "set", other, "up"])?;
    }
    local.ip(&["addr", "add", &format!("{OWN}/{PEERS_LENGTH}"), "dev", "peers"])?;
    local.ip(&["addr", "add", &format!("{}/{HOPS_LENGTH}", Out::First.own()), "dev", "out"])?;
    for peer in 0..workload.peers {
        let address = format!("{}/{PEERS_LENGTH}", peer_address(peer));
        peers.ip(&["addr", "add", &address, "dev", "eth0"])?;
    }
    let daemon = Running::start(&local, workload.daemon, workload.target, workload.peers)?;
    let pids = daemon.pids();
    let before = usage::spent(&pids)?;
    let held = held(&local)?;
    let (routes, mut learned) = (workload.table.prefixes.len(), None);
    let told = Peers::start(&peers, workload)?;
    let begun = told.established(workload.deadline)?;
    let end = Instant::now() + workload.deadline;
    while Instant::now() < end {
        interrupt::check()?;
        let count = self::held(&local)?.saturating_sub(held);
        progress("learning", count as f64 / routes as f64);
        if count >= routes {
            learned = Some(begun.elapsed());
            break;
        }
        told.still_established()?;
        std::thread::sleep(PERIOD);
    }
    let mut figures = Figures::new(workload);
    figures.learn_s = learned.map(|time| time.as_secs_f64());
    figures.transfer_s = told.transfer().map(|time| time.as_secs_f64());
    figures.daemon_s = (usage::spent(&pids)? - before).as_secs_f64();
    figures.daemon_rss_mb = usage::resident(&pids)? as f64 / 1e6;
    Ok(figures)
}

/// How many prefixes the kernel holds.
fn held(local: &Namespace) -> Result<usize> {
    let file = "/proc/thread-self/net/fib_triestat";
    let text = local.enter(|| std::fs::read_to_string(file))?;
    let text = text.map_err(|error| LabError::system(format!("read {file}"), error))?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix("Prefixes:"));
    let count = line.and_then(|count| count.trim().parse().ok());
    count.ok_or_else(|| LabError::NotUnderstood {
        what: file.to_owned(),
        why: "it does not count prefixes".to_owned(),
    })
}
