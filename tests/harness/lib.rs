//! What the scenarios share: the two sides of most scenarios, the router between them, and the end of each scenario.

#![forbid(unsafe_code)]

mod four_routers;
mod resources;
mod testpmd;

use std::time::Duration;

use stoa_lab::{
    Command, Configuration, Host, LabError, Output, Result, Router, Side, Tag, Tool, Topology,
    stoa_binary,
};

pub use four_routers::{AROUND, FourRouters, SHARED, Stream};
pub use resources::{PROCESSES, Process, Resources, pid};
pub use testpmd::Testpmd;

/// A topology with a running router. Ends with [`Scenario::end`]; a scenario that fails is cleaned up all the same.
#[derive(Debug)]
pub struct Scenario {
    /// The router; it stands before the topology so that it ends before its devices go.
    pub router: Router,
    /// The hosts around it and its namespace.
    pub topology: Topology,
}

/// The first host untagged, the second with these tags: 198.18.1.2 and 198.18.2.2, 2001:db8:1::2 and 2001:db8:2::2.
/// The router is .1 and ::1.
///
/// # Errors
/// None for these addresses.
pub fn two_sides(tags: &[Tag]) -> Result<[Side; 2]> {
    Ok([side("host-a", 1)?, side("host-b", 2)?.tagged(tags)])
}

/// The untagged side with the networks 198.18.NUMBER.0/24 and 2001:db8:NUMBER::/64: the host is .2, the router .1.
///
/// # Errors
/// None for these addresses.
pub fn side(label: &str, number: u8) -> Result<Side> {
    let four = |last| format!("198.18.{number}.{last}/24");
    let six = |last| format!("2001:db8:{number}::{last}/64");
    Side::new(label, &[(&four(2), &four(1)), (&six(2), &six(1))])
}

impl Scenario {
    /// Hosts and the router between them with the plain configuration for these sides.
    ///
    /// # Errors
    /// What the lab says.
    pub fn begin(sides: &[Side]) -> Result<Self> {
        Self::with(sides, &Configuration::new(sides))
    }

    /// Hosts and the router between them with a configuration of the scenario's own.
    ///
    /// # Errors
    /// What the lab says.
    pub fn with(sides: &[Side], configuration: &Configuration) -> Result<Self> {
        let binary = stoa_binary()?;
        let topology = Topology::new(sides)?;
        let router = Router::start(&binary, Some(topology.router()), &configuration.json())?;
        let labels: Vec<&str> = sides.iter().map(|side| side.label.as_str()).collect();
        let known = configuration.json().to_string();
        let expected: Vec<&str> =
            labels.into_iter().filter(|label| known.contains(&format!("\"{label}\""))).collect();
        router.wait_up(&expected)?;
        Ok(Self { router, topology })
    }

    /// The host of this name.
    #[must_use]
    pub fn host(&self, label: &str) -> &Host {
        self.topology.host(label)
    }

    /// Checks that packets and buffers were conserved and that the router ends well.
    ///
    /// # Errors
    /// When they were not, or it does not.
    pub fn end(self) -> Result<()> {
        self.router.at_rest()?;
        self.router.stop()
    }

    /// Pings from one host to the other and back, both families; nothing may be lost.
    ///
    /// # Errors
    /// When ping cannot be called.
    pub fn hosts_reach_each_other(&self) -> Result<()> {
        let hosts = self.topology.hosts();
        for six in [false, true] {
            for (from, to) in [(0, 1), (1, 0)] {
                let pings = stoa_lab::measure::ping(&hosts[from], hosts[to].address(six)?, 2, &[])?;
                let way = format!("{} to {}", hosts[from].label(), hosts[to].label());
                assert!(pings.all(), "{way}, IPv{}: {pings:?}", if six { 6 } else { 4 });
            }
        }
        Ok(())
    }
}

/// Calls ping on a host with these arguments; what it says is returned whatever came of it.
///
/// # Errors
/// When it cannot be called.
pub fn run_ping(host: &Host, arguments: &[&str]) -> Result<Output> {
    let output = host.command(Tool::PING)?.args(["-n"]).args(arguments);
    output.deadline(Duration::from_secs(30)).run()
}

/// Runs a Python script with scapy on a host; `IFACE` is its interface, further names are as given.
///
/// # Errors
/// When Python or scapy is missing, or the script fails.
pub fn scapy(host: &Host, script: &str, names: &[(&str, &str)]) -> Result<String> {
    run_scapy(host.command(Tool::PYTHON)?, script, names)
}

/// Runs a Python script with scapy outside of all namespaces.
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
