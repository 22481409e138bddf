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

/// What is kept of a command's output: the last bytes up to this many; twice this many for a moment.
const KEPT: usize = 4 << 20;
/// How often it is looked whether a command has ended.
const PERIOD: Duration = Duration::from_millis(4);
/// What a command has unless [`Command::deadline`] says otherwise.
const DEADLINE: Duration = Duration::from_secs(10);

/// A command to run. Everything it starts stays in a process group of its own, which ends with it.
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
    /// The command as one would type it.
    pub command: String,
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output, at most the last 4 MiB.
    pub stdout: String,
    /// Its standard error, at most the last 4 MiB.
    pub stderr: String,
    /// How long it took.
    pub elapsed: Duration,
}

impl Output {
    /// Whether it ended with 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.status.success()
    }

    /// The output of a command that had to end with 0.
    ///
    /// # Errors
    /// [`LabError::CommandFailed`] when it did not.
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

    /// How long it may take; 10 s unless said otherwise.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// What it reads from its standard input (at most 64 KiB, what a pipe holds); nothing unless said otherwise.
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

    /// The command as one would type it.
    #[must_use]
    pub fn line(&self) -> String {
        let program = self.program.rsplit('/').next().unwrap_or(&self.program);
        std::iter::once(program)
            .chain(self.arguments.iter().map(String::as_str))
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Starts it and waits for its end.
    ///
    /// # Errors
    /// When it cannot be started, [`LabError::CommandDeadline`] when it does not end in time,
    /// [`LabError::Interrupted`] after Ctrl-C; in both cases it was killed. How it ended is in the output.
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
        // LC_ALL: what is parsed must not be translated.
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
            // A program that ends without reading its input says so by its status.
            let _ = std::io::Write::write_all(&mut stdin, bytes);
        }
        let stdout = PipeReader::new(child.stdout.take());
        let stderr = PipeReader::new(child.stderr.take());
        Ok(Running { child, stdout, stderr, status: None })
    }
}

/// A started command. Not to be left without [`Running::finish`].
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
        // Process ids fit: the kernel's limit is 2^22.
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// Whether it has ended by itself. It is left unreaped, so that its process group cannot be another's yet.
    pub(crate) fn has_ended(&self) -> bool {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        self.status.is_some()
            || !matches!(waitid(Id::Pid(self.raw()), flags), Ok(WaitStatus::StillAlive))
    }

    /// Sends a signal to the process itself.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.status.is_none() {
            // It may have ended in the meantime; as it is not reaped, nobody else can have its id.
            let _ = nix::sys::signal::kill(self.raw(), signal);
        }
    }

    /// Ends what still runs of its group, and reaps it.
    pub(crate) fn finish(&mut self) -> Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        // No such group any more is what we want.
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
            // The thread does not panic; if it did, what it heard is still there.
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
        // The reader of the output would wait for the grandchild if that were still alive.
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}
