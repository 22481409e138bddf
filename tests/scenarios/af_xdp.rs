//! AF_XDP: hosts with offloads communicate through the router with four queues and two workers, in both families.

use std::time::Duration;

use serde_json::json;
use stoa_lab::measure::{Load, iperf, ping};
use stoa_lab::{Configuration, Result, Router, Side, Tag, Tool, Topology, stoa_binary, wait_until};
use stoa_scenarios::{Scenario, two_sides};

/// A rate that any machine sustains: benchmarks measure rates.
const LOW_RATE: Load = Load::Udp { bits_per_second: 5_000_000 };

/// The default configuration with this driver on all sides.
fn with_driver(sides: &[Side], driver: &str, more: &serde_json::Value) -> Configuration {
    let mut configuration = Configuration::new(sides).workers(json!({ "count": 2 }));
    for side in sides {
        let mut port = more.clone();
        port["device"] = json!(side.label);
        configuration.interface(&side.label)["stoa-interfaces:port"] = json!({ driver: port });
    }
    configuration
}

fn check_tcp_and_udp(scenario: &Scenario) -> Result<()> {
    let hosts = scenario.topology.hosts();
    for (six, from, to) in [(false, 0, 1), (true, 1, 0)] {
        let rate = iperf(&hosts[from], &hosts[to], six, Load::Tcp, 1)?;
        println!("TCP, IPv{}: {:.2} Gbit/s", if six { 6 } else { 4 }, rate.bits_per_second / 1e9);
        assert!(rate.bits_per_second > 1e6, "{rate:?}");
        let rate = iperf(&hosts[from], &hosts[to], six, LOW_RATE, 1)?;
        assert!(rate.lost_percent + rate.late_percent < 50.0, "{rate:?}");
        assert!(rate.bits_per_second > 1e5, "{rate:?}");
    }
    Ok(())
}

/// Driver, detail and receive queues of a port.
fn port(scenario: &Scenario, label: &str) -> Result<(String, String, u64)> {
    let shown = scenario.router.show("interfaces")?;
    let list = shown["interfaces"].as_array().cloned().unwrap_or_default();
    let one = list.iter().find(|one| one["name"] == label).cloned().unwrap_or_default();
    let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
    Ok((text("driver"), text("detail"), one["rx_queues"].as_u64().unwrap_or(0)))
}

#[test]
fn hosts_with_offloads_and_tags_use_four_queues() -> Result<()> {
    // The second host sends tags as metadata, which AF_XDP alone would lose.
    let sides = two_sides(&[Tag::customer(100)])?.map(|side| side.queues(4));
    let scenario = Scenario::with(&sides, &with_driver(&sides, "af-xdp", &json!({})))?;
    scenario.hosts_reach_each_other()?;
    for label in ["host-a", "host-b"] {
        let (driver, detail, queues) = port(&scenario, label)?;
        assert_eq!((driver.as_str(), queues), ("af-xdp", 4), "{detail}");
        assert!(detail.contains("native attach"), "{detail}");
    }
    let a = scenario.host("host-a");
    let gateway = a.gateway(false)?.to_string();
    let arping = a.command(Tool::ARPING)?.args(["-I", "eth0", "-c", "2", "-w", "5", &gateway]);
    let printed = arping.run()?;
    assert!(printed.success(), "{}{}", printed.stdout, printed.stderr);
    check_tcp_and_udp(&scenario)?;
    // Flows use other queues than the first.
    let workers = scenario.router.show("workers")?;
    let busy = workers["workers"].as_array().cloned().unwrap_or_default();
    assert!(busy.iter().all(|worker| worker["packets"].as_u64() > Some(0)), "{workers}");
    scenario.end()
}

#[test]
fn hosts_without_offloads_use_a_generic_program() -> Result<()> {
    let sides = two_sides(&[])?.map(Side::without_offloads);
    let how = json!({ "attach": "generic", "bind": "copy", "need-wakeup": false });
    let scenario = Scenario::with(&sides, &with_driver(&sides, "af-xdp", &how))?;
    scenario.hosts_reach_each_other()?;
    let (_, detail, _) = port(&scenario, "host-a")?;
    assert!(detail.contains("generic attach"), "{detail}");
    check_tcp_and_udp(&scenario)?;
    scenario.end()
}

#[test]
fn jumbo_packets_pass_with_one_queue_and_with_four() -> Result<()> {
    for queues in [1, 4] {
        let sides = two_sides(&[Tag::customer(100)])?.map(|side| side.mtu(9000).queues(queues));
        let scenario = Scenario::with(&sides, &with_driver(&sides, "af-xdp", &json!({})))?;
        let (_, detail, count) = port(&scenario, "host-a")?;
        assert_eq!(count, u64::from(queues), "{detail}");
        assert!(detail.contains("native attach") && detail.contains("several chunks"), "{detail}");
        let (a, b) = (scenario.host("host-a"), scenario.host("host-b"));
        for six in [false, true] {
            // One to three chunks; also replies of the router itself.
            for size in ["3700", "4000", "8000"] {
                for to in [b.address(six)?, a.gateway(six)?] {
                    let pings = ping(a, to, 2, &["-M", "do", "-s", size])?;
                    assert!(pings.all(), "{queues} queues, {to}, {size} bytes: {pings:?}");
                }
            }
        }
        let rate = iperf(a, b, false, Load::Tcp, 1)?;
        println!("TCP at MTU 9000, {queues} queues: {:.2} Gbit/s", rate.bits_per_second / 1e9);
        assert!(rate.bits_per_second > 1e6, "{rate:?}");
        scenario.end()?;
    }
    Ok(())
}

