//! `stoa run`: starts the router and keeps it up.

use std::path::PathBuf;
use std::process::ExitCode;

use stoa_controller::supervise::{self, Error, Options};

use crate::failure::{Failure, Outcome, counted};
use crate::operator::{SocketArgument, block_on};

/// Run the router: both halves, started again when one dies
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sudo stoa run --config /etc/stoa/stoa.json
  stoa run --config examples/pcap.json --socket ./stoa.sock     Without root

SIGHUP or `stoa reload` takes the edited file into force, whole or not at all.
SIGTERM or Ctrl-C ends it. Ports on network devices (auto, af-xdp, af-packet, tap) need
CAP_NET_RAW and CAP_NET_ADMIN, af-xdp CAP_BPF as well, devices in other network namespaces
CAP_SYS_ADMIN; memif, pcap, generator and null need nothing.")]
pub struct Arguments {
    /// Configuration file, JSON in RFC 7951 encoding
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Folder of what Stoa keeps beside the configuration: its history, keys, tokens [default: FILE with .state]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    #[command(flatten)]
    socket: SocketArgument,
}

/// Runs until it is told to end.
pub fn execute(arguments: Arguments) -> Outcome {
    let file = arguments.config.display().to_string();
    let program = std::env::current_exe()
        .map_err(|error| Failure::because("cannot find the program itself", error))?;
    // The halves and `stoa status` name the file to people in other folders.
    let config =
        std::path::absolute(&arguments.config).map_err(|error| Failure::because(&file, error))?;
    let state = arguments.state.unwrap_or_else(|| supervise::state_folder(&config));
    let state = std::path::absolute(&state).map_err(|error| Failure::because(&file, error))?;
    let options = Options { program, config, state, socket: arguments.socket.path() };
    block_on(async {
        supervise::run(options).await.map_err(|error| match error {
            Error::Refused(errors) => Failure::ValidationErrors(
                format!("{file} has {}:", counted(errors.len(), "error")),
                errors,
            ),
            Error::Privileges(errors) => Failure::ValidationErrors(
                "the ports need more than this process may do:".into(),
                errors,
            ),
            Error::Said => Failure::Said(ExitCode::FAILURE),
            other => Failure::Words(other.to_string()),
        })
    })?;
    Ok(ExitCode::SUCCESS)
}
