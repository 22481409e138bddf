//! TCP: the first 32 bytes are IPv6 addresses (the first 8 of them IPv4's), the rest a segment.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoa_wire::checksum::Pseudo;
use stoa_wire::tcp;
use stoa_wire::tcp_options::{SYN_OPTIONS, Shift, SynOptions, lower_segment_size, shift};

fn agrees(bytes: &[u8], pseudo: &Pseudo) {
    let view = match tcp::parse(bytes) {
        Ok(view) => view,
        Err(cause) => return assert_eq!(tcp::check(bytes, pseudo).map(|_| ()), Err(cause)),
    };
    let range = view.payload_range();
    assert!(range.start >= tcp::LENGTH && range.start <= tcp::LONGEST);
    assert_eq!(range.end, bytes.len());
    assert_eq!(view.payload(), &bytes[range.clone()]);
    assert!(view.options().count() <= 20);
    assert!(view.has(view.header().flags));

    let mut out = vec![0; bytes.len()];
    let builder = tcp::Builder::of(&view);
    if builder.build(&mut out, pseudo, view.payload()).is_err() {
        return assert!(bytes.len() > 65_535);
    }
    let again = tcp::check(&out, pseudo).expect("what is built is valid");
    assert_eq!(tcp::Builder::of(&again), builder);
    assert_eq!(again.maximum_segment_size(), view.maximum_segment_size());
    // Everything except the reserved bits and the checksum is unchanged.
    let mut expected = bytes.to_vec();
    expected[12] &= 0xf0;
    expected[16..18].copy_from_slice(&out[16..18]);
    assert_eq!(out, expected);
    options(&view, pseudo);
    shifted(&out, pseudo);
    lower_segment_size(&mut out, 1400);
    tcp::check(&out, pseudo).expect("the checksum follows the segment size");
}

/// What SYNs agree on is read again after it was written.
fn options(view: &tcp::View<'_>, pseudo: &Pseudo) {
    let (all, mut bytes) = (SynOptions::of(view), [0; SYN_OPTIONS]);
    let length = all.write(&mut bytes);
    let builder = tcp::Builder { options: &bytes[..length], ..tcp::Builder::default() };
    let mut out = [0; tcp::LENGTH + SYN_OPTIONS];
    let length = builder.build(&mut out, pseudo, &[]).expect("all options fit");
    let again = tcp::check(&out[..length], pseudo).expect("what is built is valid");
    assert_eq!(SynOptions::of(&again), all);
}

/// Numbers that change there and back are the same again, and the checksum stays right.
fn shifted(segment: &[u8], pseudo: &Pseudo) {
    let there = Shift { sequence: 7, acknowledgement: 1 << 31, value: 0xffff, echo: 3, window: 0 };
    let back = Shift {
        sequence: there.sequence.wrapping_neg(),
        acknowledgement: there.acknowledgement.wrapping_neg(),
        value: there.value.wrapping_neg(),
        echo: there.echo.wrapping_neg(),
        window: 0,
    };
    let mut changed = segment.to_vec();
    assert!(shift(&mut changed, &there));
    tcp::check(&changed, pseudo).expect("the checksum follows");
    assert!(shift(&mut changed, &back));
    assert_eq!(changed, segment);
}

fuzz_target!(|input: &[u8]| {
    let Some((source, rest)) = input.split_first_chunk::<16>() else { return };
    let Some((destination, bytes)) = rest.split_first_chunk::<16>() else { return };
    let [a, b, c, d, e, f, g, h, ..] = *source;
    agrees(bytes, &Pseudo::Ip6 { source: (*source).into(), destination: (*destination).into() });
    let pseudo = Pseudo::Ip4 { source: [a, b, c, d].into(), destination: [e, f, g, h].into() };
    agrees(bytes, &pseudo);
});
