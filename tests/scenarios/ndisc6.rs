//! Neighbour discovery with ndisc6 and rdisc6: the router answers for its own addresses, and sends router
//! advertisements only if configured.

use std::time::Duration;

use stoa_lab::{Host, Output, Result, Tool};
use stoa_scenarios::{Scenario, two_sides};

fn run(host: &Host, tool: Tool, arguments: &[&str]) -> Result<Output> {
    let command = host.command(tool)?.args(arguments).args(["eth0"]);
    command.deadline(Duration::from_secs(20)).run()
}

#[test]
fn the_router_answers_solicitations_for_its_own_address() -> Result<()> {
    let scenario = Scenario::begin(&two_sides(&[])?)?;
    for host in scenario.topology.hosts() {
        let router = host.gateway(true)?.to_string();
        let output = run(host, Tool::NDISC6, &["-1", "-r", "3", &router])?;
        let mac = scenario.topology.router_mac(host.label())?;
        assert!(output.success(), "{}{}", output.stdout, output.stderr);
        let printed = output.stdout.to_lowercase();
        assert!(printed.contains(&mac), "the port's own {mac}: {printed}");
    }
    scenario.end()
}

#[test]
fn the_router_does_not_answer_for_others() -> Result<()> {
    let scenario = Scenario::begin(&two_sides(&[])?)?;
    let a = scenario.host("host-a");
    for address in ["2001:db8:1::77", "2001:db8:2::1", "2001:db8:2::2"] {
        let output = run(a, Tool::NDISC6, &["-1", "-r", "1", "-w", "500", address])?;
        assert!(!output.success(), "{address}: {}", output.stdout);
    }
    scenario.end()
}

#[test]
fn router_solicitations_are_received_and_not_answered() -> Result<()> {
    // Advertisements are off: the solicitation must be counted as a drop and have no other effect.
    let scenario = Scenario::begin(&two_sides(&[])?)?;
    let a = scenario.host("host-a");
    let total =
        || -> Result<u64> { Ok(scenario.router.drops()?.iter().map(|one| one.packets).sum()) };
    let before = total()?;
    let output = run(a, Tool::RDISC6, &["-1", "-r", "2", "-w", "500"])?;
    assert!(!output.success(), "{}", output.stdout);
    assert!(total()? > before, "{:?}", scenario.router.drops()?);
    scenario.hosts_reach_each_other()?;
    scenario.end()
}
