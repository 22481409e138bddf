//! Translation between IPv4 and IPv6: what comes out is a valid packet between the given addresses, and translates back
//! without a panic.
#![no_main]

use std::net::{Ipv4Addr, Ipv6Addr};

use libfuzzer_sys::fuzz_target;
use stoa_wire::siit::{Ends4, Ends6, Mapping, Prefix, to_ip4, to_ip6};
use stoa_wire::{ipv4, ipv6};

const OUT: usize = 10_000;

fn four((source, destination): Ends6) -> Option<Ends4> {
    let of = |it: Ipv6Addr| Some(Ipv4Addr::from_bits(it.to_bits() as u32));
    Some((of(source)?, of(destination)?))
}

fn six((source, destination): Ends4) -> Option<Ends6> {
    let of = |it| Prefix::WELL_KNOWN.embed(it);
    Some((of(source), of(destination)))
}

/// Any mapping that is accepted translates any of its addresses to an address of its other prefix, and back.
fn map(bytes: &[u8]) {
    let Some((&[length4, length6, a, b, c, d, e, f, g, h], rest)) = bytes.split_first_chunk()
    else {
        return;
    };
    let Some(network) = rest.first_chunk::<16>() else { return };
    let (ip4, ip6) = (Ipv4Addr::new(a, b, c, d), Ipv6Addr::from(*network));
    let embedded = Prefix::new(ip6, length6).and_then(|it| Mapping::embedded((ip4, length4), it));
    let explicit = Mapping::explicit((ip4, length4), (ip6, length6));
    for mapping in [embedded, explicit].into_iter().flatten() {
        let (network4, mask4) = mapping.ip4();
        let address = network4 | u32::from_be_bytes([e, f, g, h]) & !mask4;
        let (network6, mask6) = mapping.ip6();
        assert_eq!(mapping.to_ip6(address) & mask6, network6);
        assert_eq!(mapping.to_ip4(mapping.to_ip6(address)), address);
        assert_eq!(
            mapping.to_ip4(network6 | u128::from_be_bytes(*network) & !mask6) & mask4,
            network4
        );
    }
}

fuzz_target!(|bytes: &[u8]| {
    map(bytes);
    let mut out = [0; OUT];
    let ends4 = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(198, 51, 100, 2));
    if let Ok(length) = to_ip4(bytes, (ends4, 7), four, &mut out) {
        let packet = ipv4::check(&out[..length]).expect("a valid packet");
        assert_eq!((packet.source(), packet.destination()), ends4);
        let mut back = [0; OUT];
        let ends6 = six(ends4).expect("addresses");
        let _ = to_ip6(&out[..length], ends6, six, &mut back);
    }
    let ends6 = six(ends4).expect("addresses");
    if let Ok(length) = to_ip6(bytes, ends6, six, &mut out) {
        let packet = ipv6::check(&out[..length]).expect("a valid packet");
        assert_eq!((packet.source(), packet.destination()), ends6);
        let mut back = [0; OUT];
        let _ = to_ip4(&out[..length], (ends4, 7), four, &mut back);
    }
});
