//! `stoa ping` and `stoa traceroute`: echo requests from the router's own addresses, with and without host interfaces,
//! in a VRF, to a host, through a host that forwards, and to nobody. Linux's own ping goes on working beside them.

use std::time::Duration;

use serde_json::Value;
use stoa_lab::{Configuration, NextHop, Result, Tool, wait_until};
use stoa_scenarios::{Scenario, run_ping, side};

/// Networks 1 and 2 in the default VRF, 3 in VRF red. Behind host-b is a network that it cannot reach.
fn begin() -> Result<Scenario> {
    let sides = [side("host-a", 1)?, side("host-b", 2)?, side("red-a", 3)?];
    let b = sides[1].addresses[0].0.ip.to_string();
    let configuration = Configuration::new(&sides)
        .vrf("red", &["red-a"])
        .route("203.0.113.0/24", NextHop::Via(&b))
        .route("192.0.2.0/24", NextHop::Special("blackhole"));
    let scenario = Scenario::with(&sides, &configuration)?;
    let namespace = scenario.host("host-b").namespace();
    namespace.sysctl("ipv4/ip_forward", "1")?;
    namespace.sysctl("ipv4/icmp_ratelimit", "0")?;
    namespace.sysctl("ipv4/icmp_ratemask", "0")?;
    let behind = ["route", "add", "unreachable", "203.0.113.0/24"];
    scenario.host("host-b").command(Tool::IP)?.args(behind).run()?.ok()?;
    // Addresses are no sources before the detection of duplicates has ended.
    for (name, vrf) in [("host-a", "default"), ("host-b", "default"), ("red-a", "red")] {
        let to = scenario.host(name).address(true)?.to_string();
        let words = ["ping", &to, "-c", "1", "--timeout", "1", "--vrf", vrf];
        wait_until(&format!("{name} answers"), Duration::from_secs(30), || {
            let output = scenario.router.call(&words).map_err(|error| error.to_string())?;
            if output.status.success() { Ok(()) } else { Err(output.stderr) }
        })?;
    }
    Ok(scenario)
}

fn states(results: &Value) -> Vec<&str> {
    let results = results["results"].as_array().map(Vec::as_slice).unwrap_or_default();
    results.iter().filter_map(|result| result["state"].as_str()).collect()
}

#[test]
fn the_router_pings_hosts_and_itself() -> Result<()> {
    let scenario = begin()?;
    for six in [false, true] {
        for (name, more) in
            [("host-a", &[][..]), ("host-b", &["--df"]), ("red-a", &["--vrf", "red"])]
        {
            let host = scenario.host(name);
            let to = host.address(six)?.to_string();
            for size in ["0", "56", "1400", "4000"] {
                let is_cut = size == "4000" && more.contains(&"--df");
                let words =
                    ["ping", &to, "-c", "2", "--interval", "0.05", "--size", size, "--json"];
                let words = [&words[..], more].concat();
                if is_cut {
                    let refused = scenario.router.call(&words)?;
                    assert!(refused.stderr.contains("exceed the MTU of"), "{}", refused.stderr);
                    continue;
                }
                let pings = scenario.router.json(&words)?;
                assert_eq!(states(&pings), ["reply", "reply"], "{words:?}: {pings}");
                let source = host.gateway(six)?.to_string();
                assert_eq!(
                    (&pings["source"], &pings["results"][0]["from"]),
                    (&source.into(), &to.clone().into())
                );
                assert!(pings["results"][0]["rtt_us"].as_u64() > Some(0), "{pings}");
            }
        }
        let own = scenario.host("host-b").gateway(six)?.to_string();
        let far = scenario.host("host-a").gateway(six)?.to_string();
        let pings = scenario.router.json(&["ping", &own, "-c", "1", "--source", &far, "--json"])?;
        assert_eq!((states(&pings), &pings["source"]), (vec!["reply"], &far.into()), "{pings}");
    }
    scenario.end()
}

