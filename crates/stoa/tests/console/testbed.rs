//! A router with ports in memory, and its console.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(30);

/// A router with its own folder; it ends with the test.
pub struct Router {
    pub folder: tempfile::TempDir,
    child: Child,
}

impl Router {
    /// Starts a router with the interfaces `lan` and `wan` and waits until it has applied its configuration.
    pub fn start() -> Router {
        let folder = tempfile::tempdir().unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        Router::start_in(folder, log.into())
    }

    /// The same with a log that nobody can read.
    pub fn without_log() -> Router {
        Router::start_in(tempfile::tempdir().unwrap(), Stdio::null())
    }

    fn start_in(folder: tempfile::TempDir, log: Stdio) -> Router {
        std::fs::write(folder.path().join("stoa.json"), CONFIGURATION).unwrap();
        let mut command = stoa(&folder.path().join("stoa.sock"), &["run"]);
        command.arg("--config").arg(folder.path().join("stoa.json"));
        let child = command.stderr(log).stdout(Stdio::null()).spawn().unwrap();
        let router = Router { folder, child };
        let begun = Instant::now();
        while !out(&router.call(&["status", "--json"])).contains("\"in_sync\":true") {
            let log = std::fs::read_to_string(router.folder.path().join("log")).unwrap_or_default();
            assert!(begun.elapsed() < DEADLINE, "not in sync: {log}");
            std::thread::sleep(Duration::from_millis(20));
        }
        router
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("stoa.sock")
    }

    /// Runs a command of the shell.
    pub fn call(&self, arguments: &[&str]) -> Output {
        stoa(&self.socket(), arguments).output().unwrap()
    }

    /// The standard output of a command that must succeed.
    pub fn shows(&self, line: &str) -> String {
        let output = self.call(&line.split_whitespace().collect::<Vec<_>>());
        assert!(output.status.success(), "{line}: {}", err(&output));
        out(&output)
    }

    /// Runs lines in the console, up to the first that fails.
    pub fn console(&self, lines: &[&str]) -> Output {
        let mut child = stoa(&self.socket(), &["console"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let text = lines.join("\n") + "\n";
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    /// What lines in the console print. They must succeed.
    pub fn types(&self, lines: &[&str]) -> String {
        let output = self.console(lines);
        assert!(output.status.success(), "{lines:?}: {}{}", out(&output), err(&output));
        out(&output)
    }

    /// The error of the last of these lines in the console.
    pub fn fails(&self, lines: &[&str]) -> String {
        let output = self.console(lines);
        assert!(!output.status.success(), "{lines:?}: {}", out(&output));
        err(&output)
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        // Controller and forwarder end with their supervisor.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command on the router of this socket.
pub fn stoa(socket: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stoa"));
    command.args(arguments).env("STOA_SOCKET", socket).stdin(Stdio::null());
    command
}

pub fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const CONFIGURATION: &str = r#"{"stoa-system:system": {"workers": {"buffers": 8192}},
  "ietf-interfaces:interfaces": {"interface": [
    {"name": "lan", "type": "iana-if-type:ethernetCsmacd", "stoa-interfaces:port": {"null": {}},
     "ietf-ip:ipv4": {"forwarding": true, "address": [{"ip": "10.1.0.1", "prefix-length": 24}]}},
    {"name": "wan", "type": "iana-if-type:ethernetCsmacd", "stoa-interfaces:port": {"null": {}},
     "ietf-ip:ipv4": {"forwarding": true, "address": [{"ip": "10.2.0.1", "prefix-length": 24}]}}]}}"#;
