//! Captures: received, sent and dropped frames.

use stoa_api::v1;
use stoa_api::v1::CaptureDirection as Direction;
use stoa_forwarder::control::trace_capture::Reader;

use crate::harness::*;

impl Lab {
    fn capture(&mut self, interface: &str, directions: &[Direction]) -> Reader {
        let request = v1::CaptureRequest {
            interface: interface.to_owned(),
            directions: directions.iter().map(|way| *way as i32).collect(),
            ..Default::default()
        };
        self.capture_as(&request)
    }

    fn capture_as(&mut self, request: &v1::CaptureRequest) -> Reader {
        let reader = self.state().start_capture(request).expect("a capture starts");
        self.wait_for_workers();
        reader
    }

    fn index(&mut self, name: &str) -> u32 {
        let list = self.state().list_interfaces();
        list.iter().find(|one| one.name == name).expect("it is there").index
    }
}

fn one(code: u32, jump_false: u32, k: u32) -> v1::FilterInstruction {
    v1::FilterInstruction { code, jump_true: 0, jump_false, k }
}

#[test]
fn received_and_sent_frames_are_captured() {
    let mut lab = Lab::new(&Setup::three_ports());
    let (mut west, mut any) = (lab.capture("west", &[]), lab.capture("any", &[Direction::Tx]));
    let there = packet_from(1, &udp(host4(1), host4(2), b"hello"));
    lab.send("west", [there.clone()]);
    lab.send("east", [packet_from(2, &udp(host4(2), host4(1), b"hi"))]);
    let back = lab.take("west").remove(0);
    let frames = west.read().frames;
    assert_eq!(frames.len(), 2, "{frames:?}");
    assert_eq!((&frames[0].data, frames[0].direction()), (&there, Direction::Rx));
    assert_eq!((&frames[1].data, frames[1].direction()), (&back, Direction::Tx));
    let index = lab.index("west");
    assert!(frames.iter().all(|frame| frame.interface == index && frame.drop.is_empty()));
    assert!(frames[0].unix_ns < frames[1].unix_ns);
    let both = any.read().frames;
    assert_eq!(both.len(), 2);
    assert_eq!((both[0].interface, both[1].interface), (lab.index("east"), index));
    assert!(west.read().frames.is_empty());
}

#[test]
fn filter_and_snap_length_apply() {
    let mut lab = Lab::new(&Setup::three_ports());
    let mut reader = lab.capture_as(&v1::CaptureRequest {
        interface: "west".to_owned(),
        snap_length: 20,
        count: 2,
        // Only IPv6.
        filter: vec![one(0x28, 0, 12), one(0x15, 1, 0x86dd), one(6, 0, 1), one(6, 0, 0)],
        ..Default::default()
    });
    let six = packet_from(1, &udp(host6(1), host6(2), b"six"));
    let four = packet_from(1, &udp(host4(1), host4(2), b"four"));
    lab.send("west", [four, six.clone(), six.clone(), six.clone()]);
    let reply = reader.read();
    assert_eq!((reply.frames.len(), reply.missed), (2, 0));
    assert_eq!(reply.frames[0].data, six[..20]);
    assert_eq!(reply.frames[0].length as usize, six.len());
}

#[test]
fn drops_are_captured_whole_with_their_reason() {
    let mut lab = Lab::new(&Setup::three_ports().sub("west.7", 10, "west", &[(0x8100, 7)]));
    let (mut west, mut sub) =
        (lab.capture("west", &[Direction::Drop]), lab.capture("west.7", &[Direction::Drop]));
    let nowhere = udp(host4(1), [192, 0, 2, 1], b"where?");
    let mut wrong = nowhere.clone();
    wrong[10] ^= 1;
    let lldp = from_host(1, 0x88cc, &[7; 50]);
    let tagged = frame(our_mac(1), host_mac(1), &[(0x8100, 7)], 0x0800, &wrong);
    let unanswered = packet_from(1, &nowhere);
    lab.send("west", [packet_from(1, &wrong), lldp.clone(), tagged.clone(), unanswered.clone()]);
    let mut frames = west.read().frames;
    frames.sort_by(|a, b| a.data.cmp(&b.data));
    let mut expected = [
        (packet_from(1, &wrong), "ip4-checksum"),
        (lldp, "ethernet-unknown-type"),
        (tagged.clone(), "ip4-checksum"),
        (unanswered, "ip4-no-route"),
    ];
    expected.sort();
    let parsed: Vec<_> = frames.iter().map(|one| (one.data.clone(), one.drop.as_str())).collect();
    assert_eq!(parsed, expected);
    assert!(frames.iter().all(|frame| !frame.description.is_empty()));
    let frames = sub.read().frames;
    assert_eq!((frames.len(), &frames[0].data), (1, &tagged));
}

