//! gNMI with another implementation: gnmic against the real router, over TLS, on ports in memory.
//!
//! `scripts/fetch-gnmic` builds it. Without it, these tests print a note and are skipped; `make test` and the
//! continuous integration set `STOA_NEEDS_GNMIC`, and then they fail.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use serde_json::{Value, json};

use crate::https::{DEADLINE, Router, hash};
use crate::testbed::interface;

const PASSWORD: &str = "correct horse";
const LAN: &str = "/interfaces/interface[name=lan]";

/// The program; `None`: not available. The result is cached.
fn gnmic() -> Option<PathBuf> {
    static GNMIC: OnceLock<Option<PathBuf>> = OnceLock::new();
    GNMIC.get_or_init(fetched).clone()
}

fn fetched() -> Option<PathBuf> {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let fetched = Command::new(root.join("scripts/fetch-gnmic")).output().expect("the script runs");
    if fetched.status.success() {
        return Some(PathBuf::from(String::from_utf8_lossy(&fetched.stdout).trim()));
    }
    let reason = String::from_utf8_lossy(&fetched.stderr).into_owned();
    let is_needed = ["STOA_NEEDS_GNMIC", "CI"].iter().any(|name| std::env::var_os(name).is_some());
    assert!(!is_needed, "STOA_NEEDS_GNMIC is set, but gnmic is missing: {reason}");
    eprintln!("NOT RUN: the tests with the real gnmic, which is not there: {reason}");
    None
}

struct Testbed {
    gnmic: PathBuf,
    router: Router,
}

impl Testbed {
    fn new() -> Option<Testbed> {
        let gnmic = gnmic()?;
        let configuration = json!({
            "ietf-interfaces:interfaces": { "interface": [interface("lan", "10.0.0.1")] },
        });
        let users = json!([{ "name": "root", "password-hash": hash(), "admin": true }]);
        Some(Testbed { gnmic, router: Router::start(configuration, users) })
    }

    fn command(&self, password: &str, words: &[&str]) -> Command {
        let mut command = Command::new(&self.gnmic);
        command
            .args(["--address", &format!("localhost:{}", self.router.port)])
            .arg("--tls-ca")
            .arg(self.router.path("stoa.state/https/certificate.pem"))
            .args(["--username", "root", "--password", password, "--encoding", "json_ietf"])
            .args(["--timeout", "20s"])
            .args(words)
            // gnmic reads its own configuration from there.
            .env("HOME", self.router.folder.path())
            .stdin(Stdio::null());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(PASSWORD, words).output().unwrap()
    }

    /// The output of a successful command.
    fn output(&self, words: &[&str]) -> String {
        let output = self.run(words);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{words:?}: {output:?}\n{}", self.router.log());
        text
    }

    /// The value at one path.
    fn value(&self, path: &str) -> Value {
        let text = self.output(&["get", "--path", path, "--type", "config"]);
        let reply: Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let values = reply[0]["updates"][0]["values"].as_object().cloned();
        let values = values.unwrap_or_else(|| panic!("{path}: {text}"));
        values.values().next().unwrap().clone()
    }

    /// The error of a failed command.
    fn refused(&self, password: &str, words: &[&str]) -> String {
        let output = self.command(password, words).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(!output.status.success(), "{words:?} was not refused: {text}");
        text
    }

    fn listen(&self, words: &[&str]) -> Listening {
        let mut command = self.command(PASSWORD, words);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Listening { child, lines }
    }
}

/// A gnmic that subscribes; it ends on drop.
struct Listening {
    child: Child,
    lines: Receiver<String>,
}

