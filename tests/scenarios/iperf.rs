//! iperf3: TCP and UDP through the router, both families and directions, one worker and two.

use serde_json::json;
use stoa_lab::measure::{Load, iperf};
use stoa_lab::{Configuration, Result, Tag};
use stoa_scenarios::{Scenario, two_sides};

/// Minimum bits per second. Benchmarks measure rates; a busy machine must not fail this test.
const MINIMUM: f64 = 1e5;

/// A rate of datagrams that any machine sustains.
const LOW_RATE: Load = Load::Udp { bits_per_second: 5_000_000 };

/// Each run has its own deadline.
fn all_loads(scenario: &Scenario, label: &str) -> Result<()> {
    let hosts = scenario.topology.hosts();
    for six in [false, true] {
        for (from, to) in [(&hosts[0], &hosts[1]), (&hosts[1], &hosts[0])] {
            let direction =
                format!("{} to {}, IPv{}", from.label(), to.label(), if six { 6 } else { 4 });
            let rate = iperf(from, to, six, Load::Tcp, 1)?;
            println!("{label}: TCP {direction}: {:.2} Gbit/s", rate.bits_per_second / 1e9);
            assert!(rate.bits_per_second > MINIMUM, "{direction}: {rate:?}");
            let rate = iperf(from, to, six, LOW_RATE, 1)?;
            println!("{label}: UDP {direction}: {:.2} % lost", rate.lost_percent);
            assert!(rate.lost_percent + rate.late_percent < 50.0, "{direction}: {rate:?}");
            assert!(rate.bits_per_second > MINIMUM, "{direction}: {rate:?}");
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
