//! Export by IPFIX: how flows end and go on, as a collector reads it with a decoder of its own.

mod collector;
#[path = "../../../wire/src/ipfix/decoder.rs"]
mod decoder;
mod nat64;
mod statistics;

use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use stoa_api::v1;
use stoa_forwarder::acl::Action;
use stoa_forwarder::control::desired::NatBlocks;
use stoa_forwarder::flow::selection::Selection;
use stoa_forwarder::ipfix::{CollectorSettings, Settings};
use stoa_forwarder::nat::Mapping;
use stoa_wire::tcp::flag;

use crate::acl::{all, input, list};
use crate::acl_stateful::{
    LONG, await_flows, back, clear, into, open_gate, out, there, udp_back, udp_there,
};
use crate::harness::*;
use crate::nat44::{POOL, masquerade, passed, policy, translated, with_nat};
use crate::nat44_blocks::{SIZE, blocks, by_blocks};
use collector::*;

/// Exports flows; those that go on only if a test lets them.
fn settings(collectors: Vec<CollectorSettings>) -> Settings {
    Settings {
        collectors,
        active_s: 80_000,
        idle_s: 80_000,
        template_s: 3_600,
        sampling: 1,
        domain: 7,
        message_size: 1_400,
        is_biflow: true,
        flows: true,
        nat_sessions: true,
        nat_events: true,
        denials: true,
    }
}

fn exporting(mut setup: Setup, settings: Settings) -> Setup {
    setup.0.ipfix = settings;
    setup
}

/// samplingProbability (RFC 5477 section 8.2.5), a number with 64 bits.
const PROBABILITY: (u32, u16) = (0, 311);

/// A lab that exports to a collector, which has its templates.
fn begin(setup: Setup, change: impl FnOnce(&mut Settings)) -> (Lab, Collector) {
    let mut collector = Collector::new();
    let mut settings = settings(vec![collector.settings()]);
    change(&mut settings);
    let lab = Lab::new(&exporting(setup, settings));
    collector.records(NOT_SENT, 1);
    (lab, collector)
}

/// Of both families, IPv4 first.
fn by_family(mut records: Vec<Record>) -> [Record; 2] {
    records.sort_by_key(|record| record.contains_key(&SOURCE_IP6));
    records.try_into().unwrap()
}

#[test]
fn a_flow_that_expires_has_one_record() {
    let (mut lab, mut collector) = begin(open_gate(), |_| {});
    let asks = || udp_there((5000, 53));
    assert_eq!(out(&mut lab, asks()), 2);
    assert_eq!(out(&mut lab, asks()), 2);
    assert_eq!(into(&mut lab, udp_back((53, 5000))), 2);
    let bytes: Vec<usize> = asks().iter().map(Vec::len).collect();
    let answers: Vec<usize> = udp_back((53, 5000)).iter().map(Vec::len).collect();
    lab.state().skip(Duration::from_secs(301));
    await_flows(&mut lab, 0);
    for (at, record) in by_family(collector.flows(2)).iter().enumerate() {
        assert_eq!((record[&PACKETS], record[&REVERSE_PACKETS]), (2, 1));
        assert_eq!(record[&OCTETS], 2 * bytes[at] as u128);
        assert_eq!(record[&REVERSE_OCTETS], answers[at] as u128);
        assert_eq!((record[&PROTOCOL], record[&SOURCE_PORT]), (17, 5000));
        assert_eq!(record[&REASON], 1);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let ago = now.as_millis() - record[&END];
        assert!((299_000..330_000).contains(&ago), "{ago} ms");
        assert!(record[&START] <= record[&END]);
    }
    let counts = lab.state().ipfix();
    assert!(counts.follows_flows);
    assert_eq!(counts.state.unwrap().lost_records, 0);
}

#[test]
fn each_end_has_its_reason() {
    let (mut lab, mut collector) = begin(open_gate(), |_| {});
    // A reset.
    out(&mut lab, there((100, 0), flag::SYN, 0));
    into(&mut lab, back((900, 101), flag::SYN | flag::ACK, 0));
    out(&mut lab, there((101, 901), flag::ACK, 0));
    out(&mut lab, there((101, 901), flag::RST, 0));
    lab.state().skip(Duration::from_secs(241));
    await_flows(&mut lab, 0);
    for record in by_family(collector.flows(2)) {
        assert_eq!((record[&REASON], record[&PACKETS], record[&REVERSE_PACKETS]), (3, 3, 1));
    }
    // Cleared by an operator.
    out(&mut lab, udp_there((5000, 53)));
    clear(&mut lab, &v1::FlowFilter::default());
    for record in by_family(collector.flows(2)) {
        assert_eq!((record[&REASON], record[&PACKETS]), (4, 1));
    }
    // 64 places for each family: the oldest one of those that nobody has answered gives way.
    for port in 10_000..10_070 {
        out(&mut lab, udp_there((port, 53)));
    }
    lab.dropped();
    for record in collector.flows(2) {
        assert_eq!(record[&REASON], 5);
    }
}

