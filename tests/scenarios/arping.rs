//! ARP with arping: the router answers for its own addresses only, and learns a changed MAC address.

use std::time::Duration;
use stoa_lab::measure::ping;
use stoa_lab::{Host, Output, Result, Tag, Tool, wait_until};
use stoa_scenarios::{Scenario, two_sides};

fn arping(host: &Host, arguments: &[&str]) -> Result<Output> {
    host.command(Tool::ARPING)?.args(["-I", "eth0"]).args(arguments).run()
}

#[test]
fn the_router_answers_for_its_own_address() -> Result<()> {
    let scenario = Scenario::begin(&two_sides(&[Tag::customer(100)])?)?;
    for host in scenario.topology.hosts() {
        let router = host.gateway(false)?.to_string();
        let output = arping(host, &["-c", "2", "-w", "5", &router])?;
        let mac = scenario.topology.router_mac(host.label())?;
        assert!(output.success(), "{}", output.stdout);
        let printed = output.stdout.to_lowercase();
        assert!(printed.contains(&mac), "the port's own {mac}: {printed}");
        assert!(printed.contains("received 2 response"), "{printed}");
    }
    scenario.end()
}

#[test]
fn the_router_does_not_answer_for_others() -> Result<()> {
    let scenario = Scenario::begin(&two_sides(&[])?)?;
    let a = scenario.host("host-a");
    let (far, far_router) = (scenario.host("host-b").address(false)?, "198.18.2.1");
    for address in [far.to_string().as_str(), far_router, "198.18.1.77"] {
        let output = arping(a, &["-c", "1", "-w", "1", address])?;
        assert!(output.stdout.contains("Received 0 response"), "{address}: {}", output.stdout);
    }
    scenario.end()
}

#[test]
fn a_duplicate_address_is_detected() -> Result<()> {
    let scenario = Scenario::begin(&two_sides(&[])?)?;
    // -D probes with the source 0.0.0.0 (RFC 5227, Section 2.1.1): the router must answer.
    let a = scenario.host("host-a");
    let output = arping(a, &["-D", "-c", "1", "-w", "2", "198.18.1.1"])?;
    assert!(!output.success(), "the address is taken: {}", output.stdout);
    let output = arping(a, &["-D", "-c", "1", "-w", "1", "198.18.1.78"])?;
    assert!(output.success(), "the address is free: {}", output.stdout);
    scenario.end()
}

#[test]
fn a_new_mac_address_is_learned() -> Result<()> {
    let scenario = Scenario::begin(&two_sides(&[])?)?;
    let (a, b) = (scenario.host("host-a"), scenario.host("host-b"));
    assert!(ping(a, b.address(false)?, 1, &[])?.all());
    let new = "02:00:00:00:77:01";
    b.namespace().ip(&["link", "set", "eth0", "address", new])?;
    let own = b.address(false)?.to_string();
    let output = arping(b, &["-U", "-c", "1", &own])?;
    assert!(output.stderr.is_empty(), "{}", output.stderr);
    wait_until("the router has the new MAC address", Duration::from_secs(5), || {
        let known = scenario.router.neighbors().map_err(|error| error.to_string())?;
        let mine = known.iter().find(|one| one.address == own);
        match mine {
            Some(mine) if mine.mac == new => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })?;
    assert!(ping(a, b.address(false)?, 2, &[])?.all());
    scenario.end()
}
