//! Wycheproof, NIST's CAVP, and RFCs: see `../data/README.md`.

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

/// Returns how many vectors there were.
fn aead(text: &str) -> usize {
    let mut count = 0;
    for engine in engines() {
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
            count += 1;
        }
    }
    count
}

#[test]
fn aeads() {
    assert!(aead(include_str!("../data/wycheproof-aead.txt")) >= 381);
    assert!(aead(include_str!("../data/cavp-gcm.txt")) >= 600);
    assert!(aead(include_str!("../data/rfc-aead.txt")) >= 4);
}

/// The MAC of a packet covers front and text: of any message it can be verified, whatever CBC makes of the text.
#[test]
fn hmacs() {
    let mut count = 0;
    for engine in engines() {
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
                count += 1;
            }
        }
    }
    assert!(count >= 212, "{count}");
}

#[test]
fn cbc() {
    let mut count = 0;
    for engine in engines() {
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
                    count += 1;
                }
            }
        }
    }
    assert!(count > 800, "{count}");
}
