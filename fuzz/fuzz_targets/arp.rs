//! ARP: valid packets obey the rules, encode to the same bytes, and their replies are valid.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoa_wire::arp::{self, ArpError, Packet};
use stoa_wire::ethernet::Mac;

fuzz_target!(|bytes: &[u8]| {
    let packet = match arp::check(bytes) {
        Ok(packet) => packet,
        Err(cause) => {
            return assert_eq!(cause == ArpError::Truncated, bytes.len() < arp::LENGTH);
        }
    };
    assert!(packet.is_request() != packet.is_reply());
    assert!(packet.sender_mac.is_unicast());
    assert!(!(packet.is_probe() && packet.is_announcement()));

    let mut out = [0; arp::LENGTH];
    assert_eq!(packet.build(&mut out), Ok(arp::LENGTH));
    assert_eq!(out, bytes[..arp::LENGTH]);

    let mac = Mac([2, 0, 0, 0, 0, 1]);
    assert_eq!(Packet::reply(packet, mac).build(&mut out), Ok(arp::LENGTH));
    match arp::check(&out) {
        Ok(reply) => {
            assert!(reply.is_reply() && reply.sender_mac == mac);
            assert_eq!((reply.sender(), reply.target()), (packet.target(), packet.sender()));
        }
        Err(cause) => assert_eq!(cause, ArpError::BadSenderAddress),
    }
});
