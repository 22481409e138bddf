//! The whole router as an operator runs it, with ports in memory: no privilege, no packets on a wire.

mod privileges;
mod state_folder;

use serde_json::Value;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(30);

/// A router with its own folder; it ends with the test.
struct Router {
    folder: tempfile::TempDir,
    child: Child,
}

impl Router {
    /// Starts a router and waits until it has applied its configuration.
    fn start(config: &str) -> Router {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("stoa.json"), config).unwrap();
        let child = run(&folder);
        let router = Router { folder, child };
        router.wait("the router is in sync", |status| status["in_sync"] == true);
        router
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn call(&self, arguments: &[&str]) -> Output {
        stoa(&self.path("stoa.sock"), arguments).output().unwrap()
    }

    fn show(&self, what: &str) -> Value {
        let output = self.call(&["show", what, "--json"]);
        assert!(output.status.success(), "{}", err(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn reload(&self, config: &str) -> Output {
        std::fs::write(self.path("stoa.json"), config).unwrap();
        self.call(&["reload"])
    }

    fn prefixes(&self) -> Vec<String> {
        let routes = self.show("routes");
        let routes = routes["routes"].as_array().unwrap().clone();
        routes.iter().map(|route| route["prefix"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits for a status that fits, and returns it.
    fn wait(&self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        while begun.elapsed() < DEADLINE {
            let output = self.call(&["status", "--json"]);
            if let Ok(status) = serde_json::from_slice::<Value>(&output.stdout)
                && fits(&status)
            {
                return status;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let log = std::fs::read_to_string(self.path("log")).unwrap_or_default();
        panic!("timeout: {what}\n{log}");
    }

    fn signal(&self, pid: u64, signal: &str) {
        let done = Command::new("/bin/kill").args([signal, &pid.to_string()]).status().unwrap();
        assert!(done.success());
    }

    /// Stops it with SIGTERM.
    fn end(mut self) {
        self.signal(u64::from(self.child.id()), "-TERM");
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
        for left in ["stoa.sock", "forwarder.sock", "stoa.sock.lock", "stoa.sock.running"] {
            assert!(!self.path(left).exists(), "{left} is left behind");
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

/// `stoa run` with the configuration in this folder.
fn run(folder: &tempfile::TempDir) -> Child {
    let path = |name: &str| folder.path().join(name);
    let log = std::fs::File::create(path("log")).unwrap();
    stoa(&path("stoa.sock"), &["run"])
        .arg("--config")
        .arg(path("stoa.json"))
        .stderr(log)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn stoa(socket: &std::path::Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stoa"));
    command.args(arguments).arg("--socket").arg(socket).stdin(Stdio::null());
    command
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A generator and a null port; `address` is that of the null port.
fn config(address: &str, workers: u32) -> String {
    let interface = |name: &str, port: &str, address: &str| {
        format!(
            r#"{{"name": "{name}", "type": "iana-if-type:ethernetCsmacd",
                 "stoa-interfaces:port": {port},
                 "ietf-ip:ipv4": {{"forwarding": true,
                   "address": [{{"ip": "{address}", "prefix-length": 24}}]}}}}"#
        )
    };
    let generator = r#"{"generator": {"source": "10.1.0.2", "destination": "10.1.0.1",
                        "count": "100", "rate": "10000"}}"#;
    format!(
        r#"{{"stoa-system:system": {{"workers": {{"count": {workers}, "buffers": 8192}}}},
            "ietf-interfaces:interfaces": {{"interface": [{}, {}]}}}}"#,
        interface("gen", generator, "10.1.0.1"),
        interface("sink", r#"{"null": {}}"#, address),
    )
}

#[test]
fn it_runs_reloads_and_ends() {
    let router = Router::start(&config("10.2.0.1", 1));
    let status = router.wait("a status", |_| true);
    assert_eq!(status["configuration"], router.path("stoa.json").display().to_string());
    for what in "interfaces neighbors bfd vrrp nodes drops workers conservation audit".split(' ') {
        assert!(router.show(what).is_object(), "{what}");
        let table = router.call(&["show", what]);
        assert!(table.status.success() && !table.stdout.is_empty(), "{what}: {}", err(&table));
    }
    assert_eq!(router.show("audit")["tables"][0]["table"], "routes");
    assert_eq!(router.prefixes(), ["10.1.0.0/24", "10.1.0.1/32", "10.2.0.0/24", "10.2.0.1/32"]);

    assert!(router.reload(&config("10.3.0.1", 1)).status.success());
    assert!(router.prefixes().contains(&"10.3.0.0/24".to_owned()));
    let before = router.prefixes();
    for (bad, word) in [
        (config("10.1.0.9", 1), "10.1.0.0/24"),
        (config("10.4.0.1", 2), "workers"),
        ("{".to_owned(), "not JSON"),
    ] {
        let output = router.reload(&bad);
        assert_eq!(output.status.code(), Some(1));
        assert!(err(&output).contains(word), "{word} in {}", err(&output));
        assert!(err(&output).contains("unchanged"));
        assert_eq!(router.prefixes(), before);
    }

    std::fs::write(router.path("stoa.json"), config("10.5.0.1", 1)).unwrap();
    router.signal(u64::from(router.child.id()), "-HUP");
    let begun = Instant::now();
    while !router.prefixes().contains(&"10.5.0.0/24".to_owned()) {
        assert!(begun.elapsed() < DEADLINE, "SIGHUP reloads");
        std::thread::sleep(Duration::from_millis(20));
    }

    let watch = &["show", "interfaces", "--watch"];
    let mut watch = stoa(&router.path("stoa.sock"), watch).stdout(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 4];
    watch.stdout.take().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(&first, b"--- ", "no terminal, no escapes: a line with the time");
    watch.kill().unwrap();
    watch.wait().unwrap();

    let again = router.call(&["run", "--config", &router.path("stoa.json").display().to_string()]);
    assert_eq!(again.status.code(), Some(1));
    assert!(err(&again).contains(&router.child.id().to_string()), "{}", err(&again));
    router.end();
}

#[test]
fn state_is_available_as_yang_data_and_as_metrics() {
    let router = Router::start(&config("10.2.0.1", 1));
    let state = |path: &str| {
        let output = router.call(&["show", "state", path, "--json"]);
        let value = serde_json::from_slice::<Value>(&output.stdout);
        value.unwrap_or_else(|_| panic!("{path}: {}", err(&output)))
    };
    let list = state("/ietf-interfaces:interfaces");
    let list = list["ietf-interfaces:interfaces"]["interface"].as_array().unwrap().clone();
    let names: Vec<&str> = list.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["gen", "sink"]);
    let begun = Instant::now();
    let packets =
        "/ietf-interfaces:interfaces/interface[name='gen']/statistics/stoa-interfaces:in-pkts";
    while state(packets)["stoa-interfaces:in-pkts"] != "100" {
        assert!(begun.elapsed() < DEADLINE, "100 packets arrive");
    }
    let rib = state("/ietf-routing:routing/ribs/rib[name='ipv4-default']");
    let rib = &rib["ietf-routing:rib"][0];
    assert_eq!(rib["routes"]["route"].as_array().unwrap().len(), 4, "{rib}");
    assert_eq!(rib["stoa-routing:route-counts"]["protocol"][0]["routes"], "4", "{rib}");
    let few = router.call(&["show", "state", "/ietf-routing:routing/ribs", "--routes", "1"]);
    assert!(String::from_utf8_lossy(&few.stdout).contains(r#""stoa-routing:routes-omitted": "3""#));
    let all = state("/");
    assert_eq!(all["stoa-forwarder:forwarder"]["in-sync"], true);
    assert!(all["stoa-forwarder:forwarder"]["started"].as_str().unwrap() > "2026");
    for wrong in ["/nowhere", "/ietf-interfaces:interfaces/interface[name='none']/oper-status"] {
        let output = router.call(&["show", "state", wrong]);
        assert!(err(&output).contains("there is no state at"), "{}", err(&output));
    }

    let output = router.call(&["show", "metrics"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for line in [
        r#"stoa_interface_receive_packets_total{interface="gen"} 100"#,
        r#"stoa_routes{vrf="default",family="ipv4",protocol="direct"} 4.0"#,
        "stoa_forwarder_up 1.0",
        "# EOF",
    ] {
        assert!(text.lines().any(|it| it == line), "{line} is missing in\n{text}");
    }
    assert!(text.contains(r#"stoa_process_resident_memory_bytes{process="forwarder"}"#), "{text}");
    router.end();
}

/// The supervisor notifies systemd when the configuration is applied, behind the memory of flows, and when it stops.
#[test]
fn systemd_is_notified() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("stoa.json"), config("10.2.0.1", 1)).unwrap();
    let socket = std::os::unix::net::UnixDatagram::bind(path("notify")).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut child = stoa(&path("stoa.sock"), &["run"])
        .arg("--config")
        .arg(path("stoa.json"))
        .env("NOTIFY_SOCKET", path("notify"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let receive = || {
        let mut bytes = [0; 256];
        let length = socket.recv(&mut bytes).expect("a notification");
        String::from_utf8_lossy(&bytes[..length]).trim_end().to_owned()
    };
    while receive() != "READY=1" {}
    let status = stoa(&path("stoa.sock"), &["status", "--json"]).output().unwrap();
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["in_sync"], true);
    let pid = child.id().to_string();
    assert!(Command::new("/bin/kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(receive(), "STOPPING=1");
    assert!(child.wait().unwrap().success());
}

/// Controller and forwarder send messages to the syslog server as soon as a reload configures it.
#[test]
fn messages_go_to_a_syslog_server() {
    let router = Router::start(&config("10.2.0.1", 1));
    let server = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(DEADLINE)).unwrap();
    let port = server.local_addr().unwrap().port();
    let logging = format!(
        r#""stoa-logging:logging": {{"syslog": [{{"name": "here", "facility": "local4",
           "udp": {{"address": "127.0.0.1", "port": {port}}}}}]}}, "ietf-interfaces"#
    );
    let second = config("10.3.0.1", 1).replace("\"ietf-interfaces", &logging);
    let output = router.reload(&second);
    assert!(output.status.success(), "{}", err(&output));
    // The forwarder logs a new port.
    let third = second.replace("\"sink\"", "\"basin\"");
    let output = router.reload(&third);
    assert!(output.status.success(), "{}", err(&output));
    let mut received = String::new();
    let mut bytes = [0; 8192];
    let expected = [" stoa-controller ", " stoa-forwarder ", "[stoa@32473 port=\"basin\"]"];
    while !expected.iter().all(|word| received.contains(word)) {
        let length = server.recv(&mut bytes).unwrap_or_else(|_| panic!("only:\n{received}"));
        let message = std::str::from_utf8(&bytes[..length]).unwrap();
        // Facility local4, version 1.
        assert!(message.starts_with("<16") && message[4..].starts_with(">1 20"), "{message}");
        received = received + message + "\n";
    }
    router.end();
}

#[test]
fn a_killed_process_is_restarted() {
    let router = Router::start(&config("10.2.0.1", 1));
    assert!(router.reload(&config("10.6.0.1", 1)).status.success());
    for half in ["controller_pid", "forwarder_pid"] {
        let old =
            router.wait("a status", |status| status["in_sync"] == true)[half].as_u64().unwrap();
        router.signal(old, "-KILL");
        router.wait(half, |status| status["in_sync"] == true && status[half] != old);
        assert!(router.prefixes().contains(&"10.6.0.0/24".to_owned()), "after the reload");
    }
    router.end();
}

#[test]
fn after_a_killed_supervisor_a_new_one_can_start() {
    let mut router = Router::start(&config("10.2.0.1", 1));
    let status = router.wait("a status", |status| status["in_sync"] == true);
    router.child.kill().unwrap();
    router.child.wait().unwrap();
    let begun = Instant::now();
    for half in ["controller_pid", "forwarder_pid"] {
        while std::path::Path::new(&format!("/proc/{}", status[half])).exists() {
            assert!(begun.elapsed() < DEADLINE, "{half} runs without its supervisor");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    router.child = run(&router.folder);
    router.wait("a new one is in sync", |now| {
        now["in_sync"] == true && now["forwarder_pid"] != status["forwarder_pid"]
    });
    router.end();
}

#[test]
fn a_start_that_the_forwarder_refuses_reports_the_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stoa.json");
    let config = r#"{"ietf-interfaces:interfaces": {"interface": [{"name": "in",
        "type": "iana-if-type:ethernetCsmacd",
        "stoa-interfaces:port": {"pcap": {"input": "/nowhere/in.pcap"}}}]}}"#;
    std::fs::write(&file, config).unwrap();
    let socket = folder.path().join("stoa.sock");
    let output = stoa(&socket, &["run", "--config", &file.display().to_string()]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("/nowhere/in.pcap"), "{}", err(&output));
    assert!(err(&output).contains("fix:"), "{}", err(&output));
    assert!(!socket.exists());
}

#[test]
fn the_console_runs_lines() {
    let router = Router::start(&config("10.2.0.1", 1));
    let lines = "\
# a comment
show interfaces | match sink
configure
edit interfaces interface sink
set description \"to nowhere\"
top
show interfaces interface sink | set
show | compare
commit comment \"by hand\"
run show interfaces | count
exit
show history | match hand
";
    std::fs::write(router.path("lines"), lines).unwrap();
    let input = std::fs::File::open(router.path("lines")).unwrap();
    let done = stoa(&router.path("stoa.sock"), &["console"]).stdin(input).output().unwrap();
    assert!(done.status.success(), "{}", err(&done));
    let text = String::from_utf8_lossy(&done.stdout);
    for words in [
        "sink",
        "set interfaces interface sink description \"to nowhere\"",
        "+ interfaces interface sink description \"to nowhere\"",
        "Committed and saved as number 2: 1 change.",
        "lines\n",
        "by hand",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let saved = std::fs::read_to_string(router.path("stoa.json")).unwrap();
    assert!(saved.contains("to nowhere"));
    // The first line that fails ends the console with its error.
    std::fs::write(router.path("lines"), "configure\nset interfaces nothing\ncommit\n").unwrap();
    let input = std::fs::File::open(router.path("lines")).unwrap();
    let done = stoa(&router.path("stoa.sock"), &["console"]).stdin(input).output().unwrap();
    assert!(!done.status.success());
    assert!(err(&done).contains("there is no \"nothing\" after \"interfaces\""), "{}", err(&done));
    let done = router.call(&["set", "interfaces", "interface", "sink", "enabled", "perhaps"]);
    assert!(err(&done).contains("\"perhaps\" is neither true nor false"), "{}", err(&done));
    // A leaf-list, set by words, saved as lines of set and loaded again.
    for name in ["ann", "bob", "ann"] {
        let done = router.call(&["set", "nacm", "groups", "group", "noc", "user-name", name]);
        assert!(done.status.success(), "{}", err(&done));
    }
    let file = router.path("words").display().to_string();
    for words in [vec!["commit"], vec!["save", "--set", &file], vec!["load", &file]] {
        let done = router.call(&words);
        assert!(done.status.success(), "{words:?}: {}", err(&done));
    }
    let saved = std::fs::read_to_string(&file).unwrap();
    assert_eq!(saved.matches("set nacm groups group noc user-name").count(), 2, "{saved}");
}
