//! Collectors over UDP and TCP in the process of the test.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use stoa_wire::ipfix::HEADER;

use super::*;
use crate::ipfix::templates::{ALL, STATISTICS};

const LONG: Duration = Duration::from_secs(20);

fn collector(to: SocketAddr, is_tcp: bool) -> Collector {
    let settings = CollectorSettings { name: "x".to_owned(), to, source: None, is_tcp };
    Collector::new(&settings)
}

/// Of which one is that of a flow.
fn records(all: u32) -> Records {
    Records { all, flows: 1 }
}

fn message(records: u32) -> Message {
    let mut message = Message::new(60_000);
    for _ in 0..records {
        message.record(&STATISTICS, |fields| fields.bytes([7; STATISTICS.record_length()]));
    }
    message
}

fn service(collector: &mut Collector) {
    collector.service(Instant::now());
    collector.send_templates(ALL, &mut Message::new(512), (1, 1, Instant::now()));
    collector.service(Instant::now());
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_a_deaf_collector_does_not_take_is_lost() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut one = collector(listener.local_addr().unwrap(), true);
    assert_eq!(one.state(), "starting");
    until("it connects", || {
        service(&mut one);
        one.state() == "connected"
    });
    let mut of_many = message(1_000);
    let bytes = of_many.finish(1, 0, 1);
    let mut sent = 0;
    while one.counts().lost_records < 3_000 {
        one.send(bytes, records(1_000), Instant::now());
        sent += 1_000;
        assert!(sent < 10_000_000);
    }
    assert!(one.queued() <= QUEUE_BYTES);
    let counts = one.counts();
    let waiting = one.queue.iter().map(|it| u64::from(it.records.all)).sum::<u64>();
    assert_eq!(counts.records + counts.lost_records + waiting, sent, "nothing is forgotten");
    assert_eq!((counts.lost_messages, counts.lost_flows), (3, 3));
    assert_eq!(counts.flows, counts.records / 1_000);
    // It reads on: all that waits comes, with sequence numbers without a gap.
    let (mut stream, _) = listener.accept().unwrap();
    let reader = std::thread::spawn(move || {
        let (mut next, mut all) = (0, 0);
        let mut header = [0; HEADER];
        while stream.read_exact(&mut header).is_ok() {
            let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
            let mut rest = vec![0; length - HEADER];
            stream.read_exact(&mut rest).unwrap();
            let sequence = u32::from_be_bytes(header[8..12].try_into().unwrap());
            assert_eq!(sequence, next);
            let is_data = rest[..2] == STATISTICS.id.to_be_bytes();
            next += if is_data { 1_000 } else { 0 };
            all += u64::from(is_data) * 1_000;
        }
        all
    });
    until("it takes all", || {
        service(&mut one);
        one.is_idle()
    });
    let records = one.counts().records;
    drop(one);
    assert_eq!(reader.join().unwrap(), records);
}

#[test]
fn a_collector_that_is_not_there_is_tried_again() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut one = collector(address, true);
    until("it fails", || {
        service(&mut one);
        one.state() == "failed"
    });
    assert!(one.error().contains("refused"), "{}", one.error());
    one.send(message(1).finish(1, 0, 1), records(1), Instant::now());
    assert_eq!((one.counts().lost_records, one.is_idle()), (0, false));
    let _listener = TcpListener::bind(address).unwrap();
    until("it is there", || {
        service(&mut one);
        one.counts().records == 1
    });
    assert_eq!((one.state(), one.counts().connections), ("connected", 1));
    assert_eq!(one.error(), "", "the error is over");
}

#[test]
fn an_error_of_udp_is_over_when_the_collector_is_back() {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = socket.local_addr().unwrap();
    drop(socket);
    let (mut one, began) = (collector(address, false), Instant::now());
    let at = |seconds| began + Duration::from_secs(seconds);
    one.service(began);
    until("it is refused", || {
        one.send(message(1).finish(1, 0, 1), records(1), began);
        one.error().contains("refused")
    });
    let _socket = UdpSocket::bind(address).unwrap();
    // The answer to the last message may still be on its way: one more takes it.
    one.send(message(1).finish(1, 0, 1), records(1), at(0));
    one.send(message(1).finish(1, 0, 1), records(1), at(9));
    assert!(one.error().contains("refused"), "one message says little");
    one.send(message(1).finish(1, 0, 1), records(1), at(30));
    assert_eq!((one.error(), one.state()), ("", "sending"));
}

#[test]
fn a_source_that_this_machine_lacks_is_an_error() {
    for is_tcp in [false, true] {
        let to = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 9);
        let source = Some(Ipv4Addr::new(192, 0, 2, 77).into());
        let settings = CollectorSettings { name: "x".to_owned(), to, source, is_tcp };
        let mut one = Collector::new(&settings);
        service(&mut one);
        assert_eq!(one.state(), "failed");
        assert!(!one.error().is_empty());
        one.send(message(2).finish(1, 0, 1), records(2), Instant::now());
        assert_eq!(one.counts().lost_records, if is_tcp { 0 } else { 2 });
    }
}
