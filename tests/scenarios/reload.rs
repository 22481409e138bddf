//! Reload: a valid configuration is applied as a whole, an invalid one is refused as a whole, and traffic continues.

use std::time::Duration;

use serde_json::json;
use stoa_lab::measure::ping;
use stoa_lab::{Configuration, NextHop, Result, Side, wait_until};
use stoa_scenarios::{Scenario, side, two_sides};

fn sides() -> Result<[Side; 3]> {
    Ok([side("host-a", 1)?, side("host-b", 2)?, side("host-c", 3)?])
}

/// An address of the second host that only a static route leads to.
const FAR: &str = "198.18.50.1";

#[test]
fn a_good_change_takes_effect_and_nothing_else_does() -> Result<()> {
    let sides = sides()?;
    // The first configuration does not contain the third host.
    let scenario = Scenario::with(&sides, &Configuration::new(&sides[..2]))?;
    scenario.hosts_reach_each_other()?;
    let (a, b, c) = (scenario.host("host-a"), scenario.host("host-b"), scenario.host("host-c"));
    b.namespace().ip(&["addr", "add", &format!("{FAR}/32"), "dev", "lo"])?;
    let far = FAR.parse().expect("an address");
    assert_eq!(ping(a, far, 1, &[])?.received, 0);
    assert_eq!(ping(c, c.gateway(false)?, 1, &[])?.received, 0);

    let more = Configuration::new(&sides).route("198.18.50.0/24", NextHop::Via("198.18.2.2"));
    // A ping runs during the change and loses nothing.
    let to = b.address(false)?.to_string();
    let running = a
        .command(stoa_lab::Tool::PING)?
        .args(["-n", "-i", "0.02", "-c", "150", "-W", "2", &to])
        .spawn()?;
    running.wait_for("icmp_seq=5 ", Duration::from_secs(10))?;
    let output = scenario.router.reload(&more.json())?;
    assert!(output.success(), "{}{}", output.stdout, output.stderr);
    let (stdout, _, _) = running.finish(Duration::from_secs(20))?;
    assert!(stdout.contains("150 received"), "{stdout}");
    assert!(ping(a, far, 2, &[])?.all(), "the new route");
    assert!(ping(c, c.gateway(false)?, 2, &[])?.all(), "the new interface");
    assert!(ping(a, c.address(true)?, 2, &[])?.all(), "through both");

    // And back.
    let output = scenario.router.reload(&Configuration::new(&sides[..2]).json())?;
    assert!(output.success(), "{}{}", output.stdout, output.stderr);
    assert_eq!(ping(a, far, 1, &[])?.received, 0);
    assert_eq!(ping(c, c.gateway(false)?, 1, &[])?.received, 0);
    scenario.hosts_reach_each_other()?;
    scenario.end()
}

#[test]
fn a_hang_up_signal_reloads() -> Result<()> {
    let sides = two_sides(&[])?;
    let scenario = Scenario::begin(&sides)?;
    let more = Configuration::new(&sides).route("198.18.50.0/24", NextHop::Via("198.18.2.2"));
    scenario.router.write_configuration(&more.json())?;
    scenario.router.send_sighup();
    wait_until("the router has the route", Duration::from_secs(10), || {
        let routes = scenario.router.show("routes").map_err(|error| error.to_string())?.to_string();
        if routes.contains("198.18.50.0") { Ok(()) } else { Err(routes) }
    })?;
    scenario.end()
}

#[test]
fn a_bad_change_is_refused_as_a_whole() -> Result<()> {
    let sides = two_sides(&[])?;
    let scenario = Scenario::begin(&sides)?;
    let before = scenario.router.show("routes")?;
    let good = Configuration::new(&sides).route("198.18.50.0/24", NextHop::Via("198.18.2.2"));

    let mut unknown = good.json();
    unknown["ietf-interfaces:interfaces"]["interface"][0]["colour"] = json!("blue");
    let mut range = good.clone();
    range.interface("host-a")["ietf-ip:ipv4"]["address"][0]["prefix-length"] = json!(33);
    let nowhere = good.clone().route("198.18.60.0/24", NextHop::Via("198.18.2.1"));
    let mut twice = good.clone();
    twice.interface("host-b")["ietf-ip:ipv4"]["address"][0]["ip"] = json!("198.18.1.1");
    let device = good.port("host-z", json!({ "af-packet": { "device": "not-there" } }));

    for (what, bad, word) in [
        ("an unknown leaf", unknown, "colour"),
        ("a prefix length out of range", range.json(), "33"),
        ("a next hop of the router itself", nowhere.json(), "198.18.2.1"),
        ("one address on two interfaces", twice.json(), "198.18.1.1"),
        ("a missing device", device.json(), "not-there"),
    ] {
        let output = scenario.router.reload(&bad)?;
        let printed = format!("{}{}", output.stdout, output.stderr);
        assert!(!output.success(), "{what} must be refused: {printed}");
        assert!(printed.contains(word), "{what}: `{word}` is missing in: {printed}");
        let routes = scenario.router.show("routes")?;
        assert_eq!(prefixes(&routes), prefixes(&before), "{what}: no part may take effect");
    }
    let output = scenario.router.reload(&json!("no configuration at all"))?;
    assert!(!output.success());
    scenario.hosts_reach_each_other()?;
    scenario.end()
}

#[test]
fn a_refused_change_of_a_port_does_not_interrupt_it() -> Result<()> {
    let sides = two_sides(&[])?;
    let scenario = Scenario::begin(&sides)?;
    scenario.hosts_reach_each_other()?;
    let (a, b) = (scenario.host("host-a"), scenario.host("host-b"));
    let mut bad = Configuration::new(&sides);
    bad.interface("host-b")["stoa-interfaces:port"] = json!({ "af-packet": { "device": "gone0" } });
    // A ping runs during the change and loses nothing.
    let to = b.address(false)?.to_string();
    let ping = a.command(stoa_lab::Tool::PING)?;
    let running = ping.args(["-n", "-i", "0.02", "-c", "150", "-W", "2", &to]).spawn()?;
    running.wait_for("icmp_seq=5 ", Duration::from_secs(10))?;
    for _ in 0..3 {
        let output = scenario.router.reload(&bad.json())?;
        let printed = format!("{}{}", output.stdout, output.stderr);
        assert!(!output.success() && printed.contains("gone0"), "{printed}");
    }
    let (stdout, _, _) = running.finish(Duration::from_secs(20))?;
    assert!(stdout.contains("150 received"), "{stdout}");
    scenario.end()
}

/// The prefixes and addresses of the routes.
fn prefixes(routes: &serde_json::Value) -> Vec<String> {
    let text = routes.to_string();
    let mut found: Vec<String> = text
        .split('"')
        .filter(|word| word.contains('/') || word.parse::<std::net::IpAddr>().is_ok())
        .map(str::to_owned)
        .collect();
    found.sort();
    found
}
