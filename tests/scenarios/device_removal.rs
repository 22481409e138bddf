//! Devices that are deleted, renamed, set down, missing from the start, or whose namespace is deleted: the interface
//! goes down, senders receive ICMP errors, other ports forward, and the port recovers when the device returns.

use std::time::Duration;

use serde_json::{Value, json};
use stoa_lab::measure::ping;
use stoa_lab::{Command, Configuration, Namespace, Result, Router, Side, wait_until};
use stoa_lab::{Topology, stoa_binary};
use stoa_scenarios::{Scenario, side, two_sides};

/// Deadline: the router looks for devices four times a second.
const SOON: Duration = Duration::from_secs(10);

/// The default configuration with this driver on all sides.
fn with_driver(sides: &[Side], driver: &str) -> Configuration {
    let mut configuration = Configuration::new(sides);
    for side in sides {
        configuration.interface(&side.label)["stoa-interfaces:port"] =
            json!({ driver: { "device": side.label } });
    }
    configuration
}

/// Waits until the interface is up.
fn until_up(router: &Router, label: &str) -> Result<()> {
    until(router, label, |up, _| up)
}

/// Waits until the interface is down and its detail contains these words: a device that is deleted is set down first.
fn until_down(router: &Router, label: &str, words: &[&str]) -> Result<()> {
    until(router, label, |up, detail| !up && words.iter().all(|word| detail.contains(word)))
}

fn until(router: &Router, label: &str, is_so: impl Fn(bool, &str) -> bool) -> Result<()> {
    wait_until(&format!("{label} has the expected state"), SOON, || {
        let one = interface(router, label).map_err(|error| error.to_string())?;
        let (up, detail) = (one["up"] == true, one["detail"].as_str().unwrap_or_default());
        if is_so(up, detail) { Ok(()) } else { Err(one.to_string()) }
    })
}

/// The state of an interface; null if there is none of this name.
fn interface(router: &Router, label: &str) -> Result<Value> {
    let shown = router.show("interfaces")?;
    let list = shown["interfaces"].as_array().cloned().unwrap_or_default();
    Ok(list.iter().find(|one| one["name"] == label).cloned().unwrap_or_default())
}

/// Creates the link between the router's namespace and a host again, as the lab did.
fn join(router: &Namespace, host: &Namespace, label: &str, number: u8) -> Result<()> {
    let peer = ["peer", "name", "eth0", "netns", host.name()];
    router.ip(&[&["link", "add", label, "type", "veth"][..], &peer].concat())?;
    router.sysctl(&format!("ipv6/conf/{label}/disable_ipv6"), "1")?;
    host.ip(&["link", "set", "eth0", "up"])?;
    router.ip(&["link", "set", label, "up"])?;
    host.ip(&["addr", "add", &format!("198.18.{number}.2/24"), "dev", "eth0"])?;
    host.ip(&["addr", "add", &format!("2001:db8:{number}::2/64"), "dev", "eth0", "nodad"])?;
    host.ip(&["-4", "route", "add", "default", "via", &format!("198.18.{number}.1")])?;
    host.ip(&["-6", "route", "add", "default", "via", &format!("2001:db8:{number}::1")])?;
    Ok(())
}

/// Processor time of the forwarder so far, in ticks of 10 ms.
fn ticks(scenario: &Scenario) -> Result<u64> {
    let pid = scenario.router.status()?["forwarder_pid"].as_u64().unwrap_or(0);
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    let field = |at: usize| behind_name.split_whitespace().nth(at).and_then(|it| it.parse().ok());
    Ok(field(11).unwrap_or(0) + field(12).unwrap_or(0))
}

