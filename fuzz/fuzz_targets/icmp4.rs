//! ICMP: echo messages survive encoding and decoding, and the reply in place equals the built reply.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoa_wire::{checksum, echo, icmp4};

fn agrees(bytes: &[u8]) {
    let Ok(view) = icmp4::check(bytes) else { return };
    assert!(checksum::is_valid(checksum::sum(bytes)));
    assert_eq!(view.payload().len() + icmp4::LENGTH, bytes.len());
    assert_eq!(view.quoted().is_some(), icmp4::is_error(view.header().kind));
    assert!(view.next_hop_mtu().is_none() || view.quoted().is_some());

    if let Some(answer) = echo::of_icmp4(&view) {
        let is_reply = view.header().kind == icmp4::kind::ECHO_REPLY;
        assert!(is_reply != view.quoted().is_some());
        assert!(bytes.windows(2).any(|pair| pair == answer.identifier.to_be_bytes()));
    }
    let mut turned = bytes.to_vec();
    let is_request = view.header().kind == icmp4::kind::ECHO_REQUEST;
    assert_eq!(icmp4::reply_in_place(&mut turned), is_request);
    assert!(is_request || turned == bytes);
    let Some(echo) = view.echo() else { return };
    let turned = icmp4::check(&turned).expect("a reply in place is valid");
    assert_eq!(turned.echo(), Some(echo));
    let mut built = vec![0; bytes.len()];
    assert_eq!(icmp4::build_echo_reply(&mut built, &echo), Ok(bytes.len()));
    assert_eq!(icmp4::check(&built).expect("what is built is valid").echo(), Some(echo));
}

fuzz_target!(|bytes: &[u8]| {
    agrees(bytes);
    // The same with a correct checksum, which the fuzzer is unlikely to find.
    if bytes.len() >= icmp4::LENGTH {
        let mut bytes = bytes.to_vec();
        bytes[2..4].fill(0);
        let checksum = checksum::ones_complement(&bytes);
        bytes[2..4].copy_from_slice(&checksum.to_be_bytes());
        agrees(&bytes);
    }
});
