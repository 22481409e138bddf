//! A map whose copies share what they have in common: a copy with one other entry copies one block.

use std::borrow::Borrow;

use super::blocks::{Blocks, Keyed};

impl<K: Ord + Clone, V: Clone + PartialEq> Keyed for (K, V) {
    type Key<'a>
        = &'a K
    where
        K: 'a,
        V: 'a;

    fn key(&self) -> &K {
        &self.0
    }
}

/// A map in the order of its keys.
#[derive(Clone, Debug)]
pub struct SharedMap<K, V>(Blocks<(K, V)>);

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        Self(Blocks::default())
    }
}

impl<K: Ord + Clone, V: Clone + PartialEq> PartialEq for SharedMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<K: Ord + Clone, V: Clone + PartialEq> SharedMap<K, V> {
    /// The value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.0.find(|it| it.0.borrow().cmp(key)).map(|it| &it.1)
    }

    /// Whether it has a key.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// Sets the value of a key.
    pub fn insert(&mut self, key: K, value: V) {
        self.0.set((key, value));
    }

    /// Removes a key; returns its value.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.0.remove(|it| it.0.borrow().cmp(key)).map(|it| it.1)
    }

    /// All keys in order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.iter().map(|it| &it.0)
    }

    /// All entries in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.0.iter().map(|it| (&it.0, &it.1))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many entries are in blocks that this map does not share with another one.
    #[cfg(test)]
    pub fn own_entries(&self, other: &Self) -> usize {
        self.0.apart(&other.0)[0].len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_its_own_entries() {
        let mut map = SharedMap::default();
        (0..2_000).for_each(|at| map.insert(format!("{at:04}"), at));
        let mut copy = map.clone();
        copy.insert("0007".to_owned(), 0);
        assert_eq!((map.get("0007"), copy.get("0007")), (Some(&7), Some(&0)));
        assert_eq!((copy.remove("0007"), copy.remove("0007")), (Some(0), None));
        assert!(map.contains_key("0007") && !copy.contains_key("0007"));
        assert!(map.keys().eq(map.iter().map(|(key, _)| key)) && map != copy);
        assert!(map.own_entries(&copy) < 1_000 && !map.is_empty());
        copy.insert("0007".to_owned(), 7);
        assert_eq!(map, copy);
    }
}
