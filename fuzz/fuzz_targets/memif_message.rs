//! memif control messages: decoded messages survive encoding and decoding.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoa_memif::messages::{Message, SIZE};

fuzz_target!(|bytes: &[u8]| {
    let Ok(message) = Message::decode(bytes) else { return };
    assert_eq!(bytes.len(), SIZE);
    // A string can lose its last byte to the terminating zero, but only once.
    let once = Message::decode(&message.encode()).expect("an encoded message is valid");
    assert_eq!(Message::decode(&once.encode()), Ok(once));
});
