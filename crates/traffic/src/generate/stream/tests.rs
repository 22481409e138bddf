//! Parses the packets of a stream with an independent parser.

use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use stoa_engine::pool::HugePages;
use stoa_engine::{Pool, PoolCache, Vector};
use stoa_wire::vlan::{Stack, Tag};

use super::*;
use crate::generate::template::{Network, Transport};
use crate::generate::values::{Order, Values};

fn headers(network: Network, transport: Transport, tags: usize) -> Headers {
    let mut stack = Stack::EMPTY;
    (0..tags).for_each(|_| assert!(stack.push(Tag::customer(7).unwrap())));
    Headers {
        destination: [2, 0, 0, 0, 0, 1],
        source: [2, 0, 0, 0, 0, 2],
        tags: stack,
        network,
        transport,
        ttl: 64,
        class: 0,
    }
}

const FOUR: Network = Network::Ip4 {
    source: Ipv4Addr::new(198, 18, 0, 2),
    destination: Ipv4Addr::new(198, 19, 0, 2),
};
const SIX: Network = Network::Ip6 {
    source: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
    destination: Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 2),
};

fn stream(shapes: &[Shape], order: &[u8], fields: &[Vec<(Field, Walk)>], key: &Key) -> TxStream {
    let pace = Pace::new(None, 1_000_000_000, 0, 1);
    let config = StreamConfig {
        id: 5,
        shapes,
        order,
        fields,
        rate: None,
        pace,
        count: u64::MAX,
        first_mark: 1,
        replay: None,
    };
    TxStream::new(config, key).unwrap()
}

/// Frames of a stream; every second burst is stepped back once and written again.
fn frames(stream: &mut TxStream, key: &Key, count: usize) -> Vec<Vec<u8>> {
    let pool = Pool::leak(1024, HugePages::Never).unwrap();
    let (mut cache, mut vector) = (PoolCache::new(pool), Vector::new(pool));
    let (mut written, clock) = (vec![0; 1024], Clock::start());
    let mut all = Vec::new();
    for burst in 0.. {
        let want = (count - all.len()).min(100);
        if want == 0 {
            break;
        }
        cache.fill(&mut vector, want);
        let ours = (key, &clock);
        assert_eq!(stream.write(&mut vector, 0, &mut cache, &mut written, ours), want);
        if burst % 2 == 1 {
            (0..want).for_each(|_| stream.step_back());
        } else {
            all.extend((0..want).map(|lane| vector.bytes(lane).to_vec()));
        }
        cache.free_from(&mut vector, 0);
    }
    all
}

/// Checks headers and checksums with etherparse; returns the flow.
fn check(frame: &[u8]) -> (Vec<u8>, Vec<u8>, u16, u16) {
    let packet = etherparse::PacketHeaders::from_ethernet_slice(frame).unwrap();
    let payload = packet.payload.slice();
    let transport = packet.transport.expect("a transport");
    match packet.net.expect("an IP header") {
        etherparse::NetHeaders::Ipv4(ip, _) => {
            assert_eq!(ip.header_checksum, ip.calc_header_checksum());
            let (ports, sum, desired) = match &transport {
                etherparse::TransportHeader::Udp(udp) => (
                    (udp.source_port, udp.destination_port),
                    udp.checksum,
                    udp.calc_checksum_ipv4(&ip, payload).unwrap(),
                ),
                etherparse::TransportHeader::Tcp(tcp) => (
                    (tcp.source_port, tcp.destination_port),
                    tcp.checksum,
                    tcp.calc_checksum_ipv4(&ip, payload).unwrap(),
                ),
                etherparse::TransportHeader::Icmpv4(icmp) => {
                    ((0, 0), icmp.checksum, icmp.icmp_type.calc_checksum(payload))
                }
                other => panic!("{other:?}"),
            };
            assert_eq!(sum, desired);
            (ip.source.to_vec(), ip.destination.to_vec(), ports.0, ports.1)
        }
        etherparse::NetHeaders::Ipv6(ip, _) => {
            let (ports, sum, desired) = match &transport {
                etherparse::TransportHeader::Udp(udp) => (
                    (udp.source_port, udp.destination_port),
                    udp.checksum,
                    udp.calc_checksum_ipv6(&ip, payload).unwrap(),
                ),
                etherparse::TransportHeader::Tcp(tcp) => (
                    (tcp.source_port, tcp.destination_port),
                    tcp.checksum,
                    tcp.calc_checksum_ipv6(&ip, payload).unwrap(),
                ),
                etherparse::TransportHeader::Icmpv6(icmp) => {
                    let (from, to) = (ip.source, ip.destination);
                    let desired = icmp.icmp_type.calc_checksum(from, to, payload).unwrap();
                    ((0, 0), icmp.checksum, desired)
                }
                other => panic!("{other:?}"),
            };
            assert_eq!(sum, desired);
            (ip.source.to_vec(), ip.destination.to_vec(), ports.0, ports.1)
        }
        other => panic!("{other:?}"),
    }
}

