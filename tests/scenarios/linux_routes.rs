//! Routes from Linux: `ip` commands on host interfaces, and zebra over FPM, determine forwarding. Lost netlink messages
//! cause a resync, and a kill of the controller loses nothing.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use stoa_lab::{
    Command, Configuration, Frr, Host, Namespace, Result, Router, Tool, Topology, stoa_binary,
    wait_until,
};
use stoa_scenarios::{Scenario, two_sides};

/// Deadline for a change. It takes a tenth of a second on an idle machine.
const SOON: Duration = Duration::from_secs(20);
/// Deadline for daemons to start and connect.
const PATIENCE: Duration = Duration::from_secs(60);
/// Behind host-b: reachable by learned routes only.
const BEHIND: [&str; 2] = ["203.0.113.2", "2001:db8:113::2"];

/// The router with a host interface of each interface and a route source in `local`, and addresses on host-b outside
/// of all connected subnets.
fn begin(local: &Namespace, kind: &str, route_source: Value) -> Result<Scenario> {
    let sides = two_sides(&[])?;
    let topology = Topology::new(&sides)?;
    let host_b = topology.host("host-b").namespace();
    for address in ["203.0.113.2/32", "203.0.113.3/32", "2001:db8:113::2/128"] {
        host_b.ip(&["addr", "add", address, "dev", "lo"])?;
    }
    host_b.ip(&["addr", "add", "198.18.9.2/24", "dev", "eth0"])?;
    let mut configuration = Configuration::new(&sides).json();
    let list = configuration["ietf-interfaces:interfaces"]["interface"].as_array_mut();
    for interface in list.into_iter().flatten() {
        interface["stoa-host-interface:host-interface"] = json!({ "netns": local.name() });
    }
    let mut settings = route_source;
    settings["netns"] = json!(local.name());
    let route_source = json!({
        "type": format!("stoa-routing:{kind}"), "name": "route-source",
        "stoa-routing:route-source": settings,
    });
    configuration["ietf-routing:routing"]["control-plane-protocols"]["control-plane-protocol"] =
        json!([route_source]);
    let router = Router::start(&stoa_binary()?, Some(topology.router()), &configuration)?;
    router.wait_up(&["host-a", "host-b"])?;
    wait_until("the host interfaces have their addresses", SOON, || {
        let shown = local.ip(&["addr", "show"]).map_err(|error| error.to_string())?;
        let expected = ["198.18.1.1/24", "198.18.2.1/24", "2001:db8:2::1/64"];
        if expected.iter().all(|address| shown.contains(address)) { Ok(()) } else { Err(shown) }
    })?;
    Ok(Scenario { router, topology })
}

/// Whether a ping from a host is answered.
fn reaches(from: &Host, to: &str) -> std::result::Result<bool, String> {
    let once = ["-n", "-c", "1", "-W", "0.5", to];
    let ping = from.command(Tool::PING).and_then(|ping| ping.args(once).run());
    ping.map(|output| output.success()).map_err(|error| error.to_string())
}

/// Waits until packets from host-a reach an address, or no longer do.
fn wait_for(scenario: &Scenario, to: &str, arrives: bool) -> Result<()> {
    let what = if arrives { "packets reach" } else { "no packet reaches" };
    wait_until(&format!("{what} {to}"), SOON, || {
        let is = reaches(scenario.host("host-a"), to)? == arrives;
        if is { Ok(()) } else { Err(scenario.router.log()) }
    })
}

/// A counter of the route source's session.
fn counter(scenario: &Scenario, name: &str) -> std::result::Result<u64, String> {
    let path = "/ietf-routing:routing/control-plane-protocols";
    let output =
        scenario.router.call(&["show", "state", path]).map_err(|error| error.to_string())?;
    let state: Value = serde_json::from_str(&output.stdout)
        .map_err(|error| format!("{error}: {}{}", output.stdout, output.stderr))?;
    let route_sources = &state["ietf-routing:control-plane-protocols"]["control-plane-protocol"];
    let counter = &route_sources[0]["stoa-routing:route-source"]["session"][name];
    counter.as_str().and_then(|it| it.parse().ok()).ok_or(format!("{name}: {state}"))
}

/// Routes of a protocol in the default IPv4 table of the forwarder.
fn learned(scenario: &Scenario, protocol: &str) -> std::result::Result<u64, String> {
    let path = "/ietf-routing:routing/ribs/rib[name='ipv4-default']/stoa-routing:route-counts";
    let output =
        scenario.router.call(&["show", "state", path]).map_err(|error| error.to_string())?;
    let state: Value = serde_json::from_str(&output.stdout)
        .map_err(|error| format!("{error}: {}", output.stdout))?;
    let counts =
        state["stoa-routing:route-counts"]["protocol"].as_array().cloned().unwrap_or_default();
    let of = counts.iter().find(|it| it["name"].as_str().is_some_and(|it| it.ends_with(protocol)));
    Ok(of.and_then(|it| it["routes"].as_str()?.parse().ok()).unwrap_or(0))
}

