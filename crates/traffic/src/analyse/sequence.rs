//! Sequence numbers of a stream: in-order, reordered and duplicate packets.

/// Size of the duplicate window, in packets: a duplicate of an older packet counts as reordered
/// only.
const WINDOW: u64 = 1 << 15;
const WORDS: usize = (WINDOW / 64) as usize;
/// The part of the window that is always valid: the word at the front is being overwritten.
const SURE: u64 = WINDOW - 64;

/// The received sequence numbers.
pub(crate) struct Sequence {
    /// The number after the greatest received one (RFC 4737, section 3.3: NextExp).
    next: u64,
    record: Box<[u64; WORDS]>,
}

/// Position of a packet in the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// The expected packet.
    Next,
    /// A packet after a gap of this many.
    Ahead(u64),
    /// A reordered packet (RFC 4737, section 3.3), this many before the expected one.
    Behind(u64),
    /// A packet that was already received.
    Duplicate,
}

impl Sequence {
    pub(crate) fn new() -> Self {
        Self { next: 0, record: Box::new([0; WORDS]) }
    }

    /// The full sequence number for a known low half: the one nearest to the expected number.
    /// `None`: no such number exists.
    #[inline(always)]
    pub(crate) fn whole(&self, low: u32) -> Option<u64> {
        let ahead = low.wrapping_sub(self.next as u32) as i32;
        self.next.checked_add_signed(ahead.into())
    }

    /// Distance of a number beyond the expected one; 0 when it is not beyond.
    #[inline(always)]
    pub(crate) fn ahead(&self, number: u64) -> u64 {
        number.saturating_sub(self.next)
    }

    /// Records the arrival of this number.
    #[inline(always)]
    pub(crate) fn record(&mut self, number: u64) -> Position {
        if number == self.next {
            self.advance(number);
            return Position::Next;
        }
        self.record_out_of_order(number)
    }

    /// Records `count` consecutive numbers; returns `false` without any change when `number` is not
    /// the expected one.
    #[inline(always)]
    pub(crate) fn record_in_order(&mut self, number: u64, count: u64) -> bool {
        if number != self.next {
            return false;
        }
        let (mut at, end) = (number, number + count);
        while at < end {
            let first = at % 64;
            let now = (64 - first).min(end - at);
            let bits = (u64::MAX >> (64 - now)) << first;
            let word = &mut self.record[(at / 64) as usize % WORDS];
            *word = if first == 0 { bits } else { *word | bits };
            at += now;
        }
        self.next = end;
        true
    }

    #[inline(always)]
    fn advance(&mut self, number: u64) {
        let word = &mut self.record[(number / 64) as usize % WORDS];
        let kept = if number.is_multiple_of(64) { 0 } else { *word };
        *word = kept | 1 << (number % 64);
        self.next = number + 1;
    }

    #[cold]
    fn record_out_of_order(&mut self, number: u64) -> Position {
        if number > self.next {
            let gap = number - self.next;
            // The words in between belong to packets that have not arrived.
            let first = self.next.next_multiple_of(64);
            let words = (number / 64 * 64 + 1).saturating_sub(first).div_ceil(64);
            for word in 0..words.min(WORDS as u64) {
                self.record[((number / 64 - word) % WORDS as u64) as usize] = 0;
            }
            let word = &mut self.record[(number / 64) as usize % WORDS];
            *word |= 1 << (number % 64);
            self.next = number + 1;
            return Position::Ahead(gap);
        }
        let behind = self.next - number;
        if behind > SURE {
            return Position::Behind(behind);
        }
        let word = &mut self.record[(number / 64) as usize % WORDS];
        let bit = 1 << (number % 64);
        if *word & bit != 0 {
            return Position::Duplicate;
        }
        *word |= bit;
        Position::Behind(behind)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    /// Jumps of all sizes, forward and backward.
    fn jumps() -> impl Strategy<Value = Vec<i64>> {
        let jump = prop_oneof![
            6 => Just(1_i64),
            2 => -3_i64..70,
            1 => -(SURE as i64)..SURE as i64 * 3,
        ];
        proptest::collection::vec(jump, 1..400)
    }

    proptest! {
        #[test]
        fn agrees_with_a_set_of_received_numbers(jumps in jumps()) {
            let (mut sequence, mut model) = (Sequence::new(), HashSet::new());
            let (mut next, mut at) = (0_u64, 0_u64);
            for jump in jumps {
                // In-order packets may also be recorded as a run.
                let run = jump.unsigned_abs() % 200;
                if run > 1 && sequence.record_in_order(next, run) {
                    model.extend(next..next + run);
                    (next, at) = (next + run, next + run - 1);
                }
                at = at.saturating_add_signed(jump);
                prop_assert_eq!(sequence.whole(at as u32), Some(at));
                let place = sequence.record(at);
                let is_new = model.insert(at);
                let desired = match at.cmp(&next) {
                    std::cmp::Ordering::Equal => Position::Next,
                    std::cmp::Ordering::Greater => Position::Ahead(at - next),
                    _ if next - at > SURE || is_new => Position::Behind(next - at),
                    _ => Position::Duplicate,
                };
                prop_assert_eq!(place, desired, "{} of {}", at, next);
                next = next.max(at + 1);
            }
        }
    }

    #[test]
    fn sequence_numbers_exceed_32_bits() {
        let mut sequence = Sequence::new();
        sequence.next = u64::from(u32::MAX) - 1;
        for low in [u32::MAX - 1, u32::MAX, 0, 1] {
            let whole = sequence.whole(low).unwrap();
            assert_eq!(sequence.record(whole), Position::Next);
        }
        assert_eq!(sequence.next, (1 << 32) + 2);
        assert_eq!(Sequence::new().whole(u32::MAX), None, "before the first");
    }
}
