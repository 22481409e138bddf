//! dpdk-testpmd as the peer of a memif interface.

use std::os::unix::process::ExitStatusExt as _;

use stoa_lab::{Background, Command, LabError, Result, Scratch, Tool, Topology};

const SIGSEGV: i32 = 11;

/// testpmd between a memif interface and the router's end of the link to host-b, so that the host hears what comes by
/// the shared memory.
///
/// It knows nothing of unfinished checksums: the side is [without offloads](stoa_lab::Side::without_offloads).
#[derive(Debug)]
pub struct Testpmd {
    running: Option<Background>,
    role: &'static str,
    id: u32,
    options: Vec<String>,
    crashes: u32,
    scratch: Scratch,
}

impl Testpmd {
    /// One in `role` (`server` or `client`) that forwards as `options` say. It does not run yet.
    ///
    /// # Errors
    /// When there is no place for its files.
    pub fn new(role: &'static str, id: u32, options: &[&str]) -> Result<Self> {
        let options = options.iter().map(|&word| word.to_owned()).collect();
        Ok(Self { running: None, role, id, options, crashes: 0, scratch: Scratch::new()? })
    }

    /// The socket by which it meets its peer.
    #[must_use]
    pub fn socket(&self) -> String {
        self.scratch.file("memif.sock").to_string_lossy().into_owned()
    }

    /// Starts it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(&mut self, topology: &Topology) -> Result<()> {
        let (role, id, socket) = (self.role, self.id, self.socket());
        if role == "server" {
            // One that was killed leaves its socket behind, and DPDK would not listen there again.
            let _ = std::fs::remove_file(&socket);
        }
        let memif = format!("net_memif0,role={role},id={id},socket={socket},socket-abstract=no");
        let command = topology
            .router()
            .command(Tool::TESTPMD)?
            // Without huge pages, as on a bare machine.
            .args(["--lcores", "(0,1)@0", "--no-pci", "--no-huge", "--no-shconf", "-m", "256"])
            .args(["--no-telemetry", "--vdev", &memif])
            .args(["--vdev", "net_af_packet1,iface=host-b", "--"])
            .args(["--total-num-mbufs=8192", "--auto-start", "--no-lsc-interrupt"])
            // Else it ends with its standard input.
            .args(["--stats-period", "1"])
            .args(&self.options)
            .env("XDG_RUNTIME_DIR", &self.scratch.path().to_string_lossy());
        self.running = Some(command.spawn()?);
        Ok(())
    }

    /// Starts it again after a crash of its own. DPDK 22.11 takes the rings of a peer that went away while its
    /// forwarding thread may still read them, and now and then dies of it.
    ///
    /// # Errors
    /// When it ended in any other way, or cannot be started.
    pub fn survive(&mut self, topology: &Topology) -> Result<()> {
        match &self.running {
            Some(running) if !running.is_running() => {}
            _ => return Ok(()),
        }
        let log = self.log();
        let status = self.stop()?;
        if status.and_then(|status| status.signal()) != Some(SIGSEGV) {
            let (what, reason) =
                ("dpdk-testpmd".to_owned(), format!("it ended: {status:?}: {log}"));
            return Err(LabError::NotUnderstood { what, reason });
        }
        self.crashes += 1;
        self.start(topology)
    }

    /// Ends it as an operator would.
    ///
    /// # Errors
    /// When the system cannot say how it ended.
    pub fn stop(&mut self) -> Result<Option<std::process::ExitStatus>> {
        let ended = self.running.take().map(Background::stop).transpose()?;
        Ok(ended.map(|(_, _, status)| status))
    }

    /// Ends it with SIGKILL.
    ///
    /// # Errors
    /// When it does not run.
    pub fn kill(&mut self) -> Result<()> {
        let pid = self.running.as_ref().map_or(0, Background::pid).to_string();
        Command::program("/bin/kill").args(["-KILL", &pid]).run()?.ok()?;
        self.stop()?;
        Ok(())
    }

    /// How often it crashed by itself.
    #[must_use]
    pub fn crashes(&self) -> u32 {
        self.crashes
    }

    /// What it said since it started last.
    #[must_use]
    pub fn log(&self) -> String {
        self.running.as_ref().map(Background::log).unwrap_or_default()
    }
}
