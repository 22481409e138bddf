//! How an engine proves that it computes what it should.

use super::known;
use crate::aws_lc::AwsLc;
use crate::{Algorithm, BATCH, Engine, Key, Lane};

/// A known answer, in hexadecimal digits: `sealed` is the encrypted text with its tag.
pub(super) struct Known {
    pub(super) algorithm: Algorithm,
    pub(super) key: &'static str,
    pub(super) integrity: &'static str,
    pub(super) front: &'static str,
    pub(super) nonce: &'static str,
    pub(super) aad: &'static str,
    pub(super) text: &'static str,
    pub(super) sealed: &'static str,
}

/// The first algorithm for which an engine computes something else than it should: a known answer, a batch of many
/// lengths as the library computes it, or no refusal of a changed packet.
pub(super) fn wrong(engine: &dyn Engine) -> Option<Algorithm> {
    let is_wrong = |it: &Known| {
        engine.has(it.algorithm)
            && !(knows(engine, it).unwrap_or(false)
                && agrees(engine, it.algorithm).unwrap_or(false))
    };
    known::ALL.iter().find(|it| is_wrong(it)).map(|it| it.algorithm)
}

/// Whether an engine computes a known answer and undoes it, and refuses it with a changed tag.
fn knows(engine: &dyn Engine, known: &Known) -> Option<bool> {
    let key = engine.key(known.algorithm, &bytes(known.key)?, &bytes(known.integrity)?).ok()?;
    let (front, text, aad) = (bytes(known.front)?, bytes(known.text)?, bytes(known.aad)?);
    let sealed = [front.clone(), bytes(known.sealed)?].concat();
    let mut header = [0; 16];
    header.get_mut(..aad.len())?.copy_from_slice(&aad);
    let nonce = *bytes(known.nonce)?.first_chunk()?;
    let call = |packet: &mut Vec<u8>, is_seal: bool| {
        let mut lanes = [Lane {
            key: &key,
            packet,
            text_offset: front.len() as u8,
            nonce,
            aad: header,
            aad_length: aad.len() as u8,
        }];
        if is_seal { engine.seal(&mut lanes).has(0) } else { engine.open(&mut lanes).has(0) }
    };
    let mut packet = [&front[..], &text, &vec![0; known.algorithm.tag_bytes()]].concat();
    let is_sealed = call(&mut packet, true) && packet == sealed;
    *packet.last_mut()? ^= 1;
    let is_refused = !call(&mut packet, false);
    let mut packet = sealed;
    let is_opened = call(&mut packet, false);
    Some(is_sealed && is_refused && is_opened && packet.get(front.len()..)?.starts_with(&text))
}

/// Whether an engine encrypts a batch as the library does, texts of many lengths with two keys, and undoes it.
fn agrees(engine: &dyn Engine, algorithm: Algorithm) -> Option<bool> {
    let pair = |engine: &dyn Engine| {
        let key = |byte| {
            let (encryption, integrity) =
                (vec![byte; algorithm.key_bytes()], vec![byte; algorithm.integrity_key_bytes()]);
            engine.key(algorithm, &encryption, &integrity).ok()
        };
        Some([key(0x36)?, key(0xc5)?])
    };
    let plain: Vec<Vec<u8>> = (0..BATCH)
        .map(|at| {
            let text =
                if at % 16 == 0 { at * 16 } else { at / algorithm.block() * algorithm.block() };
            vec![at as u8; 24 + text + algorithm.tag_bytes()]
        })
        .collect();
    let (mut ours, mut theirs) = (plain.clone(), plain.clone());
    let keys = pair(engine)?;
    let is_sealed = engine.seal(&mut lanes(&keys, &mut ours)).count() == BATCH;
    let _ = AwsLc.seal(&mut lanes(&pair(&AwsLc)?, &mut theirs));
    let is_same = ours == theirs;
    let is_opened = engine.open(&mut lanes(&keys, &mut ours)).count() == BATCH;
    let is_plain = ours.iter().zip(&plain).all(|(ours, plain)| {
        let end = plain.len() - algorithm.tag_bytes();
        ours.get(..end) == plain.get(..end)
    });
    Some(is_sealed && is_same && is_opened && is_plain)
}

fn lanes<'a>(keys: &'a [Key; 2], packets: &'a mut [Vec<u8>]) -> Vec<Lane<'a>> {
    let lane = |(at, packet): (usize, &'a mut Vec<u8>)| Lane {
        key: &keys[at % 2],
        packet,
        text_offset: 24,
        nonce: [at as u8; 12],
        aad: [at as u8; 16],
        aad_length: if at % 3 == 0 { 0 } else { 4 },
    };
    packets.iter_mut().enumerate().map(lane).collect()
}

/// Bytes of hexadecimal digits.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|it| u8::from_str_radix(str::from_utf8(it).ok()?, 16).ok()).collect()
}
