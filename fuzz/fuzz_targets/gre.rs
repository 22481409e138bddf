//! GRE: what is accepted is a header of 4 or 8 bytes and the rest, and reads the same when it is
//! written anew.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoa_wire::gre;

fuzz_target!(|bytes: &[u8]| {
    let Ok(view) = gre::check(bytes) else { return };
    let header = bytes.len() - view.payload().len();
    assert_eq!(header, if bytes[0] & 0x80 == 0 { 4 } else { 8 });
    assert_eq!(&bytes[header..], view.payload());
    let mut out = vec![0; gre::LENGTH];
    assert_eq!(gre::build(&mut out, view.protocol()), Ok(gre::LENGTH));
    out.extend(view.payload());
    let again = gre::check(&out).expect("what was built is right");
    assert_eq!((again.protocol(), again.payload()), (view.protocol(), view.payload()));
});
