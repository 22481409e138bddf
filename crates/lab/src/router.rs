//! Stoa itself, started inside a namespace with a private socket and its own configuration.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::error::last_lines;
use crate::folders;
use crate::last_state::LastState;
use crate::{Background, Command, LabError, Namespace, Output, Result, Scratch, wait_until};

/// Timeout until the router forwards.
const START: Duration = Duration::from_secs(30);
/// Timeout until the packet accounting balances after traffic has ended.
const BALANCE: Duration = Duration::from_secs(5);

/// The router binary: `STOA_BIN`, or `target/release/stoa` of this workspace.
///
/// # Errors
/// [`LabError::NoBinary`] when there is none.
pub fn stoa_binary() -> Result<PathBuf> {
    let path = match std::env::var_os("STOA_BIN") {
        Some(path) => PathBuf::from(path),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/release/stoa"),
    };
    path.canonicalize().map_err(|_| LabError::NoBinary(path.display().to_string()))
}

/// A running router. Dropping it stops it.
#[derive(Debug)]
pub struct Router {
    /// Before the process, which ends when it is dropped.
    last_state: LastState,
    process: Background,
    binary: PathBuf,
    scratch: Scratch,
}

impl Router {
    /// Starts `binary run` with `configuration`, inside `namespace` or, for ports without a device, in the current
    /// one, and waits until it forwards.
    ///
    /// # Errors
    ///
    /// [`LabError::RouterExited`] with its output when it rejects the configuration; [`LabError::WaitDeadline`] after
    /// 30 s.
    pub fn start(
        binary: &Path,
        namespace: Option<&Namespace>,
        configuration: &Value,
    ) -> Result<Self> {
        Self::start_in(Scratch::new()?, binary, namespace, configuration)
    }

    /// As [`Router::start`], with these environment variables.
    ///
    /// # Errors
    ///
    /// As [`Router::start`].
    pub fn start_with(
        binary: &Path,
        namespace: Option<&Namespace>,
        configuration: &Value,
        environment: &[(&str, &str)],
    ) -> Result<Self> {
        Self::begin((Scratch::new()?, environment), binary, namespace, configuration)
    }

    /// As [`Router::start`], with a folder that contains files of the scenario.
    ///
    /// # Errors
    ///
    /// As [`Router::start`].
    pub fn start_in(
        scratch: Scratch,
        binary: &Path,
        namespace: Option<&Namespace>,
        configuration: &Value,
    ) -> Result<Self> {
        Self::begin((scratch, &[]), binary, namespace, configuration)
    }

    fn begin(
        (scratch, environment): (Scratch, &[(&str, &str)]),
        binary: &Path,
        namespace: Option<&Namespace>,
        configuration: &Value,
    ) -> Result<Self> {
        let file = scratch.write("stoa.json", pretty(configuration))?;
        let mut command = Command::program(binary)
            .args(["run", "--config", &file.to_string_lossy()])
            .args(["--socket", &scratch.file("stoa.sock").to_string_lossy()])
            .args(folders::options(configuration, &scratch));
        if let Some(namespace) = namespace {
            command = command.inside(namespace.name());
        }
        for (name, value) in environment {
            command = command.env(name, value);
        }
        let process = command.spawn()?;
        let last_state = LastState::new(binary.to_owned(), scratch.file("stoa.sock"));
        let router = Self { last_state, process, binary: binary.to_owned(), scratch };
        router.wait_in_sync()?;
        Ok(router)
    }

    fn wait_in_sync(&self) -> Result<()> {
        let outcome = wait_until("the router is in sync with its configuration", START, || {
            if !self.process.is_running() {
                return Ok(false);
            }
            let status = self.status().map_err(|error| error.to_string())?;
            if status["in_sync"] == true { Ok(true) } else { Err(status.to_string()) }
        });
        match outcome {
            Ok(true) => Ok(()),
            Ok(false) => Err(LabError::RouterExited {
                status: "before it forwarded".to_owned(),
                printed: last_lines(&self.process.log(), 6),
            }),
            Err(LabError::WaitDeadline { what, deadline, last }) => Err(LabError::WaitDeadline {
                what,
                deadline,
                last: format!("{last}; its log: {}", last_lines(&self.process.log(), 6)),
            }),
            Err(other) => Err(other),
        }
    }

    /// Waits until the interfaces of these names are up: a port opens its device after the router has applied its
    /// configuration.
    ///
    /// # Errors
    ///
    /// [`LabError::WaitDeadline`] with their state after 10 s.
    pub fn wait_up(&self, names: &[&str]) -> Result<()> {
        wait_until(&format!("{} are up", names.join(" and ")), Duration::from_secs(10), || {
            let list = self.interfaces().map_err(|error| error.to_string())?;
            let is_up = |name: &&str| list.iter().any(|one| one.name == **name && one.up);
            if names.iter().all(is_up) { Ok(()) } else { Err(format!("{list:?}")) }
        })
    }

