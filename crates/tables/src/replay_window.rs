//! The anti-replay window of a security association (RFC 4303 section 3.4.3), by the algorithm of RFC 6479: a ring of
//! words, of which whole ones are cleared as the window moves on, so that no bit is ever shifted.
//!
//! It is for ESP; nothing uses it yet.
//!
//! Check a number before the packet is decrypted, and accept it only when the packet is authentic: forged packets move
//! nothing.

/// Bits of a word.
const BITS: u64 = u64::BITS as u64;

/// Why a sequence number is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// It was accepted before.
    Replayed,
    /// It is behind the window, or 0.
    Late,
}

/// A window of sequence numbers of 64 bits; of those without ESN, the upper half is 0.
#[derive(Clone, Debug)]
pub struct ReplayWindow {
    /// One bit for each number; one word more than the window needs, which may be cleared in part.
    words: Box<[u64]>,
    /// Numbers that the window has.
    size: u64,
    /// The highest number that was accepted; 0: none.
    top: u64,
    /// Numbers that were passed and never accepted.
    lost: u64,
}

impl ReplayWindow {
    /// A window of `size` numbers, at least 64 and at most 65,536, rounded up to a multiple of 64.
    #[must_use]
    pub fn new(size: u32) -> Self {
        let words = size.clamp(64, 65_536).div_ceil(u64::BITS);
        // A power of two, so that positions need no division.
        let ring = (words as usize + 1).next_power_of_two();
        let size = u64::from(words) * BITS;
        Self { words: vec![0; ring].into_boxed_slice(), size, top: 0, lost: 0 }
    }

    /// Goes on behind a number that was used already: all numbers up to it are refused.
    pub fn skip_to(&mut self, top: u64) {
        self.top = top;
        self.words.fill(u64::MAX);
        // Numbers behind the top in its word are free.
        let free = BITS - 1 - top % BITS;
        if let Some(word) = self.words.get_mut(position(top, self.words.len())) {
            *word = u64::MAX.checked_shr(free as u32).unwrap_or(0);
        }
    }

    /// The highest number that was accepted; 0: none.
    #[must_use]
    pub fn top(&self) -> u64 {
        self.top
    }

    /// Numbers that the window has passed without accepting them.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Whether a number may be accepted.
    ///
    /// # Errors
    /// It was accepted before, or is behind the window.
    #[inline]
    pub fn check(&self, number: u64) -> Result<(), Replay> {
        if number > self.top {
            return Ok(());
        }
        if number == 0 || self.top - number >= self.size {
            return Err(Replay::Late);
        }
        let word = self.words.get(position(number, self.words.len())).copied().unwrap_or(u64::MAX);
        if word >> (number % BITS) & 1 == 1 { Err(Replay::Replayed) } else { Ok(()) }
    }

    /// Accepts a number of an authentic packet, and moves the window on.
    ///
    /// # Errors
    /// It was accepted before, or is behind the window: another packet of the same vector may have been the first.
    #[inline]
    pub fn accept(&mut self, number: u64) -> Result<(), Replay> {
        self.check(number)?;
        if number > self.top {
            self.advance(number);
        }
        let length = self.words.len();
        if let Some(word) = self.words.get_mut(position(number, length)) {
            *word |= 1 << (number % BITS);
        }
        Ok(())
    }

    /// Clears the words between the old top and the new one.
    fn advance(&mut self, number: u64) {
        let (old, new, ring) = (self.top / BITS, number / BITS, self.words.len() as u64);
        let first = new.saturating_sub(ring - 1).max(old + 1);
        // Whole rounds of the ring that nobody has seen.
        self.lost += (first - (old + 1)) * BITS;
        for word in first..=new {
            let at = word % ring;
            let Some(place) = self.words.get_mut(at as usize) else { continue };
            // What is cleared was there one round before, if there was one. Number 0 does not exist.
            if at <= old {
                let is_first = at == 0 && old < ring;
                self.lost +=
                    u64::from(place.count_zeros()) - u64::from(is_first && *place & 1 == 0);
            }
            *place = 0;
        }
        self.top = number;
    }

