//! Feature arcs: features that an interface inserts between two nodes.
//!
//! An [`ArcSpec`] declares an arc once: where it starts, its features in order, where it ends. The
//! [graph](crate::graph) adds the edges to the nodes of the arc. Per interface, a [`FeatureArc`]
//! holds a bit mask of the features that are on. A node of the arc sends each packet to the next
//! feature that is on at its interface, or to the end, by an [`ArcHook`].

use std::sync::atomic::{AtomicU32, Ordering};

use crate::INTERFACES;
use crate::column::Column;
use crate::counters::{OutOfMemory, zeroed};
use crate::node::{Next, NodeSpec};

/// Features that an arc can hold; one more bit stands for the end of the arc.
pub const FEATURES: usize = 31;
/// Lanes that are compared before the first test of whether they differ.
const STEP: usize = 16;

/// A feature of an arc.
pub struct FeatureSpec<S> {
    /// Its node.
    pub node: NodeSpec<S>,
    /// Nodes of features that must precede it.
    pub after: &'static [&'static str],
    /// Nodes of features that must follow it.
    pub before: &'static [&'static str],
}

impl<S> Copy for FeatureSpec<S> {}

impl<S> Clone for FeatureSpec<S> {
    fn clone(&self) -> Self {
        *self
    }
}

/// An arc as it is declared.
pub struct ArcSpec<S: 'static> {
    /// Name.
    pub name: &'static str,
    /// When packets pass it, for the documentation.
    pub description: &'static str,
    /// The nodes that send packets into it.
    pub starts: &'static [&'static str],
    /// The features in the order in which packets meet them.
    pub features: &'static [FeatureSpec<S>],
    /// The node that follows the last feature.
    pub end: &'static str,
}

impl<S> Copy for ArcSpec<S> {}

impl<S> Clone for ArcSpec<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> ArcSpec<S> {
    /// The arc with one more feature: behind those that it names in `after`, or before those in `before`, or else
    /// as the last one. It takes memory until the process ends: for use at its start.
    #[must_use]
    pub fn with(self, feature: FeatureSpec<S>) -> Self {
        let behind = feature.after.iter().filter_map(|node| self.position(node)).max();
        let ahead = feature.before.iter().filter_map(|node| self.position(node)).min();
        let at = behind.map(|at| at + 1).or(ahead).unwrap_or(self.features.len());
        let mut features = self.features.to_vec();
        features.insert(at, feature);
        Self { features: features.leak(), ..self }
    }

    /// The nodes that packets can go to in this arc: its features in order, then its end.
    pub fn edges(&self) -> impl Iterator<Item = &'static str> {
        self.features.iter().map(|feature| feature.node.name).chain([self.end])
    }

    /// The position of a feature in the arc.
    pub fn position(&self, node: &str) -> Option<usize> {
        self.features.iter().position(|feature| feature.node.name == node)
    }

    /// The first feature that is not where its `after` and `before` demand, or that names a node
    /// which is no feature of the arc: the feature and the name.
    pub fn disorder(&self) -> Option<(&'static str, &'static str)> {
        self.features.iter().enumerate().find_map(|(at, feature)| {
            let precedes = |name: &&&str| self.position(name).is_some_and(|other| other < at);
            let follows = |name: &&&str| self.position(name).is_some_and(|other| other > at);
            let after = feature.after.iter().find(|name| !precedes(name));
            let wrong = after.or_else(|| feature.before.iter().find(|name| !follows(name)));
            wrong.map(|wrong| (feature.node.name, *wrong))
        })
    }
}

/// How a node continues in an arc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArcHook {
    /// The edge of the node to the first feature of the arc; the others follow, the end is last.
    first_edge: u16,
    /// The bits of all features behind this node, and of the end.
    later: u32,
    /// The position of this node in the arc; 0 for a node before all features.
    position: u16,
}

