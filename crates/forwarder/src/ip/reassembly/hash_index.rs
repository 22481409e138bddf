//! Places of a table by a key that the places themselves know: chains in an array that never
//! grows and is never rehashed, so that taking in and out costs the same every time.

use std::hash::{BuildHasher, Hash, RandomState};

/// No place.
const NONE: u16 = u16::MAX;

/// See the module. The seed is random: nobody outside can make one chain long.
pub struct HashIndex {
    seed: RandomState,
    /// The first place of each chain: twice as many chains as places, a power of two.
    heads: Box<[u16]>,
    /// The place behind each in its chain.
    behind: Box<[u16]>,
    count: usize,
}

impl HashIndex {
    /// For so many places, at most 65,535.
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

    /// Places that are in.
    pub fn len(&self) -> usize {
        self.count
    }

    fn bucket(&self, key: &impl Hash) -> usize {
        self.seed.hash_one(key) as usize & (self.heads.len() - 1)
    }

    /// The place of `key`; `matches` says whether a place has it.
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

    /// Puts a place in that is not in.
    pub fn insert(&mut self, key: &impl Hash, at: usize) {
        let bucket = self.bucket(key);
        self.behind[at] = std::mem::replace(&mut self.heads[bucket], at as u16);
        self.count += 1;
    }

    /// Takes a place out that was put in with `key`.
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
