//! The signature of a test packet: its last twelve bytes.
//!
//! ```text
//! stream u16, masked | check u16 | low half of the sequence u32 | time sent u32, 8 ns each
//! ```
//!
//! The check makes the ones' complement sum of the six words equal to a number of the run. This
//! identifies packets of the run, and gives every signature the same contribution to the checksum
//! of UDP, TCP or ICMP. Reasons: docs/decisions/0020.

use crate::random::Random;

/// Bytes of a signature.
pub const LENGTH: usize = 12;
/// Nanoseconds of a unit of [`Signature::time`]: 32 bits hold 34 seconds.
pub const UNIT_NS: u64 = 8;
/// Bit of [`Signature::stream`] that marks a learning packet, sent before the run.
pub const LEARNING: u16 = 0x8000;

/// The fields of a signature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// The stream's number, with [`LEARNING`] for learning packets.
    pub stream: u16,
    /// The low 32 bits of the packet's sequence number in its stream.
    pub sequence: u32,
    /// Transmit time in units of [`UNIT_NS`] since the run's epoch, the low 32 bits.
    pub time: u32,
}

/// The key of all signatures of one run: packets of other runs do not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    mask: u16,
    sum: u16,
}

impl Key {
    /// The key of the run with this number.
    pub fn of_run(run: u64) -> Self {
        let mut random = Random::new(run);
        // Neither 0 nor 0xffff, which are equal in ones' complement: any other sum has one form
        // only.
        let sum = 1 + random.below(0xfffe) as u16;
        Self { mask: random.next() as u16, sum }
    }

    /// The sum that a signature contributes to a checksum over it.
    pub fn sum(&self) -> u16 {
        self.sum
    }

    /// The signature as bytes.
    #[inline(always)]
    pub fn seal(&self, signature: Signature) -> [u8; LENGTH] {
        let Signature { stream, sequence, time } = signature;
        let first = stream ^ self.mask;
        let others = u32::from(first) + halves(sequence) + halves(time);
        // The difference to the sum of the run: subtracting is adding the complement.
        let check = fold(u32::from(self.sum) + u32::from(!fold(others)));
        let low = u64::from(first) << 48 | u64::from(check) << 32 | u64::from(sequence);
        let mut bytes = [0; LENGTH];
        bytes[..8].copy_from_slice(&low.to_be_bytes());
        bytes[8..].copy_from_slice(&time.to_be_bytes());
        bytes
    }

    /// The signatures of consecutive packets with the same time stamp.
    #[inline(always)]
    pub fn seal_run<const N: usize>(&self, first: Signature) -> [[u8; LENGTH]; N] {
        let Signature { stream, sequence, time } = first;
        let masked = stream ^ self.mask;
        // Only the sequence number varies: the rest of the sum is common.
        let others = u32::from(masked) + halves(time);
        let sum = u32::from(self.sum) + u32::from(!fold(others));
        std::array::from_fn(|at| {
            let sequence = sequence.wrapping_add(at as u32);
            let check = fold(sum + u32::from(!fold(halves(sequence))));
            let low = u64::from(masked) << 48 | u64::from(check) << 32 | u64::from(sequence);
            let mut bytes = [0; LENGTH];
            bytes[..8].copy_from_slice(&low.to_be_bytes());
            bytes[8..].copy_from_slice(&time.to_be_bytes());
            bytes
        })
    }

    /// Decodes the bytes; `None` for a signature of another run, or none.
    #[inline(always)]
    pub fn open(&self, bytes: &[u8; LENGTH]) -> Option<Signature> {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = *bytes;
        let head = u32::from_be_bytes([a, b, c, d]);
        let sequence = u32::from_be_bytes([e, f, g, h]);
        let time = u32::from_be_bytes([i, j, k, l]);
        let sum = halves(head) + halves(sequence) + halves(time);
        let stream = (head >> 16) as u16 ^ self.mask;
        (fold(sum) == self.sum).then_some(Signature { stream, sequence, time })
    }

    /// The signature of a frame: at its end, or before the padding.
    #[inline(always)]
    pub fn find(&self, frame: &[u8]) -> Option<Signature> {
        let last = frame.last_chunk::<LENGTH>()?;
        self.open(last).or_else(|| self.find_before_padding(frame))
    }

    /// A device that removes a tag, or sends the shortest frames, adds padding: the IP header
    /// contains the packet's length.
    #[cold]
    fn find_before_padding(&self, frame: &[u8]) -> Option<Signature> {
        let end = end_of_packet(frame)?;
        self.open(frame.get(..end)?.last_chunk()?)
    }
}

