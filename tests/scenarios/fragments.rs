//! Fragments: large pings pass, IPv4 is fragmented towards a link with a small MTU, the router reassembles and answers
//! pings for itself; record route lists the router.

use serde_json::json;
use stoa_lab::measure::ping;
use stoa_lab::{Configuration, Result, interface_name};
use stoa_scenarios::{Scenario, run_ping, two_sides};

#[test]
fn large_pings_reach_the_router_and_pass_it() -> Result<()> {
    let sides = two_sides(&[])?;
    let mut configuration = Configuration::new(&sides);
    // The router fragments IPv4 towards the far side; this MTU is no divisor of the hosts' one.
    configuration.interface(&interface_name(&sides[1]))["ietf-ip:ipv4"]["mtu"] = json!(700);
    let scenario = Scenario::with(&sides, &configuration)?;
    let (a, b) = (scenario.host("host-a"), scenario.host("host-b"));
    for six in [false, true] {
        for size in ["1473", "3000", "8000", "10000"] {
            let size = ["-s", size, "-p", "53746f6121"];
            let own = ping(a, a.gateway(six)?, 2, &size)?;
            assert!(own.all(), "the router answers {size:?}: {own:?}");
            let through = ping(a, b.address(six)?, 2, &size)?;
            assert!(through.all(), "through the router {size:?}: {through:?}");
        }
        // The router does not reassemble packets of this size; it forwards their fragments.
        let too_long = ["-s", "20000"];
        assert_eq!(ping(a, a.gateway(six)?, 1, &too_long)?.received, 0);
        let through = ping(a, b.address(six)?, 1, &too_long)?;
        assert!(through.all(), "{through:?}");
    }
    scenario.end()
}

#[test]
fn a_recorded_route_names_the_router() -> Result<()> {
    let scenario = Scenario::begin(&two_sides(&[])?)?;
    let (a, b) = (scenario.host("host-a"), scenario.host("host-b"));
    let output = run_ping(a, &["-R", "-n", "-c", "1", "-W", "2", &b.address(false)?.to_string()])?;
    for router in [a.gateway(false)?, b.gateway(false)?] {
        assert!(output.stdout.contains(&router.to_string()), "{}", output.stdout);
    }
    scenario.end()
}