impl ArcHook {
    /// A node whose edges of the arc begin at `first_edge`, at `position` of an arc, or before all
    /// features.
    pub(crate) fn new(first_edge: usize, position: Option<usize>) -> Self {
        let later =
            position.map_or(u32::MAX, |at| u32::MAX.checked_shl(at as u32 + 1).unwrap_or(0));
        Self { first_edge: first_edge as u16, later, position: position.unwrap_or(0) as u16 }
    }

    /// The argument of this feature at each interface, see [`FeatureArc::set`]. Kernels gather it for
    /// all lanes.
    #[inline(always)]
    pub fn arguments(self, arc: &FeatureArc) -> &[AtomicU32] {
        let first = usize::from(self.position) * INTERFACES;
        &arc.arguments[first..first + INTERFACES]
    }

    /// The edge to the next one of the `enabled` features, or to the end of the arc.
    #[inline(always)]
    pub fn edge(self, enabled: u32) -> u16 {
        self.first_edge + (enabled & self.later).trailing_zeros() as u16
    }

    /// Whether none of the `enabled` features follows: the arc ends here.
    #[inline(always)]
    pub fn is_last(self, enabled: u32) -> bool {
        (enabled & self.later).is_power_of_two()
    }

    /// Sends all lanes on by the features of one interface, or of an arc of the whole router.
    #[inline]
    pub fn proceed_all(self, arc: &FeatureArc, interface: u32) -> Next {
        Next::All(self.edge(arc.enabled(interface)))
    }

    /// Sends all lanes on, each by the features of its interface in `interfaces`. Interfaces of one router
    /// mostly have the same features: then the lanes stay together.
    #[inline]
    pub fn proceed(
        self,
        arc: &FeatureArc,
        interfaces: &Column<u32>,
        lanes: usize,
        next: &mut Column<u16>,
    ) -> Next {
        if let Some(interface) = interfaces.uniform(lanes) {
            return self.proceed_all(arc, interface);
        }
        if let Some(enabled) = arc.enabled_at_all(&interfaces[..lanes]) {
            return Next::All(self.edge(enabled));
        }
        for (next, interface) in next.iter_mut().zip(&interfaces[..lanes]) {
            *next = self.edge(arc.enabled(*interface));
        }
        Next::Lanes
    }
}

/// One arc: which of its features are on at which interface.
pub struct FeatureArc {
    features: Vec<&'static str>,
    /// By interface: a bit per feature in order, then one for the end of the arc.
    enabled: Box<[AtomicU32]>,
    /// The arguments of the features in order, each by interface.
    arguments: Box<[AtomicU32]>,
}

impl FeatureArc {
    /// An arc on which no feature is on.
    ///
    /// # Panics
    /// With more than [`FEATURES`] features.
    pub fn new<S>(spec: &ArcSpec<S>) -> Result<Self, OutOfMemory> {
        let features: Vec<_> = spec.features.iter().map(|feature| feature.node.name).collect();
        assert!(features.len() <= FEATURES);
        let end = 1 << features.len();
        let arguments = zeroed(features.len().max(1) * INTERFACES)?;
        let enabled = (0..INTERFACES).map(|_| AtomicU32::new(end)).collect();
        Ok(Self { features, enabled, arguments })
    }

    /// The nodes of the features in order.
    pub fn features(&self) -> &[&'static str] {
        &self.features
    }

    /// The features that are on at an interface, and the bit of the end of the arc.
    #[inline(always)]
    pub fn enabled(&self, interface: u32) -> u32 {
        self.enabled[interface as usize % INTERFACES].load(Ordering::Relaxed)
    }

    /// The features that are on at each of these interfaces, as [`Self::enabled`]; `None` if they differ.
    #[inline(always)]
    fn enabled_at_all(&self, interfaces: &[u32]) -> Option<u32> {
        let enabled = self.enabled(*interfaces.first()?);
        let are_same = interfaces.chunks(STEP).all(|step| {
            step.iter().fold(0, |odd, interface| odd | (self.enabled(*interface) ^ enabled)) == 0
        });
        are_same.then_some(enabled)
    }

