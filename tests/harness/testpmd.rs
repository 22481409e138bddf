//! dpdk-testpmd as the peer of a memif interface.

use std::num::NonZero;
use std::os::unix::process::ExitStatusExt as _;

use stoa_lab::{Background, Command, LabError, Result, Scratch, Tool, Topology};

const SIGSEGV: i32 = 11;

/// testpmd between a memif interface and the router's end of the link to host-b. It forwards between the two.
///
/// It does not complete checksums, so the side must be [without offloads](stoa_lab::Side::without_offloads).
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
    /// A testpmd in `role` (`server` or `client`) with these options, not started yet.
    ///
    /// # Errors
    /// When its folder cannot be created.
    pub fn new(role: &'static str, id: u32, options: &[&str]) -> Result<Self> {
        let options = options.iter().map(|&word| word.to_owned()).collect();
        Ok(Self { running: None, role, id, options, crashes: 0, scratch: Scratch::new()? })
    }

    /// The memif control socket.
    #[must_use]
    pub fn socket(&self) -> String {
        self.scratch.file("memif.sock").to_string_lossy().into_owned()
    }

    /// Starts testpmd.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(&mut self, topology: &Topology) -> Result<()> {
        let (role, id, socket) = (self.role, self.id, self.socket());
        // The kernel may move the polling threads: one that is bound to a busy processor waits for it for seconds.
        let last = std::thread::available_parallelism().map_or(1, NonZero::get) - 1;
        let threads = format!("(0,1)@(0-{last})");
        if role == "server" {
            // A killed testpmd leaves its socket behind, and DPDK does not replace it.
            let _ = std::fs::remove_file(&socket);
        }
        let memif = format!("net_memif0,role={role},id={id},socket={socket},socket-abstract=no");
        let command = topology
            .router()
            .command(Tool::TESTPMD)?
            // Huge pages are not required.
            .args(["--lcores", &threads, "--no-pci", "--no-huge", "--no-shconf", "-m", "256"])
            .args(["--no-telemetry", "--vdev", &memif])
            .args(["--vdev", "net_af_packet1,iface=host-b", "--"])
            .args(["--total-num-mbufs=8192", "--auto-start", "--no-lsc-interrupt"])
            // Without it, testpmd exits when standard input ends.
            .args(["--stats-period", "1"])
            .args(&self.options)
            .env("XDG_RUNTIME_DIR", &self.scratch.path().to_string_lossy());
        self.running = Some(command.spawn()?);
        Ok(())
    }

    /// Restarts testpmd if it crashed. DPDK 22.11 unmaps the rings of a disconnected peer while its forwarding
    /// thread may still read them, and sometimes crashes.
    ///
    /// # Errors
    /// When it exited in another way, or cannot be started.
    pub fn survive(&mut self, topology: &Topology) -> Result<()> {
        match &self.running {
            Some(running) if !running.is_running() => {}
            _ => return Ok(()),
        }
        let log = self.log();
        let status = self.stop()?;
        if status.and_then(|status| status.signal()) != Some(SIGSEGV) {
            let (what, reason) =
                ("dpdk-testpmd".to_owned(), format!("it exited: {status:?}: {log}"));
            return Err(LabError::ParseFailed { what, reason });
        }
        self.crashes += 1;
        self.start(topology)
    }

    /// Stops testpmd cleanly.
    ///
    /// # Errors
    /// When its exit status is not available.
    pub fn stop(&mut self) -> Result<Option<std::process::ExitStatus>> {
        let ended = self.running.take().map(Background::stop).transpose()?;
        Ok(ended.map(|(_, _, status)| status))
    }

    /// Kills testpmd.
    ///
    /// # Errors
    /// When it does not run.
    pub fn kill(&mut self) -> Result<()> {
        let pid = self.running.as_ref().map_or(0, Background::pid).to_string();
        Command::program("/bin/kill").args(["-KILL", &pid]).run()?.ok()?;
        self.stop()?;
        Ok(())
    }

    /// Number of crashes.
    #[must_use]
    pub fn crashes(&self) -> u32 {
        self.crashes
    }

    /// Its output since the last start.
    #[must_use]
    pub fn log(&self) -> String {
        self.running.as_ref().map(Background::log).unwrap_or_default()
    }
}