fn kill_controller(scenario: &Scenario) -> Result<()> {
    let pid = scenario.router.status()?["controller_pid"].as_u64().unwrap_or(0);
    assert_ne!(pid, 0);
    Command::program("/bin/kill").args(["-KILL", &pid.to_string()]).run()?.ok()?;
    wait_until("another controller is in sync", SOON, || {
        let now = scenario.router.status().map_err(|error| error.to_string())?;
        let is_other = now["controller_pid"].as_u64() != Some(pid) && now["in_sync"] == true;
        if is_other { Ok(()) } else { Err(now.to_string()) }
    })
}

#[test]
fn ip_commands_take_effect() -> Result<()> {
    let local = Namespace::new("local")?;
    let scenario = begin(&local, "netlink", json!({}))?;
    let [four, six] = BEHIND;
    assert_eq!(reaches(scenario.host("host-a"), four), Ok(false));

    // Routes, plain and on next-hop objects.
    local.ip(&["route", "add", "203.0.113.2/32", "via", "198.18.2.2"])?;
    local.ip(&["-6", "route", "add", "2001:db8:113::/48", "via", "2001:db8:2::2"])?;
    wait_for(&scenario, four, true)?;
    wait_for(&scenario, six, true)?;
    local.ip(&["nexthop", "add", "id", "7", "via", "198.18.2.9", "dev", "host-b"])?;
    local.ip(&["route", "add", "203.0.113.3/32", "nhid", "7"])?;
    wait_until("the route on the next hop is there", SOON, || {
        match learned(&scenario, "kernel")? {
            2 => Ok(()),
            other => Err(format!("{other} routes")),
        }
    })?;
    local.ip(&["nexthop", "replace", "id", "7", "via", "198.18.2.2", "dev", "host-b"])?;
    wait_for(&scenario, "203.0.113.3", true)?;
    // Linux deletes the routes without a message.
    local.ip(&["nexthop", "del", "id", "7"])?;
    wait_for(&scenario, "203.0.113.3", false)?;
    local.ip(&["route", "replace", "blackhole", "203.0.113.2/32"])?;
    wait_for(&scenario, four, false)?;
    local.ip(&["route", "del", "blackhole", "203.0.113.2/32"])?;
    local.ip(&["route", "add", "203.0.113.2/32", "via", "198.18.2.2"])?;
    wait_for(&scenario, four, true)?;

    // An address, and with it a subnet.
    assert_eq!(reaches(scenario.host("host-a"), "198.18.9.2"), Ok(false));
    local.ip(&["addr", "add", "198.18.9.1/24", "dev", "host-b"])?;
    wait_for(&scenario, "198.18.9.2", true)?;
    // An invalid address is logged and has no effect.
    local.ip(&["addr", "add", "198.18.1.77/24", "dev", "host-b"])?;
    wait_until("the address is logged", SOON, || {
        let log = scenario.router.log();
        let is_logged = log.contains("the subnet 198.18.1.0/24 is already on interface host-a");
        if is_logged { Ok(()) } else { Err(log) }
    })?;

    // A permanent neighbour with a MAC address that no host has.
    local.ip(&[
        "neigh",
        "replace",
        "198.18.2.2",
        "lladdr",
        "02:00:00:00:00:77",
        "nud",
        "permanent",
        "dev",
        "host-b",
    ])?;
    wait_for(&scenario, "198.18.2.2", false)?;
    local.ip(&["neigh", "del", "198.18.2.2", "dev", "host-b"])?;
    wait_for(&scenario, "198.18.2.2", true)?;

    // Everything survives the controller, and no packet is lost.
    let arguments = ["-n", "-c", "40", "-i", "0.1", "-W", "2", "198.18.9.2"];
    let pings = scenario.host("host-a").command(Tool::PING)?.args(arguments).spawn()?;
    pings.wait_for("icmp_seq=3 ", SOON)?;
    kill_controller(&scenario)?;
    let (stdout, _, _) = pings.finish(PATIENCE)?;
    assert!(stdout.contains(" 0% packet loss"), "{stdout}");
    wait_for(&scenario, four, true)?;

    // Link down and up: Linux deletes its routes and does not restore them.
    local.ip(&["link", "set", "host-b", "down"])?;
    wait_for(&scenario, "198.18.2.2", false)?;
    wait_until("the interface is disabled", SOON, || {
        let shown = scenario.router.show("interfaces").map_err(|error| error.to_string())?;
        if shown.to_string().contains("\"enabled\":false") {
            Ok(())
        } else {
            Err(shown.to_string())
        }
    })?;
    local.ip(&["link", "set", "host-b", "up"])?;
    wait_for(&scenario, "198.18.2.2", true)?;
    wait_for(&scenario, four, false)?;
    local.ip(&["addr", "del", "198.18.9.1/24", "dev", "host-b"])?;
    wait_for(&scenario, "198.18.9.2", false)?;
    scenario.end()
}

