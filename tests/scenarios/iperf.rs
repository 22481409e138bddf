//! iperf3: TCP and UDP get through the router, both families and directions, one worker and two.

use serde_json::json;
use stoa_lab::measure::{Load, iperf};
use stoa_lab::{Configuration, Result, Tag};
use stoa_scenarios::{Scenario, two_sides};

/// Bits per second that say that bytes arrive at all: rates belong to the benches, and a busy machine must not fail this.
const SOME: f64 = 1e5;

/// Datagrams, bits per second: a rate that any machine keeps up with.
const FEW: Load = Load::Udp { bits_per_second: 5_000_000 };

/// Each run has a deadline of its own and fails beyond it.
fn all_loads(scenario: &Scenario, label: &str) -> Result<()> {
    let hosts = scenario.topology.hosts();
    for six in [false, true] {
        for (from, to) in [(&hosts[0], &hosts[1]), (&hosts[1], &hosts[0])] {
            let way = format!("{} to {}, IPv{}", from.label(), to.label(), if six { 6 } else { 4 });
            let rate = iperf(from, to, six, Load::Tcp, 1)?;
            println!("{label}: TCP {way}: {:.2} Gbit/s", rate.bits_per_second / 1e9);
            assert!(rate.bits_per_second > SOME, "{way}: {rate:?}");
            let rate = iperf(from, to, six, FEW, 1)?;
            println!("{label}: UDP {way}: {:.2} % lost on the way", rate.lost_percent);
            assert!(rate.lost_percent + rate.late_percent < 50.0, "{way}: {rate:?}");
            assert!(rate.bits_per_second > SOME, "{way}: {rate:?}");
        }
    }
    Ok(())
}

#[test]
fn tcp_and_udp_get_through_one_worker() -> Result<()> {
    let scenario = Scenario::begin(&two_sides(&[Tag::customer(100)])?)?;
    all_loads(&scenario, "one worker")?;
    scenario.end()
}

#[test]
fn tcp_and_udp_get_through_without_offloads() -> Result<()> {
    let sides = two_sides(&[Tag::customer(100)])?.map(stoa_lab::Side::without_offloads);
    let scenario = Scenario::begin(&sides)?;
    all_loads(&scenario, "without offloads")?;
    scenario.end()
}

#[test]
fn tcp_and_udp_get_through_two_workers() -> Result<()> {
    let sides = two_sides(&[Tag::customer(100)])?;
    let configuration = Configuration::new(&sides).workers(json!({ "count": 2 }));
    let scenario = Scenario::with(&sides, &configuration)?;
    all_loads(&scenario, "two workers")?;
    scenario.end()
}
