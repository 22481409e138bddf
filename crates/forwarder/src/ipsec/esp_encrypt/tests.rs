//! Lanes of one tunnel whose association changes while they are in the node.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::OnceLock;

use stoa_crypto::Algorithm;
use stoa_engine::PoolCache;
use stoa_engine::pool::{HugePages, Pool};
use stoa_ports::Encapsulation;
use stoa_wire::{esp, protocol};

use std::ptr;

use super::*;
use crate::ipsec::association::Settings;
use crate::tunnel::Tunnel;
use crate::tunnel::line::TunnelLine;

fn pool() -> &'static Pool {
    static POOL: OnceLock<&'static Pool> = OnceLock::new();
    POOL.get_or_init(|| Pool::leak(1024, HugePages::Never).unwrap())
}

/// An association of one tunnel, with keys of its own.
fn association(spi: u32, algorithm: Algorithm, last: u64) -> Outbound {
    let bytes = if algorithm.salt_bytes() > 0 { spi.to_be_bytes() } else { [0; 4] };
    let (is_extended, is_implicit) = (false, false);
    let salt = bytes.into();
    let settings = Settings { spi, algorithm, salt, is_extended, is_implicit, udp: None };
    let key = key(&settings);
    let tunnel = Tunnel {
        interface: 9,
        local: Ipv4Addr::new(192, 0, 2, 1).into(),
        remote: Ipv4Addr::new(192, 0, 2, 2).into(),
        encapsulation: Encapsulation::Esp,
        hop_limit: 64,
        vrf: 0,
    };
    let line = TunnelLine::carrying(&tunnel, 0, [protocol::ESP; 2]).unwrap();
    Outbound::new(&settings, key, line, (DontFragment::Copy, None), last)
}

fn key(settings: &Settings) -> stoa_crypto::Key {
    let Settings { algorithm, spi, .. } = settings;
    let bytes = |count: usize| vec![*spi as u8; count];
    let (encryption, integrity) =
        (bytes(algorithm.key_bytes()), bytes(algorithm.integrity_key_bytes()));
    engines().key(*algorithm, &encryption, &integrity).unwrap()
}

/// Decrypts a packet of an association; returns its sequence number and the inner packet.
fn opened(association: &Outbound, packet: &[u8]) -> (u64, Vec<u8>) {
    let header = esp::check(packet, 0).unwrap();
    assert_eq!(header.spi.get(), association.spi);
    let (shape, sequence) = (association.shape, u64::from(header.sequence.get()));
    let mut packet = packet.to_vec();
    let (aad, aad_length) = shape.authenticated(association.spi, sequence);
    let nonce = association.salt.nonce(sequence.to_be_bytes());
    let (key, text_offset) = (&association.key, shape.front);
    let lane = Lane { key, packet: &mut packet, text_offset, nonce, aad, aad_length };
    assert!(engines().open(&mut [lane]).has(0), "{sequence}: forged");
    let text = &packet[shape.front.into()..packet.len() - usize::from(shape.tag)];
    (sequence, esp::check_trailer(text).unwrap().0.to_vec())
}

/// The association changes, goes and comes back between lanes of one tunnel: each packet is encrypted as its header
/// says, no number is taken twice, and what has no association is dropped as it was.
#[test]
fn a_change_within_a_vector_leaves_no_lane_half_done() {
    engines().enter();
    for algorithm in [Algorithm::Aes128Gcm, Algorithm::Aes128CbcSha256] {
        let (one, other) = (association(0x1001, algorithm, 0), association(0x1002, algorithm, 7));
        let turns = [Some(&one), Some(&one), None, Some(&other), None, Some(&other), Some(&one)];
        let (mut cache, mut vector) = (PoolCache::new(pool()), Vector::new(pool()));
        let lanes = cache.fill(&mut vector, 200);
        let mut associations: Associations<'_> = [None; VECTOR];
        let packet = |lane: usize| [&[0x45][..], &vec![lane as u8; 19 + lane]].concat();
        for lane in 0..lanes {
            associations[lane] = turns[lane % turns.len()];
            vector.tx_if[lane] = 9;
            vector.length[lane] = packet(lane).len() as u16;
            vector.bytes_mut(lane).copy_from_slice(&packet(lane));
            vector.next[lane] = Drop::EspEngine.next();
        }
        let before = associations;
        let mut surround = Surround::new();
        surround.all(&mut associations, &mut vector);
        encrypt(&mut associations, surround.sequences(), &mut vector);
        let mut numbers = BTreeSet::new();
        for lane in 0..lanes {
            assert_eq!(vector.next[lane], Drop::EspEngine.next(), "the third pass gives an edge");
            let Some(association) = before[lane] else {
                assert!(associations[lane].is_none(), "it gets no edge");
                assert_eq!(vector.bytes(lane), packet(lane));
                continue;
            };
            assert!(associations[lane].is_some_and(|it| ptr::eq(it, association)));
            let (sequence, inner) = opened(association, vector.bytes(lane));
            assert_eq!(inner, packet(lane));
            assert!(numbers.insert((association.spi, sequence)), "{sequence} twice");
        }
        let sent = |association: &Outbound| association.sent().0;
        assert_eq!(numbers.len() as u64, sent(&one) + sent(&other) - 7);
        cache.free_from(&mut vector, 0);
    }
}