/// With the second side down the first one works, senders receive errors, and the forwarder stays idle.
fn other_ports_forward(scenario: &Scenario) -> Result<()> {
    let a = scenario.host("host-a");
    for six in [false, true] {
        assert!(ping(a, a.gateway(six)?, 1, &[])?.all(), "the router answers");
        let far = if six { "2001:db8:2::2" } else { "198.18.2.2" };
        let printed = stoa_scenarios::run_ping(a, &["-c", "1", "-W", "2", far])?.stdout;
        assert!(printed.contains("nreachable"), "the sender receives an error: {printed}");
    }
    let (before, lines) = (ticks(scenario)?, scenario.router.log().lines().count());
    std::thread::sleep(Duration::from_secs(1));
    let (spent, printed) = (ticks(scenario)? - before, scenario.router.log());
    assert!(spent < 30, "{spent} of 100 ticks in a second without traffic");
    assert!(printed.lines().count() < lines + 5, "{printed}");
    Ok(())
}

fn disappears_and_returns(driver: &str) -> Result<()> {
    let sides = two_sides(&[])?;
    let scenario = Scenario::with(&sides, &with_driver(&sides, driver))?;
    let (router, b) = (scenario.topology.router(), scenario.host("host-b").namespace());
    scenario.hosts_reach_each_other()?;

    router.ip(&["link", "set", "host-b", "down"])?;
    until_down(&scenario.router, "host-b", &["is down"])?;
    other_ports_forward(&scenario)?;
    router.ip(&["link", "set", "host-b", "name", "other"])?;
    until_down(&scenario.router, "host-b", &["gone"])?;
    router.ip(&["link", "set", "other", "name", "host-b"])?;
    router.ip(&["link", "set", "host-b", "up"])?;
    until_up(&scenario.router, "host-b")?;
    scenario.hosts_reach_each_other()?;

    router.ip(&["link", "delete", "host-b"])?;
    until_down(&scenario.router, "host-b", &["gone"])?;
    other_ports_forward(&scenario)?;
    join(router, b, "host-b", 2)?;
    until_up(&scenario.router, "host-b")?;
    scenario.hosts_reach_each_other()?;
    scenario.end()
}

#[test]
fn a_device_of_a_packet_socket_disappears_and_returns() -> Result<()> {
    disappears_and_returns("af-packet")
}

#[test]
fn a_device_of_af_xdp_disappears_and_returns() -> Result<()> {
    disappears_and_returns("af-xdp")
}

/// The device is in another namespace, which is deleted and created again.
#[test]
fn a_namespace_disappears_and_returns() -> Result<()> {
    let (sides, away) = ([side("host-a", 1)?], Namespace::new("away")?);
    let (topology, host) = (Topology::new(&sides)?, Namespace::new("host-n")?);
    join(&away, &host, "far0", 2)?;
    let addresses = ["198.18.2.1/24", "2001:db8:2::1/64"].map(|it| it.parse().expect("address"));
    let driver = json!({ "af-xdp": { "device": "far0", "netns": away.name() } });
    let configuration = Configuration::new(&sides).port("far", driver).addresses("far", &addresses);
    let router = Router::start(&stoa_binary()?, Some(topology.router()), &configuration.json())?;
    let scenario = Scenario { router, topology };
    until_up(&scenario.router, "far")?;
    let reaches = || -> Result<()> {
        let a = scenario.host("host-a");
        for far in ["198.18.2.2", "2001:db8:2::2"] {
            assert!(ping(a, far.parse().expect("an address"), 2, &[])?.all(), "{far}");
        }
        Ok(())
    };
    reaches()?;
    let ip = |arguments: &[&str]| Command::program("ip").args(arguments).run()?.ok();
    ip(&["netns", "delete", away.name()])?;
    until_down(&scenario.router, "far", &["namespace", "gone"])?;
    wait_until("the namespace ends", SOON, || match host.ip(&["link", "show", "eth0"]) {
        Ok(shown) => Err(shown),
        Err(_) => Ok(()),
    })?;
    other_ports_forward(&scenario)?;
    ip(&["netns", "add", away.name()])?;
    join(&away, &host, "far0", 2)?;
    until_up(&scenario.router, "far")?;
    reaches()?;
    scenario.end()
}

