//! Values in order, in blocks that later configurations share: a copy with one other value copies one block.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

/// Values of a block after a rebuild. A block with twice as many is divided.
pub(crate) const BLOCK: usize = 256;

/// A value whose place among others is that of its key.
pub trait Keyed: Clone + PartialEq {
    /// What no two values have in common.
    type Key<'a>: Ord
    where
        Self: 'a;

    /// The key of this value.
    fn key(&self) -> Self::Key<'_>;
}

/// Values in the order of their keys, of which each occurs once.
#[derive(Clone, Debug)]
pub struct Blocks<T> {
    /// None is empty.
    blocks: Vec<Arc<Vec<T>>>,
    length: usize,
}

impl<T> Default for Blocks<T> {
    fn default() -> Self {
        Self { blocks: Vec::new(), length: 0 }
    }
}

impl<T> Blocks<T> {
    /// All values in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + Clone {
        self.blocks.iter().flat_map(|block| block.iter())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Whether both are the same values in memory.
    pub fn is_same(&self, other: &Self) -> bool {
        self.blocks.len() == other.blocks.len()
            && self.blocks.iter().zip(&other.blocks).all(|(one, other)| Arc::ptr_eq(one, other))
    }

    /// The values of both that are not in blocks which both share: all that may differ.
    pub fn apart<'a>(&'a self, other: &'a Self) -> [Vec<&'a T>; 2] {
        let of = |values: &Self| -> HashSet<*const Vec<T>> {
            values.blocks.iter().map(Arc::as_ptr).collect()
        };
        let [own, others] = [self, other].map(of);
        let rest = |values: &'a Self, shared: &HashSet<_>| {
            let left = values.blocks.iter().filter(|block| !shared.contains(&Arc::as_ptr(block)));
            left.flat_map(|block| block.iter()).collect()
        };
        [rest(self, &others), rest(other, &own)]
    }

    /// The value that `order` finds equal; it compares a value with what is sought.
    pub fn find(&self, order: impl Fn(&T) -> Ordering) -> Option<&T> {
        let (block, at) = self.place(order);
        let at = at.ok()?;
        Some(&self.blocks[block][at])
    }

    /// The block of what is sought, and its place there: taken, or where it belongs.
    fn place(&self, order: impl Fn(&T) -> Ordering) -> (usize, Result<usize, usize>) {
        let after = self
            .blocks
            .partition_point(|block| block.first().is_some_and(|first| order(first).is_le()));
        let block = after.saturating_sub(1);
        let values = self.blocks.get(block).map_or(&[][..], |block| block.as_slice());
        (block, values.binary_search_by(order))
    }
}

impl<T: Clone> Blocks<T> {
    /// A copy of all values.
    pub fn to_vec(&self) -> Vec<T> {
        self.iter().cloned().collect()
    }

    /// Removes the value that `order` finds equal, if there is one.
    pub fn remove(&mut self, order: impl Fn(&T) -> Ordering) -> Option<T> {
        let (block, Ok(at)) = self.place(order) else { return None };
        let values = Arc::make_mut(&mut self.blocks[block]);
        let removed = values.remove(at);
        self.length -= 1;
        if values.is_empty() {
            self.blocks.remove(block);
        }
        Some(removed)
    }
}

impl<T: Keyed> Blocks<T> {
    /// Sets the value of its key.
    pub fn set(&mut self, value: T) {
        let (block, at) = self.place(|it| it.key().cmp(&value.key()));
        if self.blocks.is_empty() {
            self.blocks.push(Arc::default());
        }
        if at.is_ok_and(|at| self.blocks[block][at] == value) {
            return;
        }
        let values = Arc::make_mut(&mut self.blocks[block]);
        match at {
            Ok(at) => values[at] = value,
            Err(at) => {
                values.insert(at, value);
                self.length += 1;
            }
        }
        if values.len() >= 2 * BLOCK {
            let second = values.split_off(values.len() / 2);
            self.blocks.insert(block + 1, Arc::new(second));
        }
    }
}

