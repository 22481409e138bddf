//! Finds interfaces by name and by port, and free indexes, without a search through all interfaces; and keeps
//! the list of interfaces that have changed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use super::forwarder_state::InterfaceState;

/// What is known about the indexes in use.
#[derive(Default)]
pub(super) struct InterfaceIndex {
    /// Routes refer to interfaces by name, and there are many routes.
    by_name: HashMap<Arc<str>, u32>,
    /// The same in order: indexes change as interfaces come and go, listings do not.
    in_order: BTreeMap<Arc<str>, u32>,
    /// A sub-interface whose name a reserved interface has taken.
    shadowed: HashMap<Arc<str>, u32>,
    /// Indexes below the highest one that are not in use.
    free: BTreeSet<u32>,
    /// The port's interface and each interface of the port.
    by_port: BTreeSet<(u32, u32)>,
    /// Interfaces with configured virtual routers.
    with_virtual_routers: BTreeSet<u32>,
    /// Interfaces that are cross-connected, by the name of the other one.
    cross_connected: BTreeSet<(Arc<str>, u32)>,
    /// Interfaces whose addresses, tags or cross-connects workers have not got yet.
    pub(super) unpublished: BTreeSet<u32>,
    /// Interfaces whose addresses and advertisements are not compared with their configuration yet.
    pub(super) unreviewed: BTreeSet<u32>,
}

impl InterfaceIndex {
    /// The interface of that name.
    pub(super) fn named(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    /// The interface of that name, and the one that it shadows.
    pub(super) fn all_named(&self, name: &str) -> impl Iterator<Item = u32> {
        self.by_name.get(name).into_iter().chain(self.shadowed.get(name)).copied()
    }

    /// Number of interfaces.
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// All interfaces whose names follow `after`, in the order of their names.
    pub(super) fn following(&self, after: &str) -> impl Iterator<Item = u32> {
        let after = match after {
            "" => Bound::Unbounded,
            name => Bound::Excluded(name),
        };
        self.in_order.range::<str, _>((after, Bound::Unbounded)).map(|(_, index)| *index)
    }

    /// The names next to `name` in order, `most` at most: those with which it has most in common at their start.
    pub(super) fn names_near(&self, name: &str, most: usize) -> Vec<&str> {
        let before = self.in_order.range::<str, _>((Bound::Unbounded, Bound::Excluded(name)));
        let behind = self.in_order.range::<str, _>((Bound::Excluded(name), Bound::Unbounded));
        let mut near: Vec<_> = before.rev().take(most).map(|(name, _)| &**name).collect();
        let behind: Vec<_> = behind.take(most).map(|(name, _)| &**name).collect();
        // Half of them from each side, more where the other side has less.
        near.truncate((most / 2).max(most.saturating_sub(behind.len())));
        near.reverse();
        let left = most - near.len();
        near.extend(behind.into_iter().take(left));
        near
    }

    /// The interface of a port and its sub-interfaces.
    pub(super) fn of_port(&self, base: u32) -> Vec<u32> {
        self.by_port.range((base, 0)..=(base, u32::MAX)).map(|(_, index)| *index).collect()
    }

    /// Interfaces with configured virtual routers.
    pub(super) fn with_virtual_routers(&self) -> impl Iterator<Item = u32> {
        self.with_virtual_routers.iter().copied()
    }

    /// Marks the interfaces that are cross-connected to this one: its name leads elsewhere now.
    fn mark_connected(&mut self, name: &Arc<str>) {
        let from = (name.clone(), 0)..=(name.clone(), u32::MAX);
        let connected: Vec<u32> = self.cross_connected.range(from).map(|it| it.1).collect();
        self.unpublished.extend(connected);
    }

    /// The lowest index that is free, of `len` that have been used.
    pub(super) fn lowest_free(&self, len: usize) -> u32 {
        self.free.first().copied().unwrap_or(len as u32)
    }

    /// Marks an index as free.
    pub(super) fn set_free(&mut self, index: u32) {
        self.free.insert(index);
    }

    /// Marks an interface as changed.
    pub(super) fn mark(&mut self, index: u32) {
        self.unpublished.insert(index);
        self.unreviewed.insert(index);
    }

    /// Adds an interface.
    pub(super) fn add(&mut self, index: u32, state: &InterfaceState) {
        let name: Arc<str> = state.name.as_str().into();
        if let Some(other) = self.by_name.insert(name.clone(), index)
            && other != index
        {
            self.shadowed.insert(name.clone(), other);
        }
        self.in_order.insert(name, index);
        self.free.remove(&index);
        self.by_port.insert((state.base, index));
        let desired = &state.desired;
        let families = [&desired.ip4, &desired.ip6];
        if families.iter().any(|family| !family.virtual_routers.is_empty()) {
            self.with_virtual_routers.insert(index);
        }
        if let Some(other) = &desired.cross_connect {
            self.cross_connected.insert((other.as_str().into(), index));
        }
        self.mark_connected(&state.name.as_str().into());
        self.mark(index);
    }

    /// Removes an interface; its index is not free yet.
    pub(super) fn remove(&mut self, index: u32, state: &InterfaceState) {
        let name = state.name.as_str();
        if self.by_name.get(name) == Some(&index) {
            match self.shadowed.remove_entry(name) {
                Some((name, other)) => {
                    self.by_name.insert(name.clone(), other);
                    self.in_order.insert(name, other);
                }
                None => {
                    self.by_name.remove(name);
                    self.in_order.remove(name);
                }
            }
        } else if self.shadowed.get(name) == Some(&index) {
            self.shadowed.remove(name);
        }
        self.by_port.remove(&(state.base, index));
        self.with_virtual_routers.remove(&index);
        if let Some(other) = &state.desired.cross_connect {
            self.cross_connected.remove(&(other.as_str().into(), index));
        }
        self.mark_connected(&name.into());
        self.mark(index);
    }
}
