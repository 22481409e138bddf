//! nmap and hping3 against the router's own address: every port is closed, and forwarding is not affected. And nmap
//! through stateful rules and NAT44: what opens no connection is dropped by its name, and leaves no flow.

use std::time::Duration;

use serde_json::{Value, json};
use stoa_lab::{Host, Result, Router, Tool};
use stoa_scenarios::{Scenario, two_sides};

use crate::nat44::{Lab, POOL, pool};

#[test]
fn scans_end_and_find_nothing_open() -> Result<()> {
    let scenario = Scenario::begin(&two_sides(&[])?)?;
    scenario.hosts_reach_each_other()?;
    let (a, b) = (scenario.host("host-a"), scenario.host("host-b"));
    let running = b.command(Tool::PING)?.args(["-n", "-i", "0.02", "-c", "1500", "-W", "2"]);
    let running = running.args([&b.gateway(false)?.to_string()]).spawn()?;
    running.wait_for("icmp_seq=5 ", Duration::from_secs(10))?;
    for (six, kind) in [
        (false, ["-sS", "-p", "1-200"]),
        (false, ["-sU", "-p", "53,67,161,500"]),
        (false, ["--scanflags=URGACKPSHRSTSYNFIN", "-p", "1-40"]),
        (false, ["-O", "-p", "1-20"]),
        (false, ["-sO", "-p", "1-30"]),
        (true, ["-sS", "-p", "1-50"]),
        (true, ["-O", "-p", "1-20"]),
    ] {
        let router = a.gateway(six)?.to_string();
        let family = if six { "-6" } else { "-4" };
        let arguments = ["-n", "-Pn", "-T4", "--max-retries", "1", "--host-timeout", "40s", family];
        let command = a.command(Tool::NMAP)?.args(arguments).args(kind).args([&router]);
        let output = command.deadline(Duration::from_secs(60)).run()?;
        assert!(output.success(), "{kind:?}: {}{}", output.stdout, output.stderr);
        assert!(output.stdout.contains("1 host up"), "{kind:?}: {}", output.stdout);
        assert!(!output.stdout.contains("/tcp open"), "{kind:?}: {}", output.stdout);
    }
    scenario.hosts_reach_each_other()?;
    let (printed, _, _) = running.finish(Duration::from_secs(90))?;
    assert!(printed.contains("1500 received"), "a concurrent ping loses nothing: {printed}");
    scenario.end()
}

#[test]
fn malformed_segments_and_fragments_of_hping3_do_no_harm() -> Result<()> {
    let scenario = Scenario::begin(&two_sides(&[])?)?;
    scenario.hosts_reach_each_other()?;
    let (a, b) = (scenario.host("host-a"), scenario.host("host-b"));
    for to in [a.gateway(false)?.to_string(), b.address(false)?.to_string()] {
        for kind in [
            // All flags, no flag, a wrong checksum, tiny fragments, a spoofed source, raw IP.
            vec!["-S", "-F", "-P", "-U", "-A", "-R", "-X", "-Y", "-p", "80"],
            vec!["-p", "0"],
            vec!["--udp", "-b", "-p", "53"],
            vec!["--udp", "-f", "-d", "600", "-p", "9"],
            vec!["-S", "-p", "80", "-a", "198.18.1.1"],
            vec!["--rawip", "-H", "253", "-d", "40"],
            vec!["--icmp", "-C", "13"],
            vec!["--icmp", "-d", "3000"],
        ] {
            let command = a.command(Tool::HPING3)?.args(["-q", "-c", "20", "-i", "u2000"]);
            command.args(&kind).args([&to]).deadline(Duration::from_secs(20)).run()?;
        }
    }
    assert!(scenario.router.is_running(), "{}", scenario.router.log());
    scenario.hosts_reach_each_other()?;
    scenario.end()
}

/// Ports that a scan tries.
const PORTS: u64 = 40;

