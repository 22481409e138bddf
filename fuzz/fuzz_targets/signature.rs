//! Test packets: a signature is found at the end or before padding, and every found signature matches its bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoa_traffic::signature::{Key, LENGTH, Signature};

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(std::array::from_fn(|byte| bytes.get(at + byte).copied().unwrap_or(0)))
}

fuzz_target!(|bytes: &[u8]| {
    let Some((run, rest)) = bytes.split_first_chunk::<8>() else { return };
    let key = Key::of_run(u64::from_be_bytes(*run));
    if let Some(found) = key.find(rest) {
        // Not compared with `seal`: a check of zero has two encodings.
        let says_so = |window: &[u8]| {
            window.try_into().is_ok_and(|window: &[u8; LENGTH]| key.open(window) == Some(found))
        };
        assert!(rest.windows(LENGTH).any(says_so), "{found:?} is nowhere");
    }
    let stream = word(rest, 0) as u16;
    let put = Signature { stream, sequence: word(rest, 2), time: word(rest, 6) };
    let sealed = key.seal(put);
    let mut frame = rest.to_vec();
    frame.extend(sealed);
    assert_eq!(key.find(&frame), Some(put));
    // The same as the first of a run of packets.
    let run: [[u8; LENGTH]; 4] = key.seal_run(put);
    for (at, bytes) in run.iter().enumerate() {
        let sequence = put.sequence.wrapping_add(at as u32);
        assert_eq!(key.open(bytes), Some(Signature { sequence, ..put }));
    }
    // Every bit error is detected.
    let bit = usize::from(rest.first().copied().unwrap_or(0)) % (8 * LENGTH);
    let mut spoilt = sealed;
    spoilt[bit / 8] ^= 1 << (bit % 8);
    assert_eq!(key.open(&spoilt), None);
});
