//! The values of a packet field: constant, or varying from packet to packet.

use std::sync::Arc;

use crate::random::Random;

/// Number of Zipf draws made before the run; they repeat.
const DRAWS: usize = 1 << 17;

/// The values of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// `count` values from `first` on, `step` apart.
    Range {
        /// The first one.
        first: u128,
        /// Difference between consecutive values.
        step: u128,
        /// Number of values, at least 1.
        count: u64,
    },
    /// A list of values, at least one.
    List(Arc<[u128]>),
}

impl Values {
    /// A single value.
    pub fn one(value: u128) -> Self {
        Self::Range { first: value, step: 1, count: 1 }
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        match self {
            Self::Range { count, .. } => *count,
            Self::List(list) => list.len() as u64,
        }
    }

    #[inline(always)]
    fn at(&self, index: u64) -> u128 {
        match self {
            Self::Range { first, step, .. } => first.wrapping_add(step * u128::from(index)),
            Self::List(list) => list[index as usize],
        }
    }
}

/// The order of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// One after the other.
    Turn,
    /// Random, uniformly distributed.
    Random,
    /// Random by Zipf's law, the first values most often; holds indexes drawn in advance.
    Zipf(Arc<[u32]>),
}

impl Order {
    /// A Zipf order for `count` values.
    pub fn zipf(count: u64) -> Self {
        let mut random = Random::new(count);
        let limit = count.min(u64::from(u32::MAX)) as usize;
        Self::Zipf((0..DRAWS).map(|_| random.zipf(limit) as u32).collect())
    }
}

/// The position of a field in its values. Each step can be reversed, because packets that a port
/// does not accept are built again later.
#[derive(Clone, Debug)]
pub struct Walk {
    values: Values,
    order: Order,
    count: u64,
    /// Consecutive packets with the same value.
    every: u64,
    at: u64,
    repeats: u64,
}

impl Walk {
    /// Starts at the first value; each value is used `every` times before the next.
    pub fn new(values: Values, order: Order, every: u64) -> Self {
        let count = match &order {
            Order::Turn => values.count().max(1),
            // A position in an endless sequence of draws.
            Order::Random => u64::MAX,
            Order::Zipf(draws) => draws.len() as u64,
        };
        Self { values, order, count, every: every.max(1), at: 0, repeats: 0 }
    }

    /// Whether all packets have the same value.
    pub fn is_constant(&self) -> bool {
        self.values.count() <= 1
    }

    /// The value for the current packet.
    #[inline(always)]
    pub fn value(&self) -> u128 {
        let index = match &self.order {
            Order::Turn => self.at,
            Order::Random => below(mix(self.at), self.values.count()),
            Order::Zipf(draws) => u64::from(draws[self.at as usize]),
        };
        self.values.at(index)
    }

    /// Advances to the next packet.
    #[inline(always)]
    pub fn step(&mut self) {
        self.repeats += 1;
        if self.repeats < self.every {
            return;
        }
        self.repeats = 0;
        self.at += 1;
        if self.at == self.count {
            self.at = 0;
        }
    }

    /// Returns to the previous packet.
    pub fn step_back(&mut self) {
        if self.repeats > 0 {
            self.repeats -= 1;
            return;
        }
        self.repeats = self.every - 1;
        self.at = if self.at == 0 { self.count - 1 } else { self.at - 1 };
    }
}

/// A pseudo-random number for each input (Steele, Lea and Flood 2014: SplitMix64).
#[inline(always)]
fn mix(number: u64) -> u64 {
    let number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[inline(always)]
fn below(number: u64, limit: u64) -> u64 {
    ((u128::from(number) * u128::from(limit)) >> 64) as u64
}

/// The next values of a walk.
#[cfg(test)]
pub(crate) fn take(walk: &mut Walk, count: usize) -> Vec<u128> {
    let values = (0..count).map(|_| {
        let value = walk.value();
        walk.step();
        value
    });
    values.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn orders() -> impl Strategy<Value = Order> {
        prop_oneof![Just(Order::Turn), Just(Order::Random), Just(Order::zipf(7))]
    }

    proptest! {
        #[test]
        fn steps_are_reversible(order in orders(), every in 1_u64..5, on in 0_usize..60, back in 0_usize..60) {
            let values = Values::Range { first: 100, step: 3, count: 7 };
            let mut walk = Walk::new(values, order, every);
            let mut seen = Vec::new();
            for _ in 0..on {
                seen.push(walk.value());
                walk.step();
            }
            let back = back.min(on);
            for desired in seen.iter().rev().take(back) {
                walk.step_back();
                prop_assert_eq!(walk.value(), *desired);
            }
            for desired in &seen[on - back..] {
                prop_assert_eq!(walk.value(), *desired);
                walk.step();
            }
        }
    }

    #[test]
    fn values_follow_their_order() {
        let range = Values::Range { first: 5, step: 2, count: 3 };
        let mut turn = Walk::new(range.clone(), Order::Turn, 2);
        assert_eq!(take(&mut turn, 8), [5, 5, 7, 7, 9, 9, 5, 5]);
        let mut random = Walk::new(range, Order::Random, 1);
        let drawn = take(&mut random, 3000);
        for value in [5, 7, 9] {
            let often = drawn.iter().filter(|one| **one == value).count();
            assert!((900..1100).contains(&often), "{value}: {often}");
        }
        let list = Values::List([3, 1, 4].into());
        assert_eq!(take(&mut Walk::new(list.clone(), Order::Turn, 1), 4), [3, 1, 4, 3]);
        let mut zipf = Walk::new(list, Order::zipf(3), 1);
        let drawn = take(&mut zipf, 3000);
        let first = drawn.iter().filter(|one| **one == 3).count();
        assert!((1350..1650).contains(&first), "ln 2 / ln 4 of them: {first}");
        assert!(Walk::new(Values::one(9), Order::Turn, 1).is_constant());
    }

    #[test]
    fn a_million_flows_are_a_million_values() {
        let range = Values::Range { first: 1 << 100, step: 1, count: 1_000_000 };
        let mut walk = Walk::new(range, Order::Turn, 1);
        let seen: HashSet<u128> = take(&mut walk, 1_000_000).into_iter().collect();
        assert_eq!(seen.len(), 1_000_000);
    }
}
