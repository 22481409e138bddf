//! SIIT with the tools that people use: IPv4 clients reach a server with IPv6 alone, and it reaches IPv4 hosts.

use std::time::Duration;

use serde_json::{Value, json};
use stoa_lab::measure::ping;
use stoa_lab::{
    Background, Configuration, Host, NextHop, Result, Router, Scratch, Tool, Topology, stoa_binary,
    wait_until,
};
use stoa_scenarios::{PATIENT, Scenario, side};

use crate::nat64::clat::tayga;
use crate::nat64::{LARGE, PORT, echo, serve};

const PREFIX: &str = "2001:db8:46::/96";
/// host-a (2001:db8:1::2) as IPv4 hosts see it.
const SERVER: &str = "192.0.2.1";
/// host-b (198.18.2.2) as mapped hosts see it.
const CLIENT: &str = "2001:db8:46::c612:202";
/// A program behind tayga as IPv4 hosts see it.
const PROGRAM: &str = "192.0.2.4";

/// host-a has IPv6 alone and a mapping, host-b IPv4 alone.
fn begin(mtu: u32) -> Result<(Scenario, Background)> {
    let sides = [side("host-a", 1)?, side("host-b", 2)?];
    let topology = Topology::new(&sides)?;
    let [inside, outside] = ["host-a", "host-b"].map(|it| topology.host(it).namespace());
    inside.ip(&["-4", "addr", "flush", "scope", "global"])?;
    inside.ip(&["-6", "route", "replace", PREFIX, "via", "2001:db8:1::1"])?;
    outside.ip(&["-6", "addr", "flush", "scope", "global"])?;
    outside.ip(&["route", "replace", "192.0.2.0/24", "via", "198.18.2.1"])?;
    // tayga on host-a stands for a program with IPv4 alone.
    let clat = ("2001:db8:c1a7::/64", NextHop::Via("2001:db8:1::2"));
    let mut made = Configuration::new(&sides).route(clat.0, clat.1);
    made.interface("host-a").as_object_mut().and_then(|it| it.remove("ietf-ip:ipv4"));
    made.interface("host-b")["ietf-ip:ipv4"]["mtu"] = json!(mtu);
    let mut configuration = made.json();
    let policy = json!({
        "id": 1,
        "external-realm": { "external-interface": "host-b" },
        "nat64-prefixes": [{ "nat64-prefix": PREFIX }],
        "eam": [
            { "ipv4-prefix": format!("{SERVER}/32"), "ipv6-prefix": "2001:db8:1::2/128" },
            { "ipv4-prefix": format!("{PROGRAM}/32"), "ipv6-prefix": "2001:db8:c1a7::4/128" },
        ],
    });
    let instance = json!({ "id": 46, "type": "ietf-nat:siit", "policy": [policy] });
    configuration["ietf-nat:nat"] = json!({ "instances": { "instance": [instance] } });
    let router = Router::start(&stoa_binary()?, Some(topology.router()), &configuration)?;
    router.wait_up(&["host-a", "host-b"])?;
    let server = serve(topology.host("host-a"), true)?;
    Ok((Scenario { router, topology }, server))
}

/// What curl prints on a host with IPv4.
fn curl(host: &Host, path: &str, more: &[&str]) -> Result<String> {
    let url = format!("http://{SERVER}:{PORT}{path}");
    let arguments = ["-sS", "-4", "--max-time", "60", "--noproxy", "*"];
    let command = host.command(Tool::CURL)?.args(arguments).args(more.iter().copied());
    Ok(command.args([&url]).deadline(Duration::from_secs(70)).run()?.ok()?.stdout)
}

/// Bits per second of TCP from one host to an address of the other one.
fn iperf(scenario: &Scenario, (from, to, address): (&str, &str, &str)) -> Result<f64> {
    let server = scenario.host(to).command(Tool::IPERF3)?.args(["-s", "--forceflush"]).spawn()?;
    server.wait_for("Server listening", Duration::from_secs(20))?;
    let arguments = ["-c", address, "-t", "2", "-J"];
    let command = scenario.host(from).command(Tool::IPERF3)?.args(arguments);
    let printed = command.deadline(Duration::from_secs(40)).run()?.ok()?.stdout;
    let seen: Value = serde_json::from_str(&printed).unwrap_or_default();
    Ok(seen["end"]["sum_received"]["bits_per_second"].as_f64().unwrap_or(0.0))
}

