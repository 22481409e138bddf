//! `stoa run`: both halves as child processes, each started again when it dies.
//!
//! The halves are apart so that one outlives the other: while the controller is
//! started again the forwarder forwards on, and a forwarder that comes back is
//! told all it needs by the controller.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use crate::configuration::Configuration;
use crate::error::ValidationError;
use crate::lock::{self, Lock};
use crate::privileges;
use crate::running::Running;

/// Where operators find Stoa when nothing else is said.
pub const DEFAULT_SOCKET: &str = "/run/stoa/stoa.sock";

/// Exit code of a half that says: starting me again will not help.
pub const EXIT_REFUSED: u8 = 78;

/// Environment variable that tells a half the process id of its supervisor.
const SUPERVISOR: &str = "STOA_SUPERVISOR";

/// First wait before a half is started again; it doubles up to the last.
const WAIT_FIRST: Duration = Duration::from_millis(100);
const WAIT_LAST: Duration = Duration::from_secs(10);
/// A half that ran this long is in good health: the wait begins anew. A kill now and then is fixed at once; what dies
/// as soon as it runs is not started more often than ten times in a minute.
const HEALTHY: Duration = Duration::from_secs(5);
/// Deaths in a row before the first configuration was ever in force.
const DEATHS_LIMIT: u32 = 5;
/// How often it is looked whether the configuration is in force, at the start.
const READY_LOOK: Duration = Duration::from_millis(50);
/// How long a half may take to end.
const GOODBYE: Duration = Duration::from_secs(5);

/// How Stoa is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program that is both halves: its first argument is "forwarder" or
    /// "controller".
    pub program: PathBuf,
    /// The configuration file.
    pub config: PathBuf,
    /// The folder of what is kept beside it.
    pub state: PathBuf,
    /// Socket for operators.
    pub socket: PathBuf,
}

/// Why Stoa did not run or ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration is wrong.
    #[error("the configuration is refused")]
    Refused(Vec<ValidationError>),
    /// The ports need what this process may not do.
    #[error("a privilege is missing")]
    Privileges(Vec<ValidationError>),
    /// Another Stoa serves the socket.
    #[error(
        "Stoa runs on {} already (process {pid}): stop it, use `stoa reload`, \
         or give this one another --socket", socket.display()
    )]
    Runs {
        /// Its socket.
        socket: PathBuf,
        /// Its supervisor.
        pid: String,
    },
    /// The system refused.
    #[error("{what}: {error}{}", hint(error))]
    System {
        /// What was tried.
        what: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// A half does not come up; its own words stand above in the log.
    #[error("the {0} does not stay up: its last words are above")]
    NotUp(&'static str),
    /// The controller or the forwarder refused; the errors stand above.
    #[error("not started: what is wrong is said above")]
    Said,
}

fn hint(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "; run as root, or give --socket a path in a folder of yours"
        }
        _ => "",
    }
}

pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
    |error| Error::System { what: what.into(), error }
}

/// The forwarder's socket that belongs to the operator's: "forwarder.sock"
/// beside "stoa.sock", "lab-forwarder.sock" beside "lab.sock".
pub fn forwarder_socket(socket: &Path) -> PathBuf {
    let stem = socket.file_stem().unwrap_or_default().to_string_lossy();
    if stem == "stoa" {
        socket.with_file_name("forwarder.sock")
    } else {
        socket.with_file_name(format!("{stem}-forwarder.sock"))
    }
}

/// The folder of what is kept beside a configuration when nothing else is said: "stoa.state" beside "stoa.json".
pub fn state_folder(config: &Path) -> PathBuf {
    config.with_extension("state")
}

/// The process id of the `stoa run` that serves the operator's `socket` or is about to;
/// `None`: there is none.
pub fn runs_on(socket: &Path) -> Option<String> {
    lock::holder(socket)
}

/// The process id of the `stoa run` that started this half; 0 for a half started by hand.
pub(crate) fn supervisor() -> u64 {
    let told = std::env::var(SUPERVISOR).ok();
    told.and_then(|pid| pid.parse().ok()).unwrap_or(0)
}

/// Called by each half when it starts: it ends when its supervisor ends, even
/// when that was killed. Does nothing for a half that was started by hand.
///
/// # Errors
/// When the supervisor is gone already, or the system refuses.
pub fn end_with_supervisor() -> std::io::Result<()> {
    let Some(supervisor) = std::env::var_os(SUPERVISOR) else { return Ok(()) };
    nix::sys::prctl::set_pdeathsig(Signal::SIGTERM)?;
    // It may have died between our start and that call.
    if nix::unistd::getppid().to_string() != supervisor.to_string_lossy() {
        return Err(std::io::Error::other("the supervisor is gone"));
    }
    Ok(())
}

/// Checks the configuration, starts both halves and keeps them up until SIGTERM
/// or SIGINT. SIGHUP reads the configuration again.
///
/// Must run on the main thread of a current-thread runtime: a half ends with
/// the thread that started it.
///
/// # Errors
/// When Stoa cannot be started or does not stay up.
pub async fn run(options: Options) -> Result<(), Error> {
    let mut terminate = signal(SignalKind::terminate()).map_err(system("signals"))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(system("signals"))?;
    let told = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    run_until(options, told).await
}