/// The state of a closed connection lasts longer than the idle timeout, which reports it first.
#[test]
fn a_closed_connection_is_finished_at_the_idle_timeout() {
    let (mut lab, mut collector) = begin(open_gate(), |it| it.idle_s = 60);
    out(&mut lab, there((100, 0), flag::SYN, 0));
    into(&mut lab, back((900, 101), flag::SYN | flag::ACK, 0));
    out(&mut lab, there((101, 901), flag::RST | flag::ACK, 0));
    lab.state().skip(Duration::from_secs(61));
    for record in by_family(collector.flows(2)) {
        assert_eq!((record[&REASON], record[&PACKETS], record[&REVERSE_PACKETS]), (3, 2, 1));
    }
}

#[test]
fn rules_that_refuse_a_flow_end_it() {
    let (mut lab, mut collector) = begin(open_gate(), |_| {});
    out(&mut lab, udp_there((5000, 53)));
    let setup = list(Setup::three_ports(), "out", &[("out", all(Action::Drop))]);
    let setup = input(
        list(setup, "other", &[("all", crate::acl_stateful::stateful(all(Action::Accept)))]),
        "west",
        &["out"],
    );
    let setup = input(setup, "north", &["other"]);
    lab.apply(&exporting(setup, settings(vec![collector.settings()]))).unwrap();
    out(&mut lab, udp_there((5000, 53)));
    lab.dropped();
    for record in by_family(collector.flows(2)) {
        assert_eq!((record[&REASON], record[&PACKETS]), (4, 1));
    }
}

#[test]
fn flows_that_go_on_are_reported_by_what_is_new() {
    let (mut lab, mut collector) = begin(open_gate(), |it| (it.active_s, it.idle_s) = (60, 100));
    let ask = || udp_there((5000, 53));
    out(&mut lab, ask());
    lab.state().skip(Duration::from_secs(59));
    out(&mut lab, ask());
    lab.state().skip(Duration::from_secs(2));
    for record in by_family(collector.flows(2)) {
        assert_eq!((record[&REASON], record[&PACKETS]), (2, 2));
    }
    // Nothing new: no record, until it is idle with something new.
    out(&mut lab, ask());
    into(&mut lab, udp_back((53, 5000)));
    lab.state().skip(Duration::from_secs(101));
    let idle = by_family(collector.flows(2));
    for record in &idle {
        assert_eq!((record[&REASON], record[&PACKETS], record[&REVERSE_PACKETS]), (1, 1, 1));
        assert!(record[&START] <= record[&END]);
    }
    // Its end has nothing to add. Another flow follows it.
    lab.state().skip(Duration::from_secs(200));
    await_flows(&mut lab, 0);
    out(&mut lab, udp_there((5001, 53)));
    clear(&mut lab, &v1::FlowFilter::default());
    for record in by_family(collector.flows(2)) {
        assert_eq!((record[&SOURCE_PORT], record[&REASON], record[&PACKETS]), (5001, 4, 1));
    }
}

#[test]
fn the_last_records_come_when_the_export_ends() {
    let (mut lab, mut collector) = begin(open_gate(), |_| {});
    out(&mut lab, udp_there((5000, 53)));
    lab.apply(&open_gate()).unwrap();
    for record in by_family(collector.flows(2)) {
        assert_eq!((record[&REASON], record[&PACKETS]), (4, 1));
    }
    assert_eq!(lab.state().ipfix(), v1::ListIpfixReply::default());
    // It begins anew, with what has come since then.
    let mut other = Collector::new();
    lab.apply(&exporting(open_gate(), settings(vec![other.settings()]))).unwrap();
    other.records(NOT_SENT, 1);
    out(&mut lab, udp_there((5000, 53)));
    clear(&mut lab, &v1::FlowFilter::default());
    assert_eq!(by_family(other.flows(2))[0][&PACKETS], 1);
}

