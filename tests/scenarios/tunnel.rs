//! Tunnels between two routers: host-a, a router, the underlay, another router, host-b. Each kind of tunnel carries
//! both families; tshark checks the encapsulation on the underlay.

use std::time::Duration;

use serde_json::{Value, json};
use stoa_lab::measure::{Load, iperf, ping};
use stoa_lab::{
    Address, Command, Configuration, NextHop, Result, Router, Scratch, Side, Tool, Topology,
    stoa_binary,
};
use stoa_scenarios::{Scenario, run_ping, two_sides};

const DEADLINE: Duration = Duration::from_secs(20);

/// The configuration of the router of side 0 or 1, with a tunnel over a memif link, the underlay.
fn end(side: &Side, which: usize, kind: (&str, bool), socket: &str) -> Result<Value> {
    let (encapsulation, outer_is_ip4) = kind;
    let outer = |end: usize| {
        if outer_is_ip4 {
            format!("192.0.2.{}", end + 1)
        } else {
            format!("2001:db8:9::{}", end + 1)
        }
    };
    let role = ["master", "slave"][which];
    let inner = |end: usize| (format!("10.9.0.{}", end + 1), format!("2001:db8:a::{}", end + 1));
    let length = if outer_is_ip4 { 24 } else { 64 };
    let address =
        |text: String, length: u8| -> Result<Address> { format!("{text}/{length}").parse() };
    let tunnel = json!({ "encapsulation": encapsulation, "local": outer(which), "remote": outer(1 - which) });
    let own = inner(which);
    let mut made = Configuration::new(std::slice::from_ref(side))
        .port("underlay", json!({ "memif": { "socket": socket, "role": role } }))
        .addresses("underlay", &[address(outer(which), length)?])
        .port("tun", json!({ "tunnel": tunnel }))
        .addresses("tun", &[address(own.0, 30)?, address(own.1, 64)?]);
    made.interface("tun")["type"] = json!("iana-if-type:tunnel");
    // One route by the other end's inner address, one by the interface.
    let far = 2 - which;
    let made = made
        .route(&format!("198.18.{far}.0/24"), NextHop::Via(&inner(1 - which).0))
        .route(&format!("2001:db8:{far}::/64"), NextHop::Link("tun"));
    Ok(made.json())
}

/// The protocols of each captured packet, by tshark.
fn protocols(file: &str) -> Result<String> {
    let fields = ["-T", "fields", "-e", "frame.protocols"];
    Ok(Command::tool(Tool::TSHARK)?.args(["-n", "-r", file]).args(fields).run()?.ok()?.stdout)
}

fn scenario(kind: (&str, bool)) -> Result<()> {
    let sides = two_sides(&[])?;
    let topology = Topology::new(&sides)?;
    let scratch = Scratch::new()?;
    let socket = scratch.file("underlay.sock").to_string_lossy().into_owned();
    let binary = stoa_binary()?;
    let start = |which: usize| {
        Router::start(&binary, Some(topology.router()), &end(&sides[which], which, kind, &socket)?)
    };
    let (first, second) = (start(0)?, start(1)?);
    first.wait_up(&["host-a", "underlay", "tun"])?;
    second.wait_up(&["host-b", "underlay", "tun"])?;
    let scenario = Scenario { router: first, topology };
    let file = scratch.file("underlay.pcapng").to_string_lossy().into_owned();
    let own_socket = scenario.router.socket().to_string_lossy().into_owned();
    let arguments = ["capture", "underlay", "--write", &file, "--socket", &own_socket];
    let capture = Command::program(&binary).args(arguments).spawn()?;
    capture.wait_for("Capturing", DEADLINE)?;
    scenario.hosts_reach_each_other()?;
    let (a, b) = (scenario.host("host-a"), scenario.host("host-b"));
    // A packet of exactly the MTU, and an oversized one.
    let overhead = if kind.1 { 20 } else { 40 } + if kind.0 == "gre" { 4 } else { 0 };
    let most = 1500 - overhead - 28;
    let size = most.to_string();
    assert!(ping(a, b.address(false)?, 2, &["-M", "do", "-s", &size])?.all());
    let (to, size) = (b.address(false)?.to_string(), (most + 1).to_string());
    let printed = run_ping(a, &["-c", "1", "-W", "2", "-M", "do", "-s", &size, &to])?;
    let mtu = format!("mtu = {}", most + 28);
    assert!(printed.stdout.contains(&mtu), "{}", printed.stdout);
    let (_, printed, status) = capture.stop()?;
    assert!(status.success(), "{printed}");
    let (outer, between) =
        (if kind.1 { "ip" } else { "ipv6" }, if kind.0 == "gre" { ":gre" } else { "" });
    let seen = protocols(&file)?;
    for inner in ["ip:icmp", "ipv6:icmpv6"] {
        let expected = format!("eth:ethertype:{outer}{between}:{inner}");
        assert!(seen.contains(&expected), "{expected} in {seen}");
    }
    // TCP in both families.
    for six in [false, true] {
        let rate = iperf(a, b, six, Load::Tcp, 1)?;
        assert!(rate.bits_per_second > 1e6, "{rate:?}");
    }
    let shown = scenario.router.call(&["show", "interfaces"])?.ok()?.stdout;
    assert!(shown.contains("tun"), "{shown}");
    scenario.router.wait_idle()?;
    second.wait_idle()?;
    second.stop()?;
    scenario.end()
}

#[test]
fn ip4_in_ip4_and_ip6_in_ip4() -> Result<()> {
    scenario(("ip", true))
}

#[test]
fn both_in_gre_over_ip4() -> Result<()> {
    scenario(("gre", true))
}

#[test]
fn both_in_ip6() -> Result<()> {
    scenario(("ip", false))
}

#[test]
fn both_in_gre_over_ip6() -> Result<()> {
    scenario(("gre", false))
}