/// As [`run`], until `told` to end.
///
/// # Errors
/// As [`run`].
pub async fn run_until(options: Options, told: impl Future<Output = ()>) -> Result<(), Error> {
    let configuration = Configuration::read(&options.config).map_err(Error::Refused)?;
    let missing = privileges::missing(&configuration.desired);
    if !missing.is_empty() {
        return Err(Error::Privileges(missing));
    }
    let lock = Lock::take(&options.socket)?;
    let running = Running::beside(&options.socket);
    running.forget();
    tracing::info!(
        configuration = %options.config.display(),
        socket = %options.socket.display(),
        "starting: {}", configuration.summary()
    );
    if let Some(logging) = &configuration.desired.logging {
        stoa_log::follow(logging);
    }
    drop(configuration);
    let ended = keep_up(&options, &running, told).await;
    running.forget();
    drop(lock);
    ended
}

async fn keep_up(
    options: &Options,
    running: &Running,
    told: impl Future<Output = ()>,
) -> Result<(), Error> {
    let forwarder_socket = forwarder_socket(&options.socket);
    let mut hang_up = signal(SignalKind::hangup()).map_err(system("signals"))?;
    let mut forwarder = Half::new(
        options.program.clone(),
        "forwarder",
        vec!["--socket".into(), forwarder_socket.clone().into()],
    );
    let mut controller = Half::new(
        options.program.clone(),
        "controller",
        vec![
            "--config".into(),
            options.config.clone().into(),
            "--state".into(),
            options.state.clone().into(),
            "--socket".into(),
            options.socket.clone().into(),
            "--forwarder-socket".into(),
            forwarder_socket.clone().into(),
        ],
    );
    forwarder.start()?;
    controller.start()?;
    let in_force = told_when(|| running.is_there());
    tokio::pin!(in_force);
    let mut is_told = false;
    tokio::pin!(told);
    let ended = loop {
        tokio::select! {
            () = &mut told => break Ok(()),
            () = &mut in_force, if !is_told => is_told = true,
            _ = hang_up.recv() => controller.signal(Signal::SIGHUP),
            turn = forwarder.turn(running.is_there()) => if let Err(error) = turn { break Err(error) },
            turn = controller.turn(running.is_there()) => if let Err(error) = turn { break Err(error) },
        }
    };
    tracing::info!("stopping");
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
    controller.stop().await;
    forwarder.stop().await;
    for socket in [&forwarder_socket, &options.socket] {
        let _ = std::fs::remove_file(socket);
    }
    ended
}

/// Tells systemd that the router is ready once it is.
async fn told_when(is_ready: impl Fn() -> bool) {
    while !is_ready() {
        tokio::time::sleep(READY_LOOK).await;
    }
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
}

/// One half as a child process.
struct Half {
    program: PathBuf,
    name: &'static str,
    arguments: Vec<OsString>,
    child: Option<Child>,
    since: Instant,
    wait: Duration,
    deaths: u32,
}

impl Half {
    fn new(program: PathBuf, name: &'static str, arguments: Vec<OsString>) -> Half {
        Half {
            program,
            name,
            arguments,
            child: None,
            since: Instant::now(),
            wait: Duration::ZERO,
            deaths: 0,
        }
    }

    fn start(&mut self) -> Result<(), Error> {
        let failed = || system(format!("cannot start the {}", self.name));
        let child = Command::new(&self.program)
            .arg(self.name)
            .args(&self.arguments)
            .env(SUPERVISOR, std::process::id().to_string())
            // systemd hears of readiness from the supervisor alone.
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null())
            // Ctrl-C is for the supervisor: it ends the halves in order.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(failed())?;
        self.child = Some(child);
        self.since = Instant::now();
        Ok(())
    }

    /// Waits until the half dies, then until it is time, and starts it again.
    /// May be dropped and called anew at any point.
    async fn turn(&mut self, was_in_force: bool) -> Result<(), Error> {
        if let Some(child) = &mut self.child {
            let status = child.wait().await;
            self.child = None;
            let status = status.map_err(system(format!("cannot wait for the {}", self.name)))?;
            self.died(status, was_in_force)?;
        }
        tokio::time::sleep_until(self.since + self.wait).await;
        self.start()
    }

    fn died(&mut self, status: ExitStatus, was_in_force: bool) -> Result<(), Error> {
        if status.code() == Some(i32::from(EXIT_REFUSED)) && !was_in_force {
            return Err(Error::Said);
        }
        let now = Instant::now();
        if now.duration_since(self.since) >= HEALTHY {
            self.wait = Duration::ZERO;
        }
        self.wait = (self.wait * 2).clamp(WAIT_FIRST, WAIT_LAST);
        self.deaths = if was_in_force { 0 } else { self.deaths + 1 };
        if self.deaths >= DEATHS_LIMIT {
            return Err(Error::NotUp(self.name));
        }
        self.since = now;
        tracing::error!("the {} ended ({status}); starting it again in {:?}", self.name, self.wait);
        Ok(())
    }

    fn signal(&self, signal: Signal) {
        let Some(id) = self.child.as_ref().and_then(Child::id) else { return };
        if let Ok(id) = i32::try_from(id) {
            let _ = kill(Pid::from_raw(id), signal);
        }
    }

    async fn stop(&mut self) {
        self.signal(Signal::SIGTERM);
        let Some(mut child) = self.child.take() else { return };
        if tokio::time::timeout(GOODBYE, child.wait()).await.is_err() {
            tracing::warn!("the {} does not end; killing it", self.name);
            let _ = child.kill().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operator_socket_has_a_forwarder_socket_of_its_own() {
        let socket = |path: &str| forwarder_socket(Path::new(path)).display().to_string();
        assert_eq!(socket("/run/stoa/stoa.sock"), "/run/stoa/forwarder.sock");
        assert_eq!(socket("/tmp/lab.sock"), "/tmp/lab-forwarder.sock");
    }
}
