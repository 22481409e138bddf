//! IPv4 options in transit and in echo replies: record route and timestamp (RFC 791), and invalid
//! options.

use stoa_wire::{icmp4, ipv4, protocol};

use crate::harness::*;

fn with(options: &[u8], destination: std::net::Ipv4Addr) -> Vec<u8> {
    let header =
        ipv4::Builder { options, ..ipv4::Builder::new(host4(1), destination, protocol::UDP) };
    ip4(&header, &datagram(host4(1).into(), destination.into(), (1, 2), b"data"))
}

/// The options of the one packet that left `port`.
fn options(lab: &Lab, port: &str) -> Vec<u8> {
    let frames = lab.take(port);
    assert_eq!(frames.len(), 1);
    ipv4::check(&frames[0][14..]).unwrap().option_bytes().to_vec()
}

#[test]
fn record_route_is_filled_in() {
    let mut lab = Lab::new(&Setup::three_ports());
    let given = [7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    lab.send("west", [packet_from(1, &with(&given, host4(2)))]);
    assert_eq!(options(&lab, "east"), [7, 11, 8, 10, 0, 2, 1, 0, 0, 0, 0, 0]);
    // A full record passes unchanged.
    let given = [7, 7, 8, 9, 9, 9, 9, 0];
    lab.send("west", [packet_from(1, &with(&given, host4(2)))]);
    assert_eq!(options(&lab, "east"), given);
    lab.assert_dropped(&[]);
}

#[test]
fn timestamps_are_filled_in() {
    let mut lab = Lab::new(&Setup::three_ports());
    lab.send("west", [packet_from(1, &with(&[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0], host4(2)))]);
    let parsed = options(&lab, "east");
    assert_eq!(parsed[..8], [68, 12, 13, 1, 10, 0, 2, 1]);
    let time = u32::from_be_bytes([parsed[8], parsed[9], parsed[10], parsed[11]]);
    assert!(time < 86_400_000);
    // A full timestamp option: the overflow counter grows.
    lab.send("west", [packet_from(1, &with(&[68, 4, 5, 0x20], host4(2)))]);
    assert_eq!(options(&lab, "east"), [68, 4, 5, 0x30]);
}

#[test]
fn invalid_options_cause_a_parameter_problem() {
    let mut lab = Lab::new(&Setup::three_ports());
    for (options, pointer) in [
        ([7, 7, 3, 0, 0, 0, 0, 0], 22),
        ([7, 7, 6, 0, 0, 0, 0, 0], 22),
        ([68, 4, 5, 0xf0, 0, 0, 0, 0], 23),
    ] {
        lab.send("west", [packet_from(1, &with(&options, host4(2)))]);
        lab.assert_dropped(&[("ip4-options", 1)]);
        let parsed = lab.only("west");
        assert_eq!((parsed.icmp, parsed.word[0]), (Some((12, 0)), pointer));
    }
    lab.assert_silent();
}

#[test]
fn options_are_processed_after_features_too() {
    let setup = Setup::three_ports().with("west", |west| {
        west.ip4.reverse_path = stoa_forwarder::ip::reverse_path::STRICT;
    });
    let mut lab = Lab::new(&setup);
    lab.send("west", [packet_from(1, &with(&[7, 7, 4, 0, 0, 0, 0, 0], host4(2)))]);
    assert_eq!(options(&lab, "east"), [7, 7, 8, 10, 0, 2, 1, 0]);
}

#[test]
fn an_echo_reply_returns_the_record() {
    let mut lab = Lab::new(&Setup::three_ports());
    let mut message = vec![0; icmp4::LENGTH];
    let echo = icmp4::Echo { identifier: 7, sequence: 9, data: b"" };
    icmp4::build_echo_request(&mut message, &echo).unwrap();
    let given = [148, 4, 0, 0, 7, 11, 8, 10, 0, 1, 2, 0, 0, 0, 0, 0];
    let header =
        ipv4::Builder { options: &given, ..ipv4::Builder::new(host4(1), our4(1), protocol::ICMP4) };
    lab.send("west", [packet_from(1, &ip4(&header, &message))]);
    let frames = lab.take("west");
    assert_eq!(parse(&frames[0]).icmp, Some((0, 0)));
    let options = ipv4::check(&frames[0][14..]).unwrap().option_bytes().to_vec();
    assert_eq!(options, [1, 1, 1, 1, 7, 11, 12, 10, 0, 1, 2, 10, 0, 1, 1, 0]);
    lab.assert_dropped(&[]);
}
