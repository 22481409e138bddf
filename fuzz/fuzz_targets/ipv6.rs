//! IPv6: the iteration over extension headers is bounded, ordered and inside the packet.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoa_wire::ipv6_extensions::{self, MOST, MOST_OPTIONS};
use stoa_wire::{checksum::Pseudo, icmp6, ipv6, protocol};

fuzz_target!(|bytes: &[u8]| {
    let Ok(view) = ipv6::check(bytes) else { return };
    let range = view.payload_range();
    assert!(range.end == view.packet().len() && range.end <= bytes.len());
    assert_eq!(view.payload(), &bytes[range]);
    let mut out = [0; ipv6::LENGTH];
    let built = ipv6::Builder::of(&view).build(&mut out, view.payload().len());
    assert_eq!(built, Ok(ipv6::LENGTH));
    assert_eq!(out, bytes[..ipv6::LENGTH]);

    let (mut at, mut count) = (ipv6::LENGTH, 0);
    for extension in view.extensions().flatten() {
        assert_eq!(extension.offset, at);
        assert!(extension.bytes.len() >= 8 && ipv6_extensions::is_extension(extension.kind));
        assert!(extension.kind != protocol::HOP_BY_HOP || count == 0);
        assert!(extension.options().count() <= MOST_OPTIONS + 1);
        at += extension.bytes.len();
        count += 1;
    }
    assert!(count <= MOST && at <= view.packet().len());

    let upper = view.upper();
    assert_eq!(upper.is_err(), view.extensions().any(|extension| extension.is_err()));
    if let Ok(upper) = upper {
        assert_eq!(upper.offset, at);
        assert_eq!(upper.payload, &view.packet()[at..]);
        assert_eq!(view.packet()[upper.named_at], upper.protocol);
        assert!(!upper.has_header() || !ipv6_extensions::is_extension(upper.protocol));
    }

    let error = icmp6::Error::PacketTooBig { mtu: 1280 };
    if icmp6::may_answer(&view, upper.ok().as_ref(), error) {
        let pseudo = Pseudo::Ip6 { source: view.destination(), destination: view.source() };
        let mut answer = [0; icmp6::LENGTH + icmp6::MOST_QUOTED];
        let length = icmp6::build_error(&mut answer, &pseudo, error, view.packet());
        let length = length.expect("always enough room");
        let answer = icmp6::check(&answer[..length], &pseudo).expect("what is built is valid");
        assert_eq!(answer.mtu(), Some(1280));
        assert!(answer.quoted().is_some_and(|quoted| view.packet().starts_with(quoted)));
    }
});