impl<T: Keyed> From<Vec<T>> for Blocks<T> {
    /// Of several values with one key the last one stays.
    fn from(mut values: Vec<T>) -> Self {
        if !values.is_sorted_by(|one, next| one.key() < next.key()) {
            values.reverse();
            values.sort_by(|one, other| one.key().cmp(&other.key()));
            values.dedup_by(|next, one| next.key() == one.key());
        }
        let mut all = Self { length: values.len(), ..Self::default() };
        let mut values = values.into_iter();
        loop {
            let block: Vec<T> = values.by_ref().take(BLOCK).collect();
            if block.is_empty() {
                return all;
            }
            all.blocks.push(Arc::new(block));
        }
    }
}

impl<T: PartialEq> PartialEq for Blocks<T> {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || self.length == other.length && self.iter().eq(other.iter())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    type Pairs = Blocks<(u32, i32)>;

    proptest! {
        #[test]
        fn edits_are_those_of_a_map(
            first in prop::collection::btree_map(0..2_000_u32, 0..3, 0..1_500),
            edits in prop::collection::vec((0..2_000_u32, prop::option::of(0..3)), 0..900),
        ) {
            let mut model: BTreeMap<u32, i32> = first;
            let before = Pairs::from(model.clone().into_iter().collect::<Vec<_>>());
            let (old, mut pairs) = (before.to_vec(), before.clone());
            for (key, value) in edits {
                match value {
                    Some(value) => {
                        model.insert(key, value);
                        pairs.set((key, value));
                    }
                    None => {
                        let removed = pairs.remove(|it| it.0.cmp(&key)).map(|it| it.1);
                        prop_assert_eq!(removed, model.remove(&key));
                    }
                }
                prop_assert_eq!(pairs.find(|it| it.0.cmp(&key)).map(|it| it.1), value);
            }
            let expected: Vec<_> = model.into_iter().collect();
            prop_assert_eq!(pairs.len(), expected.len());
            prop_assert_eq!(&pairs, &Pairs::from(expected.clone()));
            prop_assert_eq!(pairs.to_vec(), expected);
            // The first one has not changed, and what both do not share makes the difference.
            prop_assert_eq!(before.to_vec(), old);
            let [gone, new] = before.apart(&pairs);
            let mut made: BTreeMap<_, _> = before.iter().map(|it| (it.0, it)).collect();
            for it in gone {
                made.remove(&it.0);
            }
            made.extend(new.iter().map(|it| (it.0, *it)));
            prop_assert!(made.into_values().eq(pairs.iter()));
        }
    }

    #[test]
    fn there_may_be_none() {
        let mut none = Pairs::default();
        assert_eq!(none.find(|it| it.0.cmp(&7)), None);
        assert_eq!(none.remove(|it| it.0.cmp(&7)), None);
        assert!(none.is_empty() && none == Pairs::from(Vec::new()));
        none.set((7, 1));
        assert_eq!(none.remove(|it| it.0.cmp(&7)), Some((7, 1)));
        assert!(none.is_empty() && none.is_same(&Pairs::default()));
    }

    #[test]
    fn of_several_values_with_one_key_the_last_one_stays() {
        let pairs = Pairs::from(vec![(7, 1), (3, 2), (7, 3), (3, 4)]);
        assert_eq!(pairs.to_vec(), [(3, 4), (7, 3)]);
    }

    #[test]
    fn one_other_value_among_many_is_in_one_block() {
        let before = Pairs::from((0..100_000).map(|at| (at, 0)).collect::<Vec<_>>());
        let mut after = before.clone();
        after.set((70_000, 1));
        let [gone, new] = before.apart(&after);
        assert_eq!((gone.len(), new.len()), (BLOCK, BLOCK));
        // The same again changes nothing.
        let same = after.clone();
        after.set((70_000, 1));
        assert!(after.is_same(&same) && !after.is_same(&before));
    }
}
