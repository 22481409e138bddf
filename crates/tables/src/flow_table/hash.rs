//! The keyed hash of flows: the two buckets of a key and its signature.
//!
//! The keys are hashed as in NH, the almost universal hash of UMAC (RFC 4418, section 5.2.2): words are
//! added to secret words, and products of pairs are summed, all of it by multiplications of 32 bits,
//! which AVX2 has. Whoever does not know the secret finds two keys of one hash with a probability of
//! about 2^-32 for each try, however the keys are chosen, and so cannot aim at a bucket.
//!
//! The other bucket follows from the one and the signature, as in a cuckoo filter, so that an index entry
//! moves without its key being read: the two buckets of a signature add up to the same number.

use crate::flow_hash::mix;

use super::key::{ADDRESS_WORDS, CONTEXT, Canonical, REVERSED};

/// Words that are added to those of a key.
const PADS: usize = 4 + ADDRESS_WORDS;

/// What only this router knows: random bytes, never shown. Other secrets, other buckets.
#[derive(Clone)]
pub struct Secret(pub [u8; 64]);

impl core::fmt::Debug for Secret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The hash function of one table.
#[derive(Clone)]
pub(super) struct Hash {
    /// For the words of a key, and for those of IPv6 addresses.
    pub(super) pads: [u32; PADS],
    /// Factors of the halves of the sum, and of the signature before and after it is one; odd.
    pub(super) factors: [u32; 4],
    /// Number of buckets.
    pub(super) buckets: u32,
}

// All of it is secret but the number of buckets.
impl core::fmt::Debug for Hash {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Hash").field("buckets", &self.buckets).finish_non_exhaustive()
    }
}

/// Where a key belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Its first choice of a bucket.
    pub(super) home: u32,
    /// What a bucket compares first; never 0.
    pub(super) signature: u16,
}

impl Hash {
    pub(super) fn new(secret: &Secret, buckets: u32) -> Self {
        let (words, _) = secret.0.as_chunks::<4>();
        let word = |at: usize| u32::from_le_bytes(words[at]);
        let mut pads = [0; PADS];
        for (at, pad) in pads.iter_mut().enumerate() {
            *pad = word(at);
        }
        let factor = |at: usize| word(PADS + at) | 1;
        let factors = [factor(0), factor(1), factor(2), factor(3)];
        Self { pads, factors, buckets }
    }

    #[inline(always)]
    pub(super) fn place(&self, key: &Canonical) -> Place {
        let pair = |words: [u32; 2], pads: [u32; 2]| {
            let [first, second] = [words[0].wrapping_add(pads[0]), words[1].wrapping_add(pads[1])];
            u64::from(first) * u64::from(second)
        };
        let [low, high, ports, context] = key.words;
        let pads = &self.pads;
        let mut sum = pair([ports, context & !REVERSED], [pads[2], pads[CONTEXT]]);
        if key.is_ip6() {
            for at in 0..ADDRESS_WORDS / 2 {
                let words = [key.addresses[at], key.addresses[at + 4]];
                sum = sum.wrapping_add(pair(words, [pads[4 + at], pads[8 + at]]));
            }
        } else {
            sum = sum.wrapping_add(pair([low, high], [pads[0], pads[1]]));
        }
        let (low, high) = (sum as u32, (sum >> 32) as u32);
        let [first, second, third, _] = self.factors;
        // The sum is linear in each word: neighbouring addresses would not spread by chance.
        let mixed = mix(low.wrapping_add(high.wrapping_mul(first)));
        let signature = high.wrapping_add(low.wrapping_mul(second));
        let signature = (signature ^ signature >> 15).wrapping_mul(third) >> 16;
        Place { home: self.scaled(mixed), signature: (signature as u16).max(1) }
    }

    /// The other bucket of what has this signature and is in, or belongs to, this bucket; the same one
    /// when there is no other.
    #[inline(always)]
    pub(super) fn other(&self, bucket: u32, signature: u16) -> u32 {
        let sum = self.scaled(u32::from(signature).wrapping_mul(self.factors[3]));
        if sum >= bucket { sum - bucket } else { sum + self.buckets - bucket }
    }

    /// A number below that of the buckets, from 32 bits.
    #[inline(always)]
    fn scaled(&self, word: u32) -> u32 {
        ((u64::from(word) * u64::from(self.buckets)) >> 32) as u32
    }
}
