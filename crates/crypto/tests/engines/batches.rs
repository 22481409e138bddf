//! Against aws-lc: random batches of algorithms, keys, lengths and AAD.

use proptest::prelude::*;
use stoa_crypto::{Algorithm, AwsLc, BATCH, Key, engines};

use crate::packets::{Given, call, given};

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn batches_are_those_of_the_library(all in prop::collection::vec(given(), 1..40), changed in any::<u32>()) {
        let plain: Vec<Vec<u8>> = all.iter().map(Given::memory).collect();
        let mut right = plain.clone();
        let keys: Vec<Key> = all.iter().map(|it| it.key(&AwsLc)).collect();
        prop_assert_eq!(call(&all, &keys, &mut right, |lanes| stoa_crypto::Engine::seal(&AwsLc, lanes)).count(), all.len());
        for engine in engines() {
            let keys: Vec<Key> = all.iter().map(|it| it.key(engine.as_ref())).collect();
            let mut memory = plain.clone();
            let sealed = call(&all, &keys, &mut memory, |lanes| engine.seal(lanes));
            for (at, it) in all.iter().enumerate() {
                // Lanes of other engines stay as they are. Bytes around a packet do in any case.
                let is_ours = engine.has(it.algorithm);
                prop_assert_eq!(sealed.has(at), is_ours);
                let expected = if is_ours { &right[at] } else { &plain[at] };
                prop_assert!(memory[at] == *expected, "{} {:?} at {at}", engine.name(), it.algorithm);
            }
            // One lane is changed: a bit of what is authenticated, or of its AAD.
            let lane = changed as usize % all.len();
            let mut forged = all.clone();
            let bit = (changed >> 8) as usize;
            if bit.is_multiple_of(4) && forged[lane].aad_length > 0 {
                let length = usize::from(forged[lane].aad_length);
                forged[lane].aad[bit / 32 % length] ^= 1 << (bit / 4 % 8);
            } else {
                let range = forged[lane].authenticated();
                memory[lane][range.start + bit / 8 % range.len()] ^= 1 << (bit % 8);
            }
            let opened = call(&forged, &keys, &mut memory, |lanes| engine.open(lanes));
            for (at, it) in all.iter().enumerate().filter(|(at, _)| *at != lane) {
                prop_assert_eq!(opened.has(at), engine.has(it.algorithm));
                let end = it.text_range().end;
                prop_assert!(memory[at][..end] == plain[at][..end]);
            }
            prop_assert!(!opened.has(lane), "{} {:?}", engine.name(), all[lane].algorithm);
        }
    }
}

/// A whole batch, and one lane more, which is left as it is.
#[test]
fn a_batch_ends_with_its_last_lane() {
    for engine in engines() {
        for algorithm in Algorithm::ALL.into_iter().filter(|it| engine.has(*it)) {
            let all: Vec<Given> =
                (0..=BATCH).map(|at| Given::esp(algorithm, at % 7 * 16 + at / 200 * 640)).collect();
            let keys: Vec<Key> = all.iter().map(|it| it.key(engine.as_ref())).collect();
            let plain: Vec<Vec<u8>> = all.iter().map(Given::memory).collect();
            let mut memory = plain.clone();
            let sealed = call(&all, &keys, &mut memory, |lanes| engine.seal(lanes));
            assert_eq!(sealed.words(), [u64::MAX; 4], "{} {algorithm:?}", engine.name());
            assert_eq!(memory[BATCH], plain[BATCH]);
            let opened = call(&all, &keys, &mut memory, |lanes| engine.open(lanes));
            assert_eq!(opened.words(), [u64::MAX; 4], "{} {algorithm:?}", engine.name());
        }
    }
}

/// Nothing of a malformed lane is written, and nothing panics.
#[test]
fn malformed_lanes_stay_as_they_are() {
    for engine in engines() {
        for algorithm in Algorithm::ALL.into_iter().filter(|it| engine.has(*it)) {
            let good = Given::esp(algorithm, 64);
            let key = good.key(engine.as_ref());
            let mut malformed: Vec<(Given, usize)> = vec![
                // Shorter than front and tag, and nothing at all.
                (good.clone(), good.front.len() + algorithm.tag_bytes() - 1),
                (good.clone(), 0),
                (
                    Given { aad_length: algorithm.aad_bytes_max() as u8 + 1, ..good.clone() },
                    usize::MAX,
                ),
                (Given { aad_length: 255, ..good.clone() }, usize::MAX),
                (Given { text: vec![0; 65_536], ..good.clone() }, usize::MAX),
            ];
            if algorithm == Algorithm::NullSha256 {
                malformed.push((Given { front: vec![0; 7], ..good.clone() }, usize::MAX));
            }
            if algorithm.block() == 16 {
                malformed.push((Given { text: vec![0; 63], ..good.clone() }, usize::MAX));
                malformed.push((Given { front: vec![0; 15], ..good.clone() }, usize::MAX));
            }
            for (it, length) in malformed {
                for is_seal in [true, false] {
                    let (mut memory, mut others) = (it.memory(), [good.memory(), good.memory()]);
                    let before = memory.clone();
                    let [one, other] = &mut others;
                    let mut lane = it.lane(&key, &mut memory);
                    if let Some(packet) =
                        core::mem::take(&mut lane.packet).get_mut(..length.min(before.len() - 160))
                    {
                        lane.packet = packet;
                    }
                    let mut lanes = [good.lane(&key, one), lane, good.lane(&key, other)];
                    let mask =
                        if is_seal { engine.seal(&mut lanes) } else { engine.open(&mut lanes) };
                    assert_eq!([0, 1, 2].map(|at| mask.has(at)), [is_seal, false, is_seal]);
                    assert_eq!(memory, before, "{} {algorithm:?}", engine.name());
                }
            }
        }
    }
}
