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
    let keys: Vec<_> = (0..keys).map(|it| key(engine, algorithm, it as u8)).collect();
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
    assert_eq!(engine.seal(&mut lanes).count(), PACKETS);
    // SAFETY: every x86-64 processor has the counter.
    let now = || unsafe { _rdtsc() };
    let begun = now();
    for _ in 0..ROUNDS {
        if is_seal {
            let _ = std::hint::black_box(engine.seal(&mut lanes));
        } else {
            let _ = std::hint::black_box(engine.open(&mut lanes));
        }
    }
    (now() - begun) / ROUNDS / PACKETS as u64
}

fn key(engine: &dyn stoa_crypto::Engine, algorithm: Algorithm, byte: u8) -> stoa_crypto::Key {
    let integrity = vec![byte; algorithm.integrity_key_bytes()];
    engine.key(algorithm, &vec![byte; algorithm.key_bytes()], &integrity).expect("a key")
}
