//! A child of `stoa run`: started, restarted when it exits, and stopped. Its state that survives a restart is in a
//! [`DescriptorStore`].

use std::ffi::OsString;
use std::io::ErrorKind;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid, waitpid};
use nix::unistd::Pid;
use stoa_warm_restart::{CHILD_ENVIRONMENT, DescriptorStore, Taken};
use tokio::io::Interest;
use tokio::net::UnixDatagram;
use tokio::process::{Child as Process, Command};
use tokio::time::Instant;

use super::error::{Error, system};

/// Exit code of a child that a restart would not help.
pub const EXIT_REFUSED: u8 = 78;

/// Environment variable with the process id of the supervisor.
pub(super) const SUPERVISOR: &str = "STOA_SUPERVISOR";

/// Delay before the first restart. It doubles with each one, up to [`super::Options::restart_delay_max`].
const FIRST_DELAY: Duration = Duration::from_millis(100);
/// After this run time the delay starts again at the first. A child that exits at once is restarted at most ten times
/// per minute.
const HEALTHY: Duration = Duration::from_secs(5);
/// Limit of consecutive exits before the first configuration is in effect.
const EXIT_LIMIT: u32 = 5;
/// Time for a child to exit after SIGTERM: longer than the controller needs to save and to end its calls. Both children
/// together have less time than a unit of systemd.
pub(crate) const EXIT_TIMEOUT: Duration = Duration::from_secs(7);

/// Takes note of the end of processes whose parent has exited: the device opener ends after a forwarder that was
/// killed. In a container, this process is the first one, and becomes their parent. `children` are left alone.
pub(super) fn reap_orphans(children: [Option<u32>; 2]) {
    let ended = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    while let Ok(status) = waitid(Id::All, ended) {
        let is_child = |pid: Pid| children.contains(&u32::try_from(pid.as_raw()).ok());
        match status.pid() {
            Some(pid) if !is_child(pid) && waitpid(pid, Some(WaitPidFlag::WNOHANG)).is_ok() => {}
            // Nobody has ended, or a child has, whose end is awaited elsewhere.
            _ => return,
        }
    }
}

/// A child process: controller or forwarder.
pub(super) struct Child {
    program: PathBuf,
    name: &'static str,
    arguments: Vec<OsString>,
    process: Option<Process>,
    store: DescriptorStore,
    /// Our end of the socket pair whose other end the child has.
    socket: Option<UnixDatagram>,
    since: Instant,
    delay: Duration,
    delay_max: Duration,
    exits: u32,
}

impl Child {
    /// A child that is not started yet. `store` holds its state that survives it.
    pub(super) fn new(
        program: PathBuf,
        name: &'static str,
        arguments: Vec<OsString>,
        store: DescriptorStore,
        delay_max: Duration,
    ) -> Child {
        Child {
            program,
            name,
            arguments,
            process: None,
            store,
            socket: None,
            since: Instant::now(),
            delay: Duration::ZERO,
            delay_max,
            exits: 0,
        }
    }

    pub(super) fn start(&mut self) -> Result<(), Error> {
        let failed = || system(format!("cannot start the {}", self.name));
        let (of_child, ours) = self.store.connect().map_err(failed())?;
        let child = Command::new(&self.program)
            .arg(self.name)
            .args(&self.arguments)
            .env(SUPERVISOR, std::process::id().to_string())
            // Only the supervisor notifies systemd.
            .env_remove("NOTIFY_SOCKET")
            // The memory of the last process waits in it.
            .env(CHILD_ENVIRONMENT, "stdin")
            .stdin(Stdio::from(of_child))
            // Ctrl-C must reach the supervisor only, which stops the children in order.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(failed())?;
        self.process = Some(child);
        self.socket = Some(asynchronous(ours).map_err(failed())?);
        self.since = Instant::now();
        Ok(())
    }

    /// Waits until the child exits and for the delay, and restarts it. Cancel safe.
    pub(super) async fn restart_on_exit(&mut self, has_been_ready: bool) -> Result<(), Error> {
        if let Some(child) = &mut self.process {
            let status = loop {
                tokio::select! {
                    status = child.wait() => break status,
                    () = receive(&mut self.store, &mut self.socket) => {}
                }
            };
            self.process = None;
            // What the child sent before it exited.
            if let Some(socket) = self.socket.take() {
                // No other process adds to it: a child of the child may have the other end.
                let _ = socket.shutdown(Shutdown::Read);
                while self.store.receive(&socket) == Taken::Part {}
            }
            let status = status.map_err(system(format!("cannot wait for the {}", self.name)))?;
            self.exited(status, has_been_ready)?;
        }
        tokio::time::sleep_until(self.since + self.delay).await;
        self.start()
    }

