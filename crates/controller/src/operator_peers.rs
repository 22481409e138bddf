//! Who may connect to the operator's socket: every process that its mode admits, except the forwarder.
//!
//! The forwarder reads packets of strangers and runs as the same user. One that an attacker has taken over must not
//! become an operator. It cannot leave what it is recognised by: its supervisor is its parent, and its unit of systemd
//! is its control group. It cannot begin another process, nor execute another program
//! (`privileges/system_calls.rs`).

use std::path::Path;

use tokio::net::UnixStream;

use crate::supervise;

/// The unit of the forwarder, where systemd starts it by itself.
const UNIT: &str = "stoa-forwarder.service";

/// Whether the process that made this connection may be an operator. It is asked when the connection is made: later,
/// the connection may have been passed on.
pub fn may_connect(stream: &UnixStream) -> bool {
    let pid = match stream.peer_cred() {
        Ok(peer) => peer.pid(),
        Err(_) => return false,
    };
    // A process of another namespace has none here. The forwarder is in that of its supervisor, or has a unit.
    let Some(pid) = pid.and_then(|pid| u64::try_from(pid).ok()).filter(|pid| *pid > 0) else {
        return true;
    };
    let is_forwarder = is_forwarder(pid, supervise::supervisor());
    if is_forwarder {
        tracing::warn!(
            pid,
            "the forwarder tried to connect to the operator's socket, which it never does by itself: refused; \
             an attacker may have taken it over"
        );
    }
    !is_forwarder
}

/// Whether a process is the forwarder, or cannot be looked at; `supervisor` is that of this process, 0 without one.
fn is_forwarder(pid: u64, supervisor: u64) -> bool {
    let process = Path::new("/proc").join(pid.to_string());
    let read = |name: &str| std::fs::read_to_string(process.join(name));
    let (Ok(status), Ok(groups)) = (read("status"), read("cgroup")) else { return true };
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
        line.and_then(|value| value.parse::<u64>().ok())
    };
    // In a container, the supervisor may be the parent of orphans. Those of an operator can have new privileges.
    let is_child = supervisor > 0 && field("PPid") == Some(supervisor);
    let is_confined = field("NoNewPrivs") != Some(0);
    let is_own = pid == u64::from(std::process::id());
    is_child && is_confined && !is_own || is_of_unit(&groups)
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
        while !is_forwarder(confined.pid(), own) {
            assert!(begun.elapsed() < Duration::from_secs(30), "it is never confined");
            std::thread::sleep(Duration::from_millis(10));
        }
        // Without a supervisor, or of another one.
        assert!(!is_forwarder(confined.pid(), 0) && !is_forwarder(confined.pid(), 1));
        let plain = Process::start(&["sleep", "60"]);
        let supervisor_of_own = u64::try_from(nix::unistd::getppid().as_raw()).unwrap();
        assert!(!is_forwarder(own, supervisor_of_own), "the controller itself");
        let has_new_privileges = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            status.contains("NoNewPrivs:\t0")
        };
        assert_eq!(is_forwarder(plain.pid(), own), !has_new_privileges());
        let pid = plain.pid();
        drop(plain);
        assert!(
            is_forwarder(pid, 0),
            "a process that has exited may have passed the connection on"
        );
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

    #[tokio::test]
    async fn other_processes_of_the_user_may_connect() {
        let folder = tempfile::tempdir().unwrap();
        let listener = stoa_api::unix::listen(&folder.path().join("socket")).unwrap();
        let _client = UnixStream::connect(folder.path().join("socket")).await.unwrap();
        assert!(may_connect(&listener.accept().await.unwrap().0));
    }
}
