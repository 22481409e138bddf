//! Host interfaces: programs in a namespace of the router communicate through it, untagged and in a VLAN, and their
//! connections survive a kill of the forwarder.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stoa_lab::{
    Command, Configuration, Namespace, Result, Router, Tag, Tool, Topology, stoa_binary, wait_until,
};
use stoa_scenarios::{Scenario, tcpdump, two_sides};

/// A router with a host interface of each interface in a namespace for local programs.
fn begin() -> Result<(Scenario, Namespace)> {
    let sides = two_sides(&[Tag::customer(100)])?;
    let topology = Topology::new(&sides)?;
    let local = Namespace::new("local")?;
    let mut configuration = Configuration::new(&sides).json();
    let list = configuration["ietf-interfaces:interfaces"]["interface"].as_array_mut();
    for interface in list.into_iter().flatten() {
        interface["stoa-host-interface:host-interface"] = json!({ "netns": local.name() });
    }
    let router = Router::start(&stoa_binary()?, Some(topology.router()), &configuration)?;
    router.wait_up(&["host-a", "host-b"])?;
    wait_until("the host interfaces have their addresses", Duration::from_secs(20), || {
        let shown = local.ip(&["addr", "show"]).map_err(|error| error.to_string())?;
        let expected = ["198.18.1.1/24", "198.18.2.1/24", "2001:db8:1::1/64", "2001:db8:2::1/64"];
        if expected.iter().all(|address| shown.contains(address)) { Ok(()) } else { Err(shown) }
    })?;
    Ok((Scenario { router, topology }, local))
}

fn ping(from: &Namespace, to: &str) -> Result<()> {
    let arguments = ["-n", "-c", "3", "-i", "0.2", "-W", "3", to];
    let output =
        from.command(Tool::PING)?.args(arguments).deadline(Duration::from_secs(30)).run()?;
    assert!(output.success(), "{to}: {}", output.stdout);
    Ok(())
}

const SERVER: &str = "
import socket, threading
def serve(one):
    while True:
        got = one.recv(4096)
        if not got: return
        one.sendall(got)
server = socket.create_server(('::', 7000), family=socket.AF_INET6, dualstack_ipv6=True)
print('listening', flush=True)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
";

const CLIENT: &str = "
import socket, sys, time
one = socket.create_connection((sys.argv[1], 7000), timeout=15)
for number in range(int(sys.argv[2])):
    one.sendall(b'x')
    assert one.recv(1) == b'x'
    print('echo', number, flush=True)
    time.sleep(0.05)
print('done')
";

#[test]
fn programs_of_the_router_communicate_through_it() -> Result<()> {
    let (scenario, local) = begin()?;
    let shown = scenario.router.show("interfaces")?.to_string();
    assert!(shown.contains("host-a up") && !shown.contains("refused by Linux"), "{shown}");
    for to in ["198.18.1.2", "198.18.2.2", "2001:db8:1::2", "2001:db8:2::2"] {
        ping(&local, to)?;
    }
    let server = local.command(Tool::PYTHON)?.args(["-c", SERVER]).spawn()?;
    server.wait_for("listening", Duration::from_secs(10))?;
    for (host, addresses) in
        [("host-a", ["198.18.1.1", "2001:db8:1::1"]), ("host-b", ["198.18.2.1", "2001:db8:2::1"])]
    {
        let host = scenario.host(host);
        for address in addresses {
            ping(host.namespace(), address)?;
            let client = host.command(Tool::PYTHON)?.args(["-c", CLIENT, address, "3"]);
            let output = client.deadline(Duration::from_secs(30)).run()?;
            assert!(output.stdout.contains("done"), "{address}: {}", output.stderr);
        }
    }
    let iperf = local.command(Tool::IPERF3)?.args(["-s", "-1", "--forceflush"]).spawn()?;
    iperf.wait_for("listening", Duration::from_secs(10))?;
    let client =
        scenario.host("host-a").command(Tool::IPERF3)?.args(["-c", "198.18.1.1", "-t", "1"]);
    let output = client.deadline(Duration::from_secs(30)).run()?;
    assert!(output.success(), "{}", output.stdout);
    println!("{}", output.stdout);
    // Forwarded packets do not reach Linux.
    scenario.hosts_reach_each_other()?;
    scenario.end()?;
    let left = local.ip(&["link", "show"])?;
    assert!(!left.contains("host-"), "the router removes the host interfaces: {left}");
    Ok(())
}

#[test]
fn a_connection_survives_the_forwarder() -> Result<()> {
    let (scenario, local) = begin()?;
    let server = local.command(Tool::PYTHON)?.args(["-c", SERVER]).spawn()?;
    server.wait_for("listening", Duration::from_secs(10))?;
    let host = scenario.host("host-b");
    let client = host.command(Tool::PYTHON)?.args(["-c", CLIENT, "198.18.2.1", "60"]).spawn()?;
    client.wait_for("echo 5\n", Duration::from_secs(10))?;
    let pid = scenario.router.status()?["forwarder_pid"].as_u64().unwrap_or(0);
    assert_ne!(pid, 0);
    Command::program("/bin/kill").args(["-KILL", &pid.to_string()]).run()?.ok()?;
    let killed = Instant::now();
    wait_until("the host interface forwards again", Duration::from_secs(20), || {
        let once = ["-n", "-c", "1", "-W", "0.2", "198.18.1.2"];
        let ping = local.command(Tool::PING).and_then(|ping| ping.args(once).run());
        let output = ping.map_err(|error| error.to_string())?;
        if output.success() { Ok(()) } else { Err(output.stdout) }
    })?;
    let silent = killed.elapsed().as_secs_f64();
    println!("the host interface is back {silent:.3} s after kill -9 of the forwarder");
    let (stdout, stderr, _) = client.finish(Duration::from_secs(30))?;
    assert!(stdout.contains("done"), "{stdout}\n{stderr}");
    ping(&local, "198.18.1.2")?;
    scenario.end()
}

