//! `stoa run`: starts the router and supervises its processes.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use stoa_controller::supervise::{self, Error, Options, RESTART_DELAY_MAX};

use crate::failure::{Failure, Outcome, plural};
use crate::folders::FoldersArgument;
use crate::operator::{SocketArgument, block_on};

/// Run the router: start controller and forwarder, and restart a process that exits
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sudo stoa run --config /etc/stoa/stoa.json
  stoa run --config examples/pcap.json --socket ./stoa.sock --pcap-folder examples     Without root

SIGHUP and `stoa reload` apply the edited file, as a whole or not at all. SIGTERM and Ctrl-C stop
the router.

Ports on network devices (auto, af-xdp, af-packet, tap) need CAP_NET_RAW and CAP_NET_ADMIN. Port
af-xdp also needs CAP_BPF, and devices in other network namespaces CAP_SYS_ADMIN. Ports memif, pcap,
generator and null need no privilege.

Capture files and memif sockets are in the folders pcap and memif of the state folder, unless
--pcap-folder and --memif-folder name others; no configuration can name files elsewhere.")]
pub struct Arguments {
    /// Configuration file, JSON in RFC 7951 encoding
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Folder for history, keys and tokens [default: FILE with .state appended]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    #[command(flatten)]
    folders: FoldersArgument,
    #[command(flatten)]
    socket: SocketArgument,
    /// Longest delay before a process is restarted, in milliseconds, for tests
    #[arg(long, value_name = "MS", hide = true)]
    restart_delay_max_ms: Option<u64>,
}

/// Runs until a signal stops it.
pub fn execute(arguments: Arguments) -> Outcome {
    let file = arguments.config.display().to_string();
    let program = std::env::current_exe()
        .map_err(|error| Failure::context("cannot find the file of this program", error))?;
    // Messages of the processes and `stoa status` name the file; readers may have another working directory.
    let config =
        std::path::absolute(&arguments.config).map_err(|error| Failure::context(&file, error))?;
    let state = arguments.state.unwrap_or_else(|| supervise::state_folder(&config));
    let state = std::path::absolute(&state).map_err(|error| Failure::context(&file, error))?;
    let restart_delay_max =
        arguments.restart_delay_max_ms.map_or(RESTART_DELAY_MAX, Duration::from_millis);
    let socket = arguments.socket.path();
    let [pcap_folder, memif_folder] = arguments.folders.or_below(&state)?;
    let options =
        Options { program, config, state, pcap_folder, memif_folder, socket, restart_delay_max };
    block_on(async {
        supervise::run(options).await.map_err(|error| match error {
            Error::Refused(errors) => Failure::ValidationErrors(
                format!("{file} has {}:", plural(errors.len(), "error")),
                errors,
            ),
            Error::Privileges(errors) => Failure::ValidationErrors(
                "this process lacks privileges that the ports need:".into(),
                errors,
            ),
            Error::RefusedByChild => Failure::Reported(ExitCode::FAILURE),
            other => Failure::Message(other.to_string()),
        })
    })?;
    Ok(ExitCode::SUCCESS)
}
