//! UDP: the first 32 bytes are IPv6 addresses (the first 8 of them IPv4's), the rest a datagram.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoa_wire::checksum::Pseudo;
use stoa_wire::udp::{self, UdpError};

fn agrees(bytes: &[u8], pseudo: &Pseudo) {
    let view = match udp::parse(bytes) {
        Ok(view) => view,
        Err(cause) => return assert_eq!(udp::check(bytes, pseudo).map(|_| ()), Err(cause)),
    };
    let length = view.datagram().len();
    assert!(length >= udp::LENGTH && length <= bytes.len());
    assert_eq!(usize::from(view.header().length.get()), length);
    assert_eq!(view.payload(), &bytes[udp::LENGTH..length]);
    let verified = view.verify(pseudo);
    assert_eq!(udp::check(bytes, pseudo).map(|_| ()), verified);
    let none = view.header().checksum.get() == 0;
    assert_eq!(verified == Err(UdpError::NoChecksum), none && pseudo.is_ip6());

    let (source, destination) = (view.source_port(), view.destination_port());
    let mut out = vec![0; length];
    let built = udp::build(&mut out, pseudo, source, destination, view.payload());
    assert_eq!(built, Ok(length));
    assert!(udp::check(&out, pseudo).is_ok());
    assert_eq!((&out[..6], &out[8..]), (&bytes[..6], &bytes[8..length]));
    // A valid checksum equals the built one: 0 is never sent.
    assert!(verified.is_err() || none || out[6..8] == bytes[6..8]);
}

fuzz_target!(|input: &[u8]| {
    let Some((source, rest)) = input.split_first_chunk::<16>() else { return };
    let Some((destination, bytes)) = rest.split_first_chunk::<16>() else { return };
    let [a, b, c, d, e, f, g, h, ..] = *source;
    agrees(bytes, &Pseudo::Ip6 { source: (*source).into(), destination: (*destination).into() });
    let pseudo = Pseudo::Ip4 { source: [a, b, c, d].into(), destination: [e, f, g, h].into() };
    agrees(bytes, &pseudo);
});
