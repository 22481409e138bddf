//! GRE: valid packets have a header of 4 or 8 bytes and survive encoding and decoding.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoa_wire::{checksum, gre};

fn agrees(bytes: &[u8]) {
    let Ok(view) = gre::check(bytes) else { return };
    let header = bytes.len() - view.payload().len();
    assert_eq!(header, if bytes[0] & 0x80 == 0 { 4 } else { 8 });
    assert_eq!(&bytes[header..], view.payload());
    let mut out = vec![0; gre::LENGTH];
    assert_eq!(gre::build(&mut out, view.protocol()), Ok(gre::LENGTH));
    out.extend(view.payload());
    let again = gre::check(&out).expect("what was built is right");
    assert_eq!((again.protocol(), again.payload()), (view.protocol(), view.payload()));
}

fuzz_target!(|bytes: &[u8]| {
    agrees(bytes);
    // The same with a correct checksum, which the fuzzer is unlikely to find.
    if bytes.len() >= 8 && bytes[0] & 0x80 != 0 {
        let mut bytes = bytes.to_vec();
        bytes[4..6].fill(0);
        let checksum = checksum::ones_complement(&bytes);
        bytes[4..6].copy_from_slice(&checksum.to_be_bytes());
        agrees(&bytes);
        assert_ne!(gre::check(&bytes).err(), Some(gre::GreError::BadChecksum));
    }
});
