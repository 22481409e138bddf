//! A hash index of the slots of a table, whose entries hold the keys: chained buckets in an array
//! that never grows and is never rehashed, so that insertion and removal have a constant cost.

use std::hash::{BuildHasher, Hash, RandomState};

/// No slot.
const NONE: u16 = u16::MAX;

/// See the module. The random seed prevents hash flooding.
pub struct HashIndex {
    seed: RandomState,
    /// The first slot of each bucket: twice as many buckets as slots, a power of two.
    heads: Box<[u16]>,
    /// The next slot of each slot in its bucket.
    behind: Box<[u16]>,
    count: usize,
}

impl HashIndex {
    /// For so many slots, at most 65,535.
    pub fn new(slots: usize) -> Self {
        let slots = slots.min(usize::from(NONE));
        let buckets = (2 * slots).next_power_of_two();
        Self {
            seed: RandomState::new(),
            heads: vec![NONE; buckets].into_boxed_slice(),
            behind: vec![NONE; slots].into_boxed_slice(),
            count: 0,
        }
    }

    /// Number of slots in the index.
    pub fn len(&self) -> usize {
        self.count
    }

    fn bucket(&self, key: &impl Hash) -> usize {
        self.seed.hash_one(key) as usize & (self.heads.len() - 1)
    }

    /// The slot of `key`; `matches` returns whether a slot holds it.
    pub fn find(&self, key: &impl Hash, matches: impl Fn(usize) -> bool) -> Option<usize> {
        let mut at = self.heads[self.bucket(key)];
        while at != NONE {
            if matches(usize::from(at)) {
                return Some(usize::from(at));
            }
            at = self.behind[usize::from(at)];
        }
        None
    }

    /// Inserts a slot that is not in the index.
    pub fn insert(&mut self, key: &impl Hash, at: usize) {
        let bucket = self.bucket(key);
        self.behind[at] = std::mem::replace(&mut self.heads[bucket], at as u16);
        self.count += 1;
    }

    /// Removes a slot that was inserted with `key`.
    pub fn remove(&mut self, key: &impl Hash, at: usize) {
        let bucket = self.bucket(key);
        let (mut before, mut here) = (NONE, self.heads[bucket]);
        while here != NONE && usize::from(here) != at {
            (before, here) = (here, self.behind[usize::from(here)]);
        }
        if here == NONE {
            return;
        }
        match before {
            NONE => self.heads[bucket] = self.behind[at],
            before => self.behind[usize::from(before)] = self.behind[at],
        }
        self.count -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_agrees_with_a_map(steps in proptest::collection::vec((0..40_u32, 0..16_usize), 1..200)) {
            let mut index = HashIndex::new(16);
            let mut map: HashMap<u32, usize> = HashMap::new();
            let mut keys = [None; 16];
            for (key, at) in steps {
                match (keys[at], map.get(&key)) {
                    (Some(old), _) => {
                        index.remove(&old, at);
                        (keys[at], _) = (None, map.remove(&old));
                    }
                    (None, Some(_)) => {}
                    (None, None) => {
                        index.insert(&key, at);
                        keys[at] = Some(key);
                        map.insert(key, at);
                    }
                }
                prop_assert_eq!(index.len(), map.len());
                for key in 0..40_u32 {
                    let found = index.find(&key, |at| keys[at] == Some(key));
                    prop_assert_eq!(found, map.get(&key).copied());
                }
            }
        }
    }
}
