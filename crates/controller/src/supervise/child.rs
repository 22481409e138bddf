//! A child of `stoa run`: started, restarted when it exits, and stopped. Its state that survives a restart is in a
//! [`DescriptorStore`].

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use stoa_warm_restart::{CHILD_ENVIRONMENT, DescriptorStore};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::process::{Child as Process, Command};
use tokio::time::Instant;

use super::{
    EXIT_LIMIT, EXIT_REFUSED, EXIT_TIMEOUT, Error, FIRST_DELAY, HEALTHY, SUPERVISOR, system,
};

/// A child process: controller or forwarder.
pub(super) struct Child {
    program: PathBuf,
    name: &'static str,
    arguments: Vec<OsString>,
    process: Option<Process>,
    store: DescriptorStore,
    /// Our end of the socket pair whose other end the child has.
    socket: Option<AsyncFd<OwnedFd>>,
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
        let readable = Interest::READABLE;
        self.socket = Some(AsyncFd::with_interest(ours, readable).map_err(failed())?);
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
                self.store.receive(socket.get_ref());
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
        tracing::error!("the {} exited ({status}); restarting it in {:?}", self.name, self.delay);
        Ok(())
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

/// Waits until the child sends something, and takes it. Never returns when the child sends nothing any more. Cancel
/// safe.
async fn receive(store: &mut DescriptorStore, socket: &mut Option<AsyncFd<OwnedFd>>) {
    if let Some(open) = socket {
        let more = match open.readable().await {
            Ok(mut ready) => {
                let more = store.receive(open.get_ref());
                ready.clear_ready();
                more
            }
            Err(_) => false,
        };
        if !more {
            *socket = None;
        }
    } else {
        std::future::pending().await
    }
}
