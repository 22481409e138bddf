//! Background processes: servers, captures, the router. They are stopped when dropped.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::command::Running;
use crate::{Command, LabError, Result, wait_until};

/// How long a process may take to exit after SIGTERM.
const GRACE: Duration = Duration::from_secs(12);

/// A process in the background. Dropping it sends SIGTERM, waits at most 12 s, then kills its process group.
#[derive(Debug)]
pub struct Background {
    running: Running,
    line: String,
}

impl Command {
    /// Starts the command in the background; its timeout is ignored.
    ///
    /// # Errors
    ///
    /// It cannot be started.
    pub fn spawn(self) -> Result<Background> {
        Ok(Background { running: self.start()?, line: self.line() })
    }
}

impl Background {
    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// Whether it is running.
    #[must_use]
    pub fn is_running(&self) -> bool {
        !self.running.has_ended()
    }

    /// Its output so far, standard output before standard error.
    #[must_use]
    pub fn log(&self) -> String {
        let (stdout, stderr) = self.running.printed();
        format!("{stdout}{stderr}")
    }

    /// Its standard output so far.
    #[must_use]
    pub fn stdout(&self) -> String {
        self.running.printed().0
    }

    /// Waits until its output contains `text`.
    ///
    /// # Errors
    ///
    /// [`LabError::WaitDeadline`] with its log when the deadline passes or the process exits first.
    pub fn wait_for(&self, text: &str, deadline: Duration) -> Result<()> {
        wait_until(&format!("`{}` prints `{text}`", self.line), deadline, || {
            let ended = self.running.has_ended();
            let log = self.log();
            if log.contains(text) {
                return Ok(());
            }
            let state = if ended { "it has ended: " } else { "" };
            Err(format!("{state}{}", crate::error::last_lines(&log, 4)))
        })
    }

    /// Waits until it exits and returns standard output, standard error, and whether the exit status is 0.
    ///
    /// # Errors
    ///
    /// [`LabError::CommandDeadline`] when it does not exit in time and was killed.
    pub fn finish(mut self, deadline: Duration) -> Result<(String, String, bool)> {
        let end = Instant::now() + deadline;
        while !self.running.has_ended() {
            crate::interrupt::check()?;
            if Instant::now() >= end {
                let printed = crate::error::last_lines(&self.log(), 4);
                return Err(LabError::CommandDeadline {
                    command: self.line.clone(),
                    deadline,
                    printed,
                });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let status = self.running.finish()?;
        let (stdout, stderr) = self.running.printed();
        Ok((stdout, stderr, status.success()))
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        self.running.signal(signal);
    }

    /// Kills it, as a crash would, and waits until it is gone.
    pub fn kill(&self) {
        self.running.signal(Signal::SIGKILL);
        while !self.running.has_ended() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Stops it as [`Drop`] does; returns its output and exit status.
    ///
    /// # Errors
    ///
    /// The system does not report the exit status.
    pub fn stop(mut self) -> Result<(String, String, std::process::ExitStatus)> {
        let status = self.end()?;
        let (stdout, stderr) = self.running.printed();
        Ok((stdout, stderr, status))
    }

    fn end(&mut self) -> Result<std::process::ExitStatus> {
        self.running.signal(Signal::SIGTERM);
        let end = Instant::now() + GRACE;
        while !self.running.has_ended() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(4));
        }
        self.running.finish()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // Errors are ignored while unwinding.
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_output_and_exits_when_stopped() {
        let process = Command::program("/bin/sh")
            .args(["-c", "echo ready; exec sleep 60"])
            .spawn()
            .expect("it starts");
        process.wait_for("ready", Duration::from_secs(10)).expect("its output contains the text");
        assert!(process.is_running());
        let (stdout, _, status) = process.stop().expect("it ends");
        assert_eq!(stdout, "ready\n");
        assert!(!status.success());
    }

    #[test]
    fn reports_a_process_that_exited_early() {
        let process = Command::program("/bin/sh")
            .args(["-c", "echo no >&2; exit 1"])
            .spawn()
            .expect("started");
        let printed =
            process.wait_for("yes", Duration::from_millis(300)).expect_err("never").to_string();
        assert!(printed.contains("it has ended: no"), "{printed}");
    }
}
