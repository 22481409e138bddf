//! Traces of packets, and captures for tcpdump and tshark: files, rings of files, streams.

use std::path::Path;
use std::time::Duration;

use stoa_lab::Background;
use stoa_lab::measure::ping;
use stoa_lab::{Command, Output, Result, Tool, wait_until};
use stoa_scenarios::{Scenario, two_sides};

const DEADLINE: Duration = Duration::from_secs(20);

/// Starts `stoa capture ARGUMENTS`.
fn capture(scenario: &Scenario, arguments: &[&str]) -> Result<Background> {
    let socket = scenario.router.socket().to_string_lossy().into_owned();
    let command = Command::program(scenario.router.binary()).args(["capture"]).args(arguments);
    let capture = command.args(["--socket", &socket]).spawn()?;
    capture.wait_for("Capturing", DEADLINE)?;
    Ok(capture)
}

/// Interface, direction, comment and ICMP type of each frame, by tshark.
fn tshark(file: &str) -> Result<String> {
    let fields =
        ["frame.interface_name", "frame.packet_flags_direction", "frame.comment", "icmp.type"];
    let fields = fields.iter().flat_map(|field| ["-e", field]);
    let command =
        Command::tool(Tool::TSHARK)?.args(["-n", "-r", file, "-T", "fields"]).args(fields);
    Ok(command.run()?.ok()?.stdout)
}

fn tcpdump(file: &str) -> Result<Output> {
    Command::tool(Tool::TCPDUMP)?.args(["-n", "-r", file]).run()?.ok()
}

#[test]
fn a_ping_is_traced_through_the_router() -> Result<()> {
    let scenario = Scenario::begin(&two_sides(&[])?)?;
    let hosts = scenario.topology.hosts();
    assert!(ping(&hosts[0], hosts[1].address(false)?, 1, &[])?.all());
    let wrong = scenario.router.call(&["trace", "add", "--match", "icmp and and"])?;
    assert!(!wrong.success() && wrong.stderr.contains("syntax error"), "{}", wrong.stderr);
    let add = ["trace", "add", "--interface", "host-a", "--match", "icmp", "--count", "2"];
    scenario.router.call(&add)?.ok()?;
    assert!(ping(&hosts[0], hosts[1].address(false)?, 3, &["-i", "0.1"])?.all());
    let shown = scenario.router.call(&["trace", "show", "--follow"])?.ok()?.stdout;
    for word in ["ethernet-input", "ip4-rewrite", "sent on host-b", "ICMP echo request", "TTL 63"] {
        assert!(shown.contains(word), "{word} in {shown}");
    }
    assert_eq!(shown.matches("Packet ").count(), 2, "{shown}");
    scenario
        .router
        .call(&["trace", "add", "--interface", "any", "--count", "1", "--match", "icmp"])?
        .ok()?;
    ping(&hosts[0], hosts[1].address(false)?, 1, &["-t", "1"])?;
    let shown = scenario.router.call(&["trace", "show", "--json"])?.ok()?.stdout;
    assert!(shown.contains("\"drop\":\"ip4-ttl-expired\""), "{shown}");
    assert!(shown.contains("answered by icmp4-error, sent on host-a"), "{shown}");
    scenario.router.call(&["trace", "clear"])?.ok()?;
    scenario.end()
}

#[test]
fn a_captured_file_is_read_by_tcpdump_and_tshark() -> Result<()> {
    let scenario = Scenario::begin(&two_sides(&[])?)?;
    let hosts = scenario.topology.hosts();
    let file = scenario.router.scratch().path().join("ping.pcapng").to_string_lossy().into_owned();
    let running = capture(&scenario, &["host-a", "icmp", "--write", &file, "--count", "4"])?;
    assert!(ping(&hosts[0], hosts[1].address(false)?, 2, &["-i", "0.1"])?.all());
    let (_, printed, ended_well) = running.finish(DEADLINE)?;
    assert!(ended_well && printed.contains("4 frames captured, 0 missed"), "{printed}");
    let one = "host-a\t0x00000001\t\t8\nhost-a\t0x00000002\t\t0\n";
    assert_eq!(tshark(&file)?, one.repeat(2));
    let read = tcpdump(&file)?.stdout;
    assert_eq!(read.matches("ICMP echo request").count(), 2, "{read}");
    scenario.end()
}

#[test]
fn drops_stream_into_tshark_with_their_reason() -> Result<()> {
    let scenario = Scenario::begin(&two_sides(&[])?)?;
    let host = scenario.host("host-a");
    let file = scenario.router.scratch().path().join("words").to_string_lossy().into_owned();
    let socket = scenario.router.socket().to_string_lossy().into_owned();
    let binary = scenario.router.binary().to_string_lossy().into_owned();
    let tshark = Tool::TSHARK.find()?.to_string_lossy().into_owned();
    let line = format!(
        "{binary} capture any --direction drop --filter icmp --count 2 --socket {socket} \
         | {tshark} -n -l -i - -T fields -e frame.comment > {file}"
    );
    let running = Command::program("sh").args(["-c", &line]).spawn()?;
    running.wait_for("Capturing", DEADLINE)?;
    ping(host, "192.0.2.1".parse().expect("an address"), 2, &["-i", "0.2"])?;
    let words = wait_until("tshark has read both drops", DEADLINE, || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        if text.lines().count() >= 2 { Ok(text) } else { Err(text) }
    })?;
    assert!(words.starts_with("dropped, ip4-no-route: no route to the destination"), "{words}");
    running.finish(DEADLINE)?;
    scenario.end()
}

#[test]
fn a_ring_of_files_keeps_the_newest() -> Result<()> {
    let scenario = Scenario::begin(&two_sides(&[])?)?;
    let hosts = scenario.topology.hosts();
    let folder = scenario.router.scratch().path().join("ring");
    std::fs::create_dir(&folder).expect("a folder");
    let file = folder.join("all.pcapng").to_string_lossy().into_owned();
    let arguments = ["any", "--write", &file, "--ring-size", "1", "--ring-files", "2"];
    let running = capture(&scenario, &arguments)?;
    let to = hosts[1].address(false)?;
    let names = || {
        let entries = std::fs::read_dir(&folder).expect("it is there");
        let path = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.expect("an entry").path().to_string_lossy().into_owned()
        };
        let mut names: Vec<_> = entries.map(path).collect();
        names.sort();
        names
    };
    // A ping has 2 x 2 frames of 1,442 bytes. A busy processor captures fewer of them.
    wait_until("five files were begun", Duration::from_secs(60), || {
        let pings = ping(&hosts[0], to, 300, &["-s", "1400", "-i", "0.001", "-q"]);
        pings.map_err(|error| error.to_string())?;
        let (names, fourth) = (names(), folder.join("all_00004.pcapng"));
        let is_there = names.last().is_some_and(|name| Path::new(name) > fourth.as_path());
        if is_there { Ok(()) } else { Err(format!("{names:?}")) }
    })?;
    let (_, printed, ended) = running.stop()?;
    drop((printed, ended));
    let names = names();
    assert_eq!(names.len(), 2, "{names:?}");
    for name in &names {
        assert!(tcpdump(name)?.stdout.contains("ICMP echo"), "{name}");
    }
    scenario.end()
}