/// Whether the kernel reports XDP features of devices (Linux 6.3).
fn kernel_reports_features() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map(|one| one.parse().unwrap_or(0u32));
    (numbers.next(), numbers.next()) >= (Some(6), Some(3))
}

/// Loads a setting that the device of the second host does not support three times. A running ping loses
/// nothing.
fn refused_and_nothing_lost(
    scenario: &Scenario,
    good: &Configuration,
    what: &serde_json::Value,
) -> Result<()> {
    let (a, b) = (scenario.host("host-a"), scenario.host("host-b"));
    let mut bad = good.clone();
    let mut port = what.clone();
    port["device"] = json!(b.label());
    bad.interface(b.label())["stoa-interfaces:port"] = json!({ "af-xdp": port });
    // Loss during neighbour resolution or port start does not count.
    let address = b.address(false)?;
    wait_until("a ping is answered", Duration::from_secs(10), || match ping(a, address, 1, &[]) {
        Ok(pings) if pings.all() => Ok(()),
        seen => Err(format!("{seen:?}")),
    })?;
    let to = address.to_string();
    let running = a.command(Tool::PING)?;
    let running = running.args(["-n", "-i", "0.02", "-c", "100", "-W", "2", &to]).spawn()?;
    running.wait_for("icmp_seq=5 ", Duration::from_secs(10))?;
    for _ in 0..3 {
        let output = scenario.router.reload(&bad.json())?;
        let printed = format!("{}{}", output.stdout, output.stderr);
        assert!(!output.success(), "{what} must be refused: {printed}");
        let leaf = what.as_object().and_then(|all| all.keys().next()).map_or("", String::as_str);
        assert!(printed.contains(&format!("{leaf}: ")) && printed.contains(b.label()), "{printed}");
    }
    let (stdout, _, _) = running.finish(Duration::from_secs(20))?;
    assert!(stdout.contains("100 received"), "{stdout}");
    Ok(())
}

#[test]
fn a_reload_that_the_device_does_not_support_is_refused() -> Result<()> {
    if !kernel_reports_features() {
        eprintln!("SKIPPED: Linux before 6.3 does not report XDP features of devices");
        return Ok(());
    }
    let sides = two_sides(&[])?.map(|side| side.queues(2));
    let packet = with_driver(&sides, "af-packet", &json!({}));
    let scenario = Scenario::with(&sides, &packet)?;
    // Fewer receive queues than the peer has transmit queues: no native attach.
    let ethtool = scenario.topology.router().command(Tool::ETHTOOL)?;
    ethtool.args(["-L", "host-b", "rx", "1"]).run()?.ok()?;
    scenario.hosts_reach_each_other()?;
    refused_and_nothing_lost(&scenario, &packet, &json!({ "attach": "native" }))?;
    refused_and_nothing_lost(&scenario, &packet, &json!({ "bind": "zero-copy" }))?;

    let xdp = with_driver(&sides, "af-xdp", &json!({}));
    let output = scenario.router.reload(&xdp.json())?;
    assert!(output.success(), "{}{}", output.stdout, output.stderr);
    scenario.router.wait_up(&["host-a", "host-b"])?;
    scenario.hosts_reach_each_other()?;
    refused_and_nothing_lost(&scenario, &xdp, &json!({ "attach": "native" }))?;
    refused_and_nothing_lost(&scenario, &xdp, &json!({ "bind": "zero-copy" }))?;
    let (driver, detail, _) = port(&scenario, "host-b")?;
    assert!(driver == "af-xdp" && detail.contains("generic attach"), "{detail}");
    scenario.end()
}

#[test]
fn a_port_waits_for_a_capable_device_at_startup() -> Result<()> {
    let sides = two_sides(&[])?.map(|side| side.queues(2));
    let topology = Topology::new(&sides)?;
    let queues = |number| {
        let ethtool = topology.router().command(Tool::ETHTOOL)?;
        ethtool.args(["-L", "host-b", "rx", number]).run()?.ok().map(drop)
    };
    queues("1")?;
    let native = with_driver(&sides, "af-xdp", &json!({ "attach": "native" }));
    let router = Router::start(&stoa_binary()?, Some(topology.router()), &native.json())?;
    router.wait_up(&["host-a"])?;
    queues("2")?;
    router.wait_up(&["host-a", "host-b"])?;
    router.stop()
}

#[test]
fn a_virtual_device_gets_a_packet_socket_by_itself() -> Result<()> {
    let sides = two_sides(&[])?;
    let scenario = Scenario::with(&sides, &with_driver(&sides, "auto", &json!({})))?;
    scenario.hosts_reach_each_other()?;
    let (driver, detail, _) = port(&scenario, "host-a")?;
    assert_eq!(driver, "af-packet");
    assert!(detail.contains("veth is virtual"), "{detail}");
    scenario.end()
}
