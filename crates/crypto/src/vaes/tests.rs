//! Against aws-lc: random batches of keys, lengths and headers, and every changed byte.

use proptest::prelude::*;

use super::*;
use crate::AwsLc;

/// A packet to encrypt.
#[derive(Clone, Debug)]
struct Given {
    is_256: bool,
    key: [u8; 32],
    nonce: [u8; 12],
    header: [u8; 16],
    header_length: u8,
    text: Vec<u8>,
}

fn given() -> impl Strategy<Value = Given> {
    let length = prop_oneof![4 => 0_usize..130, 1 => 0_usize..2_000, 1 => Just(1_424), 1 => Just(9_000), 1 => 2_000_usize..20_000];
    let text = length.prop_flat_map(|length| prop::collection::vec(any::<u8>(), length));
    (any::<bool>(), any::<[u8; 32]>(), any::<[u8; 12]>(), any::<[u8; 16]>(), 0_u8..17, text)
        .prop_map(|(is_256, key, nonce, header, header_length, text)| Given {
            is_256,
            key,
            nonce,
            header,
            header_length,
            text,
        })
}

fn algorithm(given: &Given) -> Algorithm {
    if given.is_256 { Algorithm::Aes256Gcm } else { Algorithm::Aes128Gcm }
}

fn keys(engine: &dyn Engine, all: &[Given]) -> Vec<Key> {
    let key = |it: &Given| {
        let algorithm = algorithm(it);
        engine.key(algorithm, &it.key[..algorithm.key_bytes()]).unwrap()
    };
    all.iter().map(key).collect()
}

/// Calls an engine with these texts and tags.
fn call<T>(
    all: &[Given],
    keys: &[Key],
    texts: &mut [Vec<u8>],
    tags: &mut [[u8; 16]],
    run: impl FnOnce(&mut [Lane<'_>]) -> T,
) -> T {
    let places = texts.iter_mut().zip(tags);
    let mut lanes: Vec<Lane<'_>> = all
        .iter()
        .zip(keys)
        .zip(places)
        .map(|((it, key), (text, tag))| Lane {
            key,
            nonce: it.nonce,
            header: it.header,
            header_length: it.header_length,
            text,
            tag,
        })
        .collect();
    run(&mut lanes)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn batches_are_those_of_the_library(all in prop::collection::vec(given(), 1..40), changed in any::<u16>()) {
        let Some(fast) = Vaes::new() else { return Ok(()) };
        let slow = AwsLc;
        let (fast_keys, slow_keys) = (keys(&fast, &all), keys(&slow, &all));
        let plain: Vec<Vec<u8>> = all.iter().map(|it| it.text.clone()).collect();
        let (mut texts, mut tags) = (plain.clone(), vec![[0; 16]; all.len()]);
        call(&all, &fast_keys, &mut texts, &mut tags, |lanes| fast.seal(lanes));
        let (mut others, mut other_tags) = (plain.clone(), vec![[0; 16]; all.len()]);
        call(&all, &slow_keys, &mut others, &mut other_tags, |lanes| slow.seal(lanes));
        prop_assert_eq!(&texts, &others);
        prop_assert_eq!(&tags, &other_tags);
        // One lane is changed: its text, its tag, or its header.
        let lane = usize::from(changed) % all.len();
        let mut forged = all.clone();
        let byte = usize::from(changed >> 6);
        match changed % 3 {
            0 if !texts[lane].is_empty() => {
                let length = texts[lane].len();
                texts[lane][byte % length] ^= 1 << (byte % 8);
            }
            1 if forged[lane].header_length > 0 => {
                let length = usize::from(forged[lane].header_length);
                forged[lane].header[byte % length] ^= 1 << (byte % 8);
            }
            _ => tags[lane][byte % 16] ^= 1 << (byte % 8),
        }
        let good = call(&forged, &fast_keys, &mut texts, &mut tags, |lanes| fast.open(lanes));
        for (at, plain) in plain.iter().enumerate() {
            prop_assert_eq!(good.has(at), at != lane);
            prop_assert!(at == lane || texts[at] == *plain);
        }
        prop_assert_eq!(good.count(), all.len() - 1);
    }
}

#[test]
fn every_changed_byte_is_noticed_at_every_length() {
    let Some(fast) = Vaes::new() else { return };
    let key = fast.key(Algorithm::Aes128Gcm, &[7; 16]).unwrap();
    for length in (0..140).chain([255, 256, 257, 1_424]) {
        let plain: Vec<u8> = (0..length).map(|it| it as u8).collect();
        let (mut text, mut tag) = (plain.clone(), [0; 16]);
        let run = |text: &mut Vec<u8>, tag: &mut [u8; 16], is_seal: bool| {
            let (nonce, header) = ([9; 12], [3; 16]);
            let mut lanes = [Lane { key: &key, nonce, header, header_length: 12, text, tag }];
            if is_seal {
                fast.seal(&mut lanes);
            }
            is_seal || fast.open(&mut lanes).has(0)
        };
        run(&mut text, &mut tag, true);
        for at in 0..length {
            let mut changed = text.clone();
            changed[at] ^= 0x80;
            assert!(!run(&mut changed, &mut tag.clone(), false), "{at} of {length}");
        }
        for at in 0..16 {
            let mut changed = tag;
            changed[at] ^= 1;
            assert!(!run(&mut text.clone(), &mut changed, false), "{at} of the tag, {length}");
        }
        assert!(run(&mut text, &mut tag, false) && text == plain, "{length}");
    }
}

/// Bytes in front of a text and behind it stay as they are.
#[test]
fn nothing_beside_a_text_is_written() {
    let Some(fast) = Vaes::new() else { return };
    let key = fast.key(Algorithm::Aes256Gcm, &[7; 32]).unwrap();
    for length in 0..150 {
        let mut memory = vec![0xa5; 64 + length + 128];
        let (front, rest) = memory.split_at_mut(64);
        let (text, behind) = rest.split_at_mut(length);
        let mut tag = [0; 16];
        let (nonce, header) = ([9; 12], [3; 16]);
        fast.seal(&mut [Lane { key: &key, nonce, header, header_length: 8, text, tag: &mut tag }]);
        assert!(front.iter().chain(behind.iter()).all(|it| *it == 0xa5), "{length}");
    }
}