/// Many routes at once overflow a small receive buffer.
#[test]
fn lost_netlink_messages_cause_a_resync() -> Result<()> {
    const ROUTES: usize = 50_000;
    let local = Namespace::new("local")?;
    let scenario = begin(&local, "netlink", json!({ "receive-buffer": 4_096 }))?;
    let batch = |verb: &str| {
        let mut lines = String::new();
        for number in 0..ROUTES {
            let _ = writeln!(
                lines,
                "route {verb} 11.{}.{}.0/24 via 198.18.2.2",
                number >> 8,
                number & 255
            );
        }
        lines
    };
    let all = |expected: usize| {
        wait_until(&format!("the forwarder has {expected} routes"), PATIENCE, || {
            let held = learned(&scenario, "kernel")?;
            if held == expected as u64 {
                Ok(())
            } else {
                Err(format!("{held}; {}", scenario.router.log()))
            }
        })
    };
    let path = scenario.router.scratch().write("routes", batch("add"))?;
    local.ip(&["-batch", &path.display().to_string()])?;
    all(ROUTES)?;
    let resyncs = counter(&scenario, "resyncs").unwrap_or(0);
    assert!(resyncs > 0, "no message was lost: the test tests nothing");
    // An address of the last route is reachable.
    scenario.host("host-b").namespace().ip(&["addr", "add", "11.195.79.9/32", "dev", "lo"])?;
    wait_for(&scenario, "11.195.79.9", true)?;
    let path = scenario.router.scratch().write("routes", batch("del"))?;
    local.ip(&["-batch", &path.display().to_string()])?;
    all(0)?;
    println!(
        "{ROUTES} routes added and deleted, {} resyncs",
        counter(&scenario, "resyncs").unwrap_or(0)
    );
    scenario.end()
}

#[test]
fn zebra_drives_stoa_by_fpm() -> Result<()> {
    let local = Namespace::new("local")?;
    let scenario = begin(&local, "fpm", json!({ "stale-time": 60 }))?;
    let routes = "ip route 203.0.113.2/32 198.18.2.2\nip route 203.0.113.128/25 198.18.1.2\n\
                  ip route 203.0.113.128/25 198.18.2.2\nipv6 route 2001:db8:113::/48 2001:db8:2::2\n\
                  ip route 192.0.2.0/24 Null0\n";
    let zebra = ("fpm address 127.0.0.1\n", &["-M", "dplane_fpm_nl"][..]);
    let mut frr = Frr::start(&local, zebra, &[(Tool::STATICD, routes)])?;
    let [four, six] = BEHIND;
    wait_for(&scenario, four, true)?;
    wait_for(&scenario, six, true)?;
    assert_eq!(counter(&scenario, "malformed"), Ok(0));
    // A multipath route, as a next-hop group.
    let shown = scenario.router.show("routes")?.to_string();
    assert!(shown.contains("203.0.113.128/25"), "{shown}");

    // zebra is killed: its routes stay. It restarts and sends the same routes: no packet is lost.
    let arguments = ["-n", "-c", "100", "-i", "0.1", "-W", "2", four];
    let pings = scenario.host("host-a").command(Tool::PING)?.args(arguments).spawn()?;
    pings.wait_for("icmp_seq=3 ", SOON)?;
    frr.kill(Tool::STATICD);
    frr.kill(Tool::ZEBRA);
    wait_until("the session ended", SOON, || {
        if scenario.router.log().contains("the session with zebra ended") {
            Ok(())
        } else {
            Err(String::new())
        }
    })?;
    frr.zebra(zebra.0, zebra.1)?;
    frr.add(Tool::STATICD, routes, &[])?;
    let (stdout, _, _) = pings.finish(PATIENCE)?;
    assert!(stdout.contains(" 0% packet loss"), "{stdout}");
    wait_until("zebra has connected again", PATIENCE, || match counter(&scenario, "sessions")? {
        0 | 1 => Err(scenario.router.log()),
        _ => Ok(()),
    })?;

    // The controller is killed and receives all routes again.
    kill_controller(&scenario)?;
    wait_until("zebra has connected to the new one", PATIENCE, || {
        match counter(&scenario, "updates")? {
            0..4 => Err(scenario.router.log()),
            _ => Ok(()),
        }
    })?;
    wait_for(&scenario, four, true)?;
    // A route is withdrawn.
    frr.configure(&["configure terminal", "no ip route 203.0.113.2/32 198.18.2.2"])?;
    wait_for(&scenario, four, false)?;
    wait_for(&scenario, six, true)?;
    drop(frr);
    scenario.end()
}
