//! netlink: arbitrary bytes are decoded or rejected, and decoded messages obey their invariants.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoa_controller::linux::message::{
    Address, Link, Messages, Neighbor, NextHopObject, Route, Rule, route,
};

fuzz_target!(|bytes: &[u8]| {
    for message in Messages::of(bytes).map_while(Result::ok) {
        if let Ok(Some(read)) = Route::read(message.body) {
            let prefix = read.prefix;
            let width: u8 = if prefix.is_ip6 { 128 } else { 32 };
            assert!(prefix.length <= width);
            let host = u32::from(width - prefix.length);
            assert_eq!(prefix.bits & 1_u128.checked_shl(host).map_or(u128::MAX, |it| it - 1), 0);
            for next_hop in read.next_hops() {
                assert!((1..=256).contains(&next_hop.weight));
                assert!(next_hop.gateway.is_none_or(|it| it.is_ipv6() == prefix.is_ip6));
            }
            let _ = route::protocol(read.protocol);
        }
        if let Ok(next_hop) = NextHopObject::read(message.body) {
            assert_ne!(next_hop.id, 0);
            assert!(next_hop.members().all(|(_, weight)| (1..=65_536).contains(&weight)));
        }
        let _ = Link::read(message.body);
        let _ = Neighbor::read(message.body);
        let _ = Rule::read(message.body);
        if let Ok(address) = Address::read(message.body) {
            assert!(address.length <= if address.address.is_ipv4() { 32 } else { 128 });
        }
    }
});
