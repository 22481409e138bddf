//! `stoa doctor`: what this machine offers a router, and the cost and fix of each gap.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use stoa_api::v1::{ListInterfacesRequest, ListWorkersRequest};
use stoa_controller::doctor::{self, Router};
use stoa_forwarder::kernel::Kernel;

use crate::failure::{Failure, Outcome};
use crate::operator::{SocketArgument, block_on};
use crate::show;

/// Check what this machine offers a router; show the cost and a fix for each gap
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa doctor
  sudo stoa doctor                           Check with the privileges of root
  stoa doctor --json | jq '.checks[] | select(.state != \"ok\")'

Needs no privilege and no running router, and changes nothing. If a router runs, the placement of its
workers on NUMA nodes is checked as well. The exit code is 0 whatever the checks find.")]
pub struct Arguments {
    #[command(flatten)]
    socket: SocketArgument,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The state of the running router.
async fn running(socket: &SocketArgument) -> Result<Router, Failure> {
    let mut client = socket.connect().await?;
    let workers = client.show_workers(ListWorkersRequest {}).await?.into_inner().workers;
    let request = ListInterfacesRequest::default();
    let interfaces = client.show_interfaces(request).await?.into_inner().interfaces;
    Ok(Router { workers, interfaces })
}

/// Runs the checks and prints the results.
pub fn execute(arguments: Arguments) -> Outcome {
    // Without a router there is no placement to check.
    let router = block_on(running(&arguments.socket)).ok();
    let checks = doctor::examine(Path::new("/"), Kernel::detect().name(), router.as_ref());
    let mut out = std::io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", show::doctor::json(&checks))?;
    } else {
        show::doctor::text(&checks, &mut out)?;
    }
    Ok(ExitCode::SUCCESS)
}
