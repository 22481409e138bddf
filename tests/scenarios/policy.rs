//! Policy routing: rules of `ip rule` in Linux and rules of the configuration select the table.

use std::time::Duration;

use serde_json::{Value, json};
use stoa_lab::{
    Configuration, Namespace, NextHop, Result, Router, Tool, Topology, stoa_binary, wait_until,
};
use stoa_scenarios::{Scenario, side};

/// Deadline for a change. It takes a tenth of a second on an idle machine.
const SOON: Duration = Duration::from_secs(20);
/// Behind host-b, the next hop of the main table, and behind host-c, the next hop of table 100.
const BEHIND_B: [&str; 2] = ["203.0.113.2", "2001:db8:113::2"];
const BEHIND_C: [&str; 2] = ["203.0.113.3", "2001:db8:113::3"];
const FAR: [&str; 2] = ["203.0.113.0/24", "2001:db8:113::/48"];

/// Three hosts, host interfaces in `local`, and the VRF "other" without interfaces, which imports table 100 of `local`.
fn begin(local: &Namespace) -> Result<(Scenario, Value)> {
    let sides = [side("host-a", 1)?, side("host-b", 2)?, side("host-c", 3)?];
    let topology = Topology::new(&sides)?;
    for (host, addresses) in [("host-b", BEHIND_B), ("host-c", BEHIND_C)] {
        for address in addresses {
            let length = if address.contains(':') { 128 } else { 32 };
            let address = format!("{address}/{length}");
            topology.host(host).namespace().ip(&["addr", "add", &address, "dev", "lo"])?;
        }
    }
    let made = Configuration::new(&sides)
        .vrf("other", &[])
        .route(FAR[0], NextHop::Via("198.18.2.2"))
        .route(FAR[1], NextHop::Via("2001:db8:2::2"));
    let mut configuration = made.json();
    let list = configuration["ietf-interfaces:interfaces"]["interface"].as_array_mut();
    for interface in list.into_iter().flatten() {
        interface["stoa-host-interface:host-interface"] = json!({ "netns": local.name() });
    }
    let protocols = &mut configuration["ietf-routing:routing"]["control-plane-protocols"];
    let route_source = json!({
        "type": "stoa-routing:netlink", "name": "other", "stoa-vrf:vrf": "other",
        "stoa-routing:route-source": { "netns": local.name(), "kernel-table": 100 }
    });
    protocols["control-plane-protocol"].as_array_mut().into_iter().for_each(|all| {
        all.push(route_source.clone());
    });
    let router = Router::start(&stoa_binary()?, Some(topology.router()), &configuration)?;
    router.wait_up(&["host-a", "host-b", "host-c"])?;
    wait_until("the host interfaces have their addresses", SOON, || {
        let shown = local.ip(&["addr", "show"]).map_err(|error| error.to_string())?;
        let expected = ["198.18.1.1/24", "198.18.3.1/24", "2001:db8:3::1/64"];
        if expected.iter().all(|address| shown.contains(address)) { Ok(()) } else { Err(shown) }
    })?;
    local.ip(&["route", "add", FAR[0], "via", "198.18.3.2", "table", "100"])?;
    local.ip(&["-6", "route", "add", FAR[1], "via", "2001:db8:3::2", "table", "100"])?;
    Ok((Scenario { router, topology }, configuration))
}

/// Waits until packets of host-a reach one of two addresses and not the other.
fn wait_for(scenario: &Scenario, to: &str, not: &str) -> Result<()> {
    let reaches = |address: &str| {
        let once = ["-n", "-c", "1", "-W", "0.5", address];
        let ping =
            scenario.host("host-a").command(Tool::PING).and_then(|ping| ping.args(once).run());
        ping.map(|output| output.success()).map_err(|error| error.to_string())
    };
    wait_until(&format!("packets reach {to}, not {not}"), SOON, || {
        if reaches(to)? && !reaches(not)? {
            return Ok(());
        }
        let rules = scenario.router.show("rules").map_err(|error| error.to_string())?;
        Err(format!("{rules}\n{}", scenario.router.log()))
    })
}

