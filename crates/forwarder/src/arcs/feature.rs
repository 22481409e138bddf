//! Features of arcs that are alike but for their names.

use std::sync::Arc;

use stoa_engine::Node;
use stoa_engine::arc::FeatureSpec;

use crate::ip::ip6_translated_fragment;
use crate::nodes::node;
use crate::shared::Shared;

pub(super) type Feature = FeatureSpec<Arc<Shared>>;
pub(super) type Make = fn(&Arc<Shared>, usize) -> Box<dyn Node>;

/// A feature that drops packets, counts or measures: it sends none to nodes beside the arc. It precedes
/// the features `before`.
pub(super) const fn passive(
    (name, description): (&'static str, &'static str),
    make: Make,
    before: &'static [&'static str],
) -> Feature {
    Feature { node: node(name, description, &[], make), after: &[], before }
}

/// A feature that translates packets, and sends some to nodes beside the arc.
pub(super) const fn translation(
    (name, description): (&'static str, &'static str),
    (edges, make): (&'static [&'static str], Make),
    (after, before): (&'static [&'static str], &'static [&'static str]),
) -> Feature {
    Feature { node: node(name, description, edges, make), after, before }
}

/// A feature that applies access lists, and answers what they reject.
pub(super) const fn access_lists(
    (name, description): (&'static str, &'static str),
    (edges, make): (&'static [&'static str], Make),
    (after, before): (&'static [&'static str], &'static [&'static str]),
) -> Feature {
    Feature { node: node(name, description, edges, make), after, before }
}

/// A feature that measures what an arc costs.
pub(super) const fn does_nothing(name: &'static str, make: Make) -> Feature {
    passive((name, "does nothing: measures the cost of a feature"), make, &[])
}

/// The feature behind all others, which have decided about whole packets.
pub(super) const fn translated_fragment() -> Feature {
    let what = "cuts long IPv6 packets that were IPv4 packets, once output features have met them";
    passive((ip6_translated_fragment::NODE, what), ip6_translated_fragment::make, &[])
}
