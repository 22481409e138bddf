//! The router with the plugin, as an operator runs it: packets from a file, no privileges.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_secs(30);
/// The folder of capture files, in the state folder.
const FILES: &str = "stoa.state/pcap";
/// DSCP 46 (EF), DSCP 10 (AF11), and none.
const DSCPS: [u8; 3] = [46, 10, 0];
/// Packets of each DSCP and family.
const PACKETS: usize = 20;

/// A router with its own folder; it ends with the test.
struct Router {
    folder: tempfile::TempDir,
    child: Child,
}

impl Router {
    /// Starts a router that drops these DSCPs, and waits until it has processed all packets of its file.
    fn start(drop: &[u8]) -> Router {
        let folder = tempfile::tempdir().unwrap();
        let files = folder.path().join(FILES);
        std::fs::create_dir_all(&files).unwrap();
        std::fs::write(files.join("in.pcap"), input()).unwrap();
        std::fs::write(folder.path().join("stoa.json"), config(folder.path(), drop)).unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let child = program(&["run", "--config"])
            .arg(folder.path().join("stoa.json"))
            .arg("--socket")
            .arg(folder.path().join("stoa.sock"))
            .stderr(log)
            .spawn()
            .unwrap();
        let router = Router { folder, child };
        let all = 2 * DSCPS.len() * PACKETS;
        router.wait(|| router.interface("in").is_some_and(|it| it["rx_packets"] == all));
        // Sent or dropped, too.
        router.wait(|| router.json("conservation").is_some_and(|it| it["held"] == 0));
        router
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The output of a command; it has succeeded.
    fn text(&self, arguments: &[&str]) -> String {
        let output = self.call(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn call(&self, arguments: &[&str]) -> Output {
        program(arguments).env("STOA_SOCKET", self.path("stoa.sock")).output().unwrap()
    }

    fn json(&self, what: &str) -> Option<Value> {
        serde_json::from_slice(&self.call(&["show", what, "--json"]).stdout).ok()
    }

    fn interface(&self, name: &str) -> Option<Value> {
        let all = self.json("interfaces")?;
        all["interfaces"].as_array()?.iter().find(|it| it["name"] == name).cloned()
    }

    fn wait(&self, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            let log = || std::fs::read_to_string(self.path("log")).unwrap_or_default();
            assert!(begun.elapsed() < DEADLINE, "timeout\n{}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        // Controller and forwarder end with their supervisor.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stoa-with-plugin"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Ports "in" and "out" on files; "in" drops these DSCPs.
fn config(folder: &Path, drop: &[u8]) -> String {
    let interface = |name: &str, number: u8, port: Value| {
        let neighbor =
            |ip: String| json!([{ "ip": ip, "link-layer-address": "02:00:00:00:00:09" }]);
        let family = |address: String, length: u8, neighbor: Value| {
            let address = json!([{ "ip": address, "prefix-length": length }]);
            json!({ "forwarding": true, "address": address, "neighbor": neighbor })
        };
        json!({
            "name": name,
            "type": "iana-if-type:ethernetCsmacd",
            "stoa-interfaces:mac-address": format!("02:00:00:00:00:0{number}"),
            "stoa-interfaces:port": { "pcap": port },
            "ietf-ip:ipv4":
                family(format!("10.{number}.0.1"), 24, neighbor(format!("10.{number}.0.2"))),
            "ietf-ip:ipv6":
                family(format!("fd00:{number}::1"), 64, neighbor(format!("fd00:{number}::2"))),
        })
    };
    let mut receiving = interface("in", 1, json!({ "input": folder.join(FILES).join("in.pcap") }));
    receiving["dscp-filter:dscp-filter"] = json!({ "drop": drop });
    let sending = interface("out", 2, json!({ "output": folder.join(FILES).join("out.pcap") }));
    json!({
        "stoa-system:system": { "workers": { "buffers": 8192 } },
        "ietf-interfaces:interfaces": { "interface": [receiving, sending] },
    })
    .to_string()
}

/// A file with packets of both families from "in" to the neighbour on "out".
fn input() -> Vec<u8> {
    let header = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1];
    let mut file: Vec<u8> = header.into_iter().flat_map(u32::to_le_bytes).collect();
    let frames = DSCPS.iter().flat_map(|dscp| [ip4(*dscp), ip6(*dscp)]);
    for frame in frames.flat_map(|frame| std::iter::repeat_n(frame, PACKETS)) {
        let length = frame.len() as u32;
        file.extend([0, 0, length, length].into_iter().flat_map(u32::to_le_bytes));
        file.extend(frame);
    }
    file
}

fn frame(ethertype: u16, packet: Vec<u8>) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9];
    frame.extend(ethertype.to_be_bytes());
    frame.extend(packet);
    frame
}

/// An IPv4 packet of 48 bytes with UDP.
fn ip4(dscp: u8) -> Vec<u8> {
    let mut packet = vec![0x45, dscp << 2, 0, 48, 0, 0, 0, 0, 64, 17, 0, 0];
    packet.extend([10, 1, 0, 2, 10, 2, 0, 2]);
    let words = packet.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum = words.sum::<u32>();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet.resize(48, 0);
    frame(0x0800, packet)
}

/// An IPv6 packet of 48 bytes with UDP.
fn ip6(dscp: u8) -> Vec<u8> {
    let mut packet = vec![0x60 | dscp >> 2, dscp << 6, 0, 0, 0, 8, 17, 64];
    let address = |network| [0xfd, 0, 0, network, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
    packet.extend([address(1), address(2)].concat());
    packet.resize(48, 0);
    frame(0x86dd, packet)
}

/// The number of UDP packets with this DSCP in a file, of both families. The router sends packets of its own, too.
fn number_of(file: &[u8], dscp: u8) -> usize {
    let (mut at, mut found) = (24, 0);
    while let Some(length) = file.get(at + 8..at + 12) {
        let length = u32::from_le_bytes(length.try_into().unwrap()) as usize;
        let packet = &file[at + 16 + 14..at + 16 + length];
        let (of_packet, protocol) = match packet[0] >> 4 {
            4 => (packet[1] >> 2, packet[9]),
            _ => ((packet[0] & 0xf) << 2 | packet[1] >> 6, packet[6]),
        };
        found += usize::from(of_packet == dscp && protocol == 17);
        at += 16 + length;
    }
    found
}

#[test]
fn packets_are_dropped_counted_and_shown() {
    let router = Router::start(&[46, 10]);
    let passed = || std::fs::read(router.path(FILES).join("out.pcap")).unwrap_or_default();
    router.wait(|| number_of(&passed(), 0) == 2 * PACKETS);
    assert_eq!([46, 10].map(|dscp| number_of(&passed(), dscp)), [0, 0]);

    let dropped = 4 * PACKETS;
    let shown = json!({ "interface": "in", "drop": [10, 46], "dropped": dropped });
    assert_eq!(router.json("dscp-filter"), Some(json!({ "dscp_filters": [shown] })));
    let table = router.text(&["show", "dscp-filter"]);
    let rows: Vec<Vec<&str>> =
        table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["INTERFACE", "DROPS", "PACKETS"]);
    assert_eq!(rows[2], ["in", "10", "46", "80"]);

    let metrics = router.text(&["show", "metrics"]);
    for metric in [
        format!("stoa_dscp_filter_dropped_packets_total{{interface=\"in\"}} {dropped}"),
        format!("stoa_drop_packets_total{{reason=\"dscp-filter\"}} {dropped}"),
    ] {
        assert!(metrics.lines().any(|line| line == metric), "{metric} in\n{metrics}");
    }
    let path = "/ietf-interfaces:interfaces/interface[name='in']/dscp-filter:dscp-filter";
    let state: Value = serde_json::from_str(&router.text(&["show", "state", path])).unwrap();
    assert_eq!(state["dscp-filter:dscp-filter"]["dropped"], dropped.to_string());
    assert_eq!(router.interface("in").unwrap()["rx_drops"], dropped);
    let nodes = router.text(&["show", "nodes"]);
    assert!(nodes.contains("ip4-dscp-filter") && nodes.contains("ip6-dscp-filter"), "{nodes}");
}

#[test]
fn the_total_of_the_router_survives_a_killed_forwarder() {
    let router = Router::start(&[46]);
    let metric = "stoa_dscp_filter_dropped_ever_packets_total";
    let total = || {
        let metrics = text(&router.call(&["show", "metrics"]).stdout);
        let line = metrics.lines().find(|line| line.starts_with(metric))?;
        line.rsplit(' ').next()?.parse::<f64>().ok()
    };
    // Each forwarder reads the same file.
    let of_one_life = 2.0 * PACKETS as f64;
    for lives in 1..5 {
        router.wait(|| total() == Some(f64::from(lives) * of_one_life));
        assert_eq!(router.interface("in").unwrap()["rx_drops"], 2 * PACKETS);
        let status: Value =
            serde_json::from_str(&router.text(&["status", "--json"])).expect("a status");
        let pid = status["forwarder_pid"].to_string();
        let killed = Command::new("kill").args(["-KILL", &pid]).status().expect("kill");
        assert!(killed.success());
    }
}

#[test]
fn settings_change_by_a_commit() {
    let router = Router::start(&[46]);
    let edit = |verb, words: &[&'static str]| {
        let filter = [verb, "interfaces", "interface", "in", "dscp-filter"];
        router.text(&[&filter, words].concat())
    };
    let drops = || router.json("dscp-filter").unwrap()["dscp_filters"][0]["drop"].clone();
    edit("set", &["drop", "0"]);
    router.text(&["commit"]);
    assert_eq!(drops(), json!([0, 46]));
    edit("set", &["drop", "48"]);
    let refused = router.call(&["commit"]);
    assert!(!refused.status.success());
    assert!(text(&refused.stderr).contains("DSCP 48 (CS6)"), "{}", text(&refused.stderr));
    router.text(&["discard"]);
    edit("delete", &[]);
    router.text(&["commit"]);
    assert_eq!(drops(), Value::Null);
}

#[test]
fn wrong_values_are_refused_with_path_cause_and_fix() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stoa.json");
    let check = |drop: &[u8]| -> Value {
        std::fs::write(&file, config(folder.path(), drop)).unwrap();
        let output = program(&["check", "--json"]).arg(&file).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    assert_eq!(check(&[0, 63])["ok"], true);
    let path = "/ietf-interfaces:interfaces/interface[name='in']/dscp-filter:dscp-filter/drop";
    for (wrong, cause, fix) in [
        // By the YANG module, then by the plugin.
        (64, "64", "."),
        (48, "DSCP 48 (CS6) is that of routing protocols", "neighbours would be lost"),
    ] {
        let answer = check(&[wrong]);
        let error = &answer["errors"][0];
        let has =
            |member: &str, text: &str| error[member].as_str().is_some_and(|it| it.contains(text));
        let is_reported = has("path", path) && has("cause", cause) && has("fix", fix);
        assert!(is_reported && answer["ok"] == false, "{answer}");
    }
}

#[test]
fn everything_else_is_stoa() {
    let help = text(&program(&["show", "--help"]).output().unwrap().stdout);
    assert!(help.contains("dscp-filter") && help.contains("route-sources"), "{help}");
    let script = text(&program(&["completions", "bash"]).output().unwrap().stdout);
    assert!(script.contains("dscp-filter"));
}
