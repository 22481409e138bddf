//! `stoa run`: controller and forwarder as child processes, each restarted when it exits.
//!
//! They are separate processes so that a fault of one does not stop the other: the forwarder forwards while the
//! controller restarts, and the controller configures a restarted forwarder.

mod child;
pub(crate) mod error;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use stoa_warm_restart::DescriptorStore;
use tokio::signal::unix::{SignalKind, signal};

pub use self::child::EXIT_REFUSED;
pub(crate) use self::child::EXIT_TIMEOUT;
use self::child::{Child, SUPERVISOR, reap_orphans};
pub use self::error::Error;
use self::error::system;
use crate::configuration::Configuration;
use crate::datastore;
use crate::lock::{self, Lock};
use crate::privileges;
use crate::running::Running;

/// The default socket for operators.
pub const DEFAULT_SOCKET: &str = "/run/stoa/stoa.sock";

/// The usual longest delay.
pub const RESTART_DELAY_MAX: Duration = Duration::from_secs(10);
/// Interval of the check whether the first configuration is in effect.
const READY_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Options of `stoa run`.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program of both children. Its first argument is "forwarder" or "controller".
    pub program: PathBuf,
    /// The configuration file.
    pub config: PathBuf,
    /// The state folder.
    pub state: PathBuf,
    /// The folder of capture files, the only files that a configuration can name.
    pub pcap_folder: PathBuf,
    /// The folder of memif sockets.
    pub memif_folder: PathBuf,
    /// Socket for operators.
    pub socket: PathBuf,
    /// Longest delay before a child is restarted.
    pub restart_delay_max: Duration,
}

/// The socket of the forwarder in the folder of the operator's socket: "forwarder.sock" for "stoa.sock",
/// "lab-forwarder.sock" for "lab.sock".
pub fn forwarder_socket(socket: &Path) -> PathBuf {
    let stem = socket.file_stem().unwrap_or_default().to_string_lossy();
    if stem == "stoa" {
        socket.with_file_name("forwarder.sock")
    } else {
        socket.with_file_name(format!("{stem}-forwarder.sock"))
    }
}

/// The default state folder of a configuration: "stoa.state" for "stoa.json".
pub fn state_folder(config: &Path) -> PathBuf {
    config.with_extension("state")
}

/// The process id of the `stoa run` that serves `socket` or is about to.
pub fn runs_on(socket: &Path) -> Option<String> {
    lock::holder(socket)
}

/// The process id of the supervisor; 0 without one.
pub(crate) fn supervisor() -> u64 {
    let pid = std::env::var(SUPERVISOR).ok();
    pid.and_then(|pid| pid.parse().ok()).unwrap_or(0)
}

/// Makes this process exit with its supervisor, even if that is killed. Does nothing without a supervisor.
///
/// # Errors
/// When the supervisor has exited, or a system call fails.
pub fn end_with_supervisor() -> std::io::Result<()> {
    let Some(supervisor) = std::env::var_os(SUPERVISOR) else { return Ok(()) };
    nix::sys::prctl::set_pdeathsig(Signal::SIGTERM)?;
    // It may have exited before that call.
    if nix::unistd::getppid().to_string() != supervisor.to_string_lossy() {
        return Err(std::io::Error::other("the supervisor has exited"));
    }
    Ok(())
}

/// Checks the configuration, starts controller and forwarder and restarts them until SIGTERM or SIGINT. SIGHUP reloads
/// the configuration.
///
/// Must run on the main thread of a current-thread runtime: a child exits with the thread that started it.
///
/// # Errors
/// When Stoa cannot be started, or a child exits repeatedly.
pub async fn run(options: Options) -> Result<(), Error> {
    let mut terminate = signal(SignalKind::terminate()).map_err(system("signals"))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(system("signals"))?;
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    run_until(options, stop).await
}

