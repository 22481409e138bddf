//! The end of the demo: live counters every second, and commands to try, until Ctrl-C.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::time::{Duration, Instant};

use super::report::Report;
use crate::show_output::Interface;
use crate::{LabError, Router, Topology, interrupt};

/// Interval between two tables.
const PERIOD: Duration = Duration::from_secs(1);
/// Number of drop reasons shown, the most frequent first.
const REASONS: usize = 6;

/// Shows counters until Ctrl-C or until the router exits.
pub(crate) fn show(report: &Report, topology: &Topology, router: &Router) {
    report.print(&how_to_play(topology, router));
    let terminal = std::io::stdout().is_terminal();
    let mut before: Option<(Instant, Vec<Interface>)> = None;
    let mut drawn = 0;
    while !interrupt::came() {
        let now = Instant::now();
        match table(router, before.as_ref()) {
            Ok((text, list)) => {
                // Overwrite the previous table.
                let back = format!("\x1b[{drawn}A\x1b[J");
                let back = if terminal && drawn > 0 { back.as_str() } else { "" };
                let mut out = std::io::stdout();
                // A closed standard output must not prevent the cleanup.
                let _ = write!(out, "{back}{text}").and_then(|()| out.flush());
                drawn = text.lines().count();
                before = Some((now, list));
            }
            Err(LabError::Interrupted) => break,
            Err(error) => {
                report.print(&format!("cannot read the counters: {error}"));
                break;
            }
        }
        pause(now + PERIOD);
    }
    report.print("\nStopping and cleaning up ...");
}

fn pause(until: Instant) {
    while Instant::now() < until && !interrupt::came() {
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn how_to_play(topology: &Topology, router: &Router) -> String {
    let mut text = String::from("\nThe router keeps running. In another terminal, as root, try:\n");
    if let [a, b] = topology.hosts() {
        let (from, to) = (a.namespace().name(), b.namespace().name());
        let addresses = b.address(false).and_then(|four| Ok((four, b.address(true)?)));
        if let Ok((four, six)) = addresses {
            // Writing to a String cannot fail.
            let _ = write!(
                text,
                "  ip netns exec {from} ping {four}\n  ip netns exec {from} ping {six}\n  \
                 ip netns exec {to} iperf3 -s -1 &\n  ip netns exec {from} iperf3 -c {four} -t 30\n"
            );
        }
    }
    let (stoa, socket) = (router.binary().display(), router.socket());
    let socket = socket.display();
    let _ = write!(
        text,
        "  {stoa} show interfaces --socket {socket}\n  {stoa} show drops --socket {socket}\n  \
         {stoa} show flows --socket {socket}\n  {stoa} show nat --socket {socket}\n\
         Ctrl-C stops the demo and cleans up.\n"
    );
    text
}

fn table(
    router: &Router,
    before: Option<&(Instant, Vec<Interface>)>,
) -> crate::Result<(String, Vec<Interface>)> {
    let list = router.interfaces()?;
    let mut drops = router.drops()?;
    let seconds = before.map_or(1.0, |(then, _)| then.elapsed().as_secs_f64().max(0.001));
    let mut text = format!(
        "\n{:<14} {:>12} {:>11} {:>11} {:>12} {:>11} {:>11} {:>9}\n",
        "interface",
        "in packets",
        "in pps",
        "in Mbit/s",
        "out packets",
        "out pps",
        "out Mbit/s",
        "drops"
    );
    for one in &list {
        let then = before.and_then(|(_, list)| list.iter().find(|other| other.name == one.name));
        #[allow(
            clippy::cast_precision_loss,
            reason = "rates for people, not for the packet accounting"
        )]
        let rate = |now: u64, then: Option<u64>| match then {
            Some(then) => now.saturating_sub(then) as f64 / seconds,
            None => 0.0,
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{:<14} {:>12} {:>11.0} {:>11.1} {:>12} {:>11.0} {:>11.1} {:>9}",
            one.name,
            one.rx_packets,
            rate(one.rx_packets, then.map(|then| then.rx_packets)),
            rate(one.rx_bytes, then.map(|then| then.rx_bytes)) * 8e-6,
            one.tx_packets,
            rate(one.tx_packets, then.map(|then| then.tx_packets)),
            rate(one.tx_bytes, then.map(|then| then.tx_bytes)) * 8e-6,
            one.rx_drops + one.rx_missed + one.tx_drops,
        );
    }
    drops.retain(|one| one.packets > 0);
    drops.sort_by_key(|one| std::cmp::Reverse(one.packets));
    let reasons: Vec<String> =
        drops.iter().take(REASONS).map(|one| format!("{} {}", one.reason, one.packets)).collect();
    if !reasons.is_empty() {
        let _ = writeln!(text, "drops: {}", reasons.join(", "));
    }
    Ok((text, list))
}
