//! The interface of the SIMD kernels of `ethernet-input`, and the choice of the kernel.

use stoa_engine::{VECTOR, Vector};

use crate::kernel::Kernel;

/// Lanes of a step.
pub(super) const STEP: usize = 8;
/// Number of steps to prefetch ahead.
#[cfg(target_arch = "x86_64")]
pub(super) const AHEAD: usize = 2;

/// A set of lanes: one bit for each.
pub type Lanes = [u8; VECTOR / STEP];

/// The Ethernet header of the frames on the fast path.
pub struct FramePattern {
    /// The destination MAC address, as [`super::mac_word`].
    pub mac: u64,
    /// Bytes of the header.
    pub header: usize,
    /// Mask of the last eight bytes of the header for the comparison with `tag`.
    pub mask: u64,
    /// The expected bits under `mask`.
    pub tag: u64,
}

impl FramePattern {
    /// Untagged frames to this address.
    pub fn untagged(mac: u64) -> Self {
        Self { mac, header: 14, mask: 0, tag: 0 }
    }

    /// Frames to this address with one VLAN tag: TPID and VID as in `tag`, in the byte order of the
    /// frame; any priority and DEI.
    pub fn tagged(mac: u64, tag: [u8; 4]) -> Self {
        let word = |[a, b, c, d]: [u8; 4]| u64::from_le_bytes([0, 0, a, b, c, d, 0, 0]);
        let mask = word([0xff, 0xff, 0x0f, 0xff]);
        Self { mac, header: 18, mask, tag: word(tag) & mask }
    }
}

/// The result of the classification.
#[derive(Debug, PartialEq, Eq)]
pub struct Classified {
    /// One bit for each lane that does not match; such lanes are not changed.
    pub exceptions: Lanes,
    /// Whether there are matching lanes with IPv4, and with IPv6.
    pub families: [bool; 2],
    /// Number of matching lanes, and their bytes with all headers.
    pub counts: (u64, u64),
}

/// Advances matching lanes to the payload and sets their `next` to 0 for IPv4 and 1 for IPv6.
/// `None`: not implemented for this kernel.
#[inline(always)]
pub fn classify(kernel: Kernel, vector: &mut Vector, pattern: &FramePattern) -> Option<Classified> {
    match kernel {
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx512 => Some(super::ethernet_kernel_avx512::classify(vector, pattern)),
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2 => Some(super::ethernet_kernel_avx2::classify(vector, pattern)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::OnceLock;
    use stoa_engine::PoolCache;
    use stoa_engine::pool::{HEADROOM, HugePages, Pool};

    fn pool() -> &'static Pool {
        static POOL: OnceLock<&'static Pool> = OnceLock::new();
        POOL.get_or_init(|| Pool::leak(1024, HugePages::Never).unwrap())
    }

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const TAG: [u8; 4] = [0x81, 0x00, 0x00, 0x64];

    /// Mostly matching frames, tagged or untagged; some are truncated or have one wrong byte.
    fn frames(tagged: bool) -> impl Strategy<Value = Vec<(Vec<u8>, u16)>> {
        let fault = prop_oneof![8 => Just(0_u8), 1 => 1..4_u8];
        let frame = (fault, any::<(bool, u8)>(), 0..40_usize, any::<u8>(), 0..200_u16);
        let frame = frame.prop_map(move |(fault, (ip6, priority), at, by, shift)| {
            let mut bytes = [&MAC[..], &[2, 0, 0, 0, 0, 2]].concat();
            if tagged {
                bytes.extend([TAG[0], TAG[1], priority & 0xf0 | TAG[2], TAG[3]]);
            }
            bytes.extend(if ip6 { [0x86, 0xdd] } else { [0x08, 0x00] });
            bytes.resize(60, 7);
            match fault {
                1 => bytes.truncate(at),
                2 | 3 => bytes[at % 20] ^= by,
                _ => {}
            }
            (bytes, shift)
        });
        proptest::collection::vec(frame, 1..=VECTOR)
    }

    /// Classifies a frame without SIMD: the family if it matches.
    fn family(frame: &[u8], tagged: bool) -> Option<usize> {
        let rest = frame.strip_prefix(&MAC)?.get(6..)?;
        let rest = if tagged {
            let ([a, b, c, d], rest) = rest.split_first_chunk::<4>()?;
            ([*a, *b, c & 0xf, *d] == TAG).then_some(rest)?
        } else {
            rest
        };
        match rest.first_chunk::<2>()? {
            [0x08, 0x00] => Some(0),
            [0x86, 0xdd] => Some(1),
            _ => None,
        }
    }

    proptest! {
        #[test]
        fn matching_frames_advance_and_others_do_not_change(
            (tagged, frames) in any::<bool>().prop_flat_map(|it| (Just(it), frames(it))),
        ) {
            for kernel in Kernel::available().skip(1) {
                agrees(kernel, tagged, &frames)?;
            }
        }
    }

    fn agrees(
        kernel: Kernel,
        tagged: bool,
        frames: &[(Vec<u8>, u16)],
    ) -> Result<(), TestCaseError> {
        let pool = pool();
        let (mut cache, mut vector) = (PoolCache::new(pool), Vector::new(pool));
        cache.fill(&mut vector, frames.len());
        for (lane, (frame, shift)) in frames.iter().enumerate() {
            let at = HEADROOM + usize::from(*shift);
            vector.slot_mut(lane)[at..at + frame.len()].copy_from_slice(frame);
            (vector.offset[lane], vector.length[lane]) = (at as u16, frame.len() as u16);
            vector.next[lane] = 77;
        }
        let mac = super::super::mac_word(&MAC);
        let pattern =
            if tagged { FramePattern::tagged(mac, TAG) } else { FramePattern::untagged(mac) };
        let header = if tagged { 18 } else { 14 };
        let classified = classify(kernel, &mut vector, &pattern).unwrap();
        let (mut families, mut counts) = ([false; 2], (0, 0));
        for (lane, (frame, shift)) in frames.iter().enumerate() {
            let is_exception = classified.exceptions[lane / 8] >> (lane % 8) & 1 == 1;
            let before = (HEADROOM as u16 + shift, frame.len() as u16);
            let after = (vector.offset[lane], vector.length[lane]);
            match family(frame, tagged) {
                // AVX2 skips steps with a short frame or of fewer lanes.
                Some(_) if is_exception && kernel == Kernel::Avx2 => {
                    let step =
                        &frames[lane / STEP * STEP..frames.len().min((lane / STEP + 1) * STEP)];
                    let is_short = |(frame, _): &(Vec<u8>, u16)| frame.len() < usize::from(header);
                    prop_assert!(step.len() < STEP || step.iter().any(is_short));
                    prop_assert_eq!((after, vector.next[lane]), (before, 77));
                }
                Some(family) => {
                    families[family] = true;
                    counts = (counts.0 + 1, counts.1 + frame.len() as u64);
                    prop_assert!(!is_exception);
                    prop_assert_eq!(after, (before.0 + header, before.1 - header));
                    prop_assert_eq!(usize::from(vector.next[lane]), family);
                }
                None => {
                    prop_assert!(is_exception);
                    prop_assert_eq!((after, vector.next[lane]), (before, 77));
                }
            }
        }
        prop_assert_eq!((classified.families, classified.counts), (families, counts));
        cache.free_from(&mut vector, 0);
        Ok(())
    }
}
