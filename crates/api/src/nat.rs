//! Address translation: limits and defaults that both sides use, and which mappings of a list come first.

mod deterministic;

pub use deterministic::{Deterministic, Range4, Refused, user_of};

use std::cmp::Reverse;

use crate::v1;

/// The most policies of all instances.
pub const POLICIES: usize = 255;

/// The most pairs of IPv6 prefixes of all instances.
pub const PREFIX_PAIRS: usize = 255;

/// The longest prefix of a pair: RFC 6296 needs the words behind it.
pub const PREFIX_LENGTH_MOST: u32 = 64;

/// The most mappings of translation without state (SIIT) of all instances.
pub const SIIT_MAPPINGS: usize = 16_384;
/// The most IPv4 prefixes of a policy of it that are not translated.
pub const SIIT_KEPT: usize = 1_024;

/// The most static mappings of all instances.
pub const MAPPINGS: usize = 65_536;

/// The most backends of a static mapping.
pub const BACKENDS: usize = 32;
/// The greatest part of the connections that a backend has.
pub const WEIGHT: u8 = 100;

/// The most external addresses of the pools of a policy.
pub const ADDRESSES: u64 = 65_536;

/// First and last external port of a policy where none are configured: those that are not well known.
pub const PORTS: (u32, u32) = (1_024, 65_535);

/// The most port blocks of all policies. The forwarder has room for twice as many, so that those of a policy that
/// changes need not end first.
pub const BLOCKS: u64 = 2_097_152;

/// Ports of a block, at least: a host with fewer can hardly open a web page.
pub const BLOCK_SIZE_LEAST: u32 = 32;

/// Blocks that a subscriber may have where no other number is configured.
pub const BLOCKS_OF_SUBSCRIBER: u32 = 4;
/// Blocks that a subscriber may have at most.
pub const BLOCKS_OF_SUBSCRIBER_MOST: u32 = 32;

/// Seconds for which a block without ports in use stays with its subscriber (RFC 6888 REQ-8) by default.
pub const BLOCK_TIMEOUT_S: u32 = 120;
/// The same at most: a day.
pub const BLOCK_TIMEOUT_MOST_S: u32 = 86_400;

/// Seconds of a lease of a mapping (PCP, NAT-PMP) at least, where nothing else is configured (RFC 6887 section 15).
pub const LEASE_LEAST_S: u32 = 120;
/// Seconds of such a lease at most: a day.
pub const LEASE_MOST_S: u32 = 86_400;

/// Leases of a host where nothing else is configured.
pub const HOST_LEASES: u32 = 128;

/// The shortest prefix of a subscriber.
pub const SUBSCRIBER_LENGTH_LEAST: u32 = 8;

/// The port of the servers of an application level gateway, unless [`NatAlg::port`](crate::v1::NatAlg::port) says
/// otherwise.
pub fn default_alg_port(name: &str) -> u32 {
    match name {
        "ftp" => 21,
        "tftp" => 69,
        "pptp" => 1723,
        "sip" => 5060,
        _ => 0,
    }
}

/// Keeps the oldest `at_most` mappings.
pub fn keep_oldest(mappings: &mut Vec<v1::NatDynamicMapping>, at_most: usize) {
    mappings.sort_by(|a, b| {
        let key = |it: &v1::NatDynamicMapping| (Reverse(it.age_s), it.protocol, it.external_port);
        key(a).cmp(&key(b)).then_with(|| a.external.cmp(&b.external))
    });
    mappings.truncate(at_most);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_mappings_come_first() {
        let mapping = |age_s, external_port| v1::NatDynamicMapping {
            age_s,
            external_port,
            ..v1::NatDynamicMapping::default()
        };
        let mut mappings = vec![mapping(1, 1), mapping(9, 3), mapping(9, 2)];
        keep_oldest(&mut mappings, 2);
        assert_eq!(mappings, [mapping(9, 2), mapping(9, 3)]);
    }
}
