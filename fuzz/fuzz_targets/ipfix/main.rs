//! IPFIX compared with NetGauze: arbitrary flows, sessions, events and refused packets go through the exporter's
//! encoder and over UDP. NetGauze must know each element and read as many records, in their order, with the values that
//! went in. Values of IANA's registries (reasons, events) are compared by their names there.
#![no_main]

mod events;
mod flows;
mod received;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::sync::LazyLock;
use std::time::Instant;

use chrono::{DateTime, Utc};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use netgauze_flow_pkt::ie::{Field, flowSelectorAlgorithm};
use stoa_forwarder::flow::profiles::Longest;
use stoa_forwarder::ipfix::encode::{Encoder, Moment};
use stoa_forwarder::ipfix::{CollectorSettings, Settings, templates};
use stoa_forwarder::nat64::hosts::Hosts;
use stoa_wire::ipfix::LEAST;
use stoa_wire::siit::Prefix;

use events::{Denied, Event};
use flows::Flow;
use received::{Decoded, Received};

/// The largest message of the settings.
const MOST: usize = 65_507;
/// The bits of a key's VRF that are the VRF.
const VRF: u16 = 0xff;

#[derive(Arbitrary, Debug)]
struct Input {
    message_size: u16,
    is_biflow: bool,
    domain: u32,
    sampling: u32,
    seconds: u32,
    ms: u16,
    tick: u32,
    steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    /// A flow, with the seconds since the report before.
    Flow(Flow, u32),
    Session(Flow, bool),
    Event(Event),
    Denied(Denied),
    /// Templates again, and statistics with so many records that were not made.
    Statistics(u32),
    Flush,
}

/// What all inputs share.
struct Lab {
    collector: UdpSocket,
    hosts: Hosts,
    /// Hosts of NAT64 with a stand-in each, one for each length of a prefix, which is that of the host's VRF.
    known: Vec<(u32, Ipv6Addr, Prefix)>,
}

static LAB: LazyLock<Lab> = LazyLock::new(|| {
    let collector = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    collector.set_nonblocking(true).expect("a socket");
    let hosts = Hosts::new().expect("memory");
    let network = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0);
    let known = (0..).zip(Prefix::LENGTHS).map(|(vrf, length)| {
        let prefix = Prefix::new(network, length).expect("a prefix");
        hosts.set_prefixes(std::iter::once((vrf, prefix)));
        let host = Ipv6Addr::new(0xfd00, 0, 0, vrf, 0, 0, 0, 1);
        let longest = || Longest { answered: 9, datagrams: 9, unanswered: 9 };
        (hosts.stand_in((host.to_bits(), vrf), 1, longest).expect("room"), host, prefix)
    });
    let known = known.collect();
    Lab { collector, hosts, known }
});

impl Lab {
    fn known(&self, host: u8) -> (u32, Ipv6Addr, Prefix) {
        self.known[usize::from(host) % self.known.len()]
    }
}

/// An IPv4 address that hosts can have: none is a stand-in.
fn ip4(bits: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(bits % 0xe000_0000)
}

fn time(ms: u64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(ms.cast_signed()).expect("a time of this era")
}

/// The fields of two addresses, before or behind the translation.
fn ends(ends: [IpAddr; 2], is_behind: bool) -> [Field; 2] {
    match (ends, is_behind) {
        ([IpAddr::V4(from), IpAddr::V4(to)], false) => {
            [Field::sourceIPv4Address(from), Field::destinationIPv4Address(to)]
        }
        ([IpAddr::V6(from), IpAddr::V6(to)], false) => {
            [Field::sourceIPv6Address(from), Field::destinationIPv6Address(to)]
        }
        ([IpAddr::V4(from), IpAddr::V4(to)], true) => {
            [Field::postNATSourceIPv4Address(from), Field::postNATDestinationIPv4Address(to)]
        }
        ([IpAddr::V6(from), IpAddr::V6(to)], true) => {
            [Field::postNATSourceIPv6Address(from), Field::postNATDestinationIPv6Address(to)]
        }
        _ => panic!("one packet has one family"),
    }
}

