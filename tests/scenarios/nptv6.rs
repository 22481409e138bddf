//! NPTv6 with the tools that people use: what hosts outside see of those inside, and that they reach them.

use std::time::Duration;

use serde_json::{Value, json};
use stoa_lab::measure::{Load, iperf, ping};
use stoa_lab::{Configuration, Host, Result, Router, Tool, Topology, stoa_binary, wait_until};
use stoa_scenarios::{Scenario, side, tcpdump};

/// The external prefixes, and what host-a and host-c have of them.
const EXTERNAL: [&str; 2] = ["2001:db8:e1::/48", "2001:db8:e3::/48"];
const HOST_A: &str = "2001:db8:e1:ff1f::2";
const HOST_C: &str = "2001:db8:e3:ff1f::2";

/// host-a and host-c are inside, host-b outside.
fn begin(mtu: u32) -> Result<Scenario> {
    let sides = [side("host-a", 1)?, side("host-b", 2)?, side("host-c", 3)?];
    let topology = Topology::new(&sides)?;
    for external in EXTERNAL {
        let route = ["-6", "route", "add", external, "via", "2001:db8:2::1"];
        topology.host("host-b").namespace().ip(&route)?;
    }
    let mut made = Configuration::new(&sides);
    made.interface("host-b")["ietf-ip:ipv6"]["mtu"] = json!(mtu);
    let mut configuration = made.json();
    let pair = |internal: &str, external: &str| json!({ "internal-ipv6-prefix": internal, "external-ipv6-prefix": external });
    let policy = json!({
        "id": 1,
        "external-realm": { "external-interface": "host-b" },
        "nptv6-prefixes": [
            pair("2001:db8:1::/48", EXTERNAL[0]), pair("2001:db8:3::/48", EXTERNAL[1]),
        ],
    });
    let instance = json!({ "id": 6, "type": "ietf-nat:nptv6", "policy": [policy] });
    configuration["ietf-nat:nat"] = json!({ "instances": { "instance": [instance] } });
    let router = Router::start(&stoa_binary()?, Some(topology.router()), &configuration)?;
    router.wait_up(&["host-a", "host-b", "host-c"])?;
    Ok(Scenario { router, topology })
}

/// What a host sees while something happens, as tcpdump prints it.
fn dumped(host: &Host, doing: impl FnOnce() -> Result<()>) -> Result<String> {
    let dump = tcpdump(host.namespace(), &["-n", "-l", "-i", "any", "ip6"])?;
    doing()?;
    wait_until("tcpdump prints", Duration::from_secs(10), || {
        if dump.stdout().contains(HOST_A) { Ok(()) } else { Err(dump.log()) }
    })?;
    let (stdout, ..) = dump.stop()?;
    Ok(stdout)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

#[test]
fn a_prefix_stands_for_another_one() -> Result<()> {
    let scenario = begin(1500)?;
    let (inside, outside) = (scenario.host("host-a"), scenario.host("host-b"));
    let printed = dumped(outside, || {
        let pings = ping(inside, outside.address(true)?, 3, &[])?;
        assert!(pings.all(), "{pings:?}");
        Ok(())
    })?;
    assert!(!printed.contains("2001:db8:1:"), "an internal address is outside: {printed}");
    for load in [Load::Tcp, Load::Udp { bits_per_second: 5_000_000 }] {
        let rate = iperf(inside, outside, true, load, 1)?;
        assert!(rate.bits_per_second > 1e5, "{load:?}: {rate:?}");
    }
    // From outside, in fragments, too; and between hosts inside by external addresses.
    let external = HOST_A.parse().expect("an address");
    assert!(ping(outside, external, 2, &[])?.all());
    assert!(ping(outside, external, 2, &["-s", "4000"])?.all());
    assert!(ping(inside, HOST_C.parse().expect("an address"), 2, &[])?.all());
    let shown = scenario.router.show("nat")?;
    let pair = &shown["prefixes"][0];
    assert_eq!(pair["external"], EXTERNAL[0], "{shown}");
    assert!(number(&pair["out"]["packets"]) > 10 && number(&pair["in"]["packets"]) > 10, "{shown}");
    let state = scenario.router.json(&["show", "state", "/ietf-nat:nat"])?;
    let instance = &state["ietf-nat:nat"]["instances"]["instance"][0];
    let sent = instance["statistics"]["traffic-statistics"]["sent-packets"].as_str();
    assert!(sent.and_then(|it| it.parse().ok()) > Some(10_u64), "{state}");
    let metrics = scenario.router.call(&["show", "metrics"])?.stdout;
    assert!(metrics.contains("stoa_nptv6_translated_packets_total{instance=\"6\""), "{metrics}");
    let audit = scenario.router.show("audit")?.to_string();
    assert!(audit.contains("nptv6-prefixes"), "{audit}");
    scenario.end()
}

#[test]
fn icmp6_errors_cross_the_translation() -> Result<()> {
    let scenario = begin(1400)?;
    let (inside, to) = (scenario.host("host-a"), "2001:db8:2::2");
    let command = inside.command(Tool::TRACEPATH)?.args(["-6", "-n", "-m", "4", to]);
    let printed = command.deadline(Duration::from_secs(30)).run()?.stdout;
    assert!(printed.contains("pmtu 1400") && printed.contains("2001:db8:1::1"), "{printed}");
    assert!(printed.contains("Resume: pmtu 1400 hops 2"), "{printed}");
    // From outside, the host inside answers with its external address.
    let outside = scenario.host("host-b");
    let command =
        outside.command(Tool::TRACEROUTE)?.args(["-6", "-n", "-m", "4", "-q", "1", HOST_A]);
    let printed = command.deadline(Duration::from_secs(30)).run()?.stdout;
    let last = printed.lines().last().unwrap_or_default();
    assert!(last.contains(&format!("2  {HOST_A}")), "{printed}");
    scenario.end()
}