    /// Whether any feature is on at an interface.
    #[inline(always)]
    pub fn has_any(&self, interface: u32) -> bool {
        self.enabled(interface) != 1 << self.features.len()
    }

    /// Whether any feature but that with this node is on at an interface.
    pub fn has_others(&self, interface: u32, node: &str) -> bool {
        let position = self.features.iter().position(|feature| *feature == node);
        let bit = position.map_or(0, |position| 1 << position);
        self.enabled(interface) & !bit != 1 << self.features.len()
    }

    /// Gives the feature with this node its argument at an interface: what it needs to know, or 1. With
    /// 0, it is off there. Only the control thread calls this. Returns whether any feature is on there
    /// now.
    ///
    /// # Panics
    /// If the arc has no such feature: an error of the caller.
    pub fn set(&self, interface: u32, node: &str, argument: u32) -> bool {
        let position = self.features.iter().position(|feature| *feature == node);
        let Some(position) = position else { panic!("{node} is not a feature of this arc") };
        let at = interface as usize % INTERFACES;
        let cell = &self.enabled[at];
        let enabled = cell.load(Ordering::Relaxed);
        let bit = 1 << position;
        let enabled = if argument == 0 { enabled & !bit } else { enabled | bit };
        // Before packets meet the feature.
        self.arguments[position * INTERFACES + at].store(argument, Ordering::Relaxed);
        cell.store(enabled, Ordering::Release);
        self.has_any(interface)
    }

    /// Switches all features off at an interface and sets their arguments to 0: vectors mix interfaces, so a
    /// feature gathers arguments also where it is off. Only the control thread calls this.
    pub fn clear(&self, interface: u32) {
        let at = interface as usize % INTERFACES;
        self.enabled[at].store(1 << self.features.len(), Ordering::Release);
        for position in 0..self.features.len() {
            self.arguments[position * INTERFACES + at].store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;
    use crate::node::Node;
    use crate::{Context, Vector};

    struct Idle;

    impl Node for Idle {
        fn process(&mut self, _: &mut Context<'_>, _: &mut Vector) -> Next {
            Next::All(0)
        }
    }

    const fn feature(
        name: &'static str,
        after: &'static [&'static str],
        before: &'static [&'static str],
    ) -> FeatureSpec<()> {
        let node = NodeSpec { name, description: "", edges: &[], make: |_, _| Box::new(Idle) };
        FeatureSpec { node, after, before }
    }

    const fn arc(features: &'static [FeatureSpec<()>]) -> ArcSpec<()> {
        ArcSpec { name: "arc", description: "", starts: &["start"], features, end: "end" }
    }

    static ARC: ArcSpec<()> =
        arc(&[feature("a", &[], &["c"]), feature("b", &["a"], &[]), feature("c", &[], &[])]);

    #[test]
    fn features_come_in_order_and_only_where_on() {
        let arc = FeatureArc::new(&ARC).unwrap();
        let [start, a, b] =
            [ArcHook::new(5, None), ArcHook::new(2, Some(0)), ArcHook::new(2, Some(1))];
        assert_eq!([start, a].map(|hook| hook.edge(arc.enabled(7))), [8, 5], "the end");
        assert!(arc.set(7, "c", 1) && arc.set(7, "a", 1) && arc.set(7, "a", 1));
        assert_eq!([start, a, b].map(|hook| hook.edge(arc.enabled(7))), [5, 4, 4]);
        assert_eq!(start.edge(arc.enabled(8)), 8);
        assert!(arc.set(7, "a", 0));
        assert!(!arc.set(7, "c", 0));
        assert!(arc.set(7, "b", 1) && arc.has_any(7) && !arc.has_any(8));
        arc.clear(7);
        assert!(!arc.has_any(7));
        assert_eq!(start.edge(arc.enabled(7)), 8);
    }

