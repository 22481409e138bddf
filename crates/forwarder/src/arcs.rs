//! The feature arcs: where each starts, its features in order, where it ends. To add a feature, add
//! one line here; the graph adds the edges and checks the order.

use std::sync::Arc;

use stoa_engine::arc::{ArcHook, ArcSpec, FeatureArc, FeatureSpec};

use crate::attributes::Attributes;
use crate::attributes::interface_flags::{FEATURES4, FEATURES6};
use crate::ip::{noop, policy, redirect, reverse_path};
use crate::nodes::{self, node};
use crate::shared::Shared;

/// The arc of received IPv4 packets.
pub const IP4_INPUT: &str = "ip4-input";
/// The arc of received IPv6 packets.
pub const IP6_INPUT: &str = "ip6-input";

type Feature = FeatureSpec<Arc<Shared>>;

/// All arcs.
pub const ARCS: &[ArcSpec<Arc<Shared>>] = &[
    ArcSpec {
        name: IP4_INPUT,
        description: "received IPv4 packets, before the lookup",
        start: "ip4-input",
        features: &[
            Feature {
                node: node(
                    "ip4-reverse-path",
                    "drops IPv4 packets that fail the reverse path check (uRPF)",
                    &[],
                    reverse_path::make4,
                ),
                after: &[],
                before: &["ip4-policy"],
            },
            Feature {
                node: node(
                    "ip4-noop",
                    "does nothing: measures the cost of a feature",
                    &[],
                    noop::make4,
                ),
                after: &[],
                before: &[],
            },
            Feature {
                node: node(
                    "ip4-policy",
                    "applies policy routing rules to IPv4 packets",
                    policy::EDGES4,
                    policy::make4,
                ),
                after: &[],
                before: &["ip4-redirect"],
            },
            Feature {
                node: node(
                    "ip4-redirect",
                    "detects IPv4 packets that leave by their receiving interface, for ICMP redirects",
                    &[],
                    redirect::make4,
                ),
                after: &[],
                before: &[],
            },
        ],
        end: "ip4-lookup",
    },
    ArcSpec {
        name: IP6_INPUT,
        description: "received IPv6 packets, before the lookup",
        start: "ip6-input",
        features: &[
            Feature {
                node: node(
                    "ip6-reverse-path",
                    "drops IPv6 packets that fail the reverse path check (uRPF)",
                    &[],
                    reverse_path::make6,
                ),
                after: &[],
                before: &["ip6-policy"],
            },
            Feature {
                node: node(
                    "ip6-noop",
                    "does nothing: measures the cost of a feature",
                    &[],
                    noop::make6,
                ),
                after: &[],
                before: &[],
            },
            Feature {
                node: node(
                    "ip6-policy",
                    "applies policy routing rules to IPv6 packets",
                    policy::EDGES6,
                    policy::make6,
                ),
                after: &[],
                before: &["ip6-redirect"],
            },
            Feature {
                node: node(
                    "ip6-redirect",
                    "detects IPv6 packets that leave by their receiving interface, for ICMPv6 redirects",
                    &[],
                    redirect::make6,
                ),
                after: &[],
                before: &[],
            },
        ],
        end: "ip6-lookup",
    },
];

/// How a node continues in an arc.
///
/// # Panics
/// If the node does not belong to the arc: an error in [`ARCS`], found at start.
pub fn hook(arc: &str, node: &str) -> ArcHook {
    let hook = nodes::graph().hook(arc, node);
    hook.unwrap_or_else(|| panic!("{node} is not a node of the arc {arc}"))
}

/// Which features are on at which interface.
pub struct Arcs {
    /// [`IP4_INPUT`].
    pub ip4_input: FeatureArc,
    /// [`IP6_INPUT`].
    pub ip6_input: FeatureArc,
}

impl Arcs {
    /// All features off.
    pub fn new() -> Self {
        let [ip4_input, ip6_input] = ARCS else { unreachable!("two arcs are declared") };
        Self { ip4_input: FeatureArc::new(ip4_input), ip6_input: FeatureArc::new(ip6_input) }
    }

    /// Switches the feature with this node at an interface; only the control thread calls this.
    pub fn set(&self, attributes: &Attributes, interface: u32, node: &str, on: bool) {
        for (arc, flag) in [(&self.ip4_input, FEATURES4), (&self.ip6_input, FEATURES6)] {
            if arc.features().contains(&node) {
                let any = arc.set(interface, node, on);
                attributes.set_flag(interface, flag, any);
            }
        }
    }

    /// Switches all features off at an interface; only the control thread calls this.
    pub fn clear(&self, attributes: &Attributes, interface: u32) {
        self.ip4_input.clear(interface);
        self.ip6_input.clear(interface);
        attributes.set_flag(interface, FEATURES4 | FEATURES6, false);
    }
}

impl Default for Arcs {
    fn default() -> Self {
        Self::new()
    }
}
