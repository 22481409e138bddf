//! `stoa forwarder`: the half that moves packets, started by `stoa run`.

use std::path::PathBuf;
use std::process::ExitCode;

use stoa_controller::supervise;

use crate::failure::{Failure, Outcome};

/// The forwarder alone (started by `stoa run`)
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Socket to serve the contract on
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
}

/// Forwards until it is told to end.
pub fn execute(arguments: Arguments) -> Outcome {
    supervise::end_with_supervisor()
        .map_err(|error| Failure::because("the forwarder cannot start", error))?;
    stoa_forwarder::run(stoa_forwarder::Options { socket: arguments.socket })
        .map(|()| ExitCode::SUCCESS)
        .map_err(|error| Failure::because("the forwarder ended", error))
}