#[test]
fn each_direction_may_have_a_record() {
    let (mut lab, mut collector) = begin(masquerade(), |it| it.is_biflow = false);
    let ask = udp_ports(host4(1), host4(2), (5000, 53), b"ask");
    passed(&mut lab, 1, &ask, "east");
    passed(&mut lab, 2, &udp_ports(host4(2), our4(2), (53, 5000), b"reply"), "west");
    assert!(lab.state().clear_flows(&Selection::default()));
    let [there, back] = <[Record; 2]>::try_from(collector.flows(2)).unwrap();
    assert!(!there.contains_key(&REVERSE_PACKETS));
    assert_eq!(there[&SOURCE_IP4], u128::from(host4(1).to_bits()));
    assert_eq!(there[&POST_SOURCE], u128::from(our4(2).to_bits()));
    assert_eq!((there[&PACKETS], there[&OCTETS]), (1, 31));
    // The reply comes to the address of the router, and goes on to the host.
    assert_eq!(back[&SOURCE_IP4], u128::from(host4(2).to_bits()));
    assert_eq!(back[&(0, 12)], u128::from(our4(2).to_bits()));
    assert_eq!(back[&(0, 226)], u128::from(host4(1).to_bits()));
    assert_eq!((back[&PACKETS], back[&OCTETS]), (1, 33));
}

#[test]
fn translated_flows_have_sessions_and_both_ends() {
    for mapping in [Mapping::EndpointDependent, Mapping::EndpointIndependent] {
        let setup = with_nat(Setup::three_ports(), vec![policy(mapping)], Vec::new());
        let (mut lab, mut collector) = begin(setup, |_| {});
        let ask = udp_ports(host4(1), host4(2), (5000, 53), b"ask");
        let port = passed(&mut lab, 1, &ask, "east").ports.unwrap().0;
        let [create] = <[Record; 1]>::try_from(collector.records(NAT_EVENT, 1)).unwrap();
        assert_eq!((create[&NAT_EVENT], create[&SOURCE_PORT]), (4, 5000));
        assert_eq!(create[&POST_SOURCE], u128::from(our4(2).to_bits()));
        assert!(lab.state().clear_flows(&Selection::default()));
        // The session, and then the flow.
        let [delete, flow] = <[Record; 2]>::try_from(collector.records(POST_SOURCE, 2)).unwrap();
        assert_eq!((delete[&NAT_EVENT], delete[&SOURCE_PORT]), (5, 5000));
        assert_eq!(flow[&POST_SOURCE], u128::from(our4(2).to_bits()));
        assert_eq!(flow[&POST_SOURCE_PORT], u128::from(port));
        assert_eq!((flow[&PACKETS], flow[&OCTETS], flow[&REASON]), (1, 31, 4));
    }
}

#[test]
fn a_host_without_a_port_is_an_event() {
    let mut narrow = policy(Mapping::EndpointIndependent);
    narrow.ports = (2_000, 2_000);
    let setup = with_nat(Setup::three_ports(), vec![narrow], Vec::new());
    let (mut lab, mut collector) = begin(setup, |_| {});
    let ask = |port| udp_ports(host4(1), host4(2), (port, 53), b"ask");
    passed(&mut lab, 1, &ask(5_000), "east");
    lab.send("west", [packet_from(1, &ask(5_002))]);
    let events = collector.records(NAT_EVENT, 2);
    let event = events.iter().find(|it| it[&NAT_EVENT] == 12).expect("ports are exhausted");
    assert_eq!(event[&SOURCE_IP4], u128::from(host4(1).to_bits()));
    assert_eq!((event[&(0, 463)], event[&PROTOCOL]), (1, 17));
    lab.dropped();
    lab.take("west");
}

#[test]
fn port_blocks_and_quotas_are_events() {
    let quotas = [None, Some(1), None, None];
    let policy = by_blocks(Mapping::EndpointIndependent, NatBlocks { quotas, ..blocks() });
    let (mut lab, mut collector) = begin(translated(policy), |it| it.nat_sessions = false);
    let ask = |port| udp_ports(host4(1), host4(2), (port, 53), b"ask");
    let port = passed(&mut lab, 1, &ask(5_000), "east").ports.unwrap().0;
    lab.send("west", [packet_from(1, &ask(5_002))]);
    lab.assert_dropped(&[("nat44-quota", 1)]);
    lab.take("west");
    lab.state().tick();
    let [block, quota] = <[Record; 2]>::try_from(collector.records(NAT_EVENT, 2)).unwrap();
    assert_eq!((block[&NAT_EVENT], block[&POST_SOURCE]), (16, u128::from(POOL.to_bits())));
    let [first, last] = [361, 362].map(|element| block[&(0, element)]);
    assert!((first..=last).contains(&port.into()) && last - first + 1 == SIZE.into(), "{block:?}");
    // The maximum of entries for each user.
    assert_eq!((quota[&NAT_EVENT], quota[&(0, 466)]), (13, 3));
    for event in [block, quota] {
        assert_eq!(event[&SOURCE_IP4], u128::from(host4(1).to_bits()));
    }
}

