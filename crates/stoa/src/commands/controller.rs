//! `stoa controller`: the half that knows what is wanted, started by `stoa run`.

use std::path::PathBuf;
use std::process::ExitCode;

use stoa_controller::service::{self, Error, Options};
use stoa_controller::supervise::{self, EXIT_REFUSED};
use stoa_northbound::Northbound;

use crate::failure::{Failure, Outcome, counted};
use crate::operator::block_on;

/// The controller alone (started by `stoa run`)
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Folder of what is kept beside the configuration
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Socket to serve operators on
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// Socket of the forwarder
    #[arg(long, value_name = "PATH")]
    forwarder_socket: PathBuf,
}

/// Serves until it is told to end.
pub fn execute(arguments: Arguments) -> Outcome {
    supervise::end_with_supervisor()
        .map_err(|error| Failure::because("the controller cannot start", error))?;
    let state = arguments.state.unwrap_or_else(|| supervise::state_folder(&arguments.config));
    let options = Options {
        config: arguments.config,
        state,
        socket: arguments.socket,
        forwarder_socket: arguments.forwarder_socket,
        spare_queue: stoa_forwarder::spare_host_interface_queue,
    };
    let file = options.config.display().to_string();
    block_on(async {
        match service::run(options, Northbound::start).await {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(Error::Refused(errors)) => {
                let headline =
                    format!("{file} is refused with {}:", counted(errors.len(), "error"));
                Failure::ValidationErrors(headline, errors).report(false);
                Err(Failure::Said(ExitCode::from(EXIT_REFUSED)))
            }
            Err(other) => Err(Failure::because("the controller ended", other)),
        }
    })
}
