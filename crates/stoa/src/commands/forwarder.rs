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
    let [pcap, memif] = arguments.folders.absolute()?;
    let folders = stoa_forwarder::Folders { pcap, memif };
    let options = stoa_forwarder::Options { socket: arguments.socket, folders };
    let ended = |error| Failure::context("the forwarder ended", error);
    let forwarder = stoa_forwarder::Prepared::new(options).map_err(ended)?;
    // Last: the filter of system calls does not let the process restrict its files.
    privileges::confine(privileges::Process::Forwarder).map_err(failed)?;
    forwarder.run().map(|()| ExitCode::SUCCESS).map_err(ended)
}
