//! Which packets of a stream came: new ones, ones out of order, ones that came before.

/// Packets that are remembered: a duplicate of an older one counts as out of order only.
const WINDOW: u64 = 1 << 15;
const WORDS: usize = (WINDOW / 64) as usize;
/// What is remembered without doubt: the word at the front is begun anew.
const SURE: u64 = WINDOW - 64;

/// The numbers that came.
pub(crate) struct Sequence {
    /// The number after the greatest that came (RFC 4737, section 3.3: NextExp).
    next: u64,
    record: Box<[u64; WORDS]>,
}

/// What a packet is by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// The one that was expected.
    Next,
    /// After a gap of so many.
    Ahead(u64),
    /// A reordered packet (RFC 4737, section 3.3), so many before the one expected.
    Behind(u64),
    /// It came before.
    Duplicate,
}

impl Sequence {
    pub(crate) fn new() -> Self {
        Self { next: 0, record: Box::new([0; WORDS]) }
    }

    /// The whole number of a packet whose low half is known: the one nearest to what is expected.
    /// `None`: there is none.
    #[inline(always)]
    pub(crate) fn whole(&self, low: u32) -> Option<u64> {
        let ahead = low.wrapping_sub(self.next as u32) as i32;
        self.next.checked_add_signed(ahead.into())
    }

    /// How far a number lies beyond the one expected; 0: it does not.
    #[inline(always)]
    pub(crate) fn ahead(&self, number: u64) -> u64 {
        number.saturating_sub(self.next)
    }

    /// A packet with this number came.
    #[inline(always)]
    pub(crate) fn record(&mut self, number: u64) -> Position {
        if number == self.next {
            self.advance(number);
            return Position::Next;
        }
        self.record_out_of_order(number)
    }

    /// So many packets from this number on came, one after the other; `false`, and no change: they
    /// are not the ones that were expected.
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
            // The words between are those of packets that did not come, yet.
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

    /// Jumps of all sizes, forth and back.
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
        fn agrees_with_a_set_of_all_numbers(jumps in jumps()) {
            let (mut sequence, mut model) = (Sequence::new(), HashSet::new());
            let (mut next, mut at) = (0_u64, 0_u64);
            for jump in jumps {
                // What is in step may also come in runs.
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
    fn numbers_grow_beyond_32_bits() {
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
