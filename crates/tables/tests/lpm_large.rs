//! Longest-prefix match against an independent prefix trie, with as many routes as a large site.
#![cfg(not(miri))]

use ipnet::{Ipv4Net, Ipv6Net};
use prefix_trie::PrefixMap;
use stoa_tables::lpm::{Ip4Lpm, Ip6Lpm, LpmCapacity};

const ROUTES: usize = 10_000;

/// xorshift64: the same numbers in each run.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn ip4_agrees_with_a_trie() {
    let mut state = 0x1234_5678_9abc_def1;
    let mut lpm = Ip4Lpm::new(LpmCapacity::for_routes(ROUTES)).expect("memory");
    let mut trie = PrefixMap::<Ipv4Net, u32>::new();
    let net = |state: &mut u64| {
        let len =
            [0, 8, 12, 16, 18, 19, 22, 24, 24, 24, 24, 28, 30, 32][random(state) as usize % 14];
        // A few /8 only, so that prefixes nest.
        let address = (random(state) as u32) & 0x07ff_ffff;
        Ipv4Net::new(address.into(), len).expect("a length").trunc()
    };
    for round in 0..2 * ROUTES {
        let net = net(&mut state);
        let (prefix, len) = (net.network().to_bits(), net.prefix_len());
        if round % 3 == 2 {
            // Take away what covers a random address, often something.
            let host = Ipv4Net::new(net.network(), 32).expect("a length");
            if let Some((found, value)) = trie.get_lpm(&host).map(|(net, &value)| (net, value)) {
                let removed = lpm.remove(found.network().to_bits(), found.prefix_len());
                assert_eq!(removed, Ok(value));
                trie.remove(&found);
            }
        } else {
            let value = 1 + random(&mut state) as u32 % 50;
            assert_eq!(lpm.insert(prefix, len, value), Ok(trie.insert(net, value)));
        }
    }
    assert_eq!(lpm.len(), trie.len());
    assert!(lpm.len() > ROUTES / 4, "the test has something to test: {}", lpm.len());
    let keys: Vec<u32> = (0..ROUTES).map(|_| random(&mut state) as u32 & 0x0fff_ffff).collect();
    let mut found = vec![0; keys.len()];
    lpm.reader().lookup_batch(&keys, &mut found);
    for (&key, &value) in keys.iter().zip(&found) {
        let host = Ipv4Net::new(key.into(), 32).expect("a length");
        assert_eq!(value, trie.get_lpm(&host).map_or(0, |(_, &value)| value), "{key:x}");
    }
}

#[test]
fn ip6_agrees_with_a_trie() {
    let mut state = 0x1234_5678_9abc_def1;
    let mut lpm = Ip6Lpm::new(LpmCapacity::for_routes(ROUTES)).expect("memory");
    let mut trie = PrefixMap::<Ipv6Net, u32>::new();
    let address = |state: &mut u64| {
        let site = 0x2a00_0000 | u128::from(random(state) % 64);
        site << 96 | u128::from(random(state) & 0xff00_ffff_00ff_00ff) << 32 | 1
    };
    for round in 0..2 * ROUTES {
        // What covers all other routes changes them all: rarely, or the test takes minutes.
        let short = match round % 700 {
            0 => 0,
            140 => 20,
            _ => 33,
        };
        let len = [short, 28, 29, 32, 40, 44, 48, 48, 48, 56, 62, 63, 64, 128][round % 14];
        let net = Ipv6Net::new(address(&mut state).into(), len).expect("a length").trunc();
        if round % 3 == 2 {
            let host = Ipv6Net::new(net.network(), 128).expect("a length");
            if let Some((found, value)) = trie.get_lpm(&host).map(|(net, &value)| (net, value)) {
                let removed = lpm.remove(found.network().to_bits(), found.prefix_len());
                assert_eq!(removed, Ok(value));
                trie.remove(&found);
            }
        } else {
            let value = 1 + random(&mut state) as u32 % 50;
            let prefix = net.network().to_bits();
            assert_eq!(lpm.insert(prefix, len, value), Ok(trie.insert(net, value)));
        }
    }
    assert_eq!(lpm.len(), trie.len());
    assert!(lpm.len() > ROUTES / 4, "the test has something to test: {}", lpm.len());
    let keys: Vec<u128> = (0..ROUTES).map(|_| address(&mut state)).collect();
    let mut found = vec![0; keys.len()];
    lpm.reader().lookup_batch(&keys, &mut found);
    for (&key, &value) in keys.iter().zip(&found) {
        let host = Ipv6Net::new(key.into(), 128).expect("a length");
        assert_eq!(value, trie.get_lpm(&host).map_or(0, |(_, &value)| value), "{key:x}");
    }
}
