//! IPv4: views are inside the input, headers encode to the same bytes and stay valid after a hop.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoa_wire::zerocopy::FromBytes;
use stoa_wire::{checksum, icmp4, ipv4, ipv4_options};

fn agrees(bytes: &[u8]) {
    let Ok(view) = ipv4::check(bytes) else { return };
    let header = view.header();
    let range = view.payload_range();
    assert!(range.start >= ipv4::LENGTH && range.start <= ipv4::LONGEST);
    assert!(range.end == view.packet().len() && range.end <= bytes.len());
    assert_eq!(view.payload(), &bytes[range.clone()]);
    assert_eq!(usize::from(header.total_length.get()), range.end);
    assert!(checksum::is_valid(checksum::sum(&bytes[..range.start])));
    assert_eq!(view.inspect_options().is_err(), view.options().any(|option| option.is_err()));
    assert_eq!(view.options().count(), ipv4_options::Options::new(view.option_bytes()).count());

    // 0xffff and 0x0000 are equal in one's complement; the builder writes the latter.
    let mut expected = bytes[..range.start].to_vec();
    if expected[10..12] == [0xff, 0xff] {
        expected[10..12].fill(0);
    }
    let mut out = [0; ipv4::LONGEST];
    assert_eq!(ipv4::Builder::of(&view).build(&mut out, view.payload().len()), Ok(range.start));
    assert_eq!(out[..range.start], expected);

    let mut next = bytes.to_vec();
    ipv4::Header::mut_from_prefix(&mut next).expect("was read before").0.decrement_ttl();
    let hop = ipv4::check(&next).expect("a hop keeps the header valid");
    assert_eq!(hop.header().time_to_live, header.time_to_live.saturating_sub(1));

    if icmp4::may_answer(&view) {
        let mut answer = [0; icmp4::LENGTH + icmp4::MOST_QUOTED];
        let length = icmp4::build_error(&mut answer, icmp4::Error::TimeExceeded, view.packet());
        let length = length.expect("always enough room");
        let quoted = icmp4::check(&answer[..length]).expect("what is built is valid").quoted();
        assert!(quoted.is_some_and(|quoted| view.packet().starts_with(quoted)));
    }
}

fuzz_target!(|bytes: &[u8]| {
    agrees(bytes);
    // The same with a correct checksum, which the fuzzer is unlikely to find.
    let mut bytes = bytes.to_vec();
    let Some(first) = bytes.first() else { return };
    let length = usize::from(first & 15) * 4;
    if length >= ipv4::LENGTH && length <= bytes.len() {
        bytes[10..12].fill(0);
        let checksum = checksum::ones_complement(&bytes[..length]);
        bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
        agrees(&bytes);
    }
});
