//! Every changed byte is noticed.

use stoa_crypto::{Algorithm, Engine, Key, engines};

use crate::packets::{Given, call};

/// As many packets as bytes, each with another one changed, in batches.
fn all_are_refused(engine: &dyn Engine, key: &Key, given: &Given, sealed: &[u8], bits: u8) {
    let range = given.authenticated();
    for places in range.collect::<Vec<_>>().chunks(100) {
        let mut memory: Vec<Vec<u8>> = places.iter().map(|_| sealed.to_vec()).collect();
        for (place, memory) in places.iter().zip(&mut memory) {
            memory[*place] ^= bits;
        }
        memory.push(sealed.to_vec());
        let all = vec![given.clone(); memory.len()];
        let mut lanes: Vec<_> =
            all.iter().zip(&mut memory).map(|(it, memory)| it.lane(key, memory)).collect();
        let opened = engine.open(&mut lanes);
        for (at, place) in places.iter().enumerate() {
            assert!(!opened.has(at), "{} {:?}: byte {place}", engine.name(), given.algorithm);
        }
        assert!(opened.has(places.len()));
    }
}

#[test]
fn every_changed_byte_is_noticed_at_every_length() {
    for engine in engines() {
        for algorithm in Algorithm::ALL.into_iter().filter(|it| engine.has(*it)) {
            let lengths = (0..140).chain([240, 255, 256, 257, 288, 704, 1_424]);
            for length in lengths.filter(|it| algorithm.block() == 4 || it % 16 == 0) {
                let given = Given::esp(algorithm, length);
                let key = given.key(engine.as_ref());
                let mut sealed = vec![given.memory()];
                let all = [given.clone()];
                let keys = [key];
                assert!(call(&all, &keys, &mut sealed, |lanes| engine.seal(lanes)).has(0));
                for bits in [0x80, 0x01] {
                    all_are_refused(engine.as_ref(), &keys[0], &given, &sealed[0], bits);
                }
                // Another nonce, other AAD, AAD of another length.
                let is_aead = algorithm.salt_bytes() > 0;
                let mut others = vec![Given { aad: [4; 16], ..given.clone() }];
                others.push(Given { aad_length: 0, ..given.clone() });
                others.extend(is_aead.then(|| Given { nonce: [8; 12], ..given.clone() }));
                for other in others {
                    let mut memory = sealed[0].clone();
                    assert!(!engine.open(&mut [other.lane(&keys[0], &mut memory)]).has(0));
                }
                let opened = call(&all, &keys, &mut sealed, |lanes| engine.open(lanes));
                assert!(opened.has(0));
                assert_eq!(sealed[0][given.text_range()], given.text[..]);
            }
        }
    }
}
