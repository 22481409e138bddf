//! iperf3: TCP and UDP through the router, both families and directions, one worker and two.

use serde_json::json;
use stoa_lab::measure::{Load, iperf};
use stoa_lab::{Configuration, Result, Tag};
use stoa_scenarios::{Story, two_sides};

/// Far below what the router does, far above what a fault (lost checksums, retransmissions only) would let through.
const LEAST: f64 = 100e6;

fn all_loads(story: &Story, label: &str) -> Result<()> {
    let hosts = story.topology.hosts();
    for six in [false, true] {
        for (from, to) in [(&hosts[0], &hosts[1]), (&hosts[1], &hosts[0])] {
            let rate = iperf(from, to, six, Load::Tcp, 2)?;
            let way = format!("{} to {}, IPv{}", from.label(), to.label(), if six { 6 } else { 4 });
            println!("{label}: TCP {way}: {:.2} Gbit/s", rate.bits_per_second / 1e9);
            assert!(rate.bits_per_second > LEAST, "{way}: {rate:?}");
        }
        let rate = iperf(&hosts[0], &hosts[1], six, Load::Udp { bits_per_second: 100_000_000 }, 2)?;
        println!("{label}: UDP at 100 Mbit/s: {:.2} % lost on the way", rate.lost_percent);
        assert!(rate.lost_percent < 5.0, "{rate:?}");
    }
    Ok(())
}

#[test]
fn tcp_and_udp_get_through_one_worker() -> Result<()> {
    let story = Story::begin(&two_sides(&[Tag::customer(100)])?)?;
    all_loads(&story, "one worker")?;
    story.end()
}

#[test]
fn tcp_and_udp_get_through_without_offloads() -> Result<()> {
    let sides = two_sides(&[Tag::customer(100)])?.map(stoa_lab::Side::without_offloads);
    let story = Story::begin(&sides)?;
    all_loads(&story, "without offloads")?;
    story.end()
}

#[test]
fn tcp_and_udp_get_through_two_workers() -> Result<()> {
    let sides = two_sides(&[Tag::customer(100)])?;
    let configuration = Configuration::new(&sides).workers(json!({ "count": 2 }));
    let story = Story::with(&sides, &configuration)?;
    all_loads(&story, "two workers")?;
    story.end()
}
