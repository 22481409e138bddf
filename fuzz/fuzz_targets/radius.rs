//! RADIUS: valid packets consist of a header and complete attributes, and survive encoding and decoding.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoa_wire::radius;

fuzz_target!(|bytes: &[u8]| {
    let Ok(view) = radius::check(bytes) else { return };
    let attributes: Vec<(u8, &[u8])> =
        view.attributes().map(|one| (one.kind, one.value)).collect();
    for one in view.attributes() {
        assert_eq!(&view.packet()[one.at..one.at + one.value.len()], one.value);
    }
    let header = view.header();
    let mut out = vec![0; radius::LENGTH_MAX];
    let length = radius::build(
        &mut out,
        header.code,
        header.identifier,
        header.authenticator,
        &attributes,
    )
    .expect("what was read can be written");
    assert_eq!(&out[..length], view.packet());
});