    fn exited(&mut self, status: ExitStatus, has_been_ready: bool) -> Result<(), Error> {
        if status.code() == Some(i32::from(EXIT_REFUSED)) && !has_been_ready {
            return Err(Error::RefusedByChild);
        }
        let now = Instant::now();
        if now.duration_since(self.since) >= HEALTHY {
            self.delay = Duration::ZERO;
        }
        self.delay = (self.delay * 2).max(FIRST_DELAY).min(self.delay_max);
        self.exits = if has_been_ready { 0 } else { self.exits + 1 };
        if self.exits >= EXIT_LIMIT {
            return Err(Error::KeepsExiting(self.name));
        }
        self.since = now;
        let hint = match status.signal() {
            Some(libc::SIGSYS) => {
                ", because it made a forbidden system call: the audit log of the kernel names it (journalctl -k)"
            }
            _ => "",
        };
        tracing::error!(
            "the {} exited ({status}){hint}; restarting it in {:?}",
            self.name,
            self.delay
        );
        Ok(())
    }

    /// The process id; `None`: it does not run.
    pub(super) fn id(&self) -> Option<u32> {
        self.process.as_ref().and_then(Process::id)
    }

    pub(super) fn signal(&self, signal: Signal) {
        let Some(id) = self.process.as_ref().and_then(Process::id) else { return };
        if let Ok(id) = i32::try_from(id) {
            let _ = kill(Pid::from_raw(id), signal);
        }
    }

    pub(super) async fn stop(&mut self) {
        self.signal(Signal::SIGTERM);
        let Some(mut child) = self.process.take() else { return };
        if tokio::time::timeout(EXIT_TIMEOUT, child.wait()).await.is_err() {
            tracing::warn!("the {} does not exit; killing it", self.name);
            let _ = child.kill().await;
        }
    }
}

/// The socket for the runtime. It is SOCK_SEQPACKET; the type is used for its readiness only.
fn asynchronous(socket: OwnedFd) -> std::io::Result<UnixDatagram> {
    let socket = std::os::unix::net::UnixDatagram::from(socket);
    socket.set_nonblocking(true)?;
    UnixDatagram::from_std(socket)
}

/// Waits until the child sends something, and takes it. Never returns when the child sends nothing any more. Cancel
/// safe.
async fn receive(store: &mut DescriptorStore, socket: &mut Option<UnixDatagram>) {
    let Some(open) = &*socket else { return std::future::pending().await };
    let taken = match open.readable().await {
        Ok(()) => open.try_io(Interest::READABLE, || match store.receive(open) {
            // The socket is empty: wait for the next event.
            Taken::All => Err(ErrorKind::WouldBlock.into()),
            taken => Ok(taken),
        }),
        Err(error) => Err(error),
    };
    match taken {
        // The supervisor's other work comes in between.
        Ok(Taken::Part) => tokio::task::yield_now().await,
        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
        _ => *socket = None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: &str = "STOA_TEST_ORPHANS";

    /// In a process of its own: other tests wait for their children themselves.
    #[test]
    fn only_orphans_are_reaped() {
        if std::env::var_os(ALONE).is_none() {
            let test = "supervise::child::tests::only_orphans_are_reaped";
            let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
            let ended = alone.args(["--exact", test]).env(ALONE, "1").status().unwrap();
            assert!(ended.success());
            return;
        }
        let start = || std::process::Command::new("/bin/true").spawn().unwrap();
        let ended = |child: &std::process::Child| {
            let id = Id::Pid(Pid::from_raw(child.id() as i32));
            waitid(id, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).unwrap();
        };
        let mut orphan = start();
        ended(&orphan);
        reap_orphans([None, None]);
        assert!(orphan.wait().is_err(), "its end is known already");
        let mut child = start();
        ended(&child);
        reap_orphans([None, Some(child.id())]);
        assert!(child.wait().unwrap().success());
        // Nobody has ended.
        reap_orphans([None, None]);
    }
}
