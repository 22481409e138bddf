//! FRR on host interfaces: its daemons run in the router's namespace for local programs, with OSPF and IS-IS to one
//! host and BGP to another, in a VLAN. Packets that Linux sends by the learned routes arrive.

use std::time::Duration;

use serde_json::json;
use stoa_lab::{
    Configuration, Frr, Namespace, Result, Router, Tag, Tool, Topology, stoa_binary, wait_until,
};
use stoa_scenarios::{Scenario, run_ping, two_sides};

/// Deadline for adjacencies and sessions; with the timers below they take about five seconds.
const PATIENCE: Duration = Duration::from_secs(60);

fn ospf(interface: &str, own: &str, networks: &[&str]) -> String {
    let networks: String =
        networks.iter().map(|network| format!(" network {network} area 0\n")).collect();
    format!(
        "interface {interface}\n ip ospf hello-interval 1\n ip ospf dead-interval 4\n\
         router ospf\n ospf router-id {own}\n{networks}"
    )
}

fn bgp(number: u32, own: &str, peer: (&str, u32), networks: &[&str]) -> String {
    let (address, other) = peer;
    let networks: String = networks.iter().map(|network| format!(" network {network}\n")).collect();
    format!(
        "router bgp {number}\n bgp router-id {own}\n no bgp ebgp-requires-policy\n \
         no bgp network import-check\n neighbor {address} remote-as {other}\n \
         neighbor {address} timers 1 3\n neighbor {address} timers connect 1\n{networks}"
    )
}

/// `number` is part of the system id.
fn isis(interface: &str, number: u8) -> String {
    format!(
        "interface {interface}\n ip router isis one\n isis hello-interval 1\n\
         router isis one\n net 49.0001.0000.0000.000{number}.00\n is-type level-1\n"
    )
}

/// The router with a host interface of each interface in `local`. Each host has an address that only its daemon
/// advertises.
fn begin(local: &Namespace) -> Result<Scenario> {
    let sides = two_sides(&[Tag::customer(100)])?;
    let topology = Topology::new(&sides)?;
    for (host, own) in [("host-a", "203.0.113.1/32"), ("host-b", "203.0.113.2/32")] {
        topology.host(host).namespace().ip(&["addr", "add", own, "dev", "lo"])?;
    }
    let mut configuration = Configuration::new(&sides).json();
    let list = configuration["ietf-interfaces:interfaces"]["interface"].as_array_mut();
    for interface in list.into_iter().flatten() {
        interface["stoa-host-interface:host-interface"] = json!({ "netns": local.name() });
    }
    let router = Router::start(&stoa_binary()?, Some(topology.router()), &configuration)?;
    router.wait_up(&["host-a", "host-b"])?;
    wait_until("the host interfaces have their addresses", Duration::from_secs(20), || {
        let shown = local.ip(&["addr", "show"]).map_err(|error| error.to_string())?;
        let expected = ["198.18.1.1/24", "198.18.2.1/24"];
        if expected.iter().all(|address| shown.contains(address)) { Ok(()) } else { Err(shown) }
    })?;
    Ok(Scenario { router, topology })
}

#[test]
fn ospf_bgp_and_isis_work_over_host_interfaces() -> Result<()> {
    let local = Namespace::new("local")?;
    let scenario = begin(&local)?;
    let [peer_a, peer_b] = ["host-a", "host-b"].map(|name| scenario.host(name).namespace());
    let link = "198.18.1.0/24";
    let of_router = [
        (Tool::OSPFD, ospf("host-a", "198.18.1.1", &[link])),
        (Tool::BGPD, bgp(65001, "198.18.1.1", ("198.18.2.2", 65002), &[link])),
        (Tool::ISISD, isis("host-a", 1)),
    ];
    let of_router: Vec<_> = of_router.iter().map(|(tool, text)| (*tool, text.as_str())).collect();
    let frr = Frr::start(&local, ("", &[]), &of_router)?;
    let of_a = ospf("eth0", "198.18.1.2", &[link, "203.0.113.1/32"]);
    let isis_of_a = isis("eth0", 2);
    let a = Frr::start(peer_a, ("", &[]), &[(Tool::OSPFD, &of_a), (Tool::ISISD, &isis_of_a)])?;
    let of_b = bgp(65002, "198.18.2.2", ("198.18.2.1", 65001), &["203.0.113.2/32"]);
    let b = Frr::start(peer_b, ("", &[]), &[(Tool::BGPD, &of_b)])?;

    // Hellos to 224.0.0.5 in both directions, designated router election, database exchange.
    frr.wait_for("show ip ospf neighbor", &["198.18.1.2", "Full/"], PATIENCE)?;
    a.wait_for("show ip ospf neighbor", &["198.18.1.1", "Full/"], PATIENCE)?;
    frr.wait_for("show bgp ipv4 unicast", &["203.0.113.2/32"], PATIENCE)?;
    b.wait_for("show bgp ipv4 unicast", &[link], PATIENCE)?;
    // IS-IS uses 802.3 frames to the groups of ISO 10589.
    frr.wait_for("show isis neighbor detail", &["State: Up"], PATIENCE)?;
    a.wait_for("show isis neighbor detail", &["State: Up"], PATIENCE)?;
    // zebra installed both in Linux, via the host interfaces.
    wait_until("Linux has the routes", PATIENCE, || {
        let routes = local.ip(&["route", "show"]).map_err(|error| error.to_string())?;
        let expected = ["203.0.113.1 ", "via 198.18.1.2 dev host-a", "via 198.18.2.2 dev host-b"];
        if expected.iter().all(|words| routes.contains(words)) { Ok(()) } else { Err(routes) }
    })?;
    for (to, own) in [("203.0.113.1", "198.18.1.1"), ("203.0.113.2", "198.18.2.1")] {
        let arguments = ["-n", "-c", "3", "-i", "0.2", "-W", "3", "-I", own, to];
        let ping = local.command(Tool::PING)?.args(arguments).deadline(Duration::from_secs(30));
        let output = ping.run()?;
        assert!(output.success(), "{to}: {}", output.stdout);
    }
    // The peer reaches the router by the route from BGP.
    let output = run_ping(scenario.host("host-b"), &["-c", "2", "-W", "3", "198.18.1.1"])?;
    assert!(output.success(), "{}", output.stdout);
    assert_eq!(scenario.router.dropped("routing-limited")?, 0);
    drop((frr, a, b));
    scenario.end()
}
