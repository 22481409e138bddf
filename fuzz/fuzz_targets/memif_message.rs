//! memif control messages: any bytes decode or are refused, and what decodes is written back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoa_memif::messages::{Message, SIZE};

fuzz_target!(|bytes: &[u8]| {
    let Ok(message) = Message::decode(bytes) else { return };
    assert_eq!(bytes.len(), SIZE);
    // A text may lose its last byte to the closing zero, but only once.
    let once = Message::decode(&message.encode()).expect("our own message");
    assert_eq!(Message::decode(&once.encode()), Ok(once));
});
