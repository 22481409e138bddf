//! Sets of lanes as bytes, in which kernels read them a step at a time.

use super::lanes::{Lanes, WORD};
use crate::VECTOR;

impl Lanes {
    /// The lanes as bits: lane 0 is the lowest bit of the first byte.
    #[inline]
    pub fn bits(&self) -> [u8; VECTOR / 8] {
        let mut bits = [0; _];
        let (bytes, _) = bits.as_chunks_mut::<{ WORD / 8 }>();
        bytes.iter_mut().zip(&self.0).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
        bits
    }
}

impl From<[u8; VECTOR / 8]> for Lanes {
    /// The inverse of [`Lanes::bits`].
    #[inline]
    fn from(bits: [u8; VECTOR / 8]) -> Self {
        let (bytes, _) = bits.as_chunks::<{ WORD / 8 }>();
        Self(std::array::from_fn(|at| u64::from_le_bytes(bytes[at])))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_the_lanes() {
        let mut lanes = Lanes::first_of(3);
        lanes.insert(8);
        lanes.insert(255);
        let mut expected = [0; VECTOR / 8];
        (expected[0], expected[1], expected[31]) = (7, 1, 0x80);
        assert_eq!(lanes.bits(), expected);
        assert_eq!(Lanes::from(expected), lanes);
    }
}
