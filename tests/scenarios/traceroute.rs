//! Traceroute: the router is the first hop, the other host the second, by UDP and by ICMP, both families.

use std::net::IpAddr;

use stoa_lab::measure::traceroute;
use stoa_lab::{Result, Tag};
use stoa_scenarios::{Scenario, two_sides};

#[test]
fn the_router_is_the_first_hop() -> Result<()> {
    let scenario = Scenario::begin(&two_sides(&[Tag::customer(100)])?)?;
    let hosts = scenario.topology.hosts();
    for six in [false, true] {
        for (from, to) in [(&hosts[0], &hosts[1]), (&hosts[1], &hosts[0])] {
            for probes in [&[][..], &["-I"]] {
                let hops = traceroute(from, to.address(six)?, probes)?;
                let seen: Vec<Option<IpAddr>> = hops.iter().map(|hop| hop.address).collect();
                let expected = [Some(from.gateway(six)?), Some(to.address(six)?)];
                assert_eq!(seen, expected, "from {} {probes:?}", from.label());
                assert!(hops.iter().all(|hop| hop.mark.is_empty()), "{hops:?}");
            }
        }
    }
    scenario.end()
}
