//! `stoa forwarder`: the process that forwards packets. `stoa run` starts it.

use std::path::PathBuf;
use std::process::ExitCode;

use stoa_controller::{privileges, supervise};

use crate::failure::{Failure, Outcome};
use crate::folders::FoldersArgument;

/// Run the forwarder alone (`stoa run` starts it)
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Socket for the controller
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    #[command(flatten)]
    folders: FoldersArgument,
}

/// Forwards until it is terminated.
pub fn execute(arguments: Arguments) -> Outcome {
    let failed = |error| Failure::context("the forwarder cannot start", error);
    supervise::end_with_supervisor().map_err(failed)?;
    // Before this process may begin no other one.
    stoa_forwarder::device_opener::start();
    privileges::confine(privileges::Process::Forwarder).map_err(failed)?;
    let [pcap, memif] = arguments.folders.absolute()?;
    let folders = stoa_forwarder::Folders { pcap, memif };
    stoa_forwarder::run(stoa_forwarder::Options { socket: arguments.socket, folders })
        .map(|()| ExitCode::SUCCESS)
        .map_err(|error| Failure::context("the forwarder ended", error))
}
