//! Who may connect to the operator's socket: every process that its mode admits, except the forwarder.
//!
//! The forwarder reads packets of anybody and runs as the same user. One that an attacker has taken over must not
//! become an operator. The kernel names the process that listens on the forwarder's socket. Until the controller has
//! connected to it, a forwarder is a confined child of the supervisor, or in its unit of systemd. It can neither begin
//! another process, nor execute another program, nor end its supervisor (`privileges/system_calls.rs`). The device
//! opener, which it began before, connects to nothing (`privileges/opener_calls.rs`).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::UnixStream;

use crate::supervise;

/// The unit of the forwarder, where systemd starts it by itself.
const UNIT: &str = "stoa-forwarder.service";

/// The process of the forwarder, from the first connection to it until it ends.
#[derive(Clone, Debug, Default)]
pub struct ForwarderProcess(Arc<Mutex<Option<Known>>>);

#[derive(Debug)]
struct Known {
    pid: u64,
    /// Its file in /proc, opened while it ran. `None`: this process may not open it.
    file: Option<File>,
}

impl Known {
    /// Whether the process has ended: its number may be that of another one. Linux then refuses to read the file,
    /// whoever has the number (proc_pid_stat(5), ESRCH).
    fn has_ended(&self) -> bool {
        let read = self.file.as_ref().map(|file| file.read_at(&mut [0], 0));
        read.is_some_and(|read| read.is_err())
    }
}

impl ForwarderProcess {
    /// Learns the process from a connection to the forwarder's socket.
    pub fn learn(&self, stream: &UnixStream) {
        if let Some((_, pid)) = peer(stream) {
            let file = File::open(format!("/proc/{pid}/stat")).ok();
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Known { pid, file });
        }
    }

    /// The number of the process, if it is known and runs. One that closes its connection stays known.
    fn pid(&self) -> Option<u64> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref().is_some_and(Known::has_ended) {
            *known = None;
        }
        known.as_ref().map(|known| known.pid)
    }

    /// Whether the process that made this connection may be an operator. It is asked when the connection is made:
    /// later, the connection may have been passed on.
    pub fn may_connect(&self, stream: &UnixStream) -> bool {
        // A process of another namespace has none here. The forwarder is in that of its supervisor, or has a unit.
        let Some((user, pid)) = peer(stream) else { return stream.peer_cred().is_ok() };
        // The forwarder runs as the user of the controller.
        if user != nix::unistd::geteuid().as_raw() || pid == u64::from(std::process::id()) {
            return true;
        }
        let is_forwarder = match self.pid() {
            None => match may_be_forwarder(pid, supervise::supervisor()) {
                Some(is_forwarder) => is_forwarder,
                None => {
                    tracing::warn!(
                        pid,
                        "refused a connection of a process that has exited or cannot be read in /proc"
                    );
                    return false;
                }
            },
            Some(forwarder) => pid == forwarder,
        };
        if is_forwarder {
            tracing::warn!(
                pid,
                "the forwarder tried to connect to the operator's socket, which it never does by itself: refused; \
                 an attacker may have taken it over"
            );
        }
        !is_forwarder
    }
}

/// The user and the process at the other end, if it has one here.
fn peer(stream: &UnixStream) -> Option<(u32, u64)> {
    let peer = stream.peer_cred().ok()?;
    let pid = peer.pid().and_then(|pid| u64::try_from(pid).ok()).filter(|pid| *pid > 0)?;
    Some((peer.uid(), pid))
}

/// Whether a process looks like a forwarder; `None`: it cannot be read. `supervisor` is that of this process, 0 without
/// one.
fn may_be_forwarder(pid: u64, supervisor: u64) -> Option<bool> {
    let process = Path::new("/proc").join(pid.to_string());
    let read = |name: &str| std::fs::read_to_string(process.join(name)).ok();
    let (status, groups) = (read("status")?, read("cgroup")?);
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
        line.and_then(|value| value.parse::<u64>().ok())
    };
    // In a container, the supervisor may be the parent of orphans, which may be confined as well.
    let is_child = supervisor > 0 && field("PPid") == Some(supervisor);
    let is_confined = field("NoNewPrivs") != Some(0);
    Some(is_child && is_confined || is_of_unit(&groups))
}

