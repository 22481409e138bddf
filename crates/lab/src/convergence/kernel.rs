//! The baseline: the same daemon and the same peers, with the Linux kernel's routing table in place of Stoa.

use std::time::{Duration, Instant};

use super::announcers::Announcers;
use super::daemons::{Running, Setting};
use super::hops::{OutPort, hops_length, own, peer_address, peers_length};
use super::{Figures, Workload};
use crate::measure::usage;
use crate::{LabError, Namespace, Result, interrupt};

/// How often the kernel's routes are counted: it walks its table for that.
const PERIOD: Duration = Duration::from_millis(200);

/// Measures until the kernel holds all routes.
///
/// # Errors
///
/// The lab's errors.
pub(super) fn measure(workload: &Workload, progress: &mut dyn FnMut(&str, f64)) -> Result<Figures> {
    let (local, peers) = (Namespace::new("local")?, Namespace::new("peers")?);
    for (device, other) in [("peers", "eth0"), ("out", "out"), ("out2", "out2")] {
        let kind = ["type", "veth", "peer", "name", other, "netns", peers.name()];
        local.ip(&[&["link", "add", device][..], &kind].concat())?;
        local.ip(&["link", "set", device, "up"])?;
        peers.ip(&["link", "set", other, "up"])?;
    }
    let six = workload.table.is_six();
    local.ip(&["addr", "add", &format!("{}/{}", own(six), peers_length(six)), "dev", "peers"])?;
    for (out, device) in OutPort::BOTH.into_iter().zip(["out", "out2"]) {
        let address = format!("{}/{}", out.own(six), hops_length(six));
        local.ip(&["addr", "add", &address, "dev", device])?;
    }
    for peer in 0..workload.peers {
        let address = format!("{}/{}", peer_address(peer, six), peers_length(six));
        peers.ip(&["addr", "add", &address, "dev", "eth0"])?;
    }
    let daemon = Running::start(&local, Setting::of(workload))?;
    let pids = daemon.pids();
    let before = usage::spent(&pids)?;
    let held = held(&local, six)?;
    let (routes, mut learned) = (workload.table.len(), None);
    let (announcers, begun) = Announcers::begin(&peers, workload)?;
    let end = Instant::now() + workload.deadline;
    while Instant::now() < end {
        interrupt::check()?;
        let count = self::held(&local, six)?.saturating_sub(held);
        progress("learning", count as f64 / routes as f64);
        if count >= routes {
            learned = Some(begun.elapsed());
            break;
        }
        announcers.check_running()?;
        std::thread::sleep(PERIOD);
    }
    let mut figures = Figures::new(workload);
    figures.learn_s = learned.map(|time| time.as_secs_f64());
    figures.transfer_s = announcers.transfer().map(|time| time.as_secs_f64());
    figures.daemon_s = (usage::spent(&pids)? - before).as_secs_f64();
    figures.daemon_rss_mb = usage::resident(&pids)? as f64 / 1e6;
    Ok(figures)
}

/// Number of prefixes in the kernel.
fn held(local: &Namespace, six: bool) -> Result<usize> {
    let file =
        if six { "/proc/thread-self/net/rt6_stats" } else { "/proc/thread-self/net/fib_triestat" };
    let text = local.enter(|| std::fs::read_to_string(file))?;
    let text = text.map_err(|error| LabError::system(format!("read {file}"), error))?;
    let count = if six { entries_six(&text) } else { prefixes_four(&text) };
    count.ok_or_else(|| LabError::ParseFailed {
        what: file.to_owned(),
        reason: "it does not count prefixes".to_owned(),
    })
}

fn prefixes_four(text: &str) -> Option<usize> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix("Prefixes:"));
    line?.trim().parse().ok()
}

/// The fourth hexadecimal number (`fib_rt_entries` in `net/ipv6/route.c` of Linux).
fn entries_six(text: &str) -> Option<usize> {
    usize::from_str_radix(text.split_whitespace().nth(3)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_kernel_counters() {
        assert_eq!(prefixes_four("Main:\n\tLeaves:         5\n\tPrefixes:       7\n"), Some(7));
        assert_eq!(entries_six("0003 0002 0010 001f 0000 0008 0000\n"), Some(31));
        assert_eq!(entries_six("0003"), None);
    }
}