/// Hosts behind host-a begin connections, and nobody behind host-b does.
fn only_outwards() -> Value {
    let accept =
        json!({ "forwarding": "ietf-access-control-list:accept", "stoa-acl:stateful": true });
    let drop = json!({ "forwarding": "ietf-access-control-list:drop" });
    let list = |name: &str, actions: &Value| {
        let ace = json!({ "name": name, "matches": { "tcp": {} }, "actions": actions });
        json!({ "name": name, "aces": { "ace": [ace] } })
    };
    let at = |interface: &str, list: &str| {
        let sets = json!({ "acl-sets": { "acl-set": [{ "name": list }] } });
        json!({ "interface-id": interface, "ingress": sets })
    };
    json!({
        "acl": [list("out", &accept), list("in", &drop)],
        "attachment-points": { "interface": [at("host-a", "out"), at("host-b", "in")] },
    })
}

/// Scans TCP ports of an address.
fn scan(from: &Host, kind: &[&str], to: &str) -> Result<String> {
    let ports = format!("1-{PORTS}");
    let arguments = ["-n", "-Pn", "-T4", "--max-retries", "0", "-p", &ports];
    let command = from.command(Tool::NMAP)?.args(arguments).args(kind).args([to]);
    Ok(command.deadline(Duration::from_secs(60)).run()?.ok()?.stdout)
}

/// Flows that exist, and those of them that are established.
fn flows(router: &Router) -> Result<[u64; 2]> {
    let summary = router.json(&["show", "flows", "--summary", "--json"])?;
    let states = summary["states"].as_array().cloned().unwrap_or_default();
    let count = |name: Option<&str>| {
        let counted = states.iter().filter(|it| name.is_none_or(|name| it["state"] == name));
        counted.filter_map(|it| it["flows"].as_u64()).sum()
    };
    Ok([count(None), count(Some("tcp-established"))])
}

#[test]
fn scans_through_rules_and_nat_are_dropped_by_name() -> Result<()> {
    let mut lab = Lab::begin(&pool(), &[])?;
    lab.configuration["ietf-access-control-list:acls"] = only_outwards();
    let output = lab.router().reload(&lab.configuration)?;
    assert!(output.success(), "{}{}", output.stdout, output.stderr);
    let (router, inside, outside) = (lab.router(), lab.host("host-a"), lab.host("host-b"));
    let external = POOL.replace(".16/28", ".17");
    for (from, kind, to, reason) in [
        // By segments that open nothing, outwards.
        (inside, &["-sA"][..], "198.18.2.2", "tcp-no-connection"),
        (inside, &["-sM"], "198.18.2.2", "tcp-no-connection"),
        (inside, &["-sF"], "198.18.2.2", "tcp-impossible-flags"),
        (inside, &["-sN"], "198.18.2.2", "tcp-impossible-flags"),
        (inside, &["-sX"], "198.18.2.2", "tcp-impossible-flags"),
        // The first fragment has not even the ports.
        (inside, &["-sS", "-f"], "198.18.2.2", "acl-truncated"),
        // Inwards: to a host, by a rule, and to an external address, which nobody has a mapping of.
        (outside, &["-sS"], "198.18.1.2", "acl-input"),
        (outside, &["-sA"], "198.18.1.2", "acl-input"),
        (outside, &["-sS"], &external, "acl-input"),
    ] {
        let before = (router.dropped(reason)?, flows(router)?);
        let printed = scan(from, kind, to)?;
        assert!(!printed.contains("/tcp open "), "{kind:?} {to}: {printed}");
        let dropped = router.dropped(reason)? - before.0;
        assert!(dropped >= PORTS, "{kind:?} {to}: {dropped} {reason}: {:?}", router.drops()?);
        assert_eq!(flows(router)?, before.1, "{kind:?} {to} has left flows");
    }
    // Connections that are refused leave none that is established.
    let printed = scan(inside, &["-sS"], "198.18.2.2")?;
    assert!(printed.contains("closed"), "{printed}");
    let [all, established] = flows(router)?;
    assert!(all >= PORTS && established == 0, "{all}, {established}");
    // Without the rules, NAT alone keeps outside hosts out.
    lab.configuration["ietf-access-control-list:acls"] = json!({});
    assert!(lab.router().reload(&lab.configuration)?.success());
    let router = lab.router();
    let before = router.dropped("nat44-no-mapping")?;
    scan(lab.host("host-b"), &["-sS"], &external)?;
    assert!(router.dropped("nat44-no-mapping")? - before >= PORTS, "{:?}", router.drops()?);
    lab.scenario.end()
}