#[test]
fn refused_packets_of_rules_with_a_log_are_exported() {
    let rules = [(
        "rest",
        stoa_forwarder::control::desired::RuleOfList { is_logged: true, ..all(Action::Drop) },
    )];
    let setup = input(list(Setup::three_ports(), "edge", &rules), "west", &["edge"]);
    let (mut lab, mut collector) = begin(setup, |_| {});
    assert_eq!(out(&mut lab, udp_there((5000, 53))), 0);
    lab.state().tick();
    for record in by_family(collector.records(FIREWALL_EVENT, 2)) {
        assert_eq!((record[&FIREWALL_EVENT], record[&SOURCE_PORT], record[&PACKETS]), (3, 5000, 1));
        assert_ne!(record[&(0, 10)], 0, "the interface");
    }
    lab.dropped();
}

#[test]
fn sampled_flows_are_some_of_all() {
    let (mut lab, mut collector) = begin(open_gate(), |it| it.sampling = 4);
    for port in 10_000..10_050 {
        out(&mut lab, udp_there((port, 53)));
    }
    clear(&mut lab, &v1::FlowFilter::default());
    // What ends the export says how many there were.
    lab.apply(&open_gate()).unwrap();
    let (mut buffer, mut sampled, mut is_over, mut is_reported) = ([0; 65_536], 0, false, false);
    let deadline = Instant::now() + LONG;
    while !is_over {
        assert!(Instant::now() < deadline);
        let Ok(length) = collector.socket.recv(&mut buffer) else { continue };
        for record in numbers(collector.decoder.decode(&buffer[..length])) {
            sampled += usize::from(record.contains_key(&REASON));
            is_over |= record.contains_key(&NOT_SENT);
            is_reported |= record.get(&PROBABILITY) == Some(&0.25_f64.to_bits().into());
        }
    }
    assert!((5..60).contains(&sampled), "{sampled} of 100");
    assert!(is_reported, "the probability");
}

#[test]
fn templates_are_sent_again_over_udp() {
    let mut collector = Collector::new();
    let settings = Settings { template_s: 1, ..settings(vec![collector.settings()]) };
    let _lab = Lab::new(&exporting(open_gate(), settings));
    let (mut buffer, mut templates) = ([0; 65_536], Vec::new());
    let deadline = Instant::now() + LONG;
    let is_twice = |all: &[u16]| all.iter().filter(|id| **id == 256).count() > 1;
    while !is_twice(&templates) {
        assert!(Instant::now() < deadline, "{templates:?}");
        let Ok(length) = collector.socket.recv(&mut buffer) else { continue };
        templates.extend(collector.decoder.decode(&buffer[..length]).templates);
    }
}

/// Reads what a collector over TCP gets until it has a record of a flow.
fn read_flow(stream: &mut std::net::TcpStream) -> (Vec<u16>, Record) {
    stream.set_read_timeout(Some(LONG)).unwrap();
    let (mut collector, mut templates) = (decoder::Collector::default(), Vec::new());
    loop {
        let mut message = vec![0; 16];
        stream.read_exact(&mut message).unwrap();
        let length = usize::from(u16::from_be_bytes([message[2], message[3]]));
        message.resize(length, 0);
        stream.read_exact(&mut message[16..]).unwrap();
        let decoded = collector.decode(&message);
        templates.extend(&decoded.templates);
        if let Some(flow) = numbers(decoded).find(|it| it.contains_key(&REASON)) {
            return (templates, flow);
        }
    }
}

#[test]
fn a_tcp_collector_gets_what_waited_for_it() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let to_tcp = settings(vec![to("far", address, true)]);
    let mut lab = Lab::new(&exporting(open_gate(), to_tcp));
    let end = |lab: &mut Lab, port| {
        out(lab, udp_there((port, 53)));
        clear(lab, &v1::FlowFilter::default());
    };
    end(&mut lab, 5_000);
    let (mut first, _) = listener.accept().unwrap();
    let (templates, flow) = read_flow(&mut first);
    assert_eq!(flow[&SOURCE_PORT], 5_000);
    let once: std::collections::BTreeSet<&u16> = templates.iter().collect();
    assert_eq!(once.len(), templates.len(), "each template once");
    // The collector goes, and comes back at the same port.
    drop((first, listener));
    let deadline = Instant::now() + LONG;
    while lab.state().ipfix().collectors[0].state != "failed" {
        assert!(Instant::now() < deadline, "{:?}", lab.state().ipfix());
        std::thread::sleep(Duration::from_millis(5));
    }
    end(&mut lab, 5_001);
    let listener = TcpListener::bind(address).unwrap();
    let (mut second, _) = listener.accept().unwrap();
    let (again, flow) = read_flow(&mut second);
    assert_eq!((again.len(), flow[&SOURCE_PORT]), (templates.len(), 5_001));
    let state = lab.state().ipfix();
    assert_eq!(state.collectors[0].connections, 2);
    assert_eq!(state.collectors[0].error, "", "it is over");
}