    #[test]
    fn features_have_arguments_by_interface() {
        let arc = FeatureArc::new(&ARC).unwrap();
        let [a, c] = [0, 2].map(|position| ArcHook::new(1, Some(position)));
        let of = |hook: ArcHook, interface: usize| {
            hook.arguments(&arc)[interface].load(Ordering::Relaxed)
        };
        assert!(arc.set(7, "a", 9) && arc.set(7, "c", 255) && arc.set(8, "c", 3));
        assert_eq!([of(a, 7), of(a, 8), of(c, 7), of(c, 8)], [9, 0, 255, 3]);
        assert!(arc.set(7, "c", 0));
        assert_eq!((of(c, 7), arc.enabled(7)), (0, 0b1001));
        assert!(arc.set(7, "c", 4));
        arc.clear(7);
        assert_eq!([of(a, 7), of(c, 7), of(c, 8)], [0, 0, 3], "of this interface only");
    }

    #[test]
    fn lanes_go_by_their_interfaces() {
        let arc = FeatureArc::new(&ARC).unwrap();
        let hook = ArcHook::new(1, None);
        arc.set(3, "b", 1);
        let (mut interfaces, mut next) = (Column::of(3), Column::of(0));
        assert_eq!(hook.proceed(&arc, &interfaces, 4, &mut next), Next::All(2));
        interfaces[1] = 4;
        assert_eq!(hook.proceed(&arc, &interfaces, 4, &mut next), Next::Lanes);
        assert_eq!(next[..5], [2, 4, 2, 2, 0]);
    }

    #[test]
    fn lanes_of_interfaces_with_the_same_features_stay_together() {
        let arc = FeatureArc::new(&ARC).unwrap();
        let hook = ArcHook::new(1, None);
        (0..40).for_each(|interface| assert!(arc.set(interface, "b", 1)));
        let (mut interfaces, mut next) = (Column::of(0), Column::of(0));
        (0..40).for_each(|lane| interfaces[lane] = lane as u32);
        assert_eq!(hook.proceed(&arc, &interfaces, 40, &mut next), Next::All(2));
        assert_eq!(next[..40], [0; 40], "left as they were");
        assert!(!arc.set(39, "b", 0));
        assert_eq!(hook.proceed(&arc, &interfaces, 39, &mut next), Next::All(2));
        assert_eq!(hook.proceed(&arc, &interfaces, 40, &mut next), Next::Lanes);
        assert_eq!((&next[..39], next[39]), (&[2; 39][..], 4));
    }

    #[test]
    fn a_feature_is_added_where_it_demands() {
        let with = |after, before| {
            let arc = ARC.with(feature("new", after, before));
            (arc.edges().collect::<Vec<_>>().join(" "), arc.disorder())
        };
        assert_eq!(with(&[], &[]), ("a b c new end".to_owned(), None));
        assert_eq!(with(&["a"], &[]), ("a new b c end".to_owned(), None));
        assert_eq!(with(&[], &["b", "c"]), ("a new b c end".to_owned(), None));
        assert_eq!(with(&["a"], &["b"]), ("a new b c end".to_owned(), None));
        assert_eq!(with(&["c"], &["a"]), ("a b c new end".to_owned(), Some(("new", "a"))));
        assert_eq!(with(&["x"], &[]).1, Some(("new", "x")));
        assert_eq!(ARC.edges().count(), 4, "the declared arc stays as it is");
    }

    #[test]
    fn the_order_of_features_is_checked() {
        assert_eq!(ARC.disorder(), None);
        assert_eq!(ARC.edges().collect::<Vec<_>>(), ["a", "b", "c", "end"]);
        static LATE: ArcSpec<()> = arc(&[feature("b", &["a"], &[]), feature("a", &[], &[])]);
        assert_eq!(LATE.disorder(), Some(("b", "a")));
        static EARLY: ArcSpec<()> = arc(&[feature("b", &[], &[]), feature("a", &[], &["b"])]);
        assert_eq!(EARLY.disorder(), Some(("a", "b")));
        static UNKNOWN: ArcSpec<()> = arc(&[feature("b", &["x"], &[])]);
        assert_eq!(UNKNOWN.disorder(), Some(("b", "x")));
    }
}