fn ports([from, to]: [u16; 2], is_behind: bool) -> [Field; 2] {
    match is_behind {
        false => [Field::sourceTransportPort(from), Field::destinationTransportPort(to)],
        true => {
            [Field::postNAPTSourceTransportPort(from), Field::postNAPTDestinationTransportPort(to)]
        }
    }
}

/// The statistics and the sampling that came last.
fn statistics(received: &Received, unmade: u32, settings: &Settings) -> Vec<Decoded> {
    let [messages, records, bytes] = received.before_last();
    let mut all = vec![Decoded::new(
        vec![Field::exportingProcessId(std::process::id())],
        vec![
            Field::exportedMessageTotalCount(messages),
            Field::exportedFlowRecordTotalCount(records),
            Field::exportedOctetTotalCount(bytes),
            Field::notSentFlowTotalCount(unmade.into()),
        ],
    )];
    if settings.sampling > 1 {
        let probability = 1.0 / f64::from(settings.sampling);
        all.push(Decoded::new(
            vec![Field::observationDomainId(settings.domain)],
            vec![
                Field::flowSelectorAlgorithm(flowSelectorAlgorithm::UniformprobabilisticSampling),
                Field::samplingProbability(probability.into()),
            ],
        ));
    }
    all
}

fuzz_target!(|input: Input| {
    let lab = &*LAB;
    let to = lab.collector.local_addr().expect("it is bound");
    let settings = Settings {
        collectors: vec![CollectorSettings {
            name: String::new(),
            to,
            source: None,
            is_tcp: false,
        }],
        sampling: input.sampling,
        domain: input.domain,
        message_size: LEAST + usize::from(input.message_size) % (MOST - LEAST + 1),
        is_biflow: input.is_biflow,
        ..Settings::default()
    };
    let now = Moment {
        tick: input.tick,
        unix_ms: u64::from(input.seconds) * 1_000 + u64::from(input.ms % 1_000),
        instant: Instant::now(),
    };
    let mut encoder = Encoder::new(&settings);
    let mut received = Received::new(&settings, input.seconds);
    let mut expected: Vec<Decoded> = Vec::new();
    encoder.service(now);
    received.take(&lab.collector);
    assert_eq!(received.templates(), templates::ALL.len());
    for step in &input.steps {
        match step {
            Step::Flow(flow, age_s) => {
                let from_ms = now.unix_ms.saturating_sub(u64::from(*age_s) * 1_000);
                encoder.flow((&flow.record(lab), &lab.hosts), from_ms, now);
                expected.extend(flow.expected(
                    lab,
                    input.is_biflow,
                    [from_ms, now.unix_ms],
                    now.tick,
                ));
            }
            Step::Session(flow, is_begin) => {
                encoder.session((&flow.record(lab), &lab.hosts), *is_begin, now);
                expected.extend(flow.session(lab, *is_begin, now.unix_ms));
            }
            Step::Event(event) => {
                encoder.event((&event.record(lab), &lab.hosts), now);
                expected.push(event.expected(lab, now.unix_ms));
            }
            Step::Denied(denied) => {
                encoder.denial(&denied.record(), now);
                expected.push(denied.expected(now.unix_ms));
            }
            Step::Statistics(unmade) => {
                encoder.statistics((*unmade).into(), now);
                received.take(&lab.collector);
                expected.extend(statistics(&received, *unmade, &settings));
            }
            Step::Flush => encoder.flush(now),
        }
        received.take(&lab.collector);
    }
    encoder.flush(now);
    received.take(&lab.collector);
    assert_eq!(received.records, expected);
    let made = encoder.made;
    assert_eq!(made.flows + made.nat + made.denials + made.others, expected.len() as u64);
});
