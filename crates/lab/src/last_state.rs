//! The state of a router that a scenario drops before it stops it, because the scenario has failed.

use std::path::PathBuf;
use std::time::Duration;

use crate::Command;

/// Timeout of each command.
const PATIENCE: Duration = Duration::from_secs(5);

/// Prints the state of a router when it is dropped.
#[derive(Debug)]
pub(crate) struct LastState {
    binary: PathBuf,
    socket: PathBuf,
    /// Whether it prints.
    pub(crate) is_printed: bool,
}

impl LastState {
    /// Of the router at this socket. It prints nothing at first.
    pub(crate) fn new(binary: PathBuf, socket: PathBuf) -> Self {
        Self { binary, socket, is_printed: false }
    }
}

impl Drop for LastState {
    fn drop(&mut self) {
        if !self.is_printed {
            return;
        }
        let socket = self.socket.to_string_lossy().into_owned();
        for what in ["drops", "neighbors", "interfaces", "workers"] {
            let call = Command::program(&self.binary).args(["show", what, "--socket", &socket]);
            let printed =
                call.deadline(PATIENCE).run().map(|output| output.stdout + &output.stderr);
            eprintln!("stoa show {what}:\n{}", printed.unwrap_or_else(|error| error.to_string()));
        }
    }
}
