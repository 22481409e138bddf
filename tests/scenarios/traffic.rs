//! `stoa traffic` tests a Linux router: nothing is lost at a modest rate, and faults of a link are measured.
//!
//! Needs root and the programs of `scripts/setup test`.

use std::time::Duration;

use serde_json::Value;
use stoa_lab::{Command, Linux, Output, Result, Scratch, Side, Topology, stoa_binary};

/// Packets sent in each direction.
const COUNT: u64 = 4000;

/// Two hosts around the kernel; the tester uses its own addresses on their links.
fn topology() -> Result<(Topology, Linux)> {
    let a = [("198.18.1.2/24", "198.18.1.1/24"), ("2001:db8:1::2/64", "2001:db8:1::1/64")];
    let b = [("198.18.2.2/24", "198.18.2.1/24"), ("2001:db8:2::2/64", "2001:db8:2::1/64")];
    let topology = Topology::new(&[Side::new("host-a", &a)?, Side::new("host-b", &b)?])?;
    let linux = Linux::start(&topology)?;
    Ok((topology, linux))
}

/// A run file with two ports in the hosts' namespaces and these streams.
fn run_file(topology: &Topology, streams: &str) -> String {
    let port = |label: &str, number: u8| {
        let netns = topology.host(label).namespace().name().to_owned();
        format!(
            "  {label}:
    af-packet: {{ device: eth0, netns: {netns} }}
    addresses: [198.18.{number}.9/24, '2001:db8:{number}::9/64']
    gateways: [198.18.{number}.1, '2001:db8:{number}::1']\n"
        )
    };
    format!(
        "ports:\n{}{}streams:\n{streams}duration: 20s\nsettle: 2s\nthreads: one\n",
        port("host-a", 1),
        port("host-b", 2)
    )
}

/// One stream of each family, in opposite directions.
fn streams(rate: &str) -> String {
    let stream = |name: &str, from: &str, to: &str, more: &str| {
        format!(
            "  - {{ name: {name}, from: {from}, to: {to}, rate: {rate}, count: {COUNT}, {more} }}\n"
        )
    };
    [
        stream("four", "host-a", "host-b", "size: 64, flows: 50"),
        stream("six", "host-b", "host-a", "ip6: {}, size: [78, 1518]"),
    ]
    .concat()
}

fn run(topology: &Topology, streams: &str) -> Result<(Output, Value)> {
    let scratch = Scratch::new()?;
    let file = scratch.write("run.yaml", run_file(topology, streams))?;
    let output = Command::program(stoa_binary()?)
        .args(["traffic", "run", &file.display().to_string(), "--json"])
        .deadline(Duration::from_secs(60))
        .run()?;
    let results = serde_json::from_str(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {} {}", output.stdout, output.stderr));
    Ok((output, results))
}

/// A counter of a stream.
fn counter(results: &Value, stream: usize, name: &str) -> u64 {
    results["streams"][stream][name].as_u64().unwrap_or_else(|| panic!("{name}: {results}"))
}

#[test]
fn linux_loses_nothing_at_a_modest_rate() -> Result<()> {
    let (topology, _linux) = topology()?;
    let (_, results) = run(&topology, &streams("2kpps"))?;
    for stream in 0..2 {
        assert_eq!(counter(&results, stream, "sent"), COUNT, "{results}");
        assert_eq!(counter(&results, stream, "received"), COUNT, "{results}");
        for name in ["lost", "duplicates", "reordered", "stray"] {
            assert_eq!(counter(&results, stream, name), 0, "{name} of {results}");
        }
        let latency = &results["streams"][stream]["latency"];
        let of = |name: &str| latency[name].as_u64().expect("a latency");
        assert!(of("min") > 500 && of("min") <= of("p50") && of("p50") <= of("max"), "{latency}");
    }
    Ok(())
}

#[test]
fn a_missing_gateway_is_named() -> Result<()> {
    let (topology, linux) = topology()?;
    topology.router().ip(&["addr", "del", "198.18.1.1/24", "dev", "host-a"])?;
    let scratch = Scratch::new()?;
    let text = run_file(&topology, &streams("2kpps")) + "patience: 2s\n";
    let file = scratch.write("run.yaml", text)?;
    let output = Command::program(stoa_binary()?)
        .args(["traffic", "run", &file.display().to_string()])
        .deadline(Duration::from_secs(60))
        .run()?;
    assert!(!output.success());
    assert!(output.stderr.contains("no answer for 198.18.1.1"), "{}", output.stderr);
    drop(linux);
    Ok(())
}

/// A link of 200 kbit/s carries about 420 frames of 60 bytes per second of the 4,000 offered, and queues almost none.
#[test]
fn drops_of_a_slow_link_are_counted_as_lost() -> Result<()> {
    let (topology, _linux) = topology()?;
    limit_rate(&topology)?;
    let (_, results) = run(&topology, &streams("4kpps"))?;
    let (received, lost) = (counter(&results, 0, "received"), counter(&results, 0, "lost"));
    assert!((1..1000).contains(&received) && lost > 0, "{results}");
    assert_eq!(received + lost, counter(&results, 0, "sent"));
    assert_eq!(counter(&results, 0, "duplicates") + counter(&results, 0, "reordered"), 0);
    assert_eq!(counter(&results, 1, "lost"), 0, "the other direction is not limited");
    Ok(())
}

fn limit_rate(topology: &Topology) -> Result<()> {
    let words = [
        "qdisc", "add", "dev", "host-b", "root", "tbf", "rate", "200kbit", "burst", "2000",
        "limit", "4000",
    ];
    Command::program("tc").inside(topology.router().name()).args(words).run()?.ok()?;
    Ok(())
}

/// Results with the kernel's network emulator; `None` if the kernel has none.
fn emulated(words: &[&str]) -> Result<Option<Value>> {
    let (topology, _linux) = topology()?;
    let whole = [&["qdisc", "add", "dev", "host-b", "root", "netem"], words].concat();
    let done = Command::program("tc").inside(topology.router().name()).args(&whole).run()?;
    if !done.success() {
        eprintln!("SKIPPED netem {}: {}", words.join(" "), done.stderr.trim());
        return Ok(None);
    }
    run(&topology, &streams("2kpps")).map(|(_, results)| Some(results))
}

#[test]
fn lost_packets_are_counted() -> Result<()> {
    let Some(results) = emulated(&["loss", "10%"])? else { return Ok(()) };
    // 400 of 4,000 are expected, within five standard deviations.
    assert!((305..=495).contains(&counter(&results, 0, "lost")), "{results}");
    assert_eq!(counter(&results, 1, "lost"), 0, "{results}");
    Ok(())
}

#[test]
fn duplicate_packets_are_counted() -> Result<()> {
    let Some(results) = emulated(&["duplicate", "10%"])? else { return Ok(()) };
    assert!((305..=495).contains(&counter(&results, 0, "duplicates")), "{results}");
    assert_eq!(counter(&results, 0, "lost"), 0, "{results}");
    Ok(())
}

#[test]
fn packets_out_of_order_are_counted() -> Result<()> {
    // One in ten is sent without delay and overtakes earlier ones.
    let Some(results) = emulated(&["delay", "5ms", "reorder", "10%"])? else { return Ok(()) };
    assert!(counter(&results, 0, "reordered") >= 300, "{results}");
    assert_eq!(counter(&results, 0, "lost") + counter(&results, 0, "duplicates"), 0, "{results}");
    Ok(())
}
