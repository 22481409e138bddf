//! Digests of learned routes. The forwarder computes them from its tables, the controller from the routes that it sent;
//! an audit compares both. Sums, slices and their purpose are those of all tables of rows ([`stoa_delta::digest`]).

use stoa_delta::digest::mix;

/// Parts of a table, each with its own sum.
pub use stoa_delta::digest::SLICES;

/// The hash of a prefix, common to `route` and `slice`.
const fn prefix(address: u128, length: u8) -> u64 {
    let high = mix((address >> 64) as u64 ^ HIGH);
    let low = mix((address as u64).wrapping_add(high) ^ LOW);
    mix(low ^ (length as u64).wrapping_mul(LENGTH))
}

// Constants without a pattern: digits of pi and of the golden ratio.
const HIGH: u64 = 0x243f_6a88_85a3_08d3;
const LOW: u64 = 0x1319_8a2e_0370_7345;
const LENGTH: u64 = 0x9e37_79b9_7f4a_7c15;
const HOP: u64 = 0xa409_3822_299f_31d1;

/// The digest of a route from its `address` without host bits (IPv4 in the low 32 bits), its prefix length and the id
/// of its hop in `LearnRoutes`. Each family has its own sum.
pub const fn route(address: u128, length: u8, hop: u32) -> u64 {
    mix(prefix(address, length) ^ (hop as u64).wrapping_mul(HOP))
}

/// The slice of a prefix, independent of its hop.
pub const fn slice(address: u128, length: u8) -> usize {
    (prefix(address, length) >> 56) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Controller and forwarder may be of different versions: the digests never change.
    #[test]
    fn digests_are_those_of_version_1() {
        assert_eq!(route(0x0a00_0000, 8, 1), ROUTE_10_8);
        assert_eq!(slice(0x0a00_0000, 8), SLICE_10_8);
        assert_eq!(route(0x2001_0db8 << 96, 32, 7), ROUTE_DB8);
        assert_eq!(slice(0x2001_0db8 << 96, 32), SLICE_DB8);
    }
    const ROUTE_10_8: u64 = 0xb253_7e4b_3b77_ae65;
    const SLICE_10_8: usize = 57;
    const ROUTE_DB8: u64 = 0x1e32_39e6_de80_d5b7;
    const SLICE_DB8: usize = 16;

    #[test]
    fn similar_routes_have_different_digests() {
        let mut seen = HashSet::new();
        for at in 0..4096_u128 {
            for length in [20, 24, 32] {
                for hop in [1, 2, 3, 1 << 20] {
                    for shift in [0, 8, 64, 96] {
                        // 0 shifted is the same prefix.
                        if at > 0 || shift == 0 {
                            seen.insert((at << shift, length, hop));
                        }
                    }
                }
            }
        }
        let digests: HashSet<u64> =
            seen.iter().map(|&(address, length, hop)| route(address, length, hop)).collect();
        assert_eq!(digests.len(), seen.len());
    }

    #[test]
    fn each_bit_changes_about_half_of_the_bits() {
        let difference = |one: u64, other: u64| (one ^ other).count_ones();
        let before = route(0xc000_0200, 24, 5);
        for bit in 0..128 {
            let changed = difference(before, route(0xc000_0200 ^ (1 << bit), 24, 5));
            assert!((14..=50).contains(&changed), "address bit {bit} changes {changed}");
        }
        for bit in 0..32 {
            let changed = difference(before, route(0xc000_0200, 24, 5 ^ (1 << bit)));
            assert!((14..=50).contains(&changed), "hop bit {bit} changes {changed}");
        }
    }

    #[test]
    fn slices_have_equal_shares_of_a_table() {
        let mut counts = [0_u32; SLICES];
        for at in 0..65_536_u128 {
            counts[slice(0x0b00_0000 + (at << 8), 24)] += 1;
        }
        // Mean 256, standard deviation 16.
        assert!(counts.iter().all(|count| (160..=352).contains(count)), "{counts:?}");
    }
}