/// Whether these control groups are those of the forwarder's unit.
fn is_of_unit(groups: &str) -> bool {
    let paths = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    paths.into_iter().any(|path| path.split('/').any(|name| name == UNIT))
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::time::{Duration, Instant};

    use super::*;

    /// A child of this process, which ends with the test.
    struct Process(Child);

    impl Process {
        fn start(words: &[&str]) -> Process {
            Process(Command::new(words[0]).args(&words[1..]).spawn().unwrap())
        }

        fn pid(&self) -> u64 {
            u64::from(self.0.id())
        }
    }

    impl Drop for Process {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_confined_child_of_the_supervisor_is_the_forwarder() {
        let own = u64::from(std::process::id());
        let confined = Process::start(&["setpriv", "--no-new-privs", "sleep", "60"]);
        let begun = Instant::now();
        while may_be_forwarder(confined.pid(), own) != Some(true) {
            assert!(begun.elapsed() < Duration::from_secs(30), "it is never confined");
            std::thread::sleep(Duration::from_millis(10));
        }
        // Without a supervisor, or of another one.
        for other in [0, 1] {
            assert_eq!(may_be_forwarder(confined.pid(), other), Some(false));
        }
        let plain = Process::start(&["sleep", "60"]);
        let has_new_privileges = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            status.contains("NoNewPrivs:\t0")
        };
        assert_eq!(may_be_forwarder(plain.pid(), own), Some(!has_new_privileges()));
        let pid = plain.pid();
        drop(plain);
        assert_eq!(may_be_forwarder(pid, 0), None, "it may have passed the connection on");
    }

    #[test]
    fn the_unit_of_the_forwarder_is_recognised() {
        assert!(is_of_unit("0::/system.slice/stoa-forwarder.service\n"));
        assert!(is_of_unit("1:name=systemd:/system.slice/stoa-forwarder.service/deep\n0::/\n"));
        for other in [
            "0::/system.slice/stoa.service\n",
            "0::/user.slice/stoa-forwarder.service.scope\n",
            "0::/system.slice/stoa-controller.service\n",
            "",
        ] {
            assert!(!is_of_unit(other), "{other}");
        }
    }

    const ALONE: &str = "STOA_TEST_OPERATOR_PEER";

    /// A process that runs the test below as a peer: with a socket, it listens there first, until it is connected to.
    fn peer_process(forwarders: &str, operators: &Path) -> Process {
        let test = "operator_peers::tests::the_listener_of_the_forwarders_socket_is_refused";
        let mut command = Command::new(std::env::current_exe().unwrap());
        let sockets = format!("{forwarders} {}", operators.display());
        Process(command.args(["--exact", test]).env(ALONE, sockets).spawn().unwrap())
    }

    fn be_peer(sockets: &str) {
        let (forwarders, operators) = sockets.split_once(' ').unwrap();
        let _accepted = (!forwarders.is_empty())
            .then(|| std::os::unix::net::UnixListener::bind(forwarders).unwrap().accept().unwrap());
        let _stream = std::os::unix::net::UnixStream::connect(operators).unwrap();
        // The test ends this process.
        std::thread::sleep(Duration::from_secs(60));
    }

    #[tokio::test]
    async fn the_listener_of_the_forwarders_socket_is_refused() {
        if let Ok(sockets) = std::env::var(ALONE) {
            return be_peer(&sockets);
        }
        let folder = tempfile::tempdir().unwrap();
        let [operators, forwarders] =
            ["operator", "forwarder"].map(|name| folder.path().join(name));
        let listener = stoa_api::unix::listen(&operators).unwrap();
        let forwarder = peer_process(&forwarders.to_string_lossy(), &operators);
        let begun = Instant::now();
        let stream = loop {
            match UnixStream::connect(&forwarders).await {
                Ok(stream) => break stream,
                Err(error) => assert!(begun.elapsed() < Duration::from_secs(30), "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        let process = ForwarderProcess::default();
        let connection = listener.accept().await.unwrap().0;
        assert!(process.may_connect(&connection), "nothing is known about it");
        process.learn(&stream);
        assert!(!process.may_connect(&connection));
        let _operator = peer_process("", &operators);
        let operator = listener.accept().await.unwrap().0;
        assert!(process.may_connect(&operator), "another process");
        // The controller has not connected to another forwarder yet.
        assert_eq!(process.pid(), Some(forwarder.pid()));
        drop(stream);
        assert_eq!(
            process.pid(),
            Some(forwarder.pid()),
            "it may have closed the connection to be forgotten"
        );
        drop(forwarder);
        assert_eq!(process.pid(), None, "another process may have its number");
        assert!(process.may_connect(&operator));
    }
}
