//! DPDK's testpmd with a memif port.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A testpmd never rests: several at once would take the processors from each other and from us.
static ONE: Mutex<()> = Mutex::new(());

/// A running testpmd, the only one of this process, ended with the test.
pub struct Testpmd {
    child: Child,
    log: Arc<Mutex<String>>,
    _folder: tempfile::TempDir,
    _one: MutexGuard<'static, ()>,
}

impl Testpmd {
    /// Starts testpmd with a memif port; `None` when this machine cannot.
    pub fn start(socket: &str, role: &str, mode: &str, queues: [u16; 2]) -> Option<Self> {
        let is_root = nix::unistd::geteuid().is_root();
        let found = Command::new("dpdk-testpmd").arg("--version").output().is_ok();
        if !is_root || !found {
            eprintln!("skipped: needs root and dpdk-testpmd (Debian package dpdk)");
            return None;
        }
        // A test that failed has ended its testpmd, too.
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        let [rx_queues, tx_queues] = queues;
        let device = format!("net_memif0,role={role},id=7,socket={socket},socket-abstract=no");
        let mut command = Command::new("dpdk-testpmd");
        command
            .env("XDG_RUNTIME_DIR", folder.path())
            .args(["--lcores", "(0,1)@1", "--no-pci", "--no-huge", "--no-shconf", "-m", "128"])
            .args([
                "--no-telemetry",
                "--file-prefix",
                &format!("stoa{}{role}{mode}{rx_queues}{tx_queues}", std::process::id()),
            ])
            .args(["--vdev", &device, "--", "--total-num-mbufs=8192", "--stats-period", "1"])
            .args([format!("--rxq={rx_queues}"), format!("--txq={tx_queues}")])
            .args(["--auto-start", &format!("--forward-mode={mode}")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // SAFETY: between fork and exec only one system call, which allocates nothing.
        unsafe {
            command.pre_exec(|| {
                // It must not outlive the test, whatever becomes of that.
                nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
                Ok(())
            })
        };
        let mut child = command.spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        listen(child.stdout.take().unwrap(), log.clone());
        listen(child.stderr.take().unwrap(), log.clone());
        Some(Self { child, log, _folder: folder, _one: one })
    }

    /// How it ended; `None`: it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }
}

fn listen(from: impl Read + Send + 'static, log: Arc<Mutex<String>>) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            log.lock().unwrap().push_str(&(line + "\n"));
        }
    });
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
