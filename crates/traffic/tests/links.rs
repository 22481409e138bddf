//! Runs over links that need no rights: shared memory between two ports of one run, capture
//! files, and nowhere.

use std::net::Ipv4Addr;

use stoa_traffic::results::{Cause, Results};
use stoa_traffic::{Load, Moment, Plan, Session, plan};

fn plan(text: &str) -> Plan {
    plan::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

/// Two ports at the two ends of one memif link.
fn pair(name: &str, streams: &str) -> Plan {
    let socket = format!("@stoa-traffic-{name}-{}", std::process::id());
    plan(&format!(
        "ports:
  a: {{ memif: {{ socket: '{socket}', role: slave }}, addresses: [192.0.2.1/24, '2001:db8::1/64'] }}
  b: {{ memif: {{ socket: '{socket}', role: master }}, addresses: [192.0.2.2/24, '2001:db8::2/64'] }}
duration: 300ms
settle: 5s
threads: one
streams:
{streams}"
    ))
}

fn run(plan: Plan) -> Results {
    stoa_traffic::run(plan, &Load::default(), &mut |_: &Moment| true)
        .unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn all_packets_of_all_kinds_come_back_in_order() {
    let results = run(pair(
        "kinds",
        "  - { name: plain, from: a, to: b, rate: 20kpps }
  - { name: back, from: b, to: a, rate: 20kpps, size: 1518, tcp: {} }
  - { name: mix, from: a, to: b, rate: 5kpps, size: imix2, vlan: 7, flows: 20000 }
  - { name: jumbo, from: b, to: a, rate: 1kpps, size: [64, 1400], icmp: {}, burst: 10 }
  - { name: raw, from: a, to: b, count: 77, ethernet: { type: '0x88b5' } }
",
    ));
    for stream in &results.streams {
        assert_eq!((stream.lost, stream.duplicates, stream.reordered), (0, 0, 0), "{stream:?}");
        assert_eq!(stream.stray, 0);
        let latency = stream.latency.as_ref().expect("packets came");
        assert!(latency.min <= latency.p50 && latency.p50 <= latency.max, "{latency:?}");
        assert!(latency.max < 5_000_000_000, "{latency:?}");
    }
    assert_eq!(results.streams[4].received, 77);
    assert_eq!(results.total.received, results.total.sent);
    assert!(results.ports.iter().all(|port| port.foreign == 0 && port.driver == "memif"));
}

#[test]
fn streams_of_one_port_go_by_several_queues() {
    let streams: String = (0..5)
        .map(|at| format!("  - {{ name: s{at}, from: a, to: b, rate: 10kpps, count: 1000 }}\n"))
        .collect();
    let socket = format!("@stoa-traffic-queues-{}", std::process::id());
    for threads in ["one", "per-port", "per-direction"] {
        let results = run(plan(&format!(
            "ports:
  a: {{ memif: {{ socket: '{socket}', role: slave, queues: 4 }}, addresses: [192.0.2.1/24] }}
  b: {{ memif: {{ socket: '{socket}', role: master, queues: 4 }}, addresses: [192.0.2.2/24] }}
duration: 20s
settle: 5s
threads: {threads}
streams:
{streams}"
        )));
        for stream in &results.streams {
            assert_eq!((stream.sent, stream.received), (1000, 1000), "{stream:?}");
            assert_eq!((stream.lost, stream.duplicates, stream.reordered), (0, 0, 0), "{stream:?}");
        }
        assert!(results.ports[0].detail.contains("4 out"), "{}", results.ports[0].detail);
    }
}

#[test]
fn gateways_are_asked_for_and_answered_for() {
    let mut plan = pair(
        "gateway",
        "  - { name: s, from: a, to: b, count: 10 }\n  - { name: t, from: a, to: b, count: 10, ip6: {} }\n",
    );
    plan.ports[0].gateways =
        vec![Ipv4Addr::new(192, 0, 2, 2).into(), "2001:db8::2".parse().unwrap()];
    let results = run(plan);
    assert_eq!(results.total.received, 20);
}

#[test]
fn a_gateway_that_is_not_there_is_named() {
    let mut plan = pair("nobody", "  - { name: s, from: a, to: b, count: 10 }\n");
    plan.ports[0].gateways = vec![Ipv4Addr::new(192, 0, 2, 9).into()];
    plan.patience = 0.2;
    let error = stoa_traffic::run(plan, &Load::default(), &mut |_| true).unwrap_err().to_string();
    assert!(error.contains("port a: no answer for 192.0.2.9"), "{error}");
}

#[test]
fn a_session_runs_again_and_again_with_other_loads() {
    let plan = pair("again", "  - { name: s, from: a, to: b, rate: 1kpps }\n");
    let mut session = Session::open(plan, &mut |_| true).unwrap_or_else(|error| panic!("{error}"));
    for count in [5, 100, 1000] {
        let rate = Some(plan::Rate::Packets(1e5));
        let load = Load { count: Some(count), rate, seconds: Some(0.2) };
        let results = session.run(&load, &mut |_| true).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((results.total.sent, results.total.received), (count, count));
        assert_eq!(results.total.intended_pps, Some(1e5));
    }
}

#[test]
fn what_goes_nowhere_is_lost_and_the_run_counts() {
    let plan = plan(
        "ports: { a: { discard: {} }, b: { discard: {} } }
streams: [ { name: s, from: a, to: b, rate: 10kpps } ]
duration: 200ms
settle: 10ms
threads: one",
    );
    let results = run(plan);
    assert_eq!((results.total.received, results.total.lost), (0, results.total.sent));
    assert!(results.total.loss == 1.0 && results.total.latency.is_none());
}

#[test]
fn a_run_that_is_stopped_does_not_count() {
    let plan = pair("stopped", "  - { name: s, from: a, to: b }\n");
    let mut moments = 0;
    let results =
        stoa_traffic::run(plan, &Load { seconds: Some(60.0), ..Load::default() }, &mut |moment| {
            moments += u32::from(moment.at > 0.0);
            moments < 2
        });
    let results = results.unwrap_or_else(|error| panic!("{error}"));
    assert!(!results.valid && results.seconds < 30.0);
    assert_eq!(results.faults[0].cause, Cause::Stopped);
}

#[test]
fn a_full_port_is_distinguished_from_loss() {
    // Nobody empties the ring of the other end in time: both ends are one thread.
    let plan = pair("full", "  - { name: s, from: a, to: b, rate: 900mpps }\n");
    let results = run(plan);
    assert!(!results.valid);
    assert!(results.total.late + results.total.not_taken > 0, "{:?}", results.total);
    assert_eq!(results.total.lost, 0, "{:?}", results.total);
}

#[test]
fn frames_that_are_too_long_for_a_port_are_refused() {
    let plan = pair("long", "  - { name: s, from: a, to: b, size: 9018 }\n");
    let error = stoa_traffic::run(plan, &Load::default(), &mut |_| true).unwrap_err().to_string();
    assert!(error.contains("stream s: frames of 9018 bytes do not fit port a"), "{error}");
}

#[test]
fn a_capture_of_what_was_sent_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sent.pcap");
    let plan = plan(&format!(
        "ports: {{ a: {{ pcap: {{ output: '{}' }} }}, b: {{ discard: {{}} }} }}
streams: [ {{ name: s, from: a, to: b, count: 100, rate: 100kpps, size: 128 }} ]
duration: 200ms
settle: 10ms
threads: one",
        file.display()
    ));
    let results = run(plan);
    assert_eq!(results.total.sent, 100);
    let bytes = std::fs::metadata(&file).unwrap().len();
    // The lessons are in it as well.
    assert!(bytes >= 24 + 100 * (16 + 124), "{bytes}");
}

#[test]
fn a_capture_is_sent_again_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sent.pcap");
    let made = plan(&format!(
        "ports: {{ a: {{ pcap: {{ output: '{}' }} }}, b: {{ discard: {{}} }} }}
streams: [ {{ name: s, from: a, to: b, count: 50, rate: 100kpps, size: [64, 1000] }} ]
duration: 200ms
settle: 10ms
threads: one",
        file.display()
    ));
    run(made);
    let replay = format!(
        "  - {{ name: file, from: a, to: b, rate: 20kpps, count: 500, replay: '{}' }}
  - {{ name: made, from: a, to: b, rate: 20kpps, count: 400 }}
  - {{ name: back, from: b, to: a, rate: 1kpps, count: 10, replay: '{}' }}\n",
        file.display(),
        file.display()
    );
    let results = run(pair("replay", &replay));
    let [first, second, third] = &results.streams[..] else { panic!("three streams") };
    assert_eq!((first.sent, first.received, first.lost), (500, 500, 0));
    assert!(first.latency.is_none(), "nobody knows when they were sent");
    assert_eq!((second.received, third.received), (400, 10));
    assert!(results.ports.iter().all(|port| port.foreign == port.neighbor));
    let twice = format!(
        "  - {{ name: one, from: a, to: b, replay: '{}' }}\n  - {{ name: two, from: a, to: b, replay: '{}' }}\n",
        file.display(),
        file.display()
    );
    let text =
        format!("ports: {{ a: {{ discard: {{}} }}, b: {{ discard: {{}} }} }}\nstreams:\n{twice}");
    let error = plan::parse(&text).unwrap_err().to_string();
    assert!(error.contains("streams.two.replay"), "{error}");
    let text = text.replace(file.to_str().unwrap(), "/no/such/file");
    assert!(plan::parse(&text).unwrap_err().to_string().contains("/no/such/file cannot be read"));
}