#[test]
fn linux_gets_its_own_answers() -> Result<()> {
    let scenario = begin()?;
    // Another ping runs meanwhile, through the router and to it.
    let (a, b) = (scenario.host("host-a"), scenario.host("host-b"));
    let to = a.address(false)?.to_string();
    let words = ["ping", &to, "-c", "20", "--interval", "0.05", "--json"];
    let pings = std::thread::scope(|scope| {
        let router = scope.spawn(|| scenario.router.json(&words));
        let gateway = b.gateway(false)?.to_string();
        let printed = run_ping(b, &["-c", "10", "-i", "0.05", &gateway])?;
        assert!(printed.stdout.contains(" 0% packet loss"), "{}", printed.stdout);
        router.join().expect("no panic")
    })?;
    assert_eq!(pings["received"], 20, "{pings}");
    scenario.end()
}

#[test]
fn the_reason_is_named_when_nothing_answers() -> Result<()> {
    let scenario = begin()?;
    let call = |words: &[&str]| scenario.router.call(words);
    let refused = call(&["ping", "198.51.100.1"])?;
    assert!(refused.stderr.contains("there is no route to 198.51.100.1"), "{}", refused.stderr);
    let refused = call(&["ping", "192.0.2.1"])?;
    assert!(refused.stderr.contains("the route discards packets"), "{}", refused.stderr);
    let refused = call(&["ping", "198.18.1.2", "--source", "192.0.2.9"])?;
    assert!(refused.stderr.contains("192.0.2.9 is no address of the router"), "{}", refused.stderr);
    let refused = call(&["ping", "fe80::1"])?;
    assert!(refused.stderr.contains("name its interface"), "{}", refused.stderr);
    let refused = call(&["ping", "198.18.1.2", "--vrf", "blue"])?;
    assert!(refused.stderr.contains("there is no VRF \"blue\""), "{}", refused.stderr);
    let error = call(&["ping", "203.0.113.9", "-c", "1", "--timeout", "5"])?;
    let router = scenario.host("host-b").address(false)?;
    let expected = format!("from {router}: seq=1 host unreachable");
    assert!(error.stdout.contains(&expected), "{}{}", error.stdout, error.stderr);
    assert!(error.stdout.contains("1 sent, 0 received, 100 % lost"), "{}", error.stdout);
    // A neighbour that is not there.
    let silent = call(&["ping", "198.18.1.77", "-c", "1", "--timeout", "0.3"])?;
    assert!(silent.stdout.contains("no answer within 0.3 s"), "{}", silent.stdout);
    scenario.end()
}

#[test]
fn a_trace_names_the_routers_on_the_way() -> Result<()> {
    let scenario = begin()?;
    let b = scenario.host("host-b").address(false)?.to_string();
    // Linux has limits of its own for errors of routes, by receiver. It sets them up with the first error, without a
    // lock: of packets that two CPUs process meanwhile, only one is answered.
    wait_until("the host answers with an error", Duration::from_secs(30), || {
        let output = scenario
            .router
            .call(&["ping", "203.0.113.9", "-c", "1", "--timeout", "1"])
            .map_err(|error| error.to_string())?;
        let is_known = output.stdout.contains("host unreachable");
        if is_known { Ok(()) } else { Err(output.stdout + &output.stderr) }
    })?;
    let path = scenario.router.call(&["traceroute", "203.0.113.9", "--timeout", "5"])?;
    let lines: Vec<&str> = path.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{}{}", path.stdout, path.stderr);
    assert!(lines[1].starts_with(&format!("  1  {b}  ")), "{}", lines[1]);
    assert_eq!(lines[1].matches("(host unreachable)").count(), 3, "{}", lines[1]);
    for six in [false, true] {
        let to = scenario.host("host-a").address(six)?.to_string();
        let path = scenario.router.json(&["traceroute", &to, "-c", "1", "--json"])?;
        assert_eq!((states(&path), &path["reached"]), (vec!["reply"], &true.into()), "{path}");
    }
    scenario.end()
}