/// Carrier changes of the devices of the host interfaces.
fn carrier_changes(local: &Namespace) -> Result<Vec<(String, u64)>> {
    let shown = local.ip(&["-s", "-s", "-j", "link", "show"])?;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    let host_interfaces = shown.as_array().into_iter().flatten().filter_map(|link| {
        let name = link["ifname"].as_str().filter(|name| name.starts_with("host-"))?;
        Some((name.to_owned(), link["stats64"]["tx"]["carrier_changes"].as_u64()?))
    });
    Ok(host_interfaces.collect())
}

#[test]
fn the_carrier_survives_the_forwarder() -> Result<()> {
    let (scenario, local) = begin()?;
    wait_until(
        "the controller holds a queue of each host interface",
        Duration::from_secs(20),
        || {
            let shown = local.ip(&["-d", "link", "show"]).map_err(|error| error.to_string())?;
            if shown.matches("numdisabled 1").count() == 3 { Ok(()) } else { Err(shown) }
        },
    )?;
    let before = carrier_changes(&local)?;
    assert_eq!(before.len(), 3, "{before:?}");
    let pid = |status: &Value| status["forwarder_pid"].as_u64().unwrap_or(0);
    let first = pid(&scenario.router.status()?);
    Command::program("/bin/kill").args(["-KILL", &first.to_string()]).run()?.ok()?;
    wait_until("another forwarder has the host interfaces", Duration::from_secs(20), || {
        let status = scenario.router.status().map_err(|error| error.to_string())?;
        let is_new = pid(&status) != first && status["in_sync"] == true;
        if is_new { Ok(()) } else { Err(status.to_string()) }
    })?;
    scenario.router.wait_up(&["host-a", "host-b"])?;
    ping(&local, "198.18.1.2")?;
    assert_eq!(carrier_changes(&local)?, before, "the carrier did not change");
    // A link that goes down is still reported.
    scenario.host("host-a").namespace().ip(&["link", "set", "eth0", "down"])?;
    wait_until("the host interface lost its carrier", Duration::from_secs(10), || {
        let shown = local.ip(&["link", "show", "host-a"]).map_err(|error| error.to_string())?;
        if shown.contains("NO-CARRIER") { Ok(()) } else { Err(shown) }
    })?;
    scenario.host("host-a").namespace().ip(&["link", "set", "eth0", "up"])?;
    scenario.end()
}

const RECEIVE: &str = "
import socket, struct, sys
one = socket.socket(socket.AF_INET, socket.SOCK_RAW, 89)
one.settimeout(15)
member = socket.inet_aton('224.0.0.5') + socket.inet_aton(sys.argv[1])
one.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
print('listening', flush=True)
packet, sender = one.recvfrom(2000)
print('received', packet[20:].decode(), 'from', sender[0])
";

const SEND: &str = "
import socket, sys
one = socket.socket(socket.AF_INET, socket.SOCK_RAW, 89)
one.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
one.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(sys.argv[1]))
one.sendto(b'hello', ('224.0.0.5', 0))
";

#[test]
fn hellos_of_routing_daemons_pass_both_ways() -> Result<()> {
    let (scenario, local) = begin()?;
    for (host, number) in [("host-a", 1), ("host-b", 2)] {
        let host = scenario.host(host).namespace();
        let (ours, theirs) = (format!("198.18.{number}.1"), format!("198.18.{number}.2"));
        let ends = [(host, theirs.as_str()), (&local, ours.as_str())];
        for ((from, sender), (to, listener)) in [(ends[0], ends[1]), (ends[1], ends[0])] {
            let receiver = to.command(Tool::PYTHON)?.args(["-c", RECEIVE, listener]).spawn()?;
            receiver.wait_for("listening", Duration::from_secs(10))?;
            from.command(Tool::PYTHON)?.args(["-c", SEND, sender]).run()?.ok()?;
            let (stdout, stderr, _) = receiver.finish(Duration::from_secs(20))?;
            assert!(stdout.contains(&format!("received hello from {sender}")), "{stdout}{stderr}");
        }
    }
    scenario.end()
}

#[test]
fn tcpdump_on_the_host_interface_sees_what_is_for_the_router() -> Result<()> {
    let (scenario, local) = begin()?;
    let arguments = ["-n", "-l", "-i", "host-a", "-c", "2", "icmp"];
    let dump = tcpdump(&local, &arguments)?;
    scenario.hosts_reach_each_other()?;
    ping(scenario.host("host-a").namespace(), "198.18.1.1")?;
    let (stdout, _, _) = dump.finish(Duration::from_secs(10))?;
    assert!(stdout.contains("198.18.1.2 > 198.18.1.1: ICMP echo request"), "{stdout}");
    assert!(!stdout.contains("198.18.2.2"), "forwarded packets are not visible: {stdout}");
    scenario.end()
}
