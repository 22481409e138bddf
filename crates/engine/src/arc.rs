//! Feature arcs: features that an interface inserts between two nodes.
//!
//! An arc is an ordered list of feature nodes between a start node and the node
//! that follows when no feature is on. Per interface, a bit mask holds which are
//! on. An arc without features costs one predictable test per vector.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::INTERFACES;

/// Features that an arc can hold.
pub const FEATURES: usize = 32;

/// One arc: which of its features is on at which interface. Feature `i` has edge
/// `first_edge + i` at every node of the arc, in this order.
pub struct FeatureArc {
    names: &'static [&'static str],
    enabled: Box<[AtomicU32]>,
    /// Interfaces with any feature on.
    busy: AtomicU32,
}

impl FeatureArc {
    /// An arc with these features, in the order in which packets meet them.
    ///
    /// # Panics
    /// With more than [`FEATURES`] names.
    pub fn new(names: &'static [&'static str]) -> Self {
        assert!(names.len() <= FEATURES);
        let enabled = (0..INTERFACES).map(|_| AtomicU32::new(0)).collect();
        Self { names, enabled, busy: AtomicU32::new(0) }
    }

    /// The features in order.
    pub fn names(&self) -> &'static [&'static str] {
        self.names
    }

    /// Whether no interface has a feature on: the one test per vector.
    #[inline(always)]
    pub fn is_idle(&self) -> bool {
        self.busy.load(Ordering::Relaxed) == 0
    }

    /// Switches a feature at an interface; only the control thread calls this.
    pub fn set(&self, interface: u32, feature: usize, on: bool) {
        let cell = &self.enabled[interface as usize];
        let old = cell.load(Ordering::Relaxed);
        let new = if on { old | 1 << feature } else { old & !(1 << feature) };
        cell.store(new, Ordering::Relaxed);
        let busy = self.busy.load(Ordering::Relaxed);
        let busy = busy + u32::from(new != 0) - u32::from(old != 0);
        self.busy.store(busy, Ordering::Release);
    }

    /// The first feature that is on at `interface`, from feature `from` on.
    #[inline(always)]
    pub fn next(&self, interface: u32, from: usize) -> Option<usize> {
        if from >= FEATURES {
            return None;
        }
        let rest = self.enabled[interface as usize % INTERFACES].load(Ordering::Relaxed) >> from;
        (rest != 0).then(|| from + rest.trailing_zeros() as usize)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn features_come_in_order_and_only_where_on() {
        let arc = FeatureArc::new(&["a", "b", "c"]);
        assert!(arc.is_idle());
        arc.set(7, 2, true);
        arc.set(7, 0, true);
        arc.set(7, 0, true);
        assert!(!arc.is_idle());
        assert_eq!(arc.next(7, 0), Some(0));
        assert_eq!(arc.next(7, 1), Some(2));
        assert_eq!(arc.next(7, 3), None);
        assert_eq!(arc.next(8, 0), None);
        arc.set(7, 0, false);
        arc.set(7, 2, false);
        assert!(arc.is_idle());
    }
}
