//! What a router said last, when a scenario ends before it stops the router: the scenario has failed.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::Command;

/// Timeout of each command.
const PATIENCE: Duration = Duration::from_secs(5);

/// Prints the state of a router when it is dropped.
#[derive(Debug)]
pub(crate) struct LastState {
    binary: PathBuf,
    socket: PathBuf,
    wanted: AtomicBool,
}

impl LastState {
    /// Of the router at this socket. It prints nothing unless [`LastState::want`] says so.
    pub(crate) fn new(binary: PathBuf, socket: PathBuf) -> Self {
        Self { binary, socket, wanted: AtomicBool::new(false) }
    }

    /// Whether the state is printed.
    pub(crate) fn want(&self, is_wanted: bool) {
        self.wanted.store(is_wanted, Ordering::Relaxed);
    }
}

impl Drop for LastState {
    fn drop(&mut self) {
        if !*self.wanted.get_mut() {
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
