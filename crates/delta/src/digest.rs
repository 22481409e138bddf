//! Digests: by which two processes compare large sets without sending them.
//!
//! The digest of a set is the wrapping sum of the digests of its rows: it is independent of their order, and a row can
//! be added or removed incrementally. Two different sets have equal sums with a probability of 2^-64. The hash is not
//! cryptographic: an audit finds faults, not attacks. Rows are divided into [`SLICES`] by key, so that after a
//! difference only one slice must be listed and compared. A wrong row stays in the slice of its key.
//!
//! Both processes may be of different versions: the digest of a row never changes.

/// Parts of a set, each with its own sum.
pub const SLICES: usize = 256;

// Constants without a pattern: digits of pi.
const KEY: u64 = 0x243f_6a88_85a3_08d3;
const ROW: u64 = 0x1319_8a2e_0370_7345;
const LENGTH: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bijection of 64 bits in which each input bit changes about half of the output bits: the finalizer of MurmurHash3
/// (fmix64) with the multipliers of David Stafford (Mix13).
pub const fn mix(mut word: u64) -> u64 {
    word ^= word >> 30;
    word = word.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word ^= word >> 27;
    word = word.wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Eight bytes at a time; the length distinguishes blocks that end with zeros.
fn hash(bytes: &[u8], seed: u64) -> u64 {
    let mut sum = seed ^ (bytes.len() as u64).wrapping_mul(LENGTH);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        sum = mix(sum.wrapping_add(u64::from_le_bytes(*word)));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(sum.wrapping_add(u64::from_le_bytes(last)))
}

/// The hash of a key.
pub fn key(key: &[u8]) -> u64 {
    hash(key, KEY)
}

/// The slice of a key with this hash.
pub const fn slice(key: u64) -> usize {
    (key >> 56) as usize
}

/// The digest of a row under a key with this hash.
pub fn row(key: u64, row: &[u8]) -> u64 {
    hash(row, key ^ ROW)
}

/// Number and sums of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digests {
    /// Rows in the set.
    pub rows: u64,
    /// The sum of each slice.
    sums: Vec<u64>,
}

impl Default for Digests {
    fn default() -> Self {
        Self { rows: 0, sums: vec![0; SLICES] }
    }
}

impl Digests {
    /// Digests that another process sent; `None` with another number of slices.
    pub fn new(rows: u64, sums: Vec<u64>) -> Option<Self> {
        (sums.len() == SLICES).then_some(Self { rows, sums })
    }

    /// Adds the digest of a row to a slice.
    pub fn add(&mut self, slice: usize, digest: u64) {
        self.rows += 1;
        self.sums[slice] = self.sums[slice].wrapping_add(digest);
    }

    /// Removes the digest of a row from a slice.
    pub fn remove(&mut self, slice: usize, digest: u64) {
        self.rows -= 1;
        self.sums[slice] = self.sums[slice].wrapping_sub(digest);
    }

    /// The sum of each slice.
    pub fn sums(&self) -> &[u64] {
        &self.sums
    }

    /// The sums, for a message.
    pub fn into_sums(self) -> Vec<u64> {
        self.sums
    }

    /// The digest of the whole set.
    pub fn total(&self) -> u64 {
        self.sums.iter().fold(0, |sum, slice| sum.wrapping_add(*slice))
    }

    /// The slices that differ.
    pub fn differing(&self, other: &Self) -> Vec<u32> {
        let both = self.sums.iter().zip(&other.sums).enumerate();
        both.filter(|(_, (one, other))| one != other).map(|(at, _)| at as u32).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn of(key_bytes: &[u8], row_bytes: &[u8]) -> u64 {
        row(key(key_bytes), row_bytes)
    }

    #[test]
    fn digests_are_those_of_version_1() {
        assert_eq!(of(&7_u64.to_be_bytes(), &[1; 32]), VERSION_1);
        assert_eq!(slice(key(&7_u64.to_be_bytes())), SLICE_1);
    }
    const VERSION_1: u64 = 0xa0de_4ad4_f4c6_c3da;
    const SLICE_1: usize = 22;

    #[test]
    fn similar_rows_have_different_digests() {
        let mut seen = HashSet::new();
        for at in 0..4096_u64 {
            for length in [0, 1, 8, 9] {
                assert!(seen.insert(of(&at.to_be_bytes(), &vec![0; length])), "{at} {length}");
                assert!(seen.insert(of(&at.to_le_bytes(), &vec![1; length + 1])), "{at} {length}");
            }
        }
    }

    #[test]
    fn each_bit_changes_about_half_of_the_bits() {
        let before = of(&[9; 8], &[3; 32]);
        for bit in 0..256_usize {
            let mut row = [3; 32];
            row[bit / 8] ^= 1 << (bit % 8);
            let changed = (of(&[9; 8], &row) ^ before).count_ones();
            assert!((12..=52).contains(&changed), "bit {bit} changes {changed}");
        }
    }

    #[test]
    fn a_slice_with_another_row_differs_alone() {
        let (mut one, mut other) = (Digests::default(), Digests::default());
        for at in 0..1_000_u64 {
            let key = key(&at.to_be_bytes());
            one.add(slice(key), row(key, b"row"));
            other.add(slice(key), row(key, if at == 500 { b"raw" } else { b"row" }));
        }
        let key = key(&500_u64.to_be_bytes());
        assert_eq!(one.differing(&other), [slice(key) as u32]);
        assert_ne!(one.total(), other.total());
        other.remove(slice(key), row(key, b"raw"));
        other.add(slice(key), row(key, b"row"));
        assert_eq!((one.total(), &one), (other.total(), &other));
    }
}