impl Listening {
    /// Waits for a line that contains all of these.
    fn until(&mut self, expected: &[&str]) {
        let begun = Instant::now();
        let mut seen = String::new();
        while let Some(left) = DEADLINE.checked_sub(begun.elapsed()) {
            let Ok(line) = self.lines.recv_timeout(left) else { break };
            if expected.iter().all(|one| line.contains(one)) {
                return;
            }
            seen.push_str(&line);
            seen.push('\n');
        }
        let _ = self.child.kill();
        let mut complaint = String::new();
        let _ = self.child.stderr.take().unwrap().read_to_string(&mut complaint);
        panic!("{expected:?} was never received:\n{seen}\n{complaint}");
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn capabilities_get_and_errors() {
    let Some(testbed) = Testbed::new() else { return };
    let text = testbed.output(&["capabilities"]);
    let openconfig = "openconfig-interfaces, OpenConfig working group, 3.5.0";
    for expected in ["0.10.0", "JSON_IETF", "ietf-interfaces", "stoa-forwarder", openconfig] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let lan = testbed.value(LAN);
    assert_eq!(lan["ietf-interfaces:type"], "iana-if-type:ethernetCsmacd");
    assert_eq!(lan["ietf-ip:ipv4"]["address"][0]["prefix-length"], 24);
    let facts = testbed.output(&["get", "--path", "/interfaces/interface[name=*]/oper-status"]);
    assert!(facts.contains("\"up\""), "{facts}");
    let reply = testbed.output(&["--target", "edge", "get", "--path", LAN, "--type", "config"]);
    assert!(reply.contains("iana-if-type"), "{reply}");
    let wrong = testbed.refused("wrong horse", &["get", "--path", LAN]);
    assert!(wrong.contains("Unauthenticated") && wrong.contains("wrong user"), "{wrong}");
    let nothing = testbed.refused(PASSWORD, &["get", "--path", "/interfaces/nothing"]);
    assert!(
        nothing.contains("InvalidArgument") && nothing.contains("no node nothing"),
        "{nothing}"
    );
}

#[test]
fn set_changes_values() {
    let Some(testbed) = Testbed::new() else { return };
    let text = format!("{LAN}/description");
    testbed.output(&["set", "--update-path", &text, "--update-value", "to the net"]);
    assert_eq!(testbed.value(&text), json!("to the net"));
    testbed.output(&["set", "--update-path", &format!("{LAN}/enabled"), "--update-value", "false"]);
    assert_eq!(testbed.value(&format!("{LAN}/enabled")), json!(false));
    let file = testbed.router.path("addresses.json");
    let addresses = json!({ "address": [{ "ip": "10.0.9.1", "prefix-length": 24 }] });
    std::fs::write(&file, addresses.to_string()).unwrap();
    let ip4 = format!("{LAN}/ipv4");
    let file = file.to_string_lossy();
    testbed.output(&["set", "--replace-path", &ip4, "--replace-file", &file]);
    let reply = testbed.value(&ip4);
    assert_eq!(reply["ietf-ip:address"], json!([{ "ip": "10.0.9.1", "prefix-length": 24 }]));
    testbed.output(&["set", "--delete", &text]);
    let gone = testbed.refused(PASSWORD, &["get", "--path", &text, "--type", "config"]);
    assert!(gone.contains("NotFound"), "{gone}");
    // An error has a path and a reason, and nothing changes.
    let mtu = format!("{ip4}/mtu");
    let refused =
        testbed.refused(PASSWORD, &["set", "--update-path", &mtu, "--update-value", "12"]);
    assert!(refused.contains("InvalidArgument") && refused.contains("mtu"), "{refused}");
    let there = testbed.value(&ip4);
    assert_eq!(there, reply);
    let lines = |name: &str| {
        let log = std::fs::read_to_string(testbed.router.path("stoa.state").join(name)).unwrap();
        log.lines().filter(|line| line.contains("\"gnmi\"")).count()
    };
    assert_eq!((lines("audit.log"), lines("audit-refused.log")), (4, 1));
}

#[test]
fn subscriptions_once_sample_and_on_change() {
    let Some(testbed) = Testbed::new() else { return };
    let status = format!("{LAN}/oper-status");
    let once = testbed.output(&["subscribe", "--mode", "once", "--path", &status]);
    assert!(once.contains("oper-status\": \"up\""), "{once}");
    let statistics = format!("{LAN}/statistics");
    let sampled = ["--mode", "stream", "--stream-mode", "sample", "--sample-interval", "1s"];
    let words = [&["subscribe", "--format", "event", "--path", &statistics][..], &sampled].concat();
    let mut samples = testbed.listen(&words);
    for _ in 0..3 {
        samples.until(&["in-octets"]);
    }
    let text = format!("{LAN}/description");
    let words = ["subscribe", "--path", &text, "--path", &status, "--stream-mode", "on-change"];
    let mut changes = testbed.listen(&words);
    changes.until(&["\"up\""]);
    testbed.output(&["set", "--update-path", &text, "--update-value", "updated"]);
    changes.until(&["updated"]);
    testbed.output(&["set", "--delete", &text]);
    changes.until(&["deletes"]);
    testbed.output(&["set", "--update-path", &format!("{LAN}/enabled"), "--update-value", "false"]);
    changes.until(&["\"down\""]);
}

#[test]
fn openconfig_paths_are_read_as_collectors_do() {
    let Some(testbed) = Testbed::new() else { return };
    let counters = format!("{LAN}/state/counters");
    let text = testbed.output(&["get", "--path", &counters]);
    assert!(text.contains("openconfig-interfaces:in-octets"), "{text}");
    let whole = testbed.output(&["get", "--path", &format!("openconfig:{LAN}")]);
    assert!(whole.contains("openconfig-interfaces:subinterfaces"), "{whole}");
    let status = format!("{LAN}/state/oper-status");
    let once = testbed.output(&["subscribe", "--mode", "once", "--path", &status]);
    assert!(once.contains("oper-status\": \"UP\""), "{once}");
    let sampled = ["--mode", "stream", "--stream-mode", "sample", "--sample-interval", "1s"];
    let all = "/interfaces/interface/state/counters";
    let words = [&["subscribe", "--format", "event", "--path", all][..], &sampled].concat();
    let mut samples = testbed.listen(&words);
    for _ in 0..2 {
        samples.until(&["openconfig-interfaces:interfaces", "in-octets"]);
    }
    let words = ["subscribe", "--path", &status, "--stream-mode", "on-change"];
    let mut changes = testbed.listen(&words);
    changes.until(&["\"UP\""]);
    testbed.output(&["set", "--update-path", &format!("{LAN}/enabled"), "--update-value", "false"]);
    changes.until(&["\"DOWN\""]);
    let missing =
        testbed.refused(PASSWORD, &["get", "--path", &format!("{LAN}/state/counters/in-bytes")]);
    assert!(missing.contains("state/counters/in-"), "{missing}");
    let enabled = format!("{LAN}/config/enabled");
    let refused =
        testbed.refused(PASSWORD, &["set", "--update-path", &enabled, "--update-value", "true"]);
    assert!(refused.contains("/ietf-interfaces:interfaces/interface/enabled"), "{refused}");
}
