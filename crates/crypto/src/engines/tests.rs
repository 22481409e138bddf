//! Which engine an algorithm has, and where its lanes go.

use super::*;

#[test]
fn the_library_has_every_algorithm() {
    let all = engines();
    let last = all.last().expect("aws-lc is always there");
    assert_eq!(last.name(), "aws-lc");
    assert!(Algorithm::ALL.into_iter().all(|it| last.has(it)));
}

#[test]
fn every_algorithm_has_an_engine_and_the_fastest_is_first() {
    let engines = Engines::start(&[]).unwrap();
    let working = super::engines();
    for algorithm in Algorithm::ALL {
        let first = working.iter().find(|it| it.has(algorithm)).expect("aws-lc has it");
        assert_eq!(engines.chosen(algorithm), Some(first.name()));
    }
}

#[test]
fn an_engine_is_forced_by_its_name() {
    let engines = Engines::start(&["aws-lc", "aws-lc"]).unwrap();
    assert!(Algorithm::ALL.into_iter().all(|it| engines.chosen(it) == Some("aws-lc")));
    assert_eq!(engines.list().len(), Engines::start(&[]).unwrap().list().len());
}

#[test]
fn an_engine_that_is_not_there_is_an_error() {
    let error = Engines::start(&["qat"]).err().expect("there is none");
    let there = Engines::start(&[]).unwrap().list().iter().map(|it| it.name).collect();
    assert_eq!(error, ForceError::Unknown { name: "qat".to_owned(), there });
    let refusal = Refusal::WrongAnswer(Algorithm::Aes128Gcm);
    let state = EngineState { name: "bad", algorithms: Vec::new(), refused: Some(refusal) };
    assert_eq!(missing("bad", &[state]), ForceError::Refused { name: "bad", refusal });
}

/// Lanes of all algorithms in one batch go to their engines, and malformed ones among them stay as they are.
#[test]
fn a_batch_may_mix_algorithms_of_all_engines() {
    let engines = Engines::start(&[]).unwrap();
    engines.enter();
    let key = |it: Algorithm| {
        engines.key(it, &vec![1; it.key_bytes()], &vec![2; it.integrity_key_bytes()]).unwrap()
    };
    let keys = Algorithm::ALL.map(key);
    let of = |at: usize| &keys[at % keys.len()];
    let mut packets: Vec<_> =
        (0..200).map(|at| vec![7_u8; 24 + 64 + of(at).algorithm().tag_bytes()]).collect();
    packets[30].truncate(20);
    let whole = packets.clone();
    let run = |packets: &mut [Vec<u8>], is_seal: bool| {
        let mut lanes: Vec<Lane<'_>> = packets
            .iter_mut()
            .enumerate()
            .map(|(at, packet)| {
                let nonce = [at as u8; 12];
                Lane { key: of(at), packet, text_offset: 24, nonce, aad: [3; 16], aad_length: 4 }
            })
            .collect();
        if is_seal { engines.seal(&mut lanes) } else { engines.open(&mut lanes) }
    };
    let sealed = run(&mut packets, true);
    assert!((0..200).all(|at| sealed.has(at) == (at != 30)), "{sealed:?}");
    let tampered = &mut packets[100];
    let last = tampered.len() - 1;
    tampered[last] ^= 1;
    let opened = run(&mut packets, false);
    assert!((0..200).all(|at| opened.has(at) == (at != 30 && at != 100)), "{opened:?}");
    for (at, (packet, whole)) in packets.iter().zip(&whole).enumerate() {
        let without_tag = packet.len().min(24 + 64);
        assert!(at == 100 || packet[..without_tag] == whole[..without_tag], "{at}");
    }
}