fn range(first: u128, count: u64) -> Walk {
    Walk::new(Values::Range { first, step: 1, count }, Order::Turn, 1)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn checksums_are_valid_for_all_field_values(
        six: bool, over in 0_usize..3, tags in 0_usize..3, longer in 0_usize..1500, run: u64,
        changes in proptest::collection::vec((0_usize..8, 2_u64..1000), 0..5),
    ) {
        let transport = [Transport::Udp(1, 2), Transport::Tcp(3, 4), Transport::Icmp(5)][over];
        let headers = headers(if six { SIX } else { FOUR }, transport, tags);
        let size = (headers.shortest() + longer) as u16;
        let shape = Shape { headers, size, group: 0 };
        let all = [
            (Field::MacDestination, 0x0200_0000_0000), (Field::MacSource, 0x0200_0000_0000),
            (Field::Vlan, 1), (Field::InnerVlan, 1),
            (Field::IpSource, if six { 0x2001_0db8 << 96 } else { 0x0a00_0000 }),
            (Field::IpDestination, if six { 0x2001_0db9 << 96 | 0xffff } else { 0x0b00_ffff }),
            (Field::PortSource, 1000), (Field::PortDestination, 64_000),
        ];
        let template = Template::new(&shape.headers, size.into(), 1).unwrap();
        let mut fields = Vec::new();
        for (which, count) in changes {
            let (field, first) = all[which];
            let is_port = field == Field::PortDestination && over == 2;
            let is_there = template.locate(field).is_some() && !is_port;
            if is_there && fields.iter().all(|(one, _)| *one != field) {
                fields.push((field, range(first, count)));
            }
        }
        let key = Key::of_run(run);
        let mut stream = stream(&[shape], &[0], &[fields], &key);
        for (number, frame) in frames(&mut stream, &key, 150).iter().enumerate() {
            prop_assert_eq!(frame.len(), usize::from(size) - FCS);
            check(frame);
            let signature = key.find(frame).expect("a signature");
            prop_assert_eq!((signature.stream, signature.sequence), (5, number as u32));
        }
    }
}

#[test]
fn the_number_of_flows_matches_the_fields() {
    let shape = Shape { headers: headers(FOUR, Transport::Udp(1, 2), 0), size: 64, group: 0 };
    let fields = vec![
        (Field::PortSource, range(49_152, 100)),
        (
            Field::IpSource,
            Walk::new(Values::Range { first: 7, step: 1, count: 3 }, Order::Turn, 100),
        ),
    ];
    let key = Key::of_run(1);
    let mut stream = stream(&[shape], &[0], &[fields], &key);
    let flows: HashSet<_> = frames(&mut stream, &key, 900).iter().map(|one| check(one)).collect();
    assert_eq!(flows.len(), 300);
}

