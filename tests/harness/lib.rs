//! Setup, checks and teardown that the scenarios share.

#![forbid(unsafe_code)]

mod four_routers;
mod resources;
mod testpmd;

use std::path::PathBuf;
use std::time::Duration;

use stoa_lab::{
    Background, Command, Configuration, Host, LabError, Namespace, Output, Result, Router, Side,
    Tag, Tool, Topology, stoa_binary, wait_until,
};

pub use four_routers::{AROUND, FourRouters, SHARED, Stream, was_graceful};
pub use resources::{PROCESSES, Process, Resources, pid};
pub use testpmd::Testpmd;

/// A topology with a running router. [`Scenario::end`] checks and stops it; dropping it cleans up.
#[derive(Debug)]
pub struct Scenario {
    /// The router. Declared before the topology, so that it ends before its devices are removed.
    pub router: Router,
    /// The hosts around it and its namespace.
    pub topology: Topology,
}

/// Two sides, the second with these tags: hosts 198.18.1.2 and 198.18.2.2, 2001:db8:1::2 and 2001:db8:2::2.
/// The router has .1 and ::1.
///
/// # Errors
/// None for these addresses.
pub fn two_sides(tags: &[Tag]) -> Result<[Side; 2]> {
    Ok([side("host-a", 1)?, side("host-b", 2)?.tagged(tags)])
}

/// An untagged side with the networks 198.18.NUMBER.0/24 and 2001:db8:NUMBER::/64: the host has .2, the router .1.
///
/// # Errors
/// None for these addresses.
pub fn side(label: &str, number: u8) -> Result<Side> {
    let four = |last| format!("198.18.{number}.{last}/24");
    let six = |last| format!("2001:db8:{number}::{last}/64");
    Side::new(label, &[(&four(2), &four(1)), (&six(2), &six(1))])
}

impl Scenario {
    /// Starts hosts, and the router between them with the default configuration of these sides.
    ///
    /// # Errors
    /// Errors of the lab.
    pub fn begin(sides: &[Side]) -> Result<Self> {
        Self::with(sides, &Configuration::new(sides))
    }

    /// Starts hosts, and the router between them with this configuration.
    ///
    /// # Errors
    /// Errors of the lab.
    pub fn with(sides: &[Side], configuration: &Configuration) -> Result<Self> {
        Self::between(Topology::new(sides)?, sides, configuration)
    }

    /// Starts the router between these hosts with this configuration.
    ///
    /// # Errors
    /// Errors of the lab.
    pub fn between(
        topology: Topology,
        sides: &[Side],
        configuration: &Configuration,
    ) -> Result<Self> {
        let binary = stoa_binary()?;
        let mut router = Router::start(&binary, Some(topology.router()), &configuration.json())?;
        router.print_last_state();
        let labels: Vec<&str> = sides.iter().map(|side| side.label.as_str()).collect();
        let known = configuration.json().to_string();
        let expected: Vec<&str> =
            labels.into_iter().filter(|label| known.contains(&format!("\"{label}\""))).collect();
        router.wait_up(&expected)?;
        Ok(Self { router, topology })
    }

    /// The host with this name.
    #[must_use]
    pub fn host(&self, label: &str) -> &Host {
        self.topology.host(label)
    }

    /// Checks that packets and buffers are conserved and that the router stops cleanly.
    ///
    /// # Errors
    /// When one of the checks fails.
    pub fn end(self) -> Result<()> {
        self.router.wait_idle()?;
        self.router.stop()
    }

    /// Pings in both directions and both families, and asserts that nothing is lost.
    ///
    /// # Errors
    /// When ping cannot be started.
    pub fn hosts_reach_each_other(&self) -> Result<()> {
        let hosts = self.topology.hosts();
        for six in [false, true] {
            for (from, to) in [(0, 1), (1, 0)] {
                let pings =
                    stoa_lab::measure::ping(&hosts[from], hosts[to].address(six)?, 2, PATIENT)?;
                let direction = format!("{} to {}", hosts[from].label(), hosts[to].label());
                assert!(pings.all(), "{direction}, IPv{}: {pings:?}", if six { 6 } else { 4 });
            }
        }
        Ok(())
    }
}

/// Arguments of ping where each packet must arrive: replies may take 8 s on a machine that is busy.
pub const PATIENT: &[&str] = &["-W", "8"];

/// Runs ping on a host and returns its output, whether it succeeded or not.
///
/// # Errors
/// When ping cannot be started.
pub fn run_ping(host: &Host, arguments: &[&str]) -> Result<Output> {
    let output = host.command(Tool::PING)?.args(["-n"]).args(arguments);
    output.deadline(Duration::from_secs(30)).run()
}

/// Starts tcpdump, and waits until it listens.
///
/// # Errors
/// It does not start.
pub fn tcpdump(namespace: &Namespace, arguments: &[&str]) -> Result<Background> {
    let dump = namespace.command(Tool::TCPDUMP)?.args(arguments.iter().copied()).spawn()?;
    // Printed on standard error.
    wait_until("tcpdump listens", Duration::from_secs(10), || {
        let log = dump.log();
        if log.contains("listening") { Ok(()) } else { Err(log) }
    })?;
    Ok(dump)
}

/// Runs a Python script with scapy on a host. `IFACE` is its interface; `names` are further variables.
///
/// # Errors
/// When Python or scapy is missing, or the script fails.
pub fn scapy(host: &Host, script: &str, names: &[(&str, &str)]) -> Result<String> {
    run_scapy(host.command(Tool::PYTHON)?, script, names)
}

/// Runs a Python script with scapy outside of all network namespaces.
///
/// # Errors
/// When Python or scapy is missing, or the script fails.
pub fn scapy_here(script: &str, names: &[(&str, &str)]) -> Result<String> {
    run_scapy(Command::tool(Tool::PYTHON)?, script, names)
}

fn run_scapy(command: Command, script: &str, names: &[(&str, &str)]) -> Result<String> {
    let mut whole = String::from(
        "import logging\nlogging.getLogger('scapy').setLevel(logging.ERROR)\n\
         from scapy.all import *\nconf.verb = 0\nIFACE = 'eth0'\n",
    );
    for (name, value) in names {
        whole.push_str(&format!("{name} = {value:?}\n"));
    }
    whole.push_str(script);
    let output = command.args(["-"]).input(whole).deadline(Duration::from_secs(60)).run()?;
    if output.stderr.contains("No module named 'scapy'") {
        let Tool { program, package, group } = Tool::PYTHON;
        return Err(LabError::ToolMissing { program, package, group });
    }
    Ok(output.ok()?.stdout)
}

/// The browser: `CHROMIUM`, or Debian's. `None` on Ubuntu, which has no package without snap.
///
/// # Errors
/// On other systems, when there is none.
pub fn browser() -> Result<Option<PathBuf>> {
    if let Some(named) = std::env::var_os("CHROMIUM") {
        return Ok(Some(named.into()));
    }
    let system = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    match Tool::CHROMIUM.find() {
        Ok(path) => Ok(Some(path)),
        Err(_) if system.lines().any(|line| line == "ID=ubuntu") => {
            eprintln!("SKIPPED: Ubuntu packages no browser; CHROMIUM=PATH names one");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
