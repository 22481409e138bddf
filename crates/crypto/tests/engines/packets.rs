//! Packets to encrypt, in memory with other bytes around them.

use proptest::prelude::*;
use stoa_crypto::{Algorithm, Authentication, Engine, Key, Lane, Mask};

/// Bytes in front of a packet and behind it, which engines must not write.
const MARGIN: usize = 80;
/// What they are.
const AROUND: u8 = 0xa5;

/// A packet to encrypt.
#[derive(Clone, Debug)]
pub struct Given {
    pub algorithm: Algorithm,
    pub key: [u8; 32],
    pub integrity: [u8; 64],
    pub nonce: [u8; 12],
    pub aad: [u8; 16],
    pub aad_length: u8,
    pub front: Vec<u8>,
    pub text: Vec<u8>,
}

impl Given {
    /// As ESP has it, with an extended sequence number.
    pub fn esp(algorithm: Algorithm, length: usize) -> Self {
        let aad_length = match algorithm.authentication() {
            Authentication::Hmac => 4,
            Authentication::Aead | Authentication::Gmac => 12,
        };
        Self {
            algorithm,
            key: [7; 32],
            integrity: [8; 64],
            nonce: [9; 12],
            aad: [3; 16],
            aad_length,
            front: vec![5; 8 + algorithm.iv_bytes()],
            text: (0..length).map(|it| it as u8).collect(),
        }
    }

    /// Its key. An engine that does not have the algorithm takes a key of another one.
    pub fn key(&self, engine: &dyn Engine) -> Key {
        let algorithm = self.algorithm;
        let engine = if engine.has(algorithm) { engine } else { &stoa_crypto::AwsLc };
        let encryption = &self.key[..algorithm.key_bytes()];
        engine
            .key(algorithm, encryption, &self.integrity[..algorithm.integrity_key_bytes()])
            .unwrap()
    }

    /// The packet with an empty tag, and with bytes around it.
    pub fn memory(&self) -> Vec<u8> {
        let tag = vec![0; self.algorithm.tag_bytes()];
        let margin = [AROUND; MARGIN];
        [&margin[..], &self.front, &self.text, &tag, &margin].concat()
    }

    /// Where the text is in `memory`.
    pub fn text_range(&self) -> core::ops::Range<usize> {
        let begin = MARGIN + self.front.len();
        begin..begin + self.text.len()
    }

    /// Bytes of `memory` that a changed bit must be noticed in: the text, the tag, and with a HMAC the front.
    pub fn authenticated(&self) -> core::ops::Range<usize> {
        let is_front = self.algorithm.authentication() == Authentication::Hmac;
        let begin = if is_front { MARGIN } else { self.text_range().start };
        begin..self.text_range().end + self.algorithm.tag_bytes()
    }

    pub fn lane<'a>(&self, key: &'a Key, memory: &'a mut [u8]) -> Lane<'a> {
        let end = memory.len() - MARGIN;
        Lane {
            key,
            packet: &mut memory[MARGIN..end],
            text_offset: self.front.len() as u8,
            nonce: self.nonce,
            aad: self.aad,
            aad_length: self.aad_length,
        }
    }
}

/// Calls an engine with all packets.
pub fn call(
    all: &[Given],
    keys: &[Key],
    memory: &mut [Vec<u8>],
    run: impl FnOnce(&mut [Lane<'_>]) -> Mask,
) -> Mask {
    let mut lanes: Vec<_> =
        all.iter().zip(keys).zip(memory).map(|((it, key), memory)| it.lane(key, memory)).collect();
    run(&mut lanes)
}

/// Any packet that is well-formed.
pub fn given() -> impl Strategy<Value = Given> {
    let length = prop_oneof![
        6 => 0_usize..130,
        2 => 0_usize..2_000,
        1 => Just(1_424_usize),
        1 => Just(9_000_usize),
        1 => 2_000_usize..20_000,
    ];
    let text = length.prop_flat_map(|length| prop::collection::vec(any::<u8>(), length));
    let keys = (any::<[u8; 32]>(), any::<[u8; 32]>(), any::<[u8; 32]>());
    let aad = (any::<[u8; 16]>(), 0_u8..17);
    let front = prop::collection::vec(any::<u8>(), 16..40);
    (prop::sample::select(&Algorithm::ALL[..]), keys, any::<[u8; 12]>(), aad, front, text).prop_map(
        |(algorithm, keys, nonce, (aad, aad_length), front, mut text)| {
            text.truncate(text.len() / algorithm.block() * algorithm.block() + text.len() % 4);
            if algorithm.block() == 16 {
                text.truncate(text.len() / 16 * 16);
            }
            let mut integrity = [0; 64];
            integrity[..32].copy_from_slice(&keys.1);
            integrity[32..].copy_from_slice(&keys.2);
            let aad_length = aad_length.min(algorithm.aad_bytes_max() as u8);
            Given { algorithm, key: keys.0, integrity, nonce, aad, aad_length, front, text }
        },
    )
}