#[test]
fn shapes_follow_their_order_and_jumbo_frames_are_complete() {
    let shape = |network, size, group| Shape {
        headers: headers(network, Transport::Udp(1, 2), 0),
        size,
        group,
    };
    let shapes = [shape(FOUR, 64, 0), shape(SIX, 78, 1), shape(FOUR, 9018, 0)];
    let fields =
        [vec![(Field::IpDestination, range(1, 9))], vec![(Field::PortSource, range(5, 5))]];
    let key = Key::of_run(1);
    let mut stream = stream(&shapes, &[0, 1, 2, 1], &fields, &key);
    let all = frames(&mut stream, &key, 400);
    for (number, frame) in all.iter().enumerate() {
        assert_eq!(frame.len() + FCS, [64, 78, 9018, 78][number % 4]);
        check(frame);
        let destination = if number % 2 == 0 { &frame[30..34] } else { &frame[38..42] };
        let desired = if number % 2 == 0 { 1 + (number / 2) as u32 % 9 } else { 0x2001_0db8 };
        if number % 2 == 0 {
            assert_eq!(destination, desired.to_be_bytes());
        }
    }
    let bytes: usize = all.iter().map(|frame| frame.len() + FCS).sum();
    assert_eq!((stream.sent.packets, stream.sent.bytes), (400, bytes as u64));
}

#[test]
fn drops_packets_beyond_the_backlog() {
    let mut stream = paced(1);
    assert_eq!(stream.waiting(999_999, false), 1000);
    assert_eq!(stream.waiting(9_999_999, false), 1025);
    assert_eq!((stream.sent.late, stream.sent.not_taken), (8975, 0));
    assert_eq!(stream.waiting(19_999_999, true), 1025);
    assert_eq!((stream.sent.late, stream.sent.not_taken), (8975, 10_000));
    stream.finish(20_000_000, false);
    assert_eq!(stream.sent.late, 8975 + 1025);
}

#[test]
fn a_long_burst_does_not_exceed_the_backlog() {
    let mut stream = paced(50_000);
    assert_eq!(stream.waiting(0, false), 50_000);
    assert_eq!(stream.waiting(49_999_999, false), 50_000);
    assert_eq!(stream.waiting(50_000_001, false), 51_024, "two of them are");
}

#[test]
fn the_count_limits_sent_packets() {
    let mut stream = paced(1);
    // Nothing was sent for 10 ms: these packets are late, and the full count is still to be sent.
    assert_eq!(stream.waiting(10_000_000, false), stream.backlog);
    let late = stream.sent.late;
    assert_eq!(stream.backlog + late, 10_001);
    stream.sent.packets = 59_990;
    assert_eq!(stream.waiting(100_000_000, false), 10, "no more than are left");
    stream.sent.packets = 60_000;
    assert_eq!(stream.waiting(200_000_000, false), 0);
    let lost = stream.sent.late;
    stream.finish(300_000_000, false);
    assert_eq!(stream.sent.late, lost, "none is missing when all were sent");
}

#[test]
fn packets_beyond_the_count_are_not_late() {
    let mut stream = paced(1);
    stream.sent.packets = 59_990;
    // Much later, ten packets are left: no more than these can be late.
    stream.finish(900_000_000, false);
    assert_eq!(stream.sent.late, 10);
}

/// A stream at a million packets per second of a nanosecond clock, in bursts, 60,000 packets in
/// total.
fn paced(burst: u64) -> TxStream {
    let shape = Shape { headers: headers(FOUR, Transport::Udp(1, 2), 0), size: 64, group: 0 };
    let pace = Pace::new(Some(1e6), 1_000_000_000, 0, burst);
    let config = StreamConfig {
        id: 0,
        shapes: &[shape],
        order: &[0],
        fields: &[],
        rate: Some(1e6),
        pace,
        count: 60_000,
        first_mark: 1,
        replay: None,
    };
    TxStream::new(config, &Key::of_run(1)).unwrap()
}