#[test]
fn an_ip4_client_reaches_a_server_with_ip6_alone() -> Result<()> {
    let (scenario, _server) = begin(1500)?;
    let outside = scenario.host("host-b");
    let pings = ping(outside, SERVER.parse().expect("an address"), 3, &[])?;
    assert!(pings.all(), "{pings:?}");
    let seen = curl(outside, "/", &[])?;
    assert!(seen.starts_with(&format!("{CLIENT} ")), "{seen}");
    let size = curl(outside, "/large", &["-o", "/dev/null", "-w", "%{size_download}"])?;
    assert_eq!(size, LARGE.to_string());
    for bytes in [100, 1400, 3000] {
        echo(outside, SERVER, bytes)?;
    }
    assert!(iperf(&scenario, ("host-b", "host-a", SERVER))? > 0.0);
    let shown = scenario.router.show("nat")?;
    let policy = &shown["stateless"][0];
    assert_eq!((&policy["prefix"], &policy["mappings"]), (&json!(PREFIX), &json!(2)), "{shown}");
    assert!(policy["in"]["packets"].as_u64() > Some(100), "{shown}");
    scenario.end()
}

#[test]
fn a_mapped_host_reaches_ip4_hosts() -> Result<()> {
    let (scenario, _server) = begin(1500)?;
    let pings = ping(scenario.host("host-a"), CLIENT.parse().expect("an address"), 3, &[])?;
    assert!(pings.all(), "{pings:?}");
    assert!(iperf(&scenario, ("host-a", "host-b", CLIENT))? > 0.0);
    scenario.end()
}

#[test]
fn traceroute_and_path_mtu_discovery_work_across() -> Result<()> {
    let (scenario, _server) = begin(1400)?;
    for (host, family, address, router, mtu) in [
        // 1,400 bytes of IPv4 are 1,420 of IPv6, and 1,500 of IPv6 1,480 of IPv4.
        ("host-a", "-6", CLIENT, "2001:db8:1::1", "pmtu 1420"),
        ("host-b", "-4", SERVER, "198.18.2.1", "pmtu 1480"),
    ] {
        let host = scenario.host(host);
        let arguments = [family, "-n", "-m", "4", "-q", "1", address];
        let command = host.command(Tool::TRACEROUTE)?.args(arguments);
        let printed = command.deadline(Duration::from_secs(30)).run()?.stdout;
        let hops: Vec<&str> = printed.lines().skip(1).collect();
        let [first, last] = hops.as_slice() else { panic!("{printed}") };
        assert!(first.contains(router) && last.contains(address), "{printed}");
        let command = host.command(Tool::TRACEPATH)?.args([family, "-n", "-m", "4", address]);
        let printed = command.deadline(Duration::from_secs(30)).run()?.stdout;
        assert!(printed.contains(&format!("Resume: {mtu} hops 2")), "{printed}");
    }
    let size =
        curl(scenario.host("host-b"), "/large", &["-o", "/dev/null", "-w", "%{size_download}"])?;
    assert_eq!(size, LARGE.to_string());
    scenario.end()
}

/// Two translators without state, tayga and Stoa: IPv4 at both ends, and each end begins.
#[test]
fn tayga_is_the_other_translator() -> Result<()> {
    let (scenario, _server) = begin(1500)?;
    let (inside, outside) = (scenario.host("host-a"), scenario.host("host-b"));
    let scratch = Scratch::new()?;
    let _tayga = tayga(inside, &scratch, PREFIX)?;
    let client = "198.18.2.2".parse().expect("an address");
    // tayga loses packets until it is ready.
    wait_until("tayga translates", Duration::from_secs(20), || {
        match ping(inside, client, 1, &["-W", "1"]) {
            Ok(pings) if pings.all() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })?;
    let pings = ping(inside, client, 3, PATIENT)?;
    assert!(pings.all(), "{pings:?}");
    let pings = ping(outside, PROGRAM.parse().expect("an address"), 3, PATIENT)?;
    assert!(pings.all(), "{pings:?}");
    assert!(iperf(&scenario, ("host-a", "host-b", "198.18.2.2"))? > 0.0);
    assert!(iperf(&scenario, ("host-b", "host-a", PROGRAM))? > 0.0);
    scenario.end()
}
