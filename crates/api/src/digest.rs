//! Digests of learned routes, reckoned alike on both sides of the contract: by the forwarder from
//! its tables, by the controller from what it believes to have sent.
//!
//! A set of routes is told as the wrapping sum of the digests of its routes, so that their order
//! does not matter and one route can be added or taken away alone. Two sets that differ have
//! different sums but by an accident of one in 2^64: nobody who sends routes can choose where the
//! mixing leads them without searching for it, and an audit defends against faults, not foes. The
//! routes are parted into [`SLICES`] by their prefix alone, so that where two sums differ only a
//! small part of the table has to be told and compared; a wrong hop stays in its slice.

/// Parts of a table that are summed up by themselves.
pub const SLICES: usize = 256;

/// The mixed bits of a prefix: what `route` and `slice` have in common.
const fn prefix(address: u128, length: u8) -> u64 {
    let high = finish((address >> 64) as u64 ^ HIGH);
    let low = finish((address as u64).wrapping_add(high) ^ LOW);
    finish(low ^ (length as u64).wrapping_mul(LENGTH))
}

// Odd numbers without pattern: the fractions of pi and of the golden ratio.
const HIGH: u64 = 0x243f_6a88_85a3_08d3;
const LOW: u64 = 0x1319_8a2e_0370_7345;
const LENGTH: u64 = 0x9e37_79b9_7f4a_7c15;
const HOP: u64 = 0xa409_3822_299f_31d1;

/// A bijection of 64 bits in which each input bit moves about half of the output bits: the
/// finalizer of MurmurHash3 (fmix64), with the multipliers that David Stafford found (Mix13).
const fn finish(mut word: u64) -> u64 {
    word ^= word >> 30;
    word = word.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word ^= word >> 27;
    word = word.wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The digest of a route: `address` with its host bits clear (IPv4 in the low 32 bits), prefix
/// length, and the id that the caller of `LearnRoutes` gave its hop. Families are summed up apart.
pub const fn route(address: u128, length: u8, hop: u32) -> u64 {
    finish(prefix(address, length) ^ (hop as u64).wrapping_mul(HOP))
}

/// In which of the [`SLICES`] a prefix is, whatever its hop.
pub const fn slice(address: u128, length: u8) -> usize {
    (prefix(address, length) >> 56) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Both halves may be of different versions: these never change.
    #[test]
    fn the_numbers_are_those_of_version_1() {
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
    fn near_routes_have_far_digests() {
        let mut seen = HashSet::new();
        for at in 0..4096_u128 {
            for length in [20, 24, 32] {
                for hop in [1, 2, 3, 1 << 20] {
                    for shift in [0, 8, 64, 96] {
                        // Nothing to the left of 0 is new: its shifts are one prefix.
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
    fn each_bit_moves_about_half_of_the_bits() {
        let change = |one: u64, other: u64| (one ^ other).count_ones();
        let before = route(0xc000_0200, 24, 5);
        for bit in 0..128 {
            let moved = change(before, route(0xc000_0200 ^ (1 << bit), 24, 5));
            assert!((14..=50).contains(&moved), "address bit {bit} moves {moved}");
        }
        for bit in 0..32 {
            let moved = change(before, route(0xc000_0200, 24, 5 ^ (1 << bit)));
            assert!((14..=50).contains(&moved), "hop bit {bit} moves {moved}");
        }
    }

    #[test]
    fn slices_share_a_table_alike() {
        let mut counts = [0_u32; SLICES];
        for at in 0..65_536_u128 {
            counts[slice(0x0b00_0000 + (at << 8), 24)] += 1;
        }
        // 256 each on average, with a deviation of 16.
        assert!(counts.iter().all(|count| (160..=352).contains(count)), "{counts:?}");
    }
}
