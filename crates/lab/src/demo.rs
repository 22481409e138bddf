//! The demo: real tools between two hosts that only Stoa connects, then the Linux kernel as the baseline, then
//! cleanup.

mod firewall;
mod live;
mod record;
mod report;
mod steps;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use serde_json::Value;

use crate::configuration::{Configuration, interface_name};
use crate::measure::{Load, Rate};
use crate::{LabError, Linux, Result, Router, Side, Tag, Topology, interrupt};

pub use report::{Report, Step};

/// Options of the demo.
#[derive(Clone, Debug)]
pub struct Options {
    /// End after the steps instead of showing live counters until Ctrl-C.
    pub once: bool,
    /// One JSON object as the last line of the output; the lines for people go to standard error. Implies `once`.
    pub json: bool,
    /// The router: the path of the `stoa` binary.
    pub binary: PathBuf,
}

/// The VLAN of the second host.
const VLAN: u16 = 100;

/// Runs the demo. 0: every step passed; 1: a step failed; 130: interrupted by Ctrl-C.
#[must_use]
pub fn run(options: &Options) -> ExitCode {
    let mut report = Report::new(options.json);
    report.print("Stoa demo: host-a (untagged) and host-b (VLAN 100), connected only by Stoa.");
    let begun = Instant::now();
    let made = match ready() {
        Ok(()) => run_steps(options, &mut report),
        Err(error) => {
            report.step("ready", Err(error.to_string()));
            Created::default()
        }
    };
    report.step("clean up", cleaned_up(&made));
    if interrupt::came() && !report.ok {
        return ExitCode::from(130);
    }
    let seconds = begun.elapsed().as_secs();
    let failed = report.steps.iter().filter(|step| !step.ok).count();
    if failed == 0 {
        report.print(&format!("All {} steps passed ({seconds} s).", report.steps.len()));
    } else {
        report.print(&format!("{failed} of {} steps failed ({seconds} s).", report.steps.len()));
    }
    if options.json {
        // A closed standard output is no reason to fail.
        let _ = writeln!(std::io::stdout(), "{}", report.json());
    }
    if report.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What the demo created; the last step checks that it was removed.
#[derive(Default)]
struct Created {
    namespaces: Vec<String>,
    folder: Option<PathBuf>,
    router: Option<u32>,
}

fn sides() -> Result<[Side; 2]> {
    let a = [("198.18.1.2/24", "198.18.1.1/24"), ("2001:db8:1::2/64", "2001:db8:1::1/64")];
    let b = [("198.18.2.2/24", "198.18.2.1/24"), ("2001:db8:2::2/64", "2001:db8:2::1/64")];
    Ok([Side::new("host-a", &a)?, Side::new("host-b", &b)?.tagged(&[Tag::customer(VLAN)])])
}

/// Runs all steps. Everything it creates is removed when it returns.
fn run_steps(options: &Options, report: &mut Report) -> Created {
    let mut made = Created::default();
    let topology = match sides().and_then(|sides| Topology::new(&sides)) {
        Ok(topology) => topology,
        Err(error) => {
            report.step("hosts", Err(error.to_string()));
            return made;
        }
    };
    remember(&mut made, &topology);
    report.step("hosts", Ok("two hosts and a router, each in a network namespace".to_owned()));
    let configuration = match sides() {
        Ok(sides) => Configuration::new(&sides),
        Err(error) => {
            report.step("router started", Err(error.to_string()));
            return made;
        }
    };
    let begun = Instant::now();
    let router =
        match Router::start(&options.binary, Some(topology.router()), &configuration.json()) {
            Ok(router) => router,
            Err(error) => {
                report.step("router started", Err(error.to_string()));
                return made;
            }
        };
    made.folder = Some(router.scratch().path().to_owned());
    made.router = Some(router.pid());
    let started = format!("forwards after {} ms", begun.elapsed().as_millis());
    report.step("router started", Ok(started));
    traffic(report, &topology, (&router, configuration.json()), &mut made);
    if !options.once && !options.json && !interrupt::came() {
        live::show(report, &topology, &router);
    }
    if !interrupt::came() {
        report.step(
            "router stopped",
            steps::outcome(router.stop().map(|()| Ok("exited after SIGTERM".to_owned()))),
        );
    }
    made
}

fn remember(made: &mut Created, topology: &Topology) {
    made.namespaces.push(topology.router().name().to_owned());
    let hosts = topology.hosts().iter();
    made.namespaces.extend(hosts.map(|host| host.namespace().name().to_owned()));
}

/// All steps that need the router; returns early only after Ctrl-C.
fn traffic(
    report: &mut Report,
    topology: &Topology,
    (router, configuration): (&Router, Value),
    made: &mut Created,
) {
    steps::all_pings(topology, report);
    for (name, six) in [("traceroute4", false), ("traceroute6", true)] {
        report.step(name, steps::route_traced(topology, six));
    }
    let tcp4 = steps::rate(topology, false, Load::Tcp);
    report.step("iperf3 TCP, IPv4", steps::tcp(&tcp4));
    let tcp6 = steps::rate(topology, true, Load::Tcp);
    report.step("iperf3 TCP, IPv6", steps::tcp(&tcp6));
    report.step("iperf3 UDP, IPv4", steps::udp(topology));
    report.step("Linux on the same topology", linux(made, tcp4.as_ref().ok()));
    firewall::steps(report, topology, router, configuration);
    let interfaces: Vec<String> =
        topology.hosts().iter().map(|host| interface_name(host.side())).collect();
    report.step("counters moved", steps::counters_moved(router, &interfaces));
    report.step("packets conserved", steps::accounting(router));
}

/// The same hosts and links with the Linux kernel as the router.
fn linux(made: &mut Created, stoa: Option<&Rate>) -> steps::Outcome {
    let mut measure = || -> Result<steps::Outcome> {
        let topology = Topology::new(&sides()?)?;
        remember(made, &topology);
        let _linux = Linux::start(&topology)?;
        let rate = steps::rate(&topology, false, Load::Tcp)?.bits_per_second;
        let beside = stoa.map_or_else(String::new, |stoa| {
            format!("; Stoa reaches {:.0} % of it", 100.0 * stoa.bits_per_second / rate)
        });
        Ok(Ok(format!("iperf3 TCP, IPv4: {:.2} Gbit/s{beside}", rate / 1e9)))
    };
    steps::outcome(measure())
}

fn cleaned_up(made: &Created) -> steps::Outcome {
    let mut left: Vec<String> = Vec::new();
    let namespaces = made.namespaces.iter().map(|name| PathBuf::from("/run/netns").join(name));
    let process = made.router.map(|pid| PathBuf::from(format!("/proc/{pid}")));
    for path in namespaces.chain(made.folder.clone()).chain(process) {
        if path.exists() {
            left.push(path.display().to_string());
        }
    }
    if left.is_empty() {
        Ok("namespaces, processes and files are gone".to_owned())
    } else {
        Err(format!("left behind: {}", left.join(", ")))
    }
}

/// Checks that the demo can run on this machine before it creates anything.
///
/// # Errors
///
/// [`LabError::NotRoot`] or [`LabError::ToolMissing`], each with the fix.
fn ready() -> Result<()> {
    use crate::Tool;
    if !nix::unistd::geteuid().is_root() {
        return Err(LabError::NotRoot("this user is not root".to_owned()));
    }
    for tool in [Tool::IP, Tool::PING, Tool::TRACEROUTE, Tool::IPERF3, Tool::ETHTOOL] {
        tool.find()?;
    }
    Ok(())
}
