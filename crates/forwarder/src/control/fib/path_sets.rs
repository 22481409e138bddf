//! Sets of paths that prefixes share, found by their paths and by their interfaces.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Fib, PathKey, PathSet};

impl Fib {
    /// The paths of all sets.
    pub(in crate::control) fn path_sets(&self) -> impl Iterator<Item = &Arc<[PathKey]>> {
        self.sets.all()
    }
}

/// All sets of paths.
#[derive(Default)]
pub(in crate::control) struct PathSets {
    by_paths: BTreeMap<Arc<[PathKey]>, PathSet>,
    /// Each interface with each set that has a path through it.
    by_interface: BTreeMap<u32, BTreeSet<Arc<[PathKey]>>>,
}

impl PathSets {
    /// The set with these paths.
    pub(in crate::control) fn get(&self, keys: &[PathKey]) -> Option<&PathSet> {
        self.by_paths.get(keys)
    }

    /// The same, to be changed.
    pub(in crate::control) fn get_mut(&mut self, keys: &[PathKey]) -> Option<&mut PathSet> {
        self.by_paths.get_mut(keys)
    }

    /// Adds a set.
    pub(in crate::control) fn insert(&mut self, keys: &[PathKey], set: PathSet) {
        let keys: Arc<[PathKey]> = keys.into();
        for key in keys.iter() {
            self.by_interface.entry(key.interface).or_default().insert(keys.clone());
        }
        self.by_paths.insert(keys, set);
    }

    /// Removes a set.
    pub(in crate::control) fn remove(&mut self, keys: &[PathKey]) {
        for key in keys {
            if let Some(of_it) = self.by_interface.get_mut(&key.interface) {
                of_it.remove(keys);
                if of_it.is_empty() {
                    self.by_interface.remove(&key.interface);
                }
            }
        }
        self.by_paths.remove(keys);
    }

    /// The paths of all sets.
    pub(in crate::control) fn all(&self) -> impl Iterator<Item = &Arc<[PathKey]>> {
        self.by_paths.keys()
    }

    /// The paths of the sets with a path through an interface.
    pub(in crate::control) fn through(
        &self,
        interface: u32,
    ) -> impl Iterator<Item = &Arc<[PathKey]>> {
        self.by_interface.get(&interface).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_found_by_interface() {
        let path = |interface| PathKey { interface, next_hop: None, is_ip4: true, weight: 1 };
        let [one, both] = [vec![path(1)], vec![path(1), path(2)]];
        let mut sets = PathSets::default();
        sets.insert(&one, PathSet { hop: 10, users: 1 });
        sets.insert(&both, PathSet { hop: 11, users: 1 });
        let hops = |sets: &PathSets, interface| {
            let found = sets.through(interface).filter_map(|keys| sets.get(keys));
            found.map(|set| set.hop).collect::<Vec<_>>()
        };
        assert_eq!([1, 2, 3].map(|at| hops(&sets, at)), [vec![10, 11], vec![11], vec![]]);
        sets.remove(&both);
        assert_eq!([1, 2].map(|at| hops(&sets, at)), [vec![10], vec![]]);
        sets.remove(&one);
        assert_eq!((sets.all().count(), sets.by_interface.len()), (0, 0));
    }
}