/// As [`run`], until `stop` completes.
///
/// # Errors
/// As [`run`].
pub async fn run_until(options: Options, stop: impl Future<Output = ()>) -> Result<(), Error> {
    // Commits of an earlier Stoa, whose files are not touched while it runs.
    let early = match datastore::is_unsaved(&options.state) {
        true => Some(locks(&options)?),
        false => None,
    };
    if early.is_some() {
        let _alone = Lock::take_writer(&options.state)?;
        if let Err(refusal) = datastore::recover(&options.config, &options.state) {
            tracing::error!("the last commits are not in the startup file: {refusal}");
        }
    }
    let configuration = Configuration::read(&options.config).map_err(Error::Refused)?;
    let missing = privileges::missing(&configuration.without_routes());
    if !missing.is_empty() {
        return Err(Error::Privileges(missing));
    }
    let locks = match early {
        Some(locks) => locks,
        None => locks(&options)?,
    };
    let running = Running::beside(&options.socket);
    running.remove();
    tracing::info!(
        configuration = %options.config.display(),
        socket = %options.socket.display(),
        "starting: {}", configuration.summary()
    );
    if let Some(logging) = &configuration.desired.logging {
        stoa_log::follow(logging);
    }
    drop(configuration);
    let ended = supervise(&options, &running, stop).await;
    running.remove();
    drop(locks);
    ended
}

/// The locks of the socket and of the state folder.
fn locks(options: &Options) -> Result<(Lock, Option<Lock>), Error> {
    Ok((Lock::take(&options.socket)?, Lock::take_state(&options.state)?))
}

async fn supervise(
    options: &Options,
    running: &Running,
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    let forwarder_socket = forwarder_socket(&options.socket);
    let mut hang_up = signal(SignalKind::hangup()).map_err(system("signals"))?;
    let [of_forwarder, of_controller] = DescriptorStore::inherited(["forwarder", "controller"]);
    let folders: [OsString; 4] = [
        "--pcap-folder".into(),
        options.pcap_folder.clone().into(),
        "--memif-folder".into(),
        options.memif_folder.clone().into(),
    ];
    let mut forwarder = Child::new(
        options.program.clone(),
        "forwarder",
        ["--socket".into(), forwarder_socket.clone().into()]
            .into_iter()
            .chain(folders.clone())
            .collect(),
        of_forwarder,
        options.restart_delay_max,
    );
    let mut controller = Child::new(
        options.program.clone(),
        "controller",
        [
            "--config".into(),
            options.config.clone().into(),
            "--state".into(),
            options.state.clone().into(),
            "--socket".into(),
            options.socket.clone().into(),
            "--forwarder-socket".into(),
            forwarder_socket.clone().into(),
        ]
        .into_iter()
        .chain(folders)
        .collect(),
        of_controller,
        options.restart_delay_max,
    );
    forwarder.start()?;
    controller.start()?;
    let ready = notify_when(|| running.exists());
    tokio::pin!(ready);
    let mut is_ready = false;
    tokio::pin!(stop);
    let ended = loop {
        tokio::select! {
            () = &mut stop => break Ok(()),
            () = &mut ready, if !is_ready => is_ready = true,
            _ = hang_up.recv() => controller.signal(Signal::SIGHUP),
            result = forwarder.restart_on_exit(running.exists()) => if let Err(error) = result { break Err(error) },
            result = controller.restart_on_exit(running.exists()) => if let Err(error) = result { break Err(error) },
        }
        reap_orphans([forwarder.id(), controller.id()]);
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

/// Notifies systemd once the router is ready.
async fn notify_when(is_ready: impl Fn() -> bool) {
    while !is_ready() {
        tokio::time::sleep(READY_CHECK_INTERVAL).await;
    }
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_controller_has_time_to_save() {
        let needed = crate::service::SAVE_TIMEOUT + crate::service::SHUTDOWN_TIMEOUT;
        assert!(needed < EXIT_TIMEOUT);
        let unit = include_str!("../../../packaging/stoa.service");
        let limit = unit.lines().find_map(|line| line.strip_prefix("TimeoutStopSec="));
        let limit: u64 = limit.unwrap().trim_end_matches('s').parse().unwrap();
        assert!(2 * EXIT_TIMEOUT < Duration::from_secs(limit));
    }

    #[test]
    fn each_operator_socket_has_its_forwarder_socket() {
        let socket = |path: &str| forwarder_socket(Path::new(path)).display().to_string();
        assert_eq!(socket("/run/stoa/stoa.sock"), "/run/stoa/forwarder.sock");
        assert_eq!(socket("/tmp/lab.sock"), "/tmp/lab-forwarder.sock");
    }
}
