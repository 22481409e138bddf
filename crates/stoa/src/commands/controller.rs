//! `stoa controller`: the control process. `stoa run` starts it.

use std::path::PathBuf;
use std::process::ExitCode;

use stoa_controller::privileges;
use stoa_controller::service::{self, Error, Options};
use stoa_controller::supervise::{self, EXIT_REFUSED};
use stoa_northbound::Northbound;

use crate::failure::{Failure, Outcome, plural};
use crate::folders::FoldersArgument;
use crate::operator::block_on;

/// Run the controller alone (`stoa run` starts it)
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Folder for history, keys and tokens
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Socket for commands
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// Socket of the forwarder
    #[arg(long, value_name = "PATH")]
    forwarder_socket: PathBuf,
    #[command(flatten)]
    folders: FoldersArgument,
}

/// Serves until it is terminated.
pub fn execute(arguments: Arguments) -> Outcome {
    supervise::end_with_supervisor()
        .and_then(|()| privileges::confine(privileges::Process::Controller))
        .map_err(|error| Failure::context("the controller cannot start", error))?;
    let state = arguments.state.unwrap_or_else(|| supervise::state_folder(&arguments.config));
    let [pcap_folder, memif_folder] = arguments.folders.or_below(&state)?;
    let options = Options {
        config: arguments.config,
        state,
        socket: arguments.socket,
        forwarder_socket: arguments.forwarder_socket,
        spare_queue: stoa_forwarder::spare_host_interface_queue,
    };
    let file = options.config.display().to_string();
    block_on(async {
        match service::run(options, |datastore| {
            Northbound::start(datastore, vec![pcap_folder, memif_folder])
        })
        .await
        {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(Error::Refused(errors)) => {
                let headline = format!("{file} is refused with {}:", plural(errors.len(), "error"));
                Failure::ValidationErrors(headline, errors).report(false);
                Err(Failure::Reported(ExitCode::from(EXIT_REFUSED)))
            }
            Err(other) => Err(Failure::context("the controller ended", other)),
        }
    })
}
