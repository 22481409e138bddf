//! Pseudo-random numbers that are the same in each run.

/// xorshift64* (Marsaglia 2003, Vigna 2016).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// An independent sequence for each seed.
    pub fn new(seed: u64) -> Self {
        // Never zero, a fixed point of the generator.
        Self((seed ^ 0x9e37_79b9_7f4a_7c15).max(1))
    }

    /// A random number.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A random number below `limit`; 0 when `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.next()) * limit as u128) >> 64) as usize
    }

    /// A rank below `limit` by Zipf's law with exponent 1: rank `r`, counted from 1, has the
    /// probability `ln(1 + 1/r) / ln(1 + limit)`, which is nearly `1 / (r ln limit)`.
    pub fn zipf(&mut self, limit: usize) -> usize {
        let share = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let rank = (limit as f64 + 1.0).powf(share) as usize;
        rank.saturating_sub(1).min(limit.saturating_sub(1))
    }

    /// Shuffles `items` (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipf_prefers_the_first_ranks_and_reaches_the_last() {
        let mut random = Random::new(1);
        let mut seen = [0_u32; 1000];
        for _ in 0..1_000_000 {
            seen[random.zipf(1000)] += 1;
        }
        // ln 2 / ln 1001 = 0.1003, and about a tenth of it at rank 10.
        assert!((95_000..106_000).contains(&seen[0]), "{}", seen[0]);
        assert!((12_000..16_000).contains(&seen[9]), "{}", seen[9]);
        assert!(seen.iter().all(|often| *often > 50));
        assert_eq!((random.zipf(1), random.zipf(0), random.below(0)), (0, 0, 0));
    }

    #[test]
    fn shuffling_keeps_all_items() {
        let mut items: Vec<u32> = (0..1000).collect();
        Random::new(2).shuffle(&mut items);
        assert!(!items.is_sorted());
        items.sort_unstable();
        assert_eq!(items, (0..1000).collect::<Vec<_>>());
    }
}
