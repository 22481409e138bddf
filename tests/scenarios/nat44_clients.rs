//! What programs find out about NAT44: STUN (RFC 5780) about mapping, filtering, hairpinning and lifetime, mtr about
//! the path, wrk with many connections, a capture that tcpreplay sends again, and bulk data as Linux sends them.

use std::time::Duration;

use serde_json::json;
use stoa_lab::{Background, Host, Result, Tool, wait_until};
use stoa_scenarios::tcpdump;

use crate::nat44::{Lab, PORT, pool, seen_by};

/// The second address of the STUN server.
const OTHER: &str = "198.18.2.3";

/// A STUN server with two addresses and two ports (RFC 5780 section 3).
fn stun(lab: &Lab) -> Result<Background> {
    let (host, scratch) = (lab.host("host-b"), lab.router().scratch().path());
    host.namespace().ip(&["addr", "add", &format!("{OTHER}/24"), "dev", "eth0"])?;
    let own = host.address(false)?.to_string();
    let [pid, db] = ["turnserver.pid", "turnserver.db"].map(|name| scratch.join(name));
    let command = host.command(Tool::TURNSERVER)?;
    let command =
        command.args(["-n", "--stun-only", "--no-tls", "--no-dtls", "--no-tcp", "--no-cli"]);
    let command = command.args(["--log-file", "stdout", "-L", &own, "-L", OTHER]);
    let command = command.args(["--pidfile", &pid.display().to_string()]);
    let server = command.args(["--userdb", &db.display().to_string()]).spawn()?;
    wait_until("the STUN server answers from both addresses", Duration::from_secs(30), || {
        let printed = discover(lab, &["-m"]).map_err(|error| error.to_string())?;
        if printed.contains("RFC 5780 response 2") { Ok(()) } else { Err(printed) }
    })?;
    Ok(server)
}

/// What the client inside finds out.
fn discover(lab: &Lab, words: &[&str]) -> Result<String> {
    let command = lab.host("host-a").command(Tool::NATDISCOVERY)?.args(words).args(["198.18.2.2"]);
    Ok(command.deadline(Duration::from_secs(60)).run()?.ok()?.stdout)
}

fn begin(mapping: &str, filtering: &str) -> Result<Lab> {
    let mut policy = pool();
    policy["mapping-type"] = json!(mapping);
    policy["filtering-type"] = json!(filtering);
    Lab::begin(&policy, &[])
}

#[test]
fn stun_finds_mapping_and_filtering_as_configured() -> Result<()> {
    // A connection keeps its port if no other one has it, so that STUN finds this mapping for `edm`, too, as long as
    // nobody else has the port.
    let mapping = "Endpoint Independent Mapping!";
    for (kind, filtering, found) in [
        ("eim", "eif", "Endpoint Independent Filtering!"),
        ("eim", "adf", "NAT with Address Dependent Filtering!"),
        ("edm", "edf", "Address and Port Dependent Filtering!"),
    ] {
        let lab = begin(kind, filtering)?;
        let _server = stun(&lab)?;
        let printed = discover(&lab, &["-m", "-f"])?;
        assert!(printed.contains("UDP reflexive addr: 203.0.113."), "{printed}");
        assert!(!printed.contains("UDP reflexive addr: 198.18.1."), "{printed}");
        assert!(printed.contains(mapping), "{kind}: {printed}");
        assert!(printed.contains(found), "{kind}, {filtering}: {printed}");
        lab.scenario.end()?;
    }
    Ok(())
}

/// Sends a datagram from a port: host-c then has this port of the external address towards that end.
const TAKE: &str = "\
import socket, sys
it = socket.socket(type=socket.SOCK_DGRAM)
it.bind(('', int(sys.argv[1])))
it.sendto(b'x', (sys.argv[2], 3478))
";

