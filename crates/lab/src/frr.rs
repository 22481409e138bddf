//! FRR in a namespace: zebra and other daemons, started without FRR's scripts, with their own folder and `vtysh`.

use std::time::Duration;

use crate::process::Background;
use crate::{Command, LabError, Namespace, Result, Scratch, Tool, wait_until};

/// Timeout until zebra accepts other daemons.
const START: Duration = Duration::from_secs(60);
/// Timeout of a `vtysh` command; with a million routes, `show bgp summary` waits behind them.
const ANSWER: Duration = Duration::from_secs(30);
/// Zebra's socket for the other daemons, in the folder.
const ZSERV: &str = "zserv.api";

/// FRR in a namespace. Dropping it stops its daemons, zebra last.
#[derive(Debug)]
pub struct Frr {
    namespace: String,
    /// Declared before their folder, so that they are dropped first; zebra is the first.
    daemons: Vec<(Tool, Background)>,
    scratch: Scratch,
}

impl Frr {
    /// Starts zebra with a configuration and options (`["-M", "dplane_fpm_nl"]`), then each of the other daemons.
    ///
    /// # Errors
    ///
    /// [`LabError::ToolMissing`] when FRR is not installed; [`LabError::WaitDeadline`] with zebra's log when it is
    /// not ready within 60 s.
    pub fn start(
        namespace: &Namespace,
        zebra: (&str, &[&str]),
        others: &[(Tool, &str)],
    ) -> Result<Self> {
        let scratch = Scratch::new()?;
        // The daemons drop root privileges and create their sockets as their own user.
        let folder = scratch.path().display().to_string();
        Command::program("/bin/chown").args(["frr:frr", &folder]).run()?.ok()?;
        Command::program("/bin/chmod").args(["755", &folder]).run()?.ok()?;
        let namespace = namespace.name().to_owned();
        let mut frr = Self { namespace, daemons: Vec::new(), scratch };
        let (configuration, options) = zebra;
        frr.zebra(configuration, options)?;
        for (tool, configuration) in others {
            frr.add(*tool, configuration, &[])?;
        }
        Ok(frr)
    }

    /// Starts zebra, also after [`Frr::kill`], and waits until it is ready.
    ///
    /// # Errors
    ///
    /// As [`Frr::start`].
    pub fn zebra(&mut self, configuration: &str, options: &[&str]) -> Result<()> {
        let socket = self.scratch.file(ZSERV);
        // The socket of a killed zebra does not show that the new one is ready.
        let _ = std::fs::remove_file(&socket);
        // The netlink buffer must hold the kernel's messages about a burst of routes.
        let buffer = ["-s", "90000000"];
        self.add(Tool::ZEBRA, configuration, &[&buffer[..], options].concat())?;
        wait_until("zebra is up", START, || if socket.exists() { Ok(()) } else { Err(self.log()) })
    }

    /// Starts one more daemon, or a killed one again.
    ///
    /// # Errors
    ///
    /// It cannot be started.
    pub fn add(&mut self, tool: Tool, configuration: &str, options: &[&str]) -> Result<()> {
        let file = |end: &str| self.scratch.file(&format!("{}{end}", tool.program));
        let path = self.scratch.write(&format!("{}.conf", tool.program), configuration)?;
        let [path, pid] = [path, file(".pid")].map(|path| path.display().to_string());
        let _ = std::fs::remove_file(&pid);
        let [folder, zebra] = [self.scratch.path().to_owned(), self.scratch.file(ZSERV)]
            .map(|path| path.display().to_string());
        // No telnet port.
        let arguments = ["-f", &path, "-i", &pid, "-z", &zebra, "--vty_socket", &folder, "-P", "0"];
        let command = Command::tool(tool)?.inside(&self.namespace).args(arguments).args(options);
        let daemon = command.args(["--log", "stdout"]).spawn()?;
        self.daemons.push((tool, daemon));
        Ok(())
    }

    /// Kills one of the daemons, as a crash would. [`Frr::add`] starts it again.
    pub fn kill(&mut self, tool: Tool) {
        let (gone, stay) = std::mem::take(&mut self.daemons)
            .into_iter()
            .partition(|(one, _): &(Tool, Background)| *one == tool);
        self.daemons = stay;
        let gone: Vec<(Tool, Background)> = gone;
        for (_, daemon) in &gone {
            daemon.kill();
        }
    }

    /// The process ids of its daemons.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        self.daemons.iter().map(|(_, daemon)| daemon.pid()).collect()
    }

    /// The log of its daemons so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.daemons.iter().map(|(_, daemon)| daemon.log()).collect()
    }

    /// The output of a `vtysh` command; timeout 30 s.
    ///
    /// # Errors
    ///
    /// `vtysh` cannot be started or does not reply.
    pub fn query(&self, question: &str) -> Result<String> {
        let folder = self.scratch.path().display().to_string();
        let command = Command::tool(Tool::VTYSH)?.inside(&self.namespace).deadline(ANSWER);
        let output = command.args(["--vty_socket", &folder, "-c", question]).run()?;
        Ok(format!("{}{}", output.stdout, output.stderr))
    }

    /// Runs `vtysh` commands in sequence, such as `configure terminal`, `router bgp 65001`.
    ///
    /// # Errors
    ///
    /// [`LabError::CommandFailed`] when one is rejected.
    pub fn configure(&self, commands: &[&str]) -> Result<()> {
        let folder = self.scratch.path().display().to_string();
        let command = Command::tool(Tool::VTYSH)?.inside(&self.namespace).deadline(ANSWER);
        let printed = commands.iter().flat_map(|one| ["-c", one]);
        let output = command.args(["--vty_socket", &folder]).args(printed).run()?.ok()?;
        // vtysh exits with 0 even when a daemon rejects a command.
        if output.stdout.contains("% ") {
            return Err(LabError::ParseFailed {
                what: output.command.clone(),
                reason: output.stdout,
            });
        }
        Ok(())
    }

    /// Waits until the output contains all of these texts.
    ///
    /// # Errors
    ///
    /// [`LabError::WaitDeadline`] with the output and the daemons' logs.
    pub fn wait_for(&self, question: &str, expected: &[&str], deadline: Duration) -> Result<()> {
        wait_until(&format!("`{question}` contains {expected:?}"), deadline, || {
            let printed = self.query(question).map_err(|error| error.to_string())?;
            let has_all = expected.iter().all(|words| printed.contains(words));
            if has_all { Ok(()) } else { Err(format!("{printed}{}", self.log())) }
        })
    }
}

impl Drop for Frr {
    fn drop(&mut self) {
        // Zebra stops last, so that it removes the routes that the others withdraw.
        while let Some(last) = self.daemons.pop() {
            drop(last);
        }
    }
}