/// Waits until the rules of the namespace contain a text, or no longer do.
fn wait_shown(local: &Namespace, text: &str, is_there: bool) -> Result<()> {
    wait_until(&format!("rules of Linux: {text}, {is_there}"), SOON, || {
        let shown = local.ip(&["rule", "show"]).map_err(|error| error.to_string())?;
        if shown.contains(text) == is_there { Ok(()) } else { Err(shown) }
    })
}

#[test]
fn rules_of_linux_and_of_the_configuration_choose_the_table() -> Result<()> {
    let local = Namespace::new("local")?;
    let (scenario, mut configuration) = begin(&local)?;
    for family in [0, 1] {
        wait_for(&scenario, BEHIND_B[family], BEHIND_C[family])?;
    }

    // Rules of Linux: sources of host-a's subnet, one family at a time.
    local.ip(&["rule", "add", "pref", "50", "from", "198.18.1.0/24", "lookup", "100"])?;
    wait_for(&scenario, BEHIND_C[0], BEHIND_B[0])?;
    wait_for(&scenario, BEHIND_B[1], BEHIND_C[1])?;
    let to_b = ["-6", "rule", "add", "pref", "50", "from", "2001:db8:1::/64", "lookup", "100"];
    local.ip(&to_b)?;
    wait_for(&scenario, BEHIND_C[1], BEHIND_B[1])?;
    let rules = scenario.router.show("rules")?;
    let first = &rules["rules"][0];
    assert_eq!((&first["by"], &first["table"]), (&json!("Linux"), &json!("other")), "{rules}");
    assert!(first["packets"].as_u64().is_some_and(|packets| packets > 0), "{rules}");
    // An unsupported rule is logged and stays in Linux.
    local.ip(&["rule", "add", "pref", "300", "fwmark", "5", "lookup", "100"])?;
    wait_until("the unsupported rule is logged", SOON, || {
        let log = scenario.router.log();
        if log.contains("the rule uses packet marks (fwmark)") { Ok(()) } else { Err(log) }
    })?;
    local.ip(&["rule", "del", "pref", "50"])?;
    local.ip(&["-6", "rule", "del", "pref", "50"])?;
    for family in [0, 1] {
        wait_for(&scenario, BEHIND_B[family], BEHIND_C[family])?;
    }

    // Rules of the configuration appear in Linux with Stoa's protocol number.
    configuration["ietf-routing:routing"]["stoa-policy:policy"] = json!({ "rule": [
        { "vrf": "default", "address-family": "ipv4", "priority": 200,
          "match": { "source-prefix": "198.18.1.2/32", "interface": "host-a" }, "table": "other" },
        { "vrf": "default", "address-family": "ipv4", "priority": 210,
          "match": { "source-prefix": "192.0.2.7/32", "dscp": 46 }, "refuse": "prohibit" }
    ]});
    let output = scenario.router.reload(&configuration)?;
    assert!(output.success(), "{}{}", output.stdout, output.stderr);
    wait_for(&scenario, BEHIND_C[0], BEHIND_B[0])?;
    wait_shown(&local, "from 198.18.1.2 iif host-a lookup 100 proto 83", true)?;
    // A rule without an interface is added for each host interface, so that it does not match local programs.
    for device in ["host-a", "host-b", "host-c"] {
        wait_shown(&local, &format!("from 192.0.2.7 iif {device} prohibit"), true)?;
    }
    assert!(!scenario.router.log().contains("was not added to Linux"), "{}", scenario.router.log());
    // A deleted rule is restored.
    local.ip(&["rule", "del", "pref", "200"])?;
    wait_shown(&local, "from 198.18.1.2 iif host-a lookup 100 proto 83", true)?;
    configuration["ietf-routing:routing"]["stoa-policy:policy"] = json!({});
    let output = scenario.router.reload(&configuration)?;
    assert!(output.success(), "{}{}", output.stdout, output.stderr);
    wait_for(&scenario, BEHIND_B[0], BEHIND_C[0])?;
    wait_shown(&local, "proto 83", false)?;
    wait_shown(&local, "fwmark 0x5 lookup 100", true)?;
    scenario.end()
}
