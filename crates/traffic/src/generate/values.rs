//! What a field of a stream's packets says: one value, or another one for each packet.

use std::sync::Arc;

use crate::random::Random;

/// Draws of a Zipf order that are made before the run, and then come again and again.
const DRAWS: usize = 1 << 17;

/// The values that a field takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// `count` values from `first` on, `step` apart.
    Range {
        /// The first one.
        first: u128,
        /// From one to the next.
        step: u128,
        /// How many; at least one.
        count: u64,
    },
    /// These, at least one.
    List(Arc<[u128]>),
}

impl Values {
    /// Just one.
    pub fn one(value: u128) -> Self {
        Self::Range { first: value, step: 1, count: 1 }
    }

    /// How many there are.
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

/// In which order values are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// In turn.
    Turn,
    /// Any, each as likely as the others.
    Random,
    /// Any, the first ones much more often (Zipf's law): indexes that were drawn before.
    Zipf(Arc<[u32]>),
}

impl Order {
    /// An order by Zipf's law for so many values.
    pub fn zipf(count: u64) -> Self {
        let mut random = Random::new(count);
        let limit = count.min(u64::from(u32::MAX)) as usize;
        Self::Zipf((0..DRAWS).map(|_| random.zipf(limit) as u32).collect())
    }
}

/// A field's way through its values. Each step can be taken back, as packets that a port does not
/// take are made again later.
#[derive(Clone, Debug)]
pub struct Walk {
    values: Values,
    order: Order,
    count: u64,
    /// Packets that have the same value one after the other.
    every: u64,
    at: u64,
    repeats: u64,
}

impl Walk {
    /// From the first value on; each comes `every` times before the next.
    pub fn new(values: Values, order: Order, every: u64) -> Self {
        let count = match &order {
            Order::Turn => values.count().max(1),
            // A place in an endless row of draws.
            Order::Random => u64::MAX,
            Order::Zipf(draws) => draws.len() as u64,
        };
        Self { values, order, count, every: every.max(1), at: 0, repeats: 0 }
    }

    /// Whether all packets have the same value.
    pub fn is_constant(&self) -> bool {
        self.values.count() <= 1
    }

    /// The value of this packet.
    #[inline(always)]
    pub fn value(&self) -> u128 {
        let index = match &self.order {
            Order::Turn => self.at,
            Order::Random => below(mix(self.at), self.values.count()),
            Order::Zipf(draws) => u64::from(draws[self.at as usize]),
        };
        self.values.at(index)
    }

    /// On to the next packet.
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

    /// Back to the packet before.
    pub fn step_back(&mut self) {
        if self.repeats > 0 {
            self.repeats -= 1;
            return;
        }
        self.repeats = self.every - 1;
        self.at = if self.at == 0 { self.count - 1 } else { self.at - 1 };
    }
}

/// A number that looks random for each number (Steele, Lea and Flood 2014: SplitMix64).
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
        fn steps_are_taken_back(order in orders(), every in 1_u64..5, on in 0_usize..60, back in 0_usize..60) {
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
    fn values_come_in_their_order() {
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
