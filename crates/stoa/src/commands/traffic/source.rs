//! What `stoa traffic` sends: a run file, or two ports on the command line.

use std::path::PathBuf;

use clap::Args;
use stoa_traffic::plan::short::{self, Short};
use stoa_traffic::plan::{self, PlanError, RunFile};

use crate::failure::Failure;

/// A run file or its short form.
#[derive(Debug, Args)]
pub struct Source {
    /// Run file, YAML or JSON
    #[arg(value_name = "FILE", conflicts_with = "port", required_unless_present = "port")]
    file: Option<PathBuf>,
    /// A port, instead of a file; give the option twice
    #[arg(long, value_name = "NAME=DRIVER:TARGET")]
    port: Vec<String>,
    /// Send packets in both directions
    #[arg(long, requires = "port")]
    both: bool,
    /// Source address [default: the first port's]
    #[arg(long, requires = "port", value_name = "ADDRESS")]
    source: Option<String>,
    /// Destination address [default: the second port's]
    #[arg(long, requires = "port", value_name = "ADDRESS")]
    destination: Option<String>,
    /// Number of flows, with source ports and addresses in turn
    #[arg(long, requires = "port", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    flows: Option<u32>,
    /// VLAN ID of the 802.1Q tag of all frames
    #[arg(long, requires = "port", value_parser = clap::value_parser!(u16).range(1..=4094))]
    vlan: Option<u16>,
}

impl Source {
    /// The run file; `size` is the frame size of the short form.
    pub fn run_file(&self, size: Option<&str>) -> Result<RunFile, Failure> {
        let text = match &self.file {
            Some(path) => std::fs::read_to_string(path).map_err(|error| {
                Failure::context(format!("cannot read {}", path.display()), error)
            })?,
            None => {
                let short = Short {
                    ports: self.port.clone(),
                    size: size.map(str::to_owned),
                    both: self.both,
                    addresses: (self.source.clone(), self.destination.clone()),
                    flows: self.flows,
                    vlan: self.vlan,
                };
                short::run_file(&short).map_err(Failure::Usage)?
            }
        };
        plan::parse_file(&text).map_err(refused)
    }
}

/// The failure of a run that is not possible.
pub fn refused(error: PlanError) -> Failure {
    match error {
        PlanError::Faults(_) => Failure::Message(format!("the run file has errors:\n{error}")),
        PlanError::Read { .. } | PlanError::Syntax(_) => Failure::Message(error.to_string()),
    }
}
