//! DPDK ports with devices that need no hardware: net_af_packet towards the hosts, net_memif towards testpmd. Ping and
//! TCP, refused configurations, a killed forwarder.

use std::net::IpAddr;
use std::time::Duration;

use serde_json::{Value, json};
use stoa_lab::measure::{Load, iperf, ping};
use stoa_lab::{
    Command, Configuration, Host, Result, Router, Side, Tag, Topology, stoa_binary, wait_until,
};
use stoa_scenarios::{Scenario, Testpmd, two_sides};

/// Whether Stoa was built with DPDK.
fn is_built() -> Result<bool> {
    let file = std::fs::read(stoa_binary()?).expect("the program exists");
    let found = file.windows(13).any(|bytes| bytes == b"librte_eal.so");
    if !found {
        eprintln!("SKIPPED: this build of Stoa is without DPDK (libdpdk-dev, then make build)");
    }
    Ok(found)
}

fn dpdk(device: &str) -> Value {
    json!({ "dpdk": { "device": device } })
}

/// The default configuration with DPDK's packet sockets on all sides, two queues and two workers.
fn over_packet_sockets(sides: &[Side]) -> Configuration {
    let mut made = Configuration::new(sides).workers(json!({ "count": 2 }));
    for (number, side) in sides.iter().enumerate() {
        let how = "qpairs=2,blocksz=65536,framecnt=512";
        let mut port = dpdk(&format!("net_af_packet{number},iface={},{how}", side.label));
        port["rx-queues"] = json!(2);
        made.interface(&side.label)["stoa-interfaces:port"] = port;
    }
    made
}

fn detail(router: &Router, label: &str) -> Result<String> {
    let shown = router.show("interfaces")?;
    let list = shown["interfaces"].as_array().cloned().unwrap_or_default();
    let one = list.iter().find(|one| one["name"] == label).cloned().unwrap_or_default();
    Ok(format!("{} {}", one["driver"], one["detail"]))
}

#[test]
fn hosts_communicate_over_packet_sockets_of_dpdk() -> Result<()> {
    if !is_built()? {
        return Ok(());
    }
    // DPDK's packet socket does not complete checksums.
    let sides = two_sides(&[Tag::customer(100)])?.map(Side::without_offloads);
    let scenario = Scenario::with(&sides, &over_packet_sockets(&sides))?;
    scenario.hosts_reach_each_other()?;
    let printed = detail(&scenario.router, "host-a")?;
    for words in [
        "\"dpdk\"",
        "net_af_packet0 by DPDK's net_af_packet",
        "queues 2 in, 2 out",
        "always polled",
    ] {
        assert!(printed.contains(words), "{printed}");
    }
    let (a, b) = (scenario.host("host-a"), scenario.host("host-b"));
    for size in ["22", "23", "470", "1472"] {
        let pings = ping(a, b.address(false)?, 2, &["-s", size, "-p", "6470646b"])?;
        assert!(pings.all(), "{size}: {pings:?}");
    }
    for (six, from, to) in [(false, a, b), (true, b, a)] {
        let rate = iperf(from, to, six, Load::Tcp, 1)?;
        println!("TCP, IPv{}: {:.2} Gbit/s", if six { 6 } else { 4 }, rate.bits_per_second / 1e9);
        assert!(rate.bits_per_second > 1e5, "{rate:?}");
    }
    invalid_devices_are_refused(&scenario, &sides)?;
    a_changed_device_is_reopened(&scenario, &sides)?;
    a_new_forwarder_reopens_dpdk(&scenario)?;
    scenario.end()
}

/// The reload is refused with a reason, and forwarding continues.
fn invalid_devices_are_refused(scenario: &Scenario, sides: &[Side]) -> Result<()> {
    let (a, b) = (scenario.host("host-a"), scenario.host("host-b"));
    let cases = [
        (dpdk("net_nonsense0"), "nor a permitted virtual device"),
        (dpdk("0000:fe:1f.7"), "there is no such PCI device"),
        (dpdk("net_af_xdp0,iface=host-b"), "nor a permitted virtual device"),
        (dpdk("net_pcap0,rx_pcap=/no/such/file"), "nor a permitted virtual device"),
        (dpdk("net_null0,dev=x"), "may not have the setting"),
        (json!({ "rx-queues": 17, "dpdk": { "device": "net_ring0" } }), "net_ring0 has at most 16"),
    ];
    for (port, reason) in cases {
        let mut bad = over_packet_sockets(sides);
        bad.interface("host-b")["stoa-interfaces:port"] = port;
        let output = scenario.router.reload(&bad.json())?;
        let printed = format!("{}{}", output.stdout, output.stderr);
        assert!(!output.success() && printed.contains(reason), "{reason}: {printed}");
        let pings = ping(a, b.address(false)?, 2, &[])?;
        assert!(pings.all(), "{reason}: {pings:?}");
    }
    Ok(())
}

