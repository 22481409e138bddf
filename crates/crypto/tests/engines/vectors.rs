//! Wycheproof, NIST's CAVP, and RFCs: see `../data/README.md`.

use std::collections::HashMap;

use stoa_crypto::{Algorithm, Engine, engines};

use crate::packets::Given;

/// Vectors of a file: their words, and the bytes of those that are hexadecimal.
fn lines<const N: usize>(text: &str) -> Vec<([&str; N], [Vec<u8>; N])> {
    let line = |line| {
        let words: Vec<&str> = str::split(line, ' ').collect();
        let words: [&str; N] = words.try_into().expect("a line has as many words");
        (words, words.map(bytes))
    };
    text.lines().map(line).collect()
}

fn bytes(digits: &str) -> Vec<u8> {
    let pair = |it: &[u8]| u8::from_str_radix(str::from_utf8(it).ok()?, 16).ok();
    digits.as_bytes().chunks(2).map_while(pair).collect()
}

fn given(algorithm: Algorithm, key: &[u8], integrity: &[u8]) -> Given {
    let mut given = Given { aad_length: 0, ..Given::esp(algorithm, 0) };
    given.key[..key.len()].copy_from_slice(key);
    given.integrity[..integrity.len()].copy_from_slice(integrity);
    given
}

/// Opens a packet. Returns whether it is authentic, and the text.
fn open(engine: &dyn Engine, given: &Given, text: &[u8], tag: &[u8]) -> (bool, Vec<u8>) {
    let sealed = Given { text: text.to_vec(), ..given.clone() };
    let mut memory = sealed.memory();
    let range = sealed.text_range();
    memory[range.end..range.end + tag.len()].copy_from_slice(tag);
    let key = given.key(engine);
    let is_good = engine.open(&mut [sealed.lane(&key, &mut memory)]).has(0);
    (is_good, memory[range].to_vec())
}

/// Seals a packet. Returns the encrypted text, and the tag.
fn seal(engine: &dyn Engine, given: &Given) -> (Vec<u8>, Vec<u8>) {
    let mut memory = given.memory();
    let key = given.key(engine);
    assert!(engine.seal(&mut [given.lane(&key, &mut memory)]).has(0));
    let range = given.text_range();
    let tag = range.end..range.end + given.algorithm.tag_bytes();
    (memory[range].to_vec(), memory[tag].to_vec())
}

/// How many vectors an engine has met, by algorithm.
#[derive(Default)]
struct Met(HashMap<Algorithm, usize>);

impl Met {
    fn add(&mut self, algorithm: Algorithm) {
        *self.0.entry(algorithm).or_default() += 1;
    }

    /// Asserts that an engine has met so many vectors of an algorithm, if it has the algorithm.
    fn assert(&self, engine: &dyn Engine, algorithm: Algorithm, least: usize) {
        let count = self.0.get(&algorithm).copied().unwrap_or_default();
        let is_met = count >= least || !engine.has(algorithm);
        assert!(is_met, "{} {}: {count} of {least}", engine.name(), algorithm.name());
    }
}

/// Opens and seals the vectors of a file, which has at least so many of each algorithm.
fn aead(text: &str, least: &[(Algorithm, usize)]) {
    for engine in engines() {
        let mut met = Met::default();
        for ([name, .., result], [_, key, nonce, aad, text, sealed, tag, _]) in lines::<8>(text) {
            let algorithm = Algorithm::from_name(name).expect("an algorithm");
            if !engine.has(algorithm) {
                continue;
            }
            let mut given = given(algorithm, &key, &[]);
            given.nonce.copy_from_slice(&nonce);
            given.aad[..aad.len()].copy_from_slice(&aad);
            given.aad_length = aad.len() as u8;
            let (is_good, opened) = open(engine.as_ref(), &given, &sealed, &tag);
            assert_eq!(is_good, result == "valid", "{} {name} {tag:x?}", engine.name());
            if is_good {
                assert_eq!(opened, text, "{} {name}", engine.name());
                let given = Given { text, ..given };
                assert_eq!(
                    seal(engine.as_ref(), &given),
                    (sealed, tag),
                    "{} {name}",
                    engine.name()
                );
            }
            met.add(algorithm);
        }
        for (algorithm, least) in least {
            met.assert(engine.as_ref(), *algorithm, *least);
        }
    }
}

#[test]
fn aeads() {
    use Algorithm::{Aes128Gcm, Aes128Gmac, Aes256Gcm, ChaCha20Poly1305};
    let wycheproof = [(Aes128Gcm, 54), (Aes256Gcm, 53), (ChaCha20Poly1305, 274)];
    aead(include_str!("../data/wycheproof-aead.txt"), &wycheproof);
    aead(include_str!("../data/cavp-gcm.txt"), &[(Aes128Gcm, 300), (Aes256Gcm, 300)]);
    let rfcs = [Aes128Gcm, Aes128Gmac, Aes256Gcm, ChaCha20Poly1305].map(|it| (it, 1));
    aead(include_str!("../data/rfc-aead.txt"), &rfcs);
}

/// The MAC of a packet covers front and text: of any message it can be verified, whatever CBC makes of the text.
#[test]
fn hmacs() {
    for engine in engines() {
        let mut met = Met::default();
        for algorithm in Algorithm::ALL.into_iter().filter(|it| engine.has(*it)) {
            let is_cbc = algorithm.block() == 16;
            for ([hash, .., result], [_, key, message, tag, _]) in
                lines::<5>(include_str!("../data/wycheproof-hmac.txt"))
            {
                if !algorithm.name().ends_with(hash) || message.len() < 16 {
                    continue;
                }
                let mut given = given(algorithm, &[], &key);
                let front = if is_cbc { 16 + message.len() % 16 } else { message.len() / 2 };
                given.front = message[..front].to_vec();
                let (is_good, _) = open(engine.as_ref(), &given, &message[front..], &tag);
                assert_eq!(is_good, result == "valid", "{} {}", engine.name(), algorithm.name());
                met.add(algorithm);
            }
            let least = match algorithm.integrity_key_bytes() {
                0 => 0,
                20 => 11,
                _ => 38,
            };
            met.assert(engine.as_ref(), algorithm, least);
        }
    }
}

#[test]
fn cbc() {
    for engine in engines() {
        let mut met = Met::default();
        for algorithm in Algorithm::ALL.into_iter().filter(|it| engine.has(*it) && it.block() == 16)
        {
            for text in [
                include_str!("../data/wycheproof-cbc.txt"),
                include_str!("../data/cavp-cbc.txt"),
                include_str!("../data/rfc-cbc.txt"),
            ] {
                for (_, [key, iv, text, sealed]) in lines(text) {
                    if key.len() != algorithm.key_bytes() {
                        continue;
                    }
                    let given = Given { front: iv, text, ..given(algorithm, &key, &[]) };
                    let (made, tag) = seal(engine.as_ref(), &given);
                    assert_eq!(made, sealed, "{} {}", engine.name(), algorithm.name());
                    let (is_good, opened) = open(engine.as_ref(), &given, &sealed, &tag);
                    assert!(is_good && opened == given.text);
                    met.add(algorithm);
                }
            }
            let least = if algorithm.key_bytes() == 16 { 129 } else { 151 };
            met.assert(engine.as_ref(), algorithm, least);
        }
    }
}
