//! The lab with the Linux kernel as the router: hosts, tags on the wire, TCP throughput, cleanup.
//!
//! Needs root and the programs of `scripts/setup test`.

use std::time::Duration;

use stoa_lab::{Linux, Result, Side, Tag, Tool, Topology, wait_until};

const A4: &str = "198.18.1.2/24";
const B4: &str = "198.18.2.2/24";

fn sides(tags: &[Tag]) -> Result<[Side; 2]> {
    let a = [(A4, "198.18.1.1/24"), ("2001:db8:1::2/64", "2001:db8:1::1/64")];
    let b = [(B4, "198.18.2.1/24"), ("2001:db8:2::2/64", "2001:db8:2::1/64")];
    Ok([Side::new("host-a", &a)?, Side::new("host-b", &b)?.tagged(tags)])
}

fn tags_are_on_the_wire(tags: &[Tag], expected: &[&str]) -> Result<()> {
    let topology = Topology::new(&sides(tags)?)?;
    let _linux = Linux::start(&topology)?;
    // tcpdump sees frames as they are on the link: BPF programs run after its tap on receive and before it on transmit.
    let capture = topology
        .router()
        .command(Tool::TCPDUMP)?
        .args(["-lnne", "--immediate-mode", "-i", "host-b"])
        .spawn()?;
    capture.wait_for("listening on", Duration::from_secs(10))?;
    for six in [false, true] {
        let to = topology.host("host-b").address(six)?.to_string();
        let ping = ["-c", "2", "-i", "0.2", "-W", "2", &to];
        topology.host("host-a").command(Tool::PING)?.args(ping).run()?.ok()?;
    }
    // Two of each family in both directions, possibly with other frames in between.
    let seen = wait_until("all pings are captured", Duration::from_secs(10), || {
        let seen = capture.stdout();
        let count = |word: &str| seen.lines().filter(|line| line.contains(word)).count();
        let all = count("echo request") >= 4 && count("echo reply") >= 4;
        if all { Ok(seen) } else { Err(seen) }
    })?;
    for line in seen.lines().filter(|line| line.contains("echo re")) {
        for word in expected {
            assert!(line.contains(word), "`{word}` is missing in: {line}");
        }
    }
    Ok(())
}

#[test]
fn one_tag_is_on_the_wire_both_ways() -> Result<()> {
    tags_are_on_the_wire(&[Tag::customer(100)], &["802.1Q (0x8100)", "vlan 100"])
}

#[test]
fn two_tags_are_on_the_wire_both_ways() -> Result<()> {
    let tags = [Tag::service(200), Tag::customer(100)];
    tags_are_on_the_wire(&tags, &["802.1Q-QinQ", "vlan 200", "vlan 100"])
}

#[test]
fn frames_with_another_tag_are_discarded() -> Result<()> {
    let topology = Topology::new(&sides(&[Tag::customer(100)])?)?;
    // The router sends untagged frames on the tagged side.
    let router = topology.router();
    router.ip(&["addr", "add", "198.18.2.1/24", "dev", "host-b"])?;
    let ping = router.command(Tool::PING)?.args(["-c", "1", "-W", "1", "198.18.2.2"]).run()?;
    assert!(!ping.success(), "{}", ping.stdout);
    Ok(())
}

#[test]
fn tcp_is_fast_over_the_tag() -> Result<()> {
    let topology = Topology::new(&sides(&[Tag::customer(100)])?)?;
    let _linux = Linux::start(&topology)?;
    let b = topology.host("host-b");
    let server = b.command(Tool::IPERF3)?.args(["-s", "-1", "--forceflush"]).spawn()?;
    server.wait_for("listening", Duration::from_secs(10))?;
    let to = b.address(false)?.to_string();
    let client = topology
        .host("host-a")
        .command(Tool::IPERF3)?
        .args(["-c", &to, "-t", "2", "--json"])
        .deadline(Duration::from_secs(20))
        .run()?
        .ok()?;
    let report: serde_json::Value = serde_json::from_str(&client.stdout).expect("JSON");
    let rate = report["end"]["sum_received"]["bits_per_second"].as_f64().expect("a rate");
    println!("kernel to kernel over a tagged link: {:.2} Gbit/s", rate / 1e9);
    assert!(rate > 0.2e9, "{rate}");
    Ok(())
}

#[test]
fn a_panic_leaves_nothing_behind() -> Result<()> {
    let topology = Topology::new(&sides(&[])?)?;
    let names: Vec<String> =
        topology.hosts().iter().map(|host| host.namespace().name().to_owned()).collect();
    let background = topology.host("host-a").command(Tool::PING)?.args(["127.0.0.1"]).spawn()?;
    background.wait_for("bytes of data", Duration::from_secs(10))?;
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let (_topology, _background) = (topology, background);
        panic!("on purpose");
    }));
    assert!(panic.is_err());
    for name in names {
        assert!(!std::path::Path::new("/run/netns").join(&name).exists(), "{name} is left");
    }
    Ok(())
}
