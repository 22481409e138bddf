//! Translation of IPv6 prefixes, and the prefix of NAT64.

use std::net::Ipv6Addr;

use stoa_forwarder::control::desired::NptPrefix;
use stoa_forwarder::nptv6::Prefix6;
use stoa_wire::siit::Prefix;

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
    setup
}
