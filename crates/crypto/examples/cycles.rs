//! TSC cycles a packet of each engine: `cargo run --release -p stoa-crypto --example cycles`.
#![allow(unsafe_code)]

use std::arch::x86_64::_rdtsc;

use stoa_crypto::{Algorithm, Lane, engines};

fn main() {
    println!(
        "{:>10} {:>20} {:>6} {:>6} {:>8} {:>8}",
        "engine", "algorithm", "bytes", "keys", "seal", "open"
    );
    for engine in engines() {
        for algorithm in Algorithm::ALL.into_iter().filter(|it| engine.has(*it)) {
            for (length, keys) in [
                (52, 1),
                (52, 64),
                (64, 64),
                (128, 64),
                (256, 64),
                (576, 64),
                (1_024, 64),
                (1_420, 1),
                (1_420, 64),
                (9_000, 1),
            ] {
                let [seal, open] = [true, false].map(|is_seal| {
                    let best =
                        (0..7).map(|_| once(engine.as_ref(), algorithm, length, keys, is_seal));
                    best.min().unwrap_or(0)
                });
                println!(
                    "{:>10} {:>20} {length:>6} {keys:>6} {seal:>8} {open:>8}",
                    engine.name(),
                    algorithm.name()
                );
            }
        }
    }
}

fn once(
    engine: &dyn stoa_crypto::Engine,
    algorithm: Algorithm,
    length: usize,
    keys: usize,
    is_seal: bool,
) -> u64 {
    const PACKETS: usize = 256;
    const ROUNDS: u64 = 40;
    let keys: Vec<_> = (0..keys)
        .map(|it| engine.key(algorithm, &vec![it as u8; algorithm.key_bytes()]).expect("a key"))
        .collect();
    let mut texts = vec![vec![1_u8; length]; PACKETS];
    let mut tags = vec![[0_u8; 16]; PACKETS];
    let mut lanes: Vec<Lane<'_>> = texts
        .iter_mut()
        .zip(&mut tags)
        .enumerate()
        .map(|(at, (text, tag))| Lane {
            key: &keys[at % keys.len()],
            nonce: [at as u8; 12],
            header: [0; 16],
            header_length: 8,
            text,
            tag,
        })
        .collect();
    engine.seal(&mut lanes);
    // SAFETY: every x86-64 processor has the counter.
    let now = || unsafe { _rdtsc() };
    let begun = now();
    for _ in 0..ROUNDS {
        if is_seal {
            engine.seal(&mut lanes);
        } else {
            std::hint::black_box(engine.open(&mut lanes));
        }
    }
    (now() - begun) / ROUNDS / PACKETS as u64
}
