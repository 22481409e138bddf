//! Translation of IPv6 prefixes, the prefix of NAT64, and what is translated without state.

use std::net::Ipv6Addr;

use stoa_forwarder::control::desired::{NptPrefix, SiitPolicy};
use stoa_forwarder::nptv6::Prefix6;
use stoa_wire::siit::{Mapping, Prefix};

use super::Setup;

/// Stands for IPv4 in IPv6.
pub fn nat64() -> Prefix {
    Prefix::new(Ipv6Addr::new(0x2001, 0xdb8, 64, 0, 0, 0, 0, 0), 96).expect("a prefix")
}

/// The prefix of west is that of another interface outside, which has an address in it.
pub(super) fn prefixes(mut setup: Setup) -> Setup {
    let net = |n| {
        let network = Ipv6Addr::new(0x2001, 0xdb8, n, 0, 0, 0, 0, 0).to_bits();
        Prefix6 { network, length: 48 }
    };
    setup.0.nptv6 = vec![NptPrefix {
        instance: 2,
        policy: 1,
        interface: "east".to_owned(),
        internal: net(1),
        external: net(10),
    }];
    setup.0.siit = vec![siit()];
    setup
}

/// Stands for IPv4 hosts without a mapping.
pub fn stateless() -> Prefix {
    Prefix::new(Ipv6Addr::new(0x2001, 0xdb8, 46, 0, 0, 0, 0, 0), 64).expect("a prefix")
}

/// The host behind north, and networks of nobody.
fn siit() -> SiitPolicy {
    let explicit = |ip4: [u8; 4], length4, ip6: Ipv6Addr, length6| {
        Mapping::explicit((ip4.into(), length4), (ip6, length6)).expect("a mapping")
    };
    let net = |n| Ipv6Addr::new(0x2001, 0xdb8, n, 0, 0, 0, 0, 0);
    SiitPolicy {
        instance: 3,
        policy: 1,
        vrf: String::new(),
        prefix: stateless(),
        mappings: vec![
            explicit([192, 0, 2, 3], 32, super::host6(3), 128),
            explicit([192, 0, 2, 64], 26, net(47), 64),
            Mapping::embedded(([198, 51, 100, 0].into(), 24), stateless()).expect("a mapping"),
        ],
        kept: vec![(u32::from_be_bytes([192, 0, 2, 66]), 32)],
        error_interface: "east".to_owned(),
    }
}