#[test]
fn a_full_transmit_queue_shows_its_drops() {
    let mut lab = Lab::new(&Setup::three_ports());
    let mut east = lab.capture("east", &[Direction::Tx, Direction::Drop]);
    lab.wire("east").tx_limit.store(1, std::sync::atomic::Ordering::SeqCst);
    lab.send("west", vec![packet_from(1, &udp(host4(1), host4(2), b"")); 3]);
    let frames = east.read().frames;
    let drops: Vec<_> = frames.iter().map(|frame| frame.drop.as_str()).collect();
    assert_eq!(drops, ["", "tx-full", "tx-full"]);
}

#[test]
fn a_frame_that_the_device_refuses_is_captured_as_a_drop() {
    let mut lab = Lab::new(&Setup::three_ports());
    let mut all = lab.capture("east", &[Direction::Tx, Direction::Drop]);
    let mut sent = lab.capture("east", &[Direction::Tx]);
    lab.wire("east").longest.store(200, std::sync::atomic::Ordering::SeqCst);
    let [short, long] =
        [10, 300].map(|length| packet_from(1, &udp(host4(1), host4(2), &vec![7; length])));
    lab.send("west", [short.clone(), long, short]);
    let mut drops: Vec<_> = all.read().frames.into_iter().map(|frame| frame.drop).collect();
    drops.sort();
    assert_eq!(drops, ["", "", "tx-refused"]);
    assert_eq!(sent.read().frames.len(), 2);
}

#[test]
fn frames_beyond_the_ring_are_missed_but_forwarded() {
    let mut lab = Lab::new(&Setup::three_ports());
    let mut reader = lab.capture("west", &[Direction::Rx]);
    let packet = packet_from(1, &udp(host4(1), host4(2), &[0; 1400]));
    const ROUND: usize = 500;
    for _ in 0..10 {
        lab.send("west", vec![packet.clone(); ROUND]);
        assert_eq!(lab.take("east").len(), ROUND);
    }
    let mut read = 0;
    let missed = loop {
        let reply = reader.read();
        if reply.frames.is_empty() {
            break reply.missed;
        }
        read += reply.frames.len() as u64;
    };
    assert_eq!(read + missed, 10 * ROUND as u64);
    assert!(missed > 0 && read > 2000, "{read} read, {missed} missed");
}

#[test]
fn four_captures_run_at_once_and_end_with_their_readers() {
    let mut lab = Lab::new(&Setup::three_ports());
    let mut readers: Vec<Reader> = (0..4).map(|_| lab.capture("any", &[])).collect();
    let request = v1::CaptureRequest { interface: "any".to_owned(), ..Default::default() };
    let refused = lab.state().start_capture(&request).err().expect("a fifth is refused");
    assert_eq!(refused.message(), "4 captures run, the maximum: stop one of them");
    readers.pop();
    lab.state().tick();
    assert_eq!(lab.state().captures(), 3);
    readers.push(lab.capture("any", &[Direction::Rx]));
    lab.send("west", [packet_from(1, &udp(host4(1), host4(2), b""))]);
    let read: Vec<usize> = readers.iter_mut().map(|reader| reader.read().frames.len()).collect();
    assert_eq!(read, [2, 2, 2, 1]);
    drop(readers);
    lab.state().tick();
    assert_eq!(lab.state().captures(), 0);
}

#[test]
fn a_capture_survives_the_deletion_of_its_interface() {
    let setup = Setup::three_ports();
    let mut lab = Lab::new(&setup);
    let mut reader = lab.capture("east", &[Direction::Rx]);
    let mut without = Setup::new().port("west", 1).port("north", 3).host("west", 1);
    without.0.workers = setup.0.workers.clone();
    lab.apply(&without).expect("it can go");
    lab.add_wire("east", Wire::new(1, 8));
    lab.apply(&setup).expect("it can come back");
    lab.settle();
    lab.send("east", [packet_from(2, &udp(host4(2), host4(1), b""))]);
    lab.send("west", [packet_from(1, &udp(host4(1), host4(3), b""))]);
    let frames = reader.read().frames;
    let east = lab.index("east");
    assert_eq!(frames.iter().map(|frame| frame.interface).collect::<Vec<_>>(), [east]);
}
