//! VLAN and QinQ: tagged on one side or both, one tag or two; frames with other tags are dropped and counted.

use stoa_lab::measure::{Load, iperf, ping};
use stoa_lab::{Configuration, Result, Tag};
use stoa_scenarios::{Scenario, side, two_sides};

#[test]
fn one_tag() -> Result<()> {
    let scenario = Scenario::begin(&two_sides(&[Tag::customer(100)])?)?;
    scenario.hosts_reach_each_other()?;
    scenario.end()
}

#[test]
fn two_tags() -> Result<()> {
    let scenario = Scenario::begin(&two_sides(&[Tag::service(200), Tag::customer(100)])?)?;
    scenario.hosts_reach_each_other()?;
    let hosts = scenario.topology.hosts();
    // Full-size frames: the tags come on top of the MTU.
    let full = ping(&hosts[0], hosts[1].address(false)?, 2, &["-s", "1472", "-M", "do"])?;
    assert!(full.all(), "{full:?}");
    let rate = iperf(&hosts[0], &hosts[1], false, Load::Tcp, 1)?;
    println!("TCP into QinQ: {:.2} Gbit/s", rate.bits_per_second / 1e9);
    scenario.end()
}

#[test]
fn two_tags_of_type_802_1q() -> Result<()> {
    let scenario = Scenario::begin(&two_sides(&[Tag::customer(200), Tag::customer(100)])?)?;
    scenario.hosts_reach_each_other()?;
    scenario.end()
}

#[test]
fn the_same_tag_on_both_sides_is_distinguished() -> Result<()> {
    // The same VLAN on both sides: tags are local to a port.
    let sides = [
        side("host-a", 1)?.tagged(&[Tag::customer(100)]),
        side("host-b", 2)?.tagged(&[Tag::service(100), Tag::customer(100)]),
    ];
    let scenario = Scenario::begin(&sides)?;
    scenario.hosts_reach_each_other()?;
    scenario.end()
}

#[test]
fn another_tag_is_dropped_by_name() -> Result<()> {
    // The host sends VLAN 101, the router expects 100.
    let expected = two_sides(&[Tag::customer(100)])?;
    let sent = two_sides(&[Tag::customer(101)])?;
    let scenario = Scenario::with(&sent, &Configuration::new(&expected))?;
    let before = scenario.router.dropped("vlan-unknown")?;
    let b = scenario.host("host-b");
    let pings = ping(b, b.gateway(false)?, 2, &[])?;
    assert_eq!(pings.received, 0, "{pings:?}");
    assert!(scenario.router.dropped("vlan-unknown")? > before, "{:?}", scenario.router.drops()?);
    // The other side is not affected.
    let a = scenario.host("host-a");
    assert!(ping(a, a.gateway(false)?, 2, &[])?.all());
    scenario.end()
}
