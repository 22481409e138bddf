//! BIRD 2 in a namespace, with a folder and a `birdc` of its own.

use std::time::Duration;

use crate::process::Background;
use crate::{Command, Namespace, Result, Scratch, Tool, wait_until};

/// How long it may take until it answers.
const START: Duration = Duration::from_secs(30);
/// How long `birdc` may take to answer; while BIRD works on a full table, it waits.
const ANSWER: Duration = Duration::from_secs(30);

/// Sets limits of what it starts (util-linux).
const PRLIMIT: &str = "/usr/bin/prlimit";
/// Room for BIRD 2.0's calculation of OSPF routes: with 100,000 external LSAs it overflows the usual 8 MiB.
const STACK: &str = "--stack=1073741824:";

/// A running BIRD. It ends when dropped.
#[derive(Debug)]
pub struct Bird {
    namespace: String,
    /// Before its folder, so that it ends before that goes.
    daemon: Background,
    scratch: Scratch,
}

impl Bird {
    /// Starts it with this configuration and waits until it answers.
    ///
    /// # Errors
    /// [`crate::LabError::ToolMissing`] when it is not installed; [`crate::LabError::WaitDeadline`] with its log when it does not
    /// take the configuration.
    pub fn start(namespace: &Namespace, configuration: &str) -> Result<Self> {
        let scratch = Scratch::new()?;
        scratch.write("bird.conf", configuration)?;
        let namespace = namespace.name().to_owned();
        let daemon = Self::spawn(&namespace, &scratch, &[])?;
        let bird = Self { namespace, daemon, scratch };
        bird.wait_up()?;
        Ok(bird)
    }

    /// Has it say to its peers that it will be back (`birdc graceful restart`), waits until it ended, and starts it again.
    ///
    /// # Errors
    /// As [`Bird::start`]; [`crate::LabError::WaitDeadline`] when it does not end.
    pub fn restart_gracefully(&mut self) -> Result<()> {
        self.query("graceful restart")?;
        wait_until("BIRD has ended", START, || {
            if self.daemon.is_running() { Err(self.log()) } else { Ok(()) }
        })?;
        self.restart()
    }

    /// Starts it again after [`Bird::kill`], with the option that has it recover (`-R`).
    ///
    /// # Errors
    /// As [`Bird::start`].
    pub fn restart(&mut self) -> Result<()> {
        self.daemon = Self::spawn(&self.namespace, &self.scratch, &["-R"])?;
        self.wait_up()
    }

    /// Kills it outright, as a crash would.
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

    /// What `birdc` answers, at most 30 s later.
    ///
    /// # Errors
    /// When it cannot be started or does not answer.
    pub fn query(&self, question: &str) -> Result<String> {
        let socket = self.scratch.file("ctl").display().to_string();
        let command = Command::tool(Tool::BIRDC)?.inside(&self.namespace).deadline(ANSWER);
        let output = command.args(["-s", &socket]).args(question.split_whitespace()).run()?;
        Ok(format!("{}{}", output.stdout, output.stderr))
    }

    /// Waits until an answer says all of this.
    ///
    /// # Errors
    /// [`crate::LabError::WaitDeadline`] with the answer and its log.
    pub fn wait_for(&self, question: &str, wanted: &[&str], deadline: Duration) -> Result<()> {
        wait_until(&format!("`{question}` says {wanted:?}"), deadline, || {
            let printed = self.query(question).map_err(|error| error.to_string())?;
            let has_all = wanted.iter().all(|words| printed.contains(words));
            if has_all { Ok(()) } else { Err(format!("{printed}{}", self.log())) }
        })
    }
}
