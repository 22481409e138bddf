//! Valid run files, and the errors of invalid ones.

use super::*;

const WHOLE: &str = "
ports:
  left:
    memif: { socket: '@left', role: slave }
    mac: 02:00:00:00:00:01
    addresses: [198.18.0.2/24, 2001:200::2/64]
    gateways: [198.18.0.1, '2001:200::1']
    line-rate: 10gbps
  right:
    af-packet: { device: eth1, netns: blue }
    addresses: [198.19.0.0/16]
streams:
  - { name: plain, from: left, to: right }
  - name: rich
    from: left
    to: right
    rate: 40%
    burst: 32
    size: imix2
    vlan: 100
    inner-vlan: { range: 1-100 }
    ip4: { destination: { random: 198.19.0.0/16 }, dscp: 46 }
    ip6: { destination: { range: '2001:db8::-2001:db8::ffff', every: 4 } }
    udp: { source: { range: 1024-65535 }, destination: { list: [53, 443] } }
  - { name: back, from: right, to: left, rate: 1kpps, size: 1518, tcp: {}, ip6: {}, flows: 100000 }
  - { name: echo, from: right, to: left, icmp: { identifier: 7 }, count: 5 }
  - { name: raw, from: left, to: right, size: 64, ethernet: { type: '0x88b5', destination: 02:00:00:00:00:09 } }
duration: 2s
settle: 100ms
threads: one
cpus: [0]
";

#[test]
fn parses_a_complete_run_file() {
    let plan = parse(WHOLE).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((plan.ports.len(), plan.streams.len()), (2, 5));
    assert_eq!((plan.seconds, plan.settle, plan.threads), (2.0, 0.1, Some(Threads::One)));
    assert_eq!(plan.ports[0].line, Some(10e9));
    assert_eq!(plan.ports[0].mac, Some([2, 0, 0, 0, 0, 1]));
    let [plain, rich, back, echo, raw] = &plan.streams[..] else { panic!("five streams") };
    assert_eq!(plain.shapes.len(), 1);
    assert_eq!((plain.shapes[0].size, plain.rate), (64, Rate::Packets(1000.0)));
    assert_eq!(rich.order.len(), 200, "both families in turn");
    assert!((rich.mean_frame() - 458.84).abs() < 4.0, "{}", rich.mean_frame());
    assert_eq!((rich.fields[0].len(), rich.fields[1].len()), (4, 4));
    assert_eq!(back.fields[1].len(), 2, "ports and addresses");
    assert_eq!((back.from, back.to, echo.count), (1, 0, Some(5)));
    assert!(raw.link.has_destination && !raw.link.has_source);
    let rate = rich.packets(rich.rate, &plan.ports).unwrap().unwrap();
    assert!((rate - 4e9 / ((rich.mean_frame() + 20.0) * 8.0)).abs() < 1.0);
}

#[test]
fn parses_json() {
    let json = r#"{"ports": {"a": {"discard": {}}, "b": {"discard": {}}},
        "streams": [{"name": "s", "from": "a", "to": "b", "rate": "2mpps", "udp": {"destination": 7}}],
        "duration": 1.5}"#;
    let plan = parse(json).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((plan.seconds, plan.streams[0].rate), (1.5, Rate::Packets(2e6)));
}

/// A run file with these ports and this stream.
fn with(ports: &str, stream: &str) -> String {
    format!("ports: {{{ports}}}\nstreams:\n  - {{{stream}}}\n")
}