/// Another ring size closes and reopens the device.
fn a_changed_device_is_reopened(scenario: &Scenario, sides: &[Side]) -> Result<()> {
    let (a, b) = (scenario.host("host-a"), scenario.host("host-b"));
    for ring in [json!(256), Value::Null] {
        let mut made = over_packet_sockets(sides);
        if !ring.is_null() {
            made.interface("host-b")["stoa-interfaces:port"]["dpdk"]["ring-size"] = ring;
        }
        let output = scenario.router.reload(&made.json())?;
        assert!(output.success(), "{}{}", output.stdout, output.stderr);
        reach(a, b.address(false)?)?;
    }
    Ok(())
}

fn a_new_forwarder_reopens_dpdk(scenario: &Scenario) -> Result<()> {
    let pid = scenario.router.status()?["forwarder_pid"].as_u64().unwrap_or(0);
    assert_ne!(pid, 0);
    Command::program("/bin/kill").args(["-KILL", &pid.to_string()]).run()?.ok()?;
    let (a, b) = (scenario.host("host-a"), scenario.host("host-b"));
    reach(a, b.address(true)?)
}

#[test]
fn hosts_communicate_over_memif_of_dpdk() -> Result<()> {
    if !is_built()? {
        return Ok(());
    }
    let [a, b] = two_sides(&[])?;
    let sides = [a, b.without_offloads()];
    let topology = Topology::new(&sides)?;
    let mut peer = Testpmd::new("client", 7, &["--forward-mode=io"])?;
    let mut made = Configuration::new(&sides);
    let socket = format!("role=server,id=7,socket-abstract=no,socket={}", peer.socket());
    made.interface("host-b")["stoa-interfaces:port"] = dpdk(&format!("net_memif0,{socket}"));
    let router = Router::start(&stoa_binary()?, Some(topology.router()), &made.json())?;
    router.wait_up(&["host-a"])?;
    link(&router, false)?;
    assert!(detail(&router, "host-b")?.contains("no link"));
    peer.start(&topology)?;
    link(&router, true)?;
    let scenario = Scenario { router, topology };
    let (a, b) = (scenario.host("host-a"), scenario.host("host-b"));
    let to = b.address(false)?;
    reach(a, to)?;
    for size in ["22", "64", "470", "1472"] {
        let pings = ping(a, to, 2, &["-s", size])?;
        assert!(pings.all(), "{size}: {pings:?}");
    }
    let rate = iperf(b, a, false, Load::Tcp, 1)?;
    println!("TCP over memif of DPDK: {:.2} Gbit/s", rate.bits_per_second / 1e9);
    assert!(rate.bits_per_second > 1e5, "{rate:?}");
    // testpmd may crash here ([`Testpmd::survive`]); the router must not.
    peer.stop()?;
    link(&scenario.router, false)?;
    reach(a, a.gateway(false)?)?;
    scenario.end()
}

/// Waits until an address answers pings.
fn reach(from: &Host, to: IpAddr) -> Result<()> {
    wait_until("an answer", Duration::from_secs(20), || match ping(from, to, 1, &[]) {
        Ok(pings) if pings.all() => Ok(()),
        other => Err(format!("{to}: {other:?}")),
    })
}

/// Waits until the port towards the second host is up or down.
fn link(router: &Router, up: bool) -> Result<()> {
    wait_until("the link", Duration::from_secs(30), || {
        let list = router.interfaces().map_err(|error| error.to_string())?;
        let seen = list.iter().any(|one| one.name == "host-b" && one.up);
        if seen == up { Ok(()) } else { Err(format!("{list:?}")) }
    })
}
