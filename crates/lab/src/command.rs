//! Commands with a deadline, on this machine or inside a namespace; their output is captured.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use crate::error::last_lines;
use crate::{LabError, Result, Tool, interrupt};

/// The last bytes of a command's output that are kept; the buffer grows to twice this size.
const KEPT: usize = 4 << 20;
/// How often the wait checks whether the command has exited.
const PERIOD: Duration = Duration::from_millis(4);
/// Default timeout of a command; see [`Command::deadline`].
const DEADLINE: Duration = Duration::from_secs(30);

/// A command to run. It and its children have their own process group, which ends with the command.
#[derive(Debug)]
pub struct Command {
    program: String,
    arguments: Vec<String>,
    namespace: Option<String>,
    deadline: Duration,
    input: Option<Vec<u8>>,
    environment: Vec<(String, String)>,
}

/// Output and exit status of a command.
#[derive(Clone, Debug)]
pub struct Output {
    /// The command line.
    pub command: String,
    /// The exit status.
    pub status: ExitStatus,
    /// Its standard output, at most the last 4 MiB.
    pub stdout: String,
    /// Its standard error, at most the last 4 MiB.
    pub stderr: String,
    /// How long it took.
    pub elapsed: Duration,
}

impl Output {
    /// Whether the exit status is 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.status.success()
    }

    /// The output of a command that must succeed.
    ///
    /// # Errors
    ///
    /// [`LabError::CommandFailed`] when the exit status is not 0.
    pub fn ok(self) -> Result<Self> {
        if self.success() {
            return Ok(self);
        }
        let printed = if self.stderr.trim().is_empty() { &self.stdout } else { &self.stderr };
        Err(LabError::CommandFailed {
            command: self.command.clone(),
            status: self.status.to_string(),
            printed: last_lines(printed, 4),
        })
    }
}

impl Command {
    /// A command that calls `tool`.
    ///
    /// # Errors
    /// [`LabError::ToolMissing`] when it is not installed.
    pub fn tool(tool: Tool) -> Result<Self> {
        Ok(Self::program(tool.find()?))
    }