/// End of the IP packet in a frame with up to two tags, when padding follows.
fn end_of_packet(frame: &[u8]) -> Option<usize> {
    let word = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    let mut at = 12;
    let mut kind = word(at)?;
    for _ in 0..2 {
        if matches!(kind, 0x8100 | 0x88a8) {
            at += 4;
            kind = word(at)?;
        }
    }
    let ip = at + 2;
    let length = match kind {
        0x0800 => usize::from(word(ip + 2)?),
        0x86dd => 40 + usize::from(word(ip + 4)?),
        _ => return None,
    };
    (ip + length < frame.len()).then_some(ip + length)
}

#[inline(always)]
fn halves(word: u32) -> u32 {
    (word >> 16) + (word & 0xffff)
}

#[inline(always)]
fn fold(sum: u32) -> u16 {
    let sum = halves(sum);
    halves(sum) as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 1071, unoptimized.
    fn sum(bytes: &[u8]) -> u16 {
        let words = bytes.chunks(2).map(|word| u32::from_be_bytes([0, 0, word[0], word[1]]));
        words.fold(0, |sum, word| (sum + word) % 0xffff) as u16
    }

    proptest! {
        #[test]
        fn decodes_signatures_and_keeps_the_sum(
            run: u64, stream: u16, sequence: u32, time: u32,
        ) {
            let key = Key::of_run(run);
            let signature = Signature { stream, sequence, time };
            let bytes = key.seal(signature);
            prop_assert_eq!(key.open(&bytes), Some(signature));
            prop_assert_eq!(sum(&bytes), key.sum());
            for (bytes, more) in key.seal_run::<3>(signature).iter().zip(0..) {
                let sequence = sequence.wrapping_add(more);
                prop_assert_eq!(key.open(bytes), Some(Signature { sequence, ..signature }));
            }
        }

        #[test]
        fn parses_any_bytes_safely(run: u64, frame: Vec<u8>) {
            let key = Key::of_run(run);
            if let Some(signature) = key.find(&frame) {
                let bytes = key.seal(signature);
                let place = frame.windows(LENGTH).position(|place| {
                    // The checksum has two forms of zero.
                    place[..2] == bytes[..2] && place[4..] == bytes[4..]
                });
                prop_assert!(place.is_some());
            }
        }

        #[test]
        fn detects_a_changed_bit(run: u64, stream: u16, sequence: u32, time: u32, bit in 0_usize..96) {
            let key = Key::of_run(run);
            let mut bytes = key.seal(Signature { stream, sequence, time });
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(key.open(&bytes), None);
        }
    }

    #[test]
    fn finds_the_signature_before_padding() {
        let key = Key::of_run(7);
        let signature = Signature { stream: 1, sequence: 2, time: 3 };
        for tags in 0..3 {
            for (kind, header) in [([8, 0], 20_usize), ([0x86, 0xdd], 40)] {
                let mut frame = vec![0; 12];
                (0..tags).for_each(|_| frame.extend([0x81, 0, 0, 5]));
                frame.extend(kind);
                let mut ip = vec![0; header];
                let length = if header == 20 { (2, header + LENGTH) } else { (4, LENGTH) };
                ip[length.0 + 1] = length.1 as u8;
                frame.extend(ip);
                frame.extend(key.seal(signature));
                assert_eq!(key.find(&frame), Some(signature));
                frame.extend([0; 9]);
                assert_eq!(key.find(&frame), Some(signature));
            }
        }
    }

    #[test]
    fn false_positives_are_as_rare_as_the_check_allows() {
        let key = Key::of_run(1);
        let mut random = Random::new(2);
        let mut taken = 0;
        for _ in 0..1 << 20 {
            let mut bytes = [0; LENGTH];
            bytes[..8].copy_from_slice(&random.next().to_ne_bytes());
            bytes[8..].copy_from_slice(&(random.next() as u32).to_ne_bytes());
            // One stream only: its number must match as well.
            taken += u32::from(key.open(&bytes).is_some_and(|one| one.stream == 0));
        }
        assert_eq!(taken, 0);
        assert_eq!(key.open(&[0; LENGTH]), None, "zeros are no signature");
        assert_eq!(key.open(&[0xff; LENGTH]), None);
        let other = Key::of_run(2);
        assert_ne!(key, other);
        assert_eq!(other.open(&key.seal(Signature::default())), None, "of another run");
    }
}
