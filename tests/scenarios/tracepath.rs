//! tracepath finds the path MTU and every hop, in both families.

use std::time::Duration;

use serde_json::json;
use stoa_lab::{Configuration, Result, Tool};
use stoa_scenarios::{Scenario, two_sides};

#[test]
fn tracepath_finds_the_mtu_of_the_far_link() -> Result<()> {
    let sides = two_sides(&[])?;
    let mut configuration = Configuration::new(&sides);
    for family in ["ietf-ip:ipv4", "ietf-ip:ipv6"] {
        configuration.interface("host-b")[family]["mtu"] = json!(1400);
    }
    let scenario = Scenario::with(&sides, &configuration)?;
    scenario.hosts_reach_each_other()?;
    let (a, b) = (scenario.host("host-a"), scenario.host("host-b"));
    for six in [false, true] {
        let (to, router) = (b.address(six)?.to_string(), a.gateway(six)?.to_string());
        let command = a.command(Tool::TRACEPATH)?.args(["-n", "-m", "4", &to]);
        let printed = command.deadline(Duration::from_secs(30)).run()?.stdout;
        assert!(printed.contains("pmtu 1400"), "{printed}");
        assert!(printed.contains(&router), "the router is a hop: {printed}");
        assert!(printed.contains("reached"), "{printed}");
        assert!(printed.contains("Resume: pmtu 1400 hops 2 back 2"), "{printed}");
    }
    scenario.end()
}
