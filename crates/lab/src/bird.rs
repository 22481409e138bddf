//! BIRD 2 in a namespace, with its own folder and its own `birdc`.

use std::time::Duration;

use crate::process::Background;
use crate::{Command, Namespace, Result, Scratch, Tool, wait_until};

/// Timeout until `birdc` replies after the start.
const START: Duration = Duration::from_secs(30);
/// Timeout of a `birdc` command: it waits while BIRD processes a full table.
const ANSWER: Duration = Duration::from_secs(30);

/// Sets resource limits for the started program (util-linux).
const PRLIMIT: &str = "/usr/bin/prlimit";
/// Stack for BIRD 2.0's OSPF route calculation: 100,000 external LSAs overflow the default of 8 MiB.
const STACK: &str = "--stack=1073741824:";

/// A running BIRD. It ends when dropped.
#[derive(Debug)]
pub struct Bird {
    namespace: String,
    /// Declared before its folder, so that it is dropped first.
    daemon: Background,
    scratch: Scratch,
}

impl Bird {
    /// Starts BIRD with this configuration and waits until `birdc` replies.
    ///
    /// # Errors
    ///
    /// [`crate::LabError::ToolMissing`] when it is not installed; [`crate::LabError::WaitDeadline`] with its log when
    /// it rejects the configuration.
    pub fn start(namespace: &Namespace, configuration: &str) -> Result<Self> {
        let scratch = Scratch::new()?;
        scratch.write("bird.conf", configuration)?;
        let namespace = namespace.name().to_owned();
        let daemon = Self::spawn(&namespace, &scratch, &[])?;
        let bird = Self { namespace, daemon, scratch };
        bird.wait_up()?;
        Ok(bird)
    }

    /// Restarts BIRD gracefully (`birdc graceful restart`): waits until it exits, and starts it again.
    ///
    /// # Errors
    ///
    /// As [`Bird::start`]; [`crate::LabError::WaitDeadline`] when it does not exit.
    pub fn restart_gracefully(&mut self) -> Result<()> {
        self.query("graceful restart")?;
        wait_until("BIRD has exited", START, || {
            if self.daemon.is_running() { Err(self.log()) } else { Ok(()) }
        })?;
        self.restart()
    }

    /// Starts BIRD again after [`Bird::kill`], with the option for recovery (`-R`).
    ///
    /// # Errors
    ///
    /// As [`Bird::start`].
    pub fn restart(&mut self) -> Result<()> {
        self.daemon = Self::spawn(&self.namespace, &self.scratch, &["-R"])?;
        self.wait_up()
    }

    /// Kills it, as a crash would.
    pub fn kill(&self) {
        self.daemon.kill();
    }

    fn spawn(namespace: &str, scratch: &Scratch, options: &[&str]) -> Result<Background> {
        let [file, socket, pid] =
            ["bird.conf", "ctl", "pid"].map(|name| scratch.file(name).display().to_string());
        let bird = Tool::BIRD.find()?.display().to_string();
        let command = Command::program(PRLIMIT).inside(namespace).args([STACK, "--", &bird]);
        command.args(["-f", "-c", &file, "-s", &socket, "-P", &pid]).args(options).spawn()
    }

    fn wait_up(&self) -> Result<()> {
        wait_until("BIRD answers", START, || {
            let printed = self.query("show status").map_err(|error| error.to_string())?;
            let is_up = printed.contains("Daemon is up and running");
            if is_up { Ok(()) } else { Err(format!("{printed}{}", self.log())) }
        })
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.daemon.pid()
    }

    /// Whether it still runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.daemon.is_running()
    }

    /// Its log so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.daemon.log()
    }

    /// The output of a `birdc` command; timeout 30 s.
    ///
    /// # Errors
    ///
    /// `birdc` cannot be started or does not reply.
    pub fn query(&self, question: &str) -> Result<String> {
        let socket = self.scratch.file("ctl").display().to_string();
        let command = Command::tool(Tool::BIRDC)?.inside(&self.namespace).deadline(ANSWER);
        let output = command.args(["-s", &socket]).args(question.split_whitespace()).run()?;
        Ok(format!("{}{}", output.stdout, output.stderr))
    }

    /// Waits until the output contains all of these texts.
    ///
    /// # Errors
    ///
    /// [`crate::LabError::WaitDeadline`] with the output and BIRD's log.
    pub fn wait_for(&self, question: &str, expected: &[&str], deadline: Duration) -> Result<()> {
        wait_until(&format!("`{question}` contains {expected:?}"), deadline, || {
            let printed = self.query(question).map_err(|error| error.to_string())?;
            let has_all = expected.iter().all(|words| printed.contains(words));
            if has_all { Ok(()) } else { Err(format!("{printed}{}", self.log())) }
        })
    }

    /// Waits until BIRD reports the BFD sessions with all these neighbours as up.
    ///
    /// # Errors
    ///
    /// [`crate::LabError::WaitDeadline`] with the sessions and BIRD's log.
    pub fn wait_for_bfd(&self, neighbours: &[&str], deadline: Duration) -> Result<()> {
        wait_until(&format!("BFD is up with {neighbours:?}"), deadline, || {
            let printed = self.query("show bfd sessions").map_err(|error| error.to_string())?;
            let is_up = |neighbour: &&str| {
                let mut lines = printed.lines().map(|line| line.split_whitespace());
                lines.any(|mut words| {
                    words.next() == Some(neighbour) && words.any(|word| word == "Up")
                })
            };
            if neighbours.iter().all(is_up) {
                Ok(())
            } else {
                Err(format!("{printed}{}", self.log()))
            }
        })
    }
}