/// Kills the forwarder and waits until the next one is in sync.
fn kill_forwarder(scenario: &Scenario) -> Result<()> {
    let pid = |status: &Value| status["forwarder_pid"].as_u64().unwrap_or(0);
    let old = pid(&scenario.router.status()?);
    Command::program("/bin/kill").args(["-KILL", &old.to_string()]).run()?.ok()?;
    wait_until("another forwarder is in sync", SOON, || {
        let status = scenario.router.status().map_err(|error| error.to_string())?;
        let done = pid(&status) != old && pid(&status) != 0 && status["in_sync"] == true;
        if done { Ok(()) } else { Err(status.to_string()) }
    })
}

#[test]
fn a_new_forwarder_starts_without_a_missing_device() -> Result<()> {
    let sides = two_sides(&[])?;
    let scenario = Scenario::with(&sides, &with_driver(&sides, "af-xdp"))?;
    scenario.hosts_reach_each_other()?;
    let (router, b) = (scenario.topology.router(), scenario.host("host-b").namespace());
    router.ip(&["link", "delete", "host-b"])?;
    kill_forwarder(&scenario)?;
    until_up(&scenario.router, "host-a")?;
    until_down(&scenario.router, "host-b", &["there is no device \"host-b\""])?;
    // The killed forwarder has left no XDP program behind.
    let shown = router.ip(&["link", "show", "host-a"])?;
    assert_eq!(shown.matches("prog/xdp").count(), 1, "{shown}");
    other_ports_forward(&scenario)?;
    join(router, b, "host-b", 2)?;
    until_up(&scenario.router, "host-b")?;
    scenario.hosts_reach_each_other()?;
    scenario.end()
}

#[test]
fn a_router_starts_without_a_missing_device() -> Result<()> {
    let sides = [side("host-a", 1)?];
    let (topology, host) = (Topology::new(&sides)?, Namespace::new("host-b")?);
    let all = two_sides(&[])?;
    let configuration = with_driver(&all, "auto");
    let router = Router::start(&stoa_binary()?, Some(topology.router()), &configuration.json())?;
    let scenario = Scenario { router, topology };
    until_up(&scenario.router, "host-a")?;
    other_ports_forward(&scenario)?;
    join(scenario.topology.router(), &host, "host-b", 2)?;
    until_up(&scenario.router, "host-b")?;
    assert!(ping(scenario.host("host-a"), "198.18.2.2".parse().expect("address"), 2, &[])?.all());
    scenario.end()
}

#[test]
fn a_deleted_tap_is_created_again() -> Result<()> {
    let (sides, host) = ([side("host-a", 1)?], Namespace::new("host-t")?);
    let topology = Topology::new(&sides)?;
    let addresses = ["198.18.2.1/24", "2001:db8:2::1/64"].map(|it| it.parse().expect("address"));
    let driver = json!({ "rx-queues": 2, "tap": { "device": "tap0", "netns": host.name() } });
    let configuration = Configuration::new(&sides)
        .workers(json!({ "count": 2 }))
        .port("tap", driver)
        .addresses("tap", &addresses);
    let router = Router::start(&stoa_binary()?, Some(topology.router()), &configuration.json())?;
    let scenario = Scenario { router, topology };
    for round in 0..2 {
        until_up(&scenario.router, "tap")?;
        host.ip(&["addr", "add", "198.18.2.2/24", "dev", "tap0"])?;
        host.ip(&["route", "add", "default", "via", "198.18.2.1"])?;
        let far = "198.18.2.2".parse().expect("an address");
        assert!(ping(scenario.host("host-a"), far, 2, &[])?.all(), "round {round}");
        if round == 0 {
            // The device is gone for a moment only; the new one has another index.
            let old = interface(&scenario.router, "tap")?;
            host.ip(&["link", "delete", "tap0"])?;
            until(&scenario.router, "tap", |up, detail| up && old["detail"] != *detail)?;
        }
    }
    scenario.end()
}
