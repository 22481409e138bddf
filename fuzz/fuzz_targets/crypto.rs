//! Crypto engines: any batch, malformed lanes among it, is encrypted by every engine as aws-lc does, and decrypted
//! again; what was changed is refused, and nothing is written beside a packet.
#![no_main]

use std::sync::LazyLock;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use stoa_crypto::{Algorithm, Authentication, AwsLc, Engine, Key, Lane, Mask, engines};

static ENGINES: LazyLock<Vec<Box<dyn Engine>>> = LazyLock::new(engines);
/// Bytes in front of a packet and behind it.
const MARGIN: usize = 64;
/// The most packets.
const PACKETS: usize = 64;

#[derive(Arbitrary, Debug)]
struct Given {
    algorithm: u8,
    key: u8,
    nonce: [u8; 12],
    aad: [u8; 16],
    aad_length: u8,
    text_offset: u8,
    length: u16,
    /// Which byte is changed before the packet is decrypted, and how.
    changed: Option<(u16, u8)>,
}

impl Given {
    fn algorithm(&self) -> Algorithm {
        Algorithm::ALL[usize::from(self.algorithm) % Algorithm::ALL.len()]
    }

    fn key(&self, engine: &dyn Engine) -> Key {
        let algorithm = self.algorithm();
        let encryption = vec![self.key; algorithm.key_bytes()];
        let integrity = vec![!self.key; algorithm.integrity_key_bytes()];
        engine.key(algorithm, &encryption, &integrity).expect("a key")
    }

    /// Bytes of the packet: often ones that CBC accepts.
    fn packet_length(&self) -> usize {
        let length = usize::from(self.length) % 4_096;
        let is_rounded = self.key.is_multiple_of(2) && self.algorithm().block() == 16;
        let rest = usize::from(self.text_offset) + self.algorithm().tag_bytes();
        if is_rounded { rest + length / 16 * 16 } else { length }
    }
}

/// Calls with a lane for each packet.
fn call(
    given: &[&Given],
    keys: &[Key],
    memory: &mut [Vec<u8>],
    run: impl FnOnce(&mut [Lane<'_>]) -> Mask,
) -> Mask {
    let mut lanes: Vec<Lane<'_>> = Vec::with_capacity(given.len());
    for ((it, key), memory) in given.iter().zip(keys).zip(memory) {
        let end = memory.len() - MARGIN;
        lanes.push(Lane {
            key,
            packet: &mut memory[MARGIN..end],
            text_offset: it.text_offset,
            nonce: it.nonce,
            aad: it.aad,
            aad_length: it.aad_length,
        });
    }
    run(&mut lanes)
}

/// Where a bit must not be changed: with a HMAC the whole packet, else text and tag.
fn authenticated(it: &Given) -> std::ops::Range<usize> {
    let is_front = it.algorithm().authentication() == Authentication::Hmac;
    let begin = if is_front { 0 } else { usize::from(it.text_offset) };
    MARGIN + begin..MARGIN + it.packet_length()
}

fuzz_target!(|input: (Vec<Given>, Vec<u8>)| {
    let (all, bytes) = &input;
    let all: Vec<&Given> = all.iter().take(PACKETS).collect();
    let byte = |at: usize| bytes.get(at % bytes.len().max(1)).copied().unwrap_or(0xa5);
    let memory = |it: &&Given| (0..it.packet_length() + 2 * MARGIN).map(byte).collect();
    let plain: Vec<Vec<u8>> = all.iter().map(memory).collect();
    let mut right = plain.clone();
    let keys: Vec<Key> = all.iter().map(|it| it.key(&AwsLc)).collect();
    let well_formed = call(&all, &keys, &mut right, |lanes| AwsLc.seal(lanes));
    for engine in ENGINES.iter() {
        let has = |it: &Given| engine.has(it.algorithm());
        let of = |it: &&Given| it.key(if has(it) { engine.as_ref() } else { &AwsLc });
        let keys: Vec<Key> = all.iter().map(of).collect();
        let mut memory = plain.clone();
        let sealed = call(&all, &keys, &mut memory, |lanes| engine.seal(lanes));
        for (at, it) in all.iter().enumerate() {
            let is_ours = has(it) && well_formed.has(at);
            assert_eq!(sealed.has(at), is_ours, "{} {it:?}", engine.name());
            let expected = if is_ours { &right[at] } else { &plain[at] };
            assert_eq!(memory[at], *expected, "{} {it:?}", engine.name());
        }
        let mut is_changed = vec![false; all.len()];
        for (at, it) in all.iter().enumerate().filter(|(at, _)| sealed.has(*at)) {
            let range = authenticated(it);
            if let Some((place, by)) = it.changed.filter(|(_, by)| *by != 0) {
                memory[at][range.start + usize::from(place) % range.len()] ^= by;
                is_changed[at] = true;
            }
        }
        let opened = call(&all, &keys, &mut memory, |lanes| engine.open(lanes));
        for (at, it) in all.iter().enumerate() {
            let is_good = sealed.has(at) && !is_changed[at];
            assert_eq!(opened.has(at), is_good, "{} {it:?}", engine.name());
            let end = memory[at].len() - MARGIN;
            let until = if is_good { end - it.algorithm().tag_bytes() } else { MARGIN };
            assert_eq!(memory[at][..until], plain[at][..until]);
            assert_eq!(memory[at][end..], plain[at][end..]);
        }
    }
});
