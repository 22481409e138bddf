//! TSC cycles a packet of each engine, encrypted and decrypted:
//! `cargo run --release -p stoa-crypto --features ipsec-mb --example cycles [ALGORITHM|ENGINE|BYTES...]`.
//!
//! A figure is the least of many batches, of all engines one after another, so that it means something on a machine
//! that does other things as well.
#![allow(unsafe_code)]

use std::arch::x86_64::_rdtsc;

use stoa_crypto::{Algorithm, Engine, Key, Lane, engines};

const PACKETS: usize = 256;
const BATCHES: usize = 60;
/// Bytes of a text, and how many keys the packets of a batch have. CBC has the next multiple of 16.
const SIZES: [(usize, usize); 9] = [
    (52, 1),
    (52, 64),
    (64, 64),
    (256, 64),
    (576, 64),
    (1_024, 64),
    (1_420, 64),
    (1_424, 64),
    (9_000, 1),
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let engines = engines();
    let names: Vec<&str> = engines.iter().map(|it| it.name()).collect();
    println!(
        "{:>18} {:>6} {:>5}  encrypt / decrypt: {}",
        "algorithm",
        "bytes",
        "keys",
        names.join(", ")
    );
    let is_asked = |all: &[String], it: &str| all.is_empty() || all.iter().any(|word| word == it);
    let (sizes, others): (Vec<String>, Vec<String>) =
        words.into_iter().partition(|it| it.parse::<usize>().is_ok());
    let (of_engines, algorithms): (Vec<String>, Vec<String>) =
        others.into_iter().partition(|it| names.contains(&it.as_str()));
    for algorithm in Algorithm::ALL.into_iter().filter(|it| is_asked(&algorithms, it.name())) {
        for (length, keys) in SIZES {
            if !is_asked(&sizes, &length.to_string()) {
                continue;
            }
            let length = length.next_multiple_of(if algorithm.block() == 16 { 16 } else { 1 });
            print!("{:>18} {length:>6} {keys:>5} ", algorithm.name());
            for engine in engines.iter().filter(|it| is_asked(&of_engines, it.name())) {
                if engine.has(algorithm) {
                    let [seal, open] = cycles(engine.as_ref(), algorithm, length, keys);
                    print!(" {:>13}", format!("{seal} / {open}"));
                } else {
                    print!(" {:>13}", "-");
                }
            }
            println!();
        }
    }
}

/// The least cycles of a packet to encrypt, and to decrypt.
fn cycles(engine: &dyn Engine, algorithm: Algorithm, length: usize, keys: usize) -> [u64; 2] {
    let keys: Vec<Key> = (0..keys).map(|it| key(engine, algorithm, it as u8)).collect();
    let front = 8 + algorithm.iv_bytes();
    let mut packets = vec![vec![1_u8; front + length + algorithm.tag_bytes()]; PACKETS];
    let aad_length = if algorithm.salt_bytes() > 0 { 8 } else { 0 };
    let mut lanes: Vec<Lane<'_>> = packets
        .iter_mut()
        .enumerate()
        .map(|(at, packet)| Lane {
            key: &keys[at % keys.len()],
            packet,
            text_offset: front as u8,
            nonce: [at as u8; 12],
            aad: [0; 16],
            aad_length,
        })
        .collect();
    // SAFETY: every x86-64 processor has the counter.
    let now = || unsafe { _rdtsc() };
    let mut best = [u64::MAX; 2];
    for _ in 0..BATCHES {
        let begun = now();
        assert_eq!(engine.seal(&mut lanes).count(), PACKETS);
        let sealed = now();
        assert_eq!(engine.open(&mut lanes).count(), PACKETS);
        best = [best[0].min(sealed - begun), best[1].min(now() - sealed)];
    }
    best.map(|it| it / PACKETS as u64)
}

fn key(engine: &dyn Engine, algorithm: Algorithm, byte: u8) -> Key {
    let integrity = vec![byte; algorithm.integrity_key_bytes()];
    engine.key(algorithm, &vec![byte; algorithm.key_bytes()], &integrity).expect("a key")
}
