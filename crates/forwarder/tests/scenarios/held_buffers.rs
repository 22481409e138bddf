//! Buffers that others can hold: packets that wait for neighbours that do not exist leave buffers to others.

use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use stoa_forwarder::control::Limits;
use stoa_forwarder::punt::{Class, Limit};

use crate::harness::*;

/// The payload of a packet that needs a jumbo buffer.
const LARGE: [u8; 4000] = [7; 4000];
/// Hosts of a network that do not exist.
const SILENT: u32 = 200;
/// An eighth of 1,024 jumbo buffers.
const SHARE: u64 = 128;

fn lab(setup: &Setup) -> Lab {
    let limits = Limits { neighbors: 4096, adjacencies: 8192, next_hops: 8192, ..LIMITS };
    Lab::with(setup, limits, |_| {
        let wire = Wire::new(1, 8);
        wire.mtu.store(9000, Ordering::SeqCst);
        wire
    })
}

/// A large packet to the silent host of that number, on the link of "east".
fn to_silent(n: u32) -> Vec<u8> {
    let to = Ipv4Addr::new(10, 0, 2, 20 + (n % SILENT) as u8);
    packet_from(1, &udp(host4(1), to, &LARGE))
}

/// Jumbo buffers in use.
fn jumbos(lab: &mut Lab) -> u64 {
    let limits = lab.state().list_limits();
    limits.into_iter().find(|it| it.name == "jumbo-buffers").and_then(|it| it.used).unwrap()
}

/// The rate that the usual policer lets pass holds 3,000 packets for three seconds; there are 1,024 buffers.
#[test]
fn large_packets_to_nobody_leave_buffers_to_others() {
    let mut lab = lab(&Setup::three_ports());
    lab.state().stop_time();
    lab.state().stop_policers();
    for step in 0..28 {
        lab.send("west", (0..100).map(|n| to_silent(step * 100 + n)));
        lab.state().skip(Duration::from_millis(100));
        lab.state().tick();
    }
    assert!((1..=SHARE).contains(&jumbos(&mut lab)), "{} in use", jumbos(&mut lab));
    lab.forget();
    let good = packet_from(1, &udp(host4(1), host4(2), &LARGE));
    lab.send("west", vec![good; 10]);
    let sent = lab.take("east");
    assert_eq!(sent.iter().filter(|frame| frame.len() > LARGE.len()).count(), 10);
    // A neighbour on another link has a share of its own.
    let (other, mac) = (Ipv4Addr::new(10, 0, 3, 77), [2, 0xbb, 0, 0, 3, 77]);
    lab.state().skip(Duration::from_secs(1));
    lab.send("west", [packet_from(1, &udp(host4(1), other, &LARGE))]);
    lab.send("north", [arp_reply(mac, (our_mac(3), our4(3)), other)]);
    let sent = lab.take("north");
    assert!(sent.iter().any(|frame| frame[..6] == mac && frame.len() > LARGE.len()));
    // All are freed when resolution fails.
    lab.pass_time(Duration::from_secs(10));
    assert_eq!(jumbos(&mut lab), 0);
}

/// The same while the control thread is busy: packets on their way to it hold no more.
#[test]
fn large_packets_on_their_way_to_the_control_thread_hold_few_buffers() {
    let mut setup = Setup::three_ports();
    setup.0.punts.insert(Class::Resolve, Limit { rate: 100_000, burst: 10_000, total: 100_000 });
    let mut lab = lab(&setup);
    lab.put("west", 0, (0..900).map(to_silent));
    let deadline = Instant::now() + Duration::from_secs(10);
    while !lab.wire("west").is_read() || jumbos(&mut lab) > SHARE {
        assert!(Instant::now() < deadline, "{} in use", jumbos(&mut lab));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(jumbos(&mut lab), SHARE);
    let dropped = lab.dropped();
    assert_eq!(dropped, [("punt-full".to_owned(), 900 - SHARE)]);
    lab.settle();
}