#[test]
fn impossible_plans_are_rejected() {
    let two = "a: {discard: {}}, b: {discard: {}, line-rate: 1gbps}";
    for (ports, stream, place, reason) in [
        (
            two,
            "name: s, from: a, to: c",
            "streams.s.to",
            "there is no port \"c\": give one of a, b",
        ),
        (two, "name: '', from: a, to: b", "streams.0.name", "share a name"),
        (two, "name: s, from: a, to: b, size: 60", "streams.s.size", "give 64 to"),
        (
            two,
            "name: s, from: a, to: b, size: 70, tcp: {}, vlan: 5",
            "streams.s.size",
            "give 74 to",
        ),
        (two, "name: s, from: a, to: b, size: 64, ip6: {}", "streams.s.size", "give 78 to"),
        (two, "name: s, from: a, to: b, size: 20000", "streams.s.size", "20000 bytes"),
        (two, "name: s, from: a, to: b, size: []", "streams.s.size", "give 1 to"),
        (two, "name: s, from: a, to: b, size: imix3, ip4: {}", "streams.s.size", "imix3 is IPv6"),
        (two, "name: s, from: a, to: b, size: campus, ip6: {}", "streams.s.size", "campus is IPv4"),
        (two, "name: s, from: a, to: b, rate: 50%", "streams.s.rate", "give the port a line-rate"),
        (two, "name: s, from: a, to: b, rate: 2000mpps", "streams.s.rate", "at most 1 billion"),
        (two, "name: s, from: b, to: a, rate: 2gbps", "ports.b", "on a line of 1.000"),
        (two, "name: s, from: a, to: b, rate: max, burst: 5", "streams.s.rate", "no gaps"),
        (two, "name: s, from: a, to: b, burst: 0", "streams.s.burst", "give 1 to"),
        (two, "name: s, from: a, to: b, count: 0", "streams.s.count", "at least one"),
        (two, "name: s, from: a, to: b, vlan: 4095", "streams.s.vlan", "0 to 4094"),
        (two, "name: s, from: a, to: b, inner-vlan: 4", "streams.s.inner-vlan", "the outer one"),
        (two, "name: s, from: a, to: b, udp: {}, tcp: {}", "streams.s.udp", "only one"),
        (
            two,
            "name: s, from: a, to: b, flows: 9, udp: {source: {range: 1-2}}",
            "streams.s.flows",
            "leave one",
        ),
        (two, "name: s, from: a, to: b, ip4: {ttl: 0}", "streams.s.ip4", "ttl of at least 1"),
        (
            two,
            "name: s, from: a, to: b, ethernet: {type: '800'}, udp: {}",
            "streams.s.ethernet.type",
            "without IP",
        ),
        ("a: {}", "name: s, from: a, to: a", "ports.a", "0 drivers"),
        ("a: {discard: {}, pcap: {}}", "name: s, from: a, to: a", "ports.a", "2 drivers"),
        ("a: {discard: {}, mac: x}", "name: s, from: a, to: a", "ports.a.mac", "not a MAC address"),
        (
            "a: {discard: {}, line-rate: 5pps}",
            "name: s, from: a, to: a",
            "ports.a.line-rate",
            "10gbps",
        ),
        (
            "a: {discard: {}, gateways: [10.0.0.1, 10.0.0.2]}",
            "name: s, from: a, to: a",
            "ports.a.gateways",
            "one of each",
        ),
        (
            "a: {tap: {device: x}}, b: {tap: {device: x}}",
            "name: s, from: a, to: b",
            "ports.a",
            "the same as port b",
        ),
    ] {
        let Err(PlanError::Faults(faults)) = parse(&with(ports, stream)) else {
            panic!("{ports} {stream} is taken")
        };
        let found =
            faults.iter().any(|fault| fault.place == place && fault.reason.contains(reason));
        assert!(found, "{stream}: {faults:?}");
    }
}

#[test]
fn all_errors_are_reported_at_once() {
    let text = "ports: {a: {discard: {}}}\nstreams:\n  - {name: s, from: a, to: x, size: 64}\n  \
                - {name: s, from: y, to: a}\n  - {name: t, from: a, to: a, size: 9}\nduration: 0\n";
    let Err(PlanError::Faults(faults)) = parse(text) else { panic!("it is taken") };
    assert_eq!(faults.len(), 5, "{faults:?}");
}

#[test]
fn syntax_errors_contain_the_line() {
    for (text, reason) in [
        ("ports: {a: {discard: {}}}\nstreams:\n  - name: s\n    form: a\n", "form"),
        ("ports: {a: {memif: {socket: x, role: boss}}}\n", "boss"),
        ("ports: {a: {discard: {}}}\nduration: soon\n", "no time"),
        ("ports: [", ""),
    ] {
        let Err(PlanError::Syntax(error)) = parse(text) else { panic!("{text} is taken") };
        assert!(error.contains(reason) && error.contains("line"), "{error}");
    }
}

#[test]
fn the_examples_are_valid() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/traffic");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().flatten().collect();
    assert!(files.len() >= 2);
    for file in files {
        let plan = read(&file.path());
        assert!(plan.is_ok(), "{}: {}", file.path().display(), plan.unwrap_err());
    }
}