    /// The number of 64 bits whose lower half a packet has (RFC 4303 appendix A2): the one that is nearest to the
    /// window.
    #[inline]
    #[must_use]
    pub fn extended(&self, low: u32) -> u64 {
        let (top_low, high) = (self.top as u32, self.top >> 32);
        let size = self.size as u32;
        let high = if top_low >= size - 1 {
            // The window is in one half.
            if low >= top_low - (size - 1) { high } else { high.wrapping_add(1) }
        } else if low >= top_low.wrapping_sub(size - 1) {
            // The window begins in the half before.
            high.wrapping_sub(1)
        } else {
            high
        };
        // Before the first packet there is no half before.
        let high = if high > u64::from(u32::MAX) { 0 } else { high };
        high << 32 | u64::from(low)
    }
}

#[inline]
fn position(number: u64, ring: usize) -> usize {
    (number / BITS) as usize & (ring - 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// The window as a set.
    #[derive(Default)]
    struct Model {
        seen: BTreeSet<u64>,
        top: u64,
    }

    impl Model {
        fn accept(&mut self, number: u64, size: u64) -> Result<(), Replay> {
            if number == 0 || number <= self.top && self.top - number >= size {
                return Err(Replay::Late);
            }
            if !self.seen.insert(number) {
                return Err(Replay::Replayed);
            }
            self.top = self.top.max(number);
            Ok(())
        }
    }

    fn numbers() -> impl Strategy<Value = Vec<i64>> {
        let step = prop_oneof![
            6 => -3_i64..6,
            3 => -300_i64..300,
            1 => -70_000_i64..70_000,
            1 => 0_i64..(1 << 33),
        ];
        prop::collection::vec(step, 1..400)
    }

    proptest! {
        #[test]
        fn it_is_a_set_with_a_lower_end(size in prop_oneof![Just(64_u32), Just(100), 64_u32..4_096, Just(65_536)], steps in numbers()) {
            let (mut window, mut model) = (ReplayWindow::new(size), Model::default());
            let mut at = 0_i64;
            for step in steps {
                at = (at + step).max(0);
                let number = at as u64;
                let checked = window.check(number);
                let expected = model.accept(number, window.size);
                prop_assert_eq!(checked, expected);
                prop_assert_eq!(window.accept(number), expected);
                prop_assert_eq!(window.top(), model.top);
            }
        }

        #[test]
        fn the_upper_half_follows_from_the_window(
            top in prop_oneof![1_u64..100, (1_u64 << 32) - 200..(1 << 32) + 200, any::<u64>().prop_map(|it| it >> 8)],
            back in 0_u64..64,
            ahead in 1_u64..(1 << 31),
        ) {
            let mut window = ReplayWindow::new(64);
            window.accept(top).unwrap();
            for number in [top.saturating_sub(back), top + ahead] {
                prop_assert_eq!(window.extended(number as u32), number, "top {}", top);
            }
        }
    }

    #[test]
    fn lost_numbers_are_counted_once_they_cannot_come_any_more() {
        let mut window = ReplayWindow::new(64);
        (1..=10).chain(12..=1_000).for_each(|it| window.accept(it).unwrap());
        assert_eq!(window.lost(), 1);
        window.accept(1_000_000).unwrap();
        window.accept(2_000_000).unwrap();
        let passed = 2_000_000 / BITS * BITS - window.words.len() as u64 * BITS + BITS - 1;
        assert_eq!(window.lost(), 1 + passed - 1_000 - 1);
    }

    #[test]
    fn a_window_goes_on_behind_numbers_that_were_used() {
        for top in [1, 63, 64, 65, 1 << 40] {
            let mut window = ReplayWindow::new(128);
            window.skip_to(top);
            for number in top.saturating_sub(300)..=top {
                assert!(window.accept(number).is_err(), "{number} of {top}");
            }
            for number in top + 1..top + 300 {
                assert_eq!(window.accept(number), Ok(()), "{number} behind {top}");
            }
        }
    }
}
