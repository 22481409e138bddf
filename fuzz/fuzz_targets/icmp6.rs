//! ICMPv6: the first 32 bytes are the addresses, the rest is the message.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoa_wire::checksum::{self, Pseudo};
use stoa_wire::{echo, icmp6, protocol};

fn agrees(bytes: &[u8], pseudo: &Pseudo) {
    let Ok(view) = icmp6::check(bytes, pseudo) else { return };
    let sum = checksum::sum(bytes) + pseudo.sum(protocol::ICMP6, bytes.len());
    assert!(checksum::is_valid(sum));
    assert_eq!(view.payload().len() + icmp6::LENGTH, bytes.len());
    assert_eq!(view.quoted().is_some(), icmp6::is_error(view.header().kind));
    assert!(view.mtu().is_none() || view.quoted().is_some());

    if let Some(answer) = echo::of_icmp6(&view) {
        let is_reply = view.header().kind == icmp6::kind::ECHO_REPLY;
        assert!(is_reply != view.quoted().is_some());
        assert!(bytes.windows(2).any(|pair| pair == answer.identifier.to_be_bytes()));
    }
    let mut turned = bytes.to_vec();
    let is_request = view.header().kind == icmp6::kind::ECHO_REQUEST;
    assert_eq!(icmp6::reply_in_place(&mut turned), is_request);
    assert!(is_request || turned == bytes);
    let Some(echo) = view.echo() else { return };
    let turned = icmp6::check(&turned, pseudo).expect("a reply in place is valid");
    assert_eq!(turned.echo(), Some(echo));
    let mut built = vec![0; bytes.len()];
    assert_eq!(icmp6::build_echo_reply(&mut built, pseudo, &echo), Ok(bytes.len()));
    let built = icmp6::check(&built, pseudo).expect("what is built is valid");
    assert_eq!(built.echo(), Some(echo));
}

fuzz_target!(|input: &[u8]| {
    let Some((source, rest)) = input.split_first_chunk::<16>() else { return };
    let Some((destination, bytes)) = rest.split_first_chunk::<16>() else { return };
    let pseudo = Pseudo::Ip6 { source: (*source).into(), destination: (*destination).into() };
    agrees(bytes, &pseudo);
    // The same with a correct checksum, which the fuzzer is unlikely to find.
    if bytes.len() >= icmp6::LENGTH {
        let mut bytes = bytes.to_vec();
        bytes[2..4].fill(0);
        let sum = checksum::sum(&bytes) + pseudo.sum(protocol::ICMP6, bytes.len());
        bytes[2..4].copy_from_slice(&checksum::finish(sum).to_be_bytes());
        agrees(&bytes, &pseudo);
    }
});