    /// A command that calls the program at a path.
    pub fn program(path: impl AsRef<OsStr>) -> Self {
        Self {
            program: path.as_ref().to_string_lossy().into_owned(),
            arguments: Vec::new(),
            namespace: None,
            deadline: DEADLINE,
            input: None,
            environment: Vec::new(),
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<I: IntoIterator<Item = S>, S: AsRef<str>>(mut self, arguments: I) -> Self {
        self.arguments.extend(arguments.into_iter().map(|one| one.as_ref().to_owned()));
        self
    }

    /// Runs it inside the network namespace of this name.
    #[must_use]
    pub fn inside(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Sets the timeout; default 10 s.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets the standard input (at most 64 KiB, the capacity of a pipe); default: empty.
    #[must_use]
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Some(bytes.into());
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The command line.
    #[must_use]
    pub fn line(&self) -> String {
        let program = self.program.rsplit('/').next().unwrap_or(&self.program);
        std::iter::once(program)
            .chain(self.arguments.iter().map(String::as_str))
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Starts it and waits until it exits.
    ///
    /// # Errors
    ///
    /// It cannot be started; [`LabError::CommandDeadline`] when it does not exit in time; [`LabError::Interrupted`]
    /// after Ctrl-C. In the last two cases it was killed. The output contains the exit status.
    pub fn run(self) -> Result<Output> {
        let line = self.line();
        let begun = Instant::now();
        let mut running = self.start()?;
        let end = begun + self.deadline;
        let outcome = loop {
            if running.has_ended() {
                break Ok(());
            }
            if Instant::now() >= end {
                break Err(true);
            }
            if interrupt::came() {
                break Err(false);
            }
            std::thread::sleep(PERIOD);
        };
        let status = running.finish()?;
        let (stdout, stderr) = running.printed();
        match outcome {
            Ok(()) => {
                Ok(Output { command: line, status, stdout, stderr, elapsed: begun.elapsed() })
            }
            Err(true) => Err(LabError::CommandDeadline {
                command: line,
                deadline: self.deadline,
                printed: last_lines(&format!("{stdout}\n{stderr}"), 3),
            }),
            Err(false) => Err(LabError::Interrupted),
        }
    }

    /// Starts it without waiting.
    pub(crate) fn start(&self) -> Result<Running> {
        interrupt::check()?;
        let mut command = match &self.namespace {
            Some(namespace) => {
                let mut command = std::process::Command::new(Tool::IP.find()?);
                command.args(["netns", "exec", namespace, &self.program]);
                command
            }
            None => std::process::Command::new(&self.program),
        };
        let input = if self.input.is_some() { Stdio::piped() } else { Stdio::null() };
        // LC_ALL: parsed output must not be translated.
        command
            .args(&self.arguments)
            .env("LC_ALL", "C")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = command
            .spawn()
            .map_err(|error| LabError::system(format!("start `{}`", self.line()), error))?;
        if let (Some(bytes), Some(mut stdin)) = (&self.input, child.stdin.take()) {
            // A program that exits without reading its input reports that by its status.
            let _ = std::io::Write::write_all(&mut stdin, bytes);
        }
        let stdout = PipeReader::new(child.stdout.take());
        let stderr = PipeReader::new(child.stderr.take());
        Ok(Running { child, stdout, stderr, status: None })
    }
}

/// A started command. Callers must call [`Running::finish`].
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    stdout: PipeReader,
    stderr: PipeReader,
    status: Option<ExitStatus>,
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn raw(&self) -> Pid {
        // Process ids fit: the kernel limits them to 2^22.
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// Whether it has exited by itself. It is not reaped yet, so that its process group id cannot be reused.
    pub(crate) fn has_ended(&self) -> bool {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        self.status.is_some()
            || !matches!(waitid(Id::Pid(self.raw()), flags), Ok(WaitStatus::StillAlive))
    }

    /// Sends a signal to the process itself.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.status.is_none() {
            // It may have exited already; it is not reaped, so its id cannot belong to another process.
            let _ = nix::sys::signal::kill(self.raw(), signal);
        }
    }

    /// Kills what still runs in its group, and reaps it.
    pub(crate) fn finish(&mut self) -> Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        // An error means that the group is already gone.
        let _ = killpg(self.raw(), Signal::SIGKILL);
        let status =
            self.child.wait().map_err(|error| LabError::system("wait for a child", error))?;
        self.status = Some(status);
        self.stdout.join();
        self.stderr.join();
        Ok(status)
    }

    /// Its standard output and standard error so far.
    pub(crate) fn printed(&self) -> (String, String) {
        (self.stdout.text(), self.stderr.text())
    }
}

/// A thread that reads a pipe to its end, so that the writer never waits.
#[derive(Debug)]
struct PipeReader {
    captured: Arc<Mutex<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
}

impl PipeReader {
    fn new(pipe: Option<impl Read + Send + 'static>) -> Self {
        let captured = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&captured);
        let thread = pipe.map(|mut pipe| {
            std::thread::spawn(move || {
                let mut bytes = [0; 16 << 10];
                while let Ok(count @ 1..) = pipe.read(&mut bytes) {
                    let mut captured = to.lock().unwrap_or_else(PoisonError::into_inner);
                    captured.extend_from_slice(&bytes[..count]);
                    if captured.len() > 2 * KEPT {
                        let surplus = captured.len() - KEPT;
                        captured.drain(..surplus);
                    }
                }
            })
        });
        Self { captured, thread }
    }

    fn text(&self) -> String {
        let captured = self.captured.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&captured).into_owned()
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            // The thread does not panic; if it did, the bytes that it read are still available.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_both_outputs_and_the_status() {
        let output = Command::program("/bin/sh")
            .args(["-c", "cat; echo two >&2; exit 3"])
            .input("one")
            .run()
            .expect("it runs");
        assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("one", "two\n"));
        assert_eq!(output.status.code(), Some(3));
        let printed = output.ok().expect_err("3 is not 0").to_string();
        assert!(printed.contains("two") && printed.contains("sh -c"), "{printed}");
    }

    #[test]
    fn a_command_that_does_not_end_is_stopped_with_its_children() {
        let begun = Instant::now();
        let error = Command::program("/bin/sh")
            .args(["-c", "echo begun; sleep 60 & sleep 60; true"])
            .deadline(Duration::from_millis(300))
            .run()
            .expect_err("it does not end");
        assert!(matches!(error, LabError::CommandDeadline { .. }), "{error}");
        assert!(error.to_string().contains("begun"), "{error}");
        // If the grandchild were still alive, the reader of the output would wait for it.
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}