    /// Runs `stoa ARGUMENTS --socket SOCKET`.
    ///
    /// # Errors
    ///
    /// The command cannot be started or does not exit in time.
    pub fn call(&self, arguments: &[&str]) -> Result<Output> {
        let socket = self.socket().to_string_lossy().into_owned();
        Command::program(&self.binary).args(arguments).args(["--socket", &socket]).run()
    }

    /// The output of `stoa show WHAT --json`.
    ///
    /// # Errors
    ///
    /// The command fails or its output is not JSON.
    pub fn show(&self, what: &str) -> Result<Value> {
        self.json(&["show", what, "--json"])
    }

    /// The output of `stoa status --json`.
    ///
    /// # Errors
    ///
    /// The command fails or its output is not JSON.
    pub fn status(&self) -> Result<Value> {
        self.json(&["status", "--json"])
    }

    /// The output of `stoa ARGUMENTS`, which must include `--json`.
    ///
    /// # Errors
    ///
    /// The command fails or its output is not JSON.
    pub fn json(&self, arguments: &[&str]) -> Result<Value> {
        let output = self.call(arguments)?.ok()?;
        serde_json::from_str(&output.stdout).map_err(|error| LabError::ParseFailed {
            what: output.command.clone(),
            reason: format!("{error}: {}", last_lines(&output.stdout, 2)),
        })
    }

    /// Writes a new configuration and reloads the router; the output contains its reply.
    ///
    /// # Errors
    ///
    /// The command cannot be run; a rejected configuration is an exit status in the output.
    pub fn reload(&self, configuration: &Value) -> Result<Output> {
        self.scratch.write("stoa.json", pretty(configuration))?;
        self.call(&["reload"])
    }

    /// Writes a new configuration without a reload, for SIGHUP.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn write_configuration(&self, configuration: &Value) -> Result<PathBuf> {
        self.scratch.write("stoa.json", pretty(configuration))
    }

    /// Sends SIGHUP: the router reads the configuration again.
    pub fn send_sighup(&self) {
        self.process.signal(Signal::SIGHUP);
    }

    /// Checks the conservation of packets: waits until received + generated = sent + consumed + dropped + held, and
    /// returns the packet accounting.
    ///
    /// # Errors
    ///
    /// [`LabError::WaitDeadline`] with the packet accounting when it does not balance within 5 s.
    pub fn conservation(&self) -> Result<Value> {
        wait_until("the packet accounting balances", BALANCE, || {
            let accounting = self.show("conservation").map_err(|error| error.to_string())?;
            if accounting["balanced"].as_bool() == Some(true) {
                Ok(accounting)
            } else {
                Err(accounting.to_string())
            }
        })
    }

    /// Waits until no packet is in flight and returns the packet accounting: it balances, no packet is between
    /// workers, and every buffer is free or holds a packet that waits for a neighbour.
    ///
    /// # Errors
    ///
    /// [`LabError::WaitDeadline`] with the packet accounting when this takes longer than 5 s.
    pub fn wait_idle(&self) -> Result<Value> {
        wait_until("no packet is in flight", BALANCE, || {
            let accounting = self.show("conservation").map_err(|error| error.to_string())?;
            let is_none = |what: &str| accounting[what].as_u64() == Some(0);
            if accounting["balanced"] == true && is_none("held") && is_none("buffers_busy") {
                Ok(accounting)
            } else {
                Err(accounting.to_string())
            }
        })
    }

    /// The path of the router binary.
    #[must_use]
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// Its socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.scratch.file("stoa.sock")
    }

    /// Its folder, for further files of the scenario.
    #[must_use]
    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// The process id of the supervisor.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Whether it is running.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.process.is_running()
    }

    /// Its log so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Prints its drops, neighbors, interfaces and workers if it is dropped before [`Router::stop`].
    pub fn print_last_state(&mut self) {
        self.last_state.is_printed = true;
    }

    /// Stops it with SIGTERM, as an operator would.
    ///
    /// # Errors
    ///
    /// [`LabError::RouterExited`] when the exit status is not 0.
    pub fn stop(mut self) -> Result<()> {
        self.last_state.is_printed = false;
        let (stdout, stderr, status) = self.process.stop()?;
        if status.success() {
            return Ok(());
        }
        let printed = last_lines(&format!("{stdout}{stderr}"), 6);
        Err(LabError::RouterExited { status: status.to_string(), printed })
    }
}

fn pretty(configuration: &Value) -> String {
    format!("{configuration:#}\n")
}