#[test]
fn stun_finds_a_dependent_mapping_where_another_host_has_the_port() -> Result<()> {
    // All hosts have one external address. With `eim`, the client has another port from the first packet on.
    for (kind, found) in [("edm", " Dependent Mapping!"), ("eim", "Endpoint Independent Mapping!")]
    {
        let mut policy = pool();
        policy["external-ip-address-pool"][0]["external-ip-pool"] = json!("203.0.113.16/32");
        policy["mapping-type"] = json!(kind);
        let lab = Lab::begin(&policy, &[])?;
        let _server = stun(&lab)?;
        let command = lab.host("host-c").command(Tool::PYTHON)?;
        command.args(["-c", TAKE, "41000", OTHER]).run()?.ok()?;
        let printed = discover(&lab, &["-m", "-L", "198.18.1.2", "-l", "41000"])?;
        assert!(printed.contains(found), "{kind}: {printed}");
        let flows = lab.router().json(&["show", "flows", "--address", "198.18.1.2", "--json"])?;
        let flows = flows["flows"].as_array().cloned().unwrap_or_default();
        let from_port = flows.iter().filter(|it| it["source_port"] == 41_000);
        let ports: std::collections::BTreeSet<_> =
            from_port.filter_map(|it| it["translated_source_port"].as_u64()).collect();
        assert_eq!(ports.len(), if kind == "edm" { 2 } else { 1 }, "{kind}: {flows:?}");
        lab.scenario.end()?;
    }
    Ok(())
}

#[test]
fn stun_finds_hairpinning_and_the_lifetime_of_a_mapping() -> Result<()> {
    let lab = begin("eim", "eif")?;
    let _server = stun(&lab)?;
    let printed = discover(&lab, &["-H"])?;
    assert!(printed.contains("successful hairpinning"), "{printed}");
    // Mappings of UDP live for minutes (RFC 4787 section 4.3).
    let printed = discover(&lab, &["-t", "-T", "3"])?;
    assert!(printed.contains("RFC 5780 response 2") && !printed.contains("timeout"), "{printed}");
    lab.scenario.end()
}

#[test]
fn mtr_sees_the_router_and_the_host_behind_it() -> Result<()> {
    let lab = begin("eim", "edf")?;
    let port = PORT.to_string();
    for more in [&[][..], &["--udp"], &["--tcp", "-P", &port]] {
        let words = [&["-n", "-r", "-c", "2", "-m", "5", "198.18.2.2"], more].concat();
        let command = lab.host("host-a").command(Tool::MTR)?.args(words);
        let printed = command.deadline(Duration::from_secs(60)).run()?.ok()?.stdout;
        let hops: Vec<&str> = printed
            .lines()
            .filter_map(|line| line.split("|--").nth(1)?.split_whitespace().next())
            .collect();
        assert_eq!(hops, ["198.18.1.1", "198.18.2.2"], "{more:?}: {printed}");
    }
    lab.scenario.end()
}

#[test]
fn wrk_has_no_error_with_a_connection_for_each_request() -> Result<()> {
    let lab = begin("edm", "edf")?;
    let url = format!("http://198.18.2.2:{PORT}/");
    // A host may have 4,096 flows here, and closed connections are flows for minutes: three seconds can make more.
    let words = ["-t", "1", "-c", "32", "-d", "1", "-H", "Connection: close", &url];
    let command = lab.host("host-a").command(Tool::WRK)?.args(words);
    let printed = command.deadline(Duration::from_secs(60)).run()?.ok()?.stdout;
    assert!(!printed.contains("Socket errors") && !printed.contains("Non-2xx"), "{printed}");
    let requests = printed.lines().find_map(|line| line.trim().split_once(" requests in "));
    let requests: u64 = requests.and_then(|(count, _)| count.parse().ok()).expect(&printed);
    let shown = lab.router().show("nat")?;
    assert!(
        shown["policies"][0]["created_flows"].as_u64() >= Some(requests),
        "{requests}: {shown}"
    );
    lab.scenario.end()
}

/// Writes TCP segments of one direction into a file.
fn capture(host: &Host, direction: &str, file: &str) -> Result<Background> {
    let words = ["--immediate-mode", "-U", "-i", "eth0", "-Q", direction, "-w", file, "tcp"];
    tcpdump(host.namespace(), &words)
}

