//! FPM: a session of arbitrary bytes in two chunks results in the same routes as in one; all routes are valid prefixes.
#![no_main]

use std::collections::BTreeMap;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use stoa_controller::learned::{Event, Update};
use stoa_controller::linux::fpm::Reader;

/// Reads all complete messages; returns the number of bytes and the events.
fn read(reader: &mut Reader, bytes: &[u8]) -> (usize, Vec<Event>) {
    let (mut at, mut events) = (0, Vec::new());
    let mut interfaces = |device: u32| (device % 2 == 1).then(|| Arc::from("a"));
    while let Ok(length) = reader.read(&bytes[at..], 16, &mut interfaces) {
        events.extend(reader.take_events());
        if length == 0 {
            break;
        }
        at += length;
    }
    (at, events)
}

/// The final routes. Events can split runs of routes, withdrawals and updates at any place.
fn routes(events: &[Event]) -> BTreeMap<(bool, u128, u8), String> {
    let mut routes = BTreeMap::new();
    for event in events {
        let Event::Update(Update { protocol, target, ip4, ip6 }) = event else { continue };
        let ip4 = ip4.iter().map(|(bits, length)| (false, u128::from(*bits), *length, 32));
        let ip6 = ip6.iter().map(|(bits, length)| (true, *bits, *length, 128_u32));
        for (is_ip6, bits, length, width) in ip4.chain(ip6) {
            let host = width.checked_sub(u32::from(length)).expect("no longer than its address");
            let mask = 1_u128.checked_shl(host).map_or(u128::MAX, |it| it - 1);
            assert_eq!(bits & mask, 0, "no host bits");
            match target {
                Some(target) => routes.insert((is_ip6, bits, length), format!("{protocol:?} {target:?}")),
                None => routes.remove(&(is_ip6, bits, length)),
            };
        }
    }
    routes
}

fuzz_target!(|input: &[u8]| {
    let Some((cut, bytes)) = input.split_first() else { return };
    let (length, whole) = read(&mut Reader::default(), bytes);
    assert!(length <= bytes.len());
    let mut reader = Reader::default();
    let (first, mut pieces) = read(&mut reader, &bytes[..usize::from(*cut).min(bytes.len())]);
    let (second, rest) = read(&mut reader, &bytes[first..]);
    pieces.extend(rest);
    assert_eq!(first + second, length);
    assert_eq!(routes(&pieces), routes(&whole));
});
