//! The view that a longest-prefix match has of an address: a root index and groups of six bits.

use core::fmt::{Debug, LowerHex};
use core::hash::Hash;

#[cfg(all(target_arch = "x86_64", not(loom)))]
use crate::sync::{AtomicU32, AtomicU64};

/// Bits that one node below the root resolves.
pub(crate) const STRIDE: u8 = 6;

mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u128 {}
}

/// An address in host byte order: `u32` for IPv4, `u128` for IPv6. Sealed.
pub trait Key: sealed::Sealed + Copy + Debug + Eq + Hash + LowerHex + Ord + Send + Sync {
    /// Bits of an address, and the greatest prefix length.
    const BITS: u8;
    /// Leading bits that index the root array directly.
    const ROOT_BITS: u8;
    /// Whether prefixes without others beside them are compared whole instead of walked to.
    #[doc(hidden)]
    const LONES: bool;
    /// Whether chunks of small leaves have runs of 16 bits.
    #[doc(hidden)]
    const NARROWS: bool;

    #[doc(hidden)]
    fn root(self) -> usize;
    /// The six bits that follow the first `depth`; zeros stand for bits past the end.
    #[doc(hidden)]
    fn six(self, depth: u8) -> usize;
    /// The 64 bits after the first, for [`LONES`](Self::LONES).
    #[doc(hidden)]
    fn after_first(self) -> u64;
    /// The first `len` bits, the rest cleared.
    #[doc(hidden)]
    fn network(self, len: u8) -> Self;
    /// The first `len` bits as a number; `len` is at most `ROOT_BITS`.
    #[doc(hidden)]
    fn leading(self, len: u8) -> usize;
    /// The address whose first `len` bits are `bits`, the rest zeros.
    #[doc(hidden)]
    fn from_leading(bits: usize, len: u8) -> Self;
    /// This address with the `len` bits after the first `depth` set to `bits`.
    #[doc(hidden)]
    fn with_bits(self, depth: u8, len: u8, bits: usize) -> Self;

    /// The fastest look-up of this family with AVX-512.
    #[doc(hidden)]
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    fn lookup_avx512(
        root: &[AtomicU32],
        words: &[AtomicU64],
        rest: u32,
        keys: &[Self],
        out: &mut [u32],
    );

    /// The fastest look-up of this family with AVX2.
    #[doc(hidden)]
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    fn lookup_avx2(
        root: &[AtomicU32],
        words: &[AtomicU64],
        rest: u32,
        keys: &[Self],
        out: &mut [u32],
    );
}

impl Key for u32 {
    const BITS: u8 = 32;
    const ROOT_BITS: u8 = 18;
    /// A narrow chunk takes no more space, and the walk is short.
    const LONES: bool = false;
    const NARROWS: bool = true;

    #[inline(always)]
    fn root(self) -> usize {
        (self >> (32 - Self::ROOT_BITS)) as usize
    }
    #[inline(always)]
    fn six(self, depth: u8) -> usize {
        ((u64::from(self) << (32 + depth)) >> 58) as usize
    }
    #[inline(always)]
    fn after_first(self) -> u64 {
        u64::from(self) << 33
    }
    fn network(self, len: u8) -> Self {
        if len == 0 { 0 } else { self & (u32::MAX << (32 - len)) }
    }
    fn leading(self, len: u8) -> usize {
        (u64::from(self) >> (32 - len)) as usize
    }
    fn from_leading(bits: usize, len: u8) -> Self {
        ((bits as u64) << (32 - len)) as u32
    }
    fn with_bits(self, depth: u8, len: u8, bits: usize) -> Self {
        self | (((bits as u64) << (64 - depth - len)) >> 32) as u32
    }
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    fn lookup_avx512(
        root: &[AtomicU32],
        words: &[AtomicU64],
        rest: u32,
        keys: &[Self],
        out: &mut [u32],
    ) {
        super::kernel::lookup_ip4_avx512(root, words, rest, keys, out);
    }
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    fn lookup_avx2(
        root: &[AtomicU32],
        words: &[AtomicU64],
        rest: u32,
        keys: &[Self],
        out: &mut [u32],
    ) {
        super::avx2_kernel::lookup_ip4(root, words, rest, keys, out);
    }
}

impl Key for u128 {
    const BITS: u8 = 128;
    const ROOT_BITS: u8 = 20;
    const LONES: bool = true;
    /// Most of its chunks lead to others, and its walk is long: no work for little gain.
    const NARROWS: bool = false;

    #[inline(always)]
    fn root(self) -> usize {
        (self >> (128 - Self::ROOT_BITS)) as usize
    }
    #[inline(always)]
    fn six(self, depth: u8) -> usize {
        ((self << depth) >> 122) as usize
    }
    #[inline(always)]
    fn after_first(self) -> u64 {
        (self >> 63) as u64
    }
    fn network(self, len: u8) -> Self {
        if len == 0 { 0 } else { self & (u128::MAX << (128 - len)) }
    }
    fn leading(self, len: u8) -> usize {
        if len == 0 { 0 } else { (self >> (128 - len)) as usize }
    }
    fn from_leading(bits: usize, len: u8) -> Self {
        if len == 0 { 0 } else { (bits as u128) << (128 - len) }
    }
    fn with_bits(self, depth: u8, len: u8, bits: usize) -> Self {
        self | ((bits as u128) << (128 - depth - len))
    }
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    fn lookup_avx512(
        root: &[AtomicU32],
        words: &[AtomicU64],
        rest: u32,
        keys: &[Self],
        out: &mut [u32],
    ) {
        super::ip6_kernel::lookup(root, words, rest, keys, out);
    }
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    fn lookup_avx2(
        root: &[AtomicU32],
        words: &[AtomicU64],
        rest: u32,
        keys: &[Self],
        out: &mut [u32],
    ) {
        super::ip6_avx2_kernel::lookup(root, words, rest, keys, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_from_the_left() {
        let address = 0xc0a8_01ffu32;
        assert_eq!(address.root(), 0xc0a8_01ff >> 14);
        assert_eq!(address.six(18), (0xc0a8_01ff >> 8) & 63);
        assert_eq!(address.six(30), 0b11_0000);
        assert_eq!(address.network(24), 0xc0a8_0100);
        assert_eq!(address.network(0), 0);
        assert_eq!(address.leading(0), 0);
        assert_eq!(u32::from_leading(0xc0, 8), 0xc000_0000);
        assert_eq!(u32::from_leading(0, 0), 0);
        assert_eq!(0u32.with_bits(30, 2, 0b11), 3);
        assert_eq!(0u32.with_bits(18, 6, 1), 0x100);
        let address = 0x2001_0db8u128 << 96 | 0x3f;
        assert_eq!(address.root(), 0x20010);
        assert_eq!(address.six(122), 0x3f);
        assert_eq!(address.network(32), 0x2001_0db8 << 96);
        assert_eq!(0u128.with_bits(122, 6, 0x3f), 0x3f);
    }
}