/// What a file has once some text is in it.
fn captured(host: &Host, file: &str, until: &str) -> Result<String> {
    let mut printed = String::new();
    wait_until("tcpdump has written", Duration::from_secs(10), || {
        let command = host.command(Tool::TCPDUMP).map_err(|error| error.to_string())?;
        let read = command.args(["-n", "-r", file]).run().map_err(|error| error.to_string())?;
        printed = read.stdout;
        if printed.contains(until) { Ok(()) } else { Err(printed.clone()) }
    })?;
    Ok(printed)
}

/// The segments of a connection that has ended belong to none. They may be translated, and never leave as they are.
#[test]
fn a_connection_that_is_sent_again_leaks_no_inside_address() -> Result<()> {
    let lab = begin("eim", "edf")?;
    let (inside, outside) = (lab.host("host-a"), lab.host("host-b"));
    let scratch = lab.router().scratch().path();
    let file = |name: &str| scratch.join(name).display().to_string();
    let [sent, come] = [file("sent.pcap"), file("come.pcap")];
    let dump = capture(inside, "out", &sent)?;
    seen_by(inside, "198.18.2.2", PORT)?;
    captured(inside, &sent, "Flags [F")?;
    dump.stop()?;
    let dump = capture(outside, "in", &come)?;
    let words = ["-i", "eth0", "--topspeed", "--loop", "20", &sent];
    let printed = inside.command(Tool::TCPREPLAY)?.args(words).run()?.ok()?.stdout;
    assert!(printed.contains("Successful packets:"), "{printed}");
    let (address, port) = seen_by(inside, "198.18.2.2", PORT)?;
    let printed = captured(outside, &come, &format!("{address}.{port} > "))?;
    assert!(!printed.contains("198.18.1."), "{printed}");
    dump.stop()?;
    lab.scenario.end()
}

/// Returns what it gets, once it has all of it.
const ECHO: &str = "import socket\n\
    it = socket.create_server(('', 9100))\n\
    print('ready', flush=True)\n\
    it, _ = it.accept()\n\
    data = b''.join(iter(lambda: it.recv(1 << 20), b''))\n\
    it.sendall(data)\n\
    it.close()\n";

/// Sends 4 MiB, and says whether they come back.
const BULK: &str = "import random, socket\n\
    it = socket.create_connection(('198.18.2.2', 9100), 20)\n\
    data = random.Random(7).randbytes(4 << 20)\n\
    it.sendall(data)\n\
    it.shutdown(socket.SHUT_WR)\n\
    back = b''.join(iter(lambda: it.recv(1 << 20), b''))\n\
    print('same' if back == data else 'other', len(back))\n";

/// Linux leaves segments and checksums of virtual devices to whoever receives them: many segments come as one, with a
/// checksum of the pseudo-header alone. They are translated all the same, in both directions.
#[test]
fn super_frames_with_partial_checksums_are_translated() -> Result<()> {
    let lab = begin("eim", "edf")?;
    let (inside, outside) = (lab.host("host-a"), lab.host("host-b"));
    let server = outside.command(Tool::PYTHON)?.args(["-c", ECHO]).spawn()?;
    server.wait_for("ready", Duration::from_secs(20))?;
    let file = lab.router().scratch().path().join("bulk.pcap").display().to_string();
    let words = ["--immediate-mode", "-U", "-i", "eth0", "-Q", "out", "-w", &file];
    let dump = tcpdump(inside.namespace(), &[&words[..], &["tcp"]].concat())?;
    let command = inside.command(Tool::PYTHON)?.args(["-c", BULK]);
    let printed = command.deadline(Duration::from_secs(60)).run()?.ok()?.stdout;
    assert_eq!(printed.trim(), "same 4194304");
    dump.stop()?;
    let command = inside.command(Tool::TCPDUMP)?.args(["-n", "-vv", "-r", &file]);
    let printed = command.run()?.ok()?.stdout;
    let lengths = printed.lines().filter_map(|line| line.rsplit_once("length ")?.1.parse().ok());
    assert!(lengths.max() > Some(1500), "{printed}");
    assert!(printed.contains("(incorrect -> "), "{printed}");
    lab.scenario.end()
}
