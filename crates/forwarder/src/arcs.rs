//! The feature arcs: where each starts, its features in order, where it ends. To add a feature, add
//! one line here; the graph adds the edges and checks the order.

use std::sync::{Arc, LazyLock};

use stoa_engine::Node;
use stoa_engine::arc::{ArcHook, ArcSpec, FeatureArc, FeatureSpec};
use stoa_engine::counters::OutOfMemory;

use crate::acl;
use crate::attributes::Attributes;
use crate::attributes::interface_flags::{FEATURES, FEATURES_ETHERNET, FEATURES4, FEATURES6};
use crate::ethernet::cross_connect;
use crate::ip::{flow_hash, minimum_ttl, policy, redirect, reverse_path};
use crate::nodes::{self, node};
use crate::noop;
use crate::output::interface_output;
use crate::plugin;
use crate::shared::Shared;

/// The arc of received frames.
pub const ETHERNET_INPUT: &str = "ethernet-input";
/// The arc of received IPv4 packets.
pub const IP4_INPUT: &str = "ip4-input";
/// The arc of received IPv6 packets.
pub const IP6_INPUT: &str = "ip6-input";
/// The arc of packets for local addresses.
pub const IP_LOCAL: &str = "ip-local";
/// The arc of IPv4 packets that the router itself sends.
pub const IP4_ORIGIN: &str = "ip4-origin";
/// The arc of IPv6 packets that the router itself sends.
pub const IP6_ORIGIN: &str = "ip6-origin";
/// The arc of IPv4 packets whose sending interface is known.
pub const IP4_OUTPUT: &str = "ip4-output";
/// The arc of IPv6 packets whose sending interface is known.
pub const IP6_OUTPUT: &str = "ip6-output";
/// The arc of frames that a port is about to send.
pub const PORT_OUTPUT: &str = "port-output";

/// The place of the features of the whole router, in arcs that do not depend on an interface:
/// [`IP4_ORIGIN`] and [`IP6_ORIGIN`].
pub const ROUTER: u32 = 0;

type Feature = FeatureSpec<Arc<Shared>>;
type Make = fn(&Arc<Shared>, usize) -> Box<dyn Node>;

/// A feature that drops packets, counts or measures: it sends none to nodes beside the arc. It precedes
/// the features `before`.
const fn passive(
    (name, description): (&'static str, &'static str),
    make: Make,
    before: &'static [&'static str],
) -> Feature {
    Feature { node: node(name, description, &[], make), after: &[], before }
}

/// A feature that applies access lists, and answers what they reject.
const fn access_lists(
    (name, description): (&'static str, &'static str),
    (edges, make): (&'static [&'static str], Make),
    (after, before): (&'static [&'static str], &'static [&'static str]),
) -> Feature {
    Feature { node: node(name, description, edges, make), after, before }
}

/// A feature that measures what an arc costs.
const fn does_nothing(name: &'static str, make: Make) -> Feature {
    passive((name, "does nothing: measures the cost of a feature"), make, &[])
}

/// All arcs, with the features of this tree.
const ARCS: &[ArcSpec<Arc<Shared>>] = &[
    ArcSpec {
        name: ETHERNET_INPUT,
        description: "received frames once their interface is known, from the Ethernet header on",
        starts: &["ethernet-input"],
        features: &[
            passive(
                ("ethernet-noop", "does nothing: measures the cost of a feature"),
                noop::make_ethernet,
                &["cross-connect"],
            ),
            Feature {
                node: node(
                    "cross-connect",
                    "sends frames unchanged to the cross-connected interface",
                    cross_connect::EDGES,
                    cross_connect::make,
                ),
                after: &[],
                before: &[],
            },
        ],
        end: "ethernet-dispatch",
    },
    ArcSpec {
        name: IP4_INPUT,
        description: "received IPv4 packets, before the lookup",
        starts: &["ip4-input"],
        features: &[
            passive(
                (
                    "ip4-minimum-ttl",
                    "drops IPv4 packets whose TTL is below the minimum of their interface",
                ),
                minimum_ttl::make4,
                &["ip4-reverse-path"],
            ),
            passive(
                ("ip4-reverse-path", "drops IPv4 packets that fail the reverse path check (uRPF)"),
                reverse_path::make4,
                &["ip4-policy"],
            ),
            // Behind the reverse path check, so that forged senders cause no answers.
            access_lists(
                ("ip4-acl-input", "applies access lists to received IPv4 packets"),
                (acl::EDGES4, acl::make_input4),
                (&["ip4-reverse-path"], &["ip4-policy"]),
            ),
            does_nothing("ip4-noop", noop::make_ip4),
            passive(
                ("ip4-flow-hash", "asks for the flow of each packet: measures the cost"),
                flow_hash::make4,
                &[],
            ),
            Feature {
                node: node(
                    "ip4-policy",
                    "applies policy routing rules to IPv4 packets",
                    policy::EDGES4,
                    policy::make4,
                ),
                after: &["ip4-flow-hash"],
                before: &[],
            },
        ],
        end: "ip4-lookup",
    },
    ArcSpec {
        name: IP6_INPUT,
        description: "received IPv6 packets, before the lookup",
        starts: &["ip6-input"],
        features: &[
            passive(
                (
                    "ip6-minimum-ttl",
                    "drops IPv6 packets whose hop limit is below the minimum of their interface",
                ),
                minimum_ttl::make6,
                &["ip6-reverse-path"],
            ),
            passive(
                ("ip6-reverse-path", "drops IPv6 packets that fail the reverse path check (uRPF)"),
                reverse_path::make6,
                &["ip6-policy"],
            ),
            // Behind the reverse path check, so that forged senders cause no answers.
            access_lists(
                ("ip6-acl-input", "applies access lists to received IPv6 packets"),
                (acl::EDGES6, acl::make_input6),
                (&["ip6-reverse-path"], &["ip6-policy"]),
            ),
            does_nothing("ip6-noop", noop::make_ip6),
            passive(
                ("ip6-flow-hash", "asks for the flow of each packet: measures the cost"),
                flow_hash::make6,
                &[],
            ),
            Feature {
                node: node(
                    "ip6-policy",
                    "applies policy routing rules to IPv6 packets",
                    policy::EDGES6,
                    policy::make6,
                ),
                after: &["ip6-flow-hash"],
                before: &[],
            },
        ],
        end: "ip6-lookup",
    },
    ArcSpec {
        name: IP_LOCAL,
        description: "validated packets for local addresses, reassembled unless they are for Linux",
        starts: &["ip4-local", "ip6-local"],
        features: &[does_nothing("ip-local-noop", noop::make_local)],
        end: "ip-demux",
    },
    ArcSpec {
        name: IP4_ORIGIN,
        description: "IPv4 packets that the router itself sends, before the lookup; of the whole router",
        starts: &["ip4-origin"],
        features: &[does_nothing("ip4-origin-noop", noop::make_origin4)],
        end: "ip4-lookup",
    },
    ArcSpec {
        name: IP6_ORIGIN,
        description: "IPv6 packets that the router itself sends, before the lookup; of the whole router",
        starts: &["ip6-origin"],
        features: &[does_nothing("ip6-origin-noop", noop::make_origin6)],
        end: "ip6-lookup",
    },
    ArcSpec {
        name: IP4_OUTPUT,
        description: "IPv4 packets whose sending interface is known, before TTL and link-layer header",
        starts: &["ip4-rewrite"],
        features: &[
            // Before redirects, which would advise the sender about a packet that does not pass.
            access_lists(
                ("ip4-acl-output", "applies access lists to IPv4 packets that are forwarded"),
                (acl::EDGES4, acl::make_output4),
                (&[], &["ip4-redirect"]),
            ),
            passive(
                (
                    "ip4-redirect",
                    "detects IPv4 packets that leave by their receiving interface, for ICMP redirects",
                ),
                redirect::make4,
                &[],
            ),
            does_nothing("ip4-output-noop", noop::make_output4),
        ],
        end: "ip4-output-rewrite",
    },
    ArcSpec {
        name: IP6_OUTPUT,
        description: "IPv6 packets whose sending interface is known, before hop limit and link-layer header",
        starts: &["ip6-rewrite"],
        features: &[
            // Before redirects, which would advise the sender about a packet that does not pass.
            access_lists(
                ("ip6-acl-output", "applies access lists to IPv6 packets that are forwarded"),
                (acl::EDGES6, acl::make_output6),
                (&[], &["ip6-redirect"]),
            ),
            passive(
                (
                    "ip6-redirect",
                    "detects IPv6 packets that leave by their receiving interface, for ICMPv6 redirects",
                ),
                redirect::make6,
                &[],
            ),
            does_nothing("ip6-output-noop", noop::make_output6),
        ],
        end: "ip6-output-rewrite",
    },
    ArcSpec {
        name: PORT_OUTPUT,
        description: "frames that are about to be sent",
        starts: &[interface_output::NAME],
        features: &[does_nothing("port-output-noop", noop::make_port)],
        end: "port-output",
    },
];

/// All arcs, with the features of plugins.
pub fn all() -> &'static [ArcSpec<Arc<Shared>>] {
    static ALL: LazyLock<Vec<ArcSpec<Arc<Shared>>>> =
        LazyLock::new(|| plugin::with_features(ARCS, plugin::all()));
    &ALL
}

/// Whether the features of this arc are those of the sending interface.
pub fn is_of_sender(arc: &str) -> bool {
    [IP4_OUTPUT, IP6_OUTPUT, PORT_OUTPUT].contains(&arc)
}

/// Whether packets before this node are in an arc whose interface is the sending one.
pub fn is_output(node: &str) -> bool {
    let is_in = |arc: &ArcSpec<_>| arc.edges().any(|edge| edge == node);
    let mut arcs = all().iter().filter(|arc| is_of_sender(arc.name));
    node == interface_output::NAME || arcs.any(is_in)
}

/// How a node continues in an arc.
///
/// # Panics
/// If the node does not belong to the arc: an error in the list of arcs, found at start.
pub fn hook(arc: &str, node: &str) -> ArcHook {
    let hook = nodes::graph().hook(arc, node);
    hook.unwrap_or_else(|| panic!("{node} is not a node of the arc {arc}"))
}

/// Which features are on at which interface.
pub struct Arcs {
    /// [`ETHERNET_INPUT`].
    pub ethernet_input: FeatureArc,
    /// [`IP4_INPUT`].
    pub ip4_input: FeatureArc,
    /// [`IP6_INPUT`].
    pub ip6_input: FeatureArc,
    /// [`IP_LOCAL`].
    pub ip_local: FeatureArc,
    /// [`IP4_ORIGIN`], at [`ROUTER`].
    pub ip4_origin: FeatureArc,
    /// [`IP6_ORIGIN`], at [`ROUTER`].
    pub ip6_origin: FeatureArc,
    /// [`IP4_OUTPUT`], by sending interface.
    pub ip4_output: FeatureArc,
    /// [`IP6_OUTPUT`], by sending interface.
    pub ip6_output: FeatureArc,
    /// [`PORT_OUTPUT`], by sending interface.
    pub port_output: FeatureArc,
}

/// What an arc depends on.
enum Scope {
    /// The interface; the flag of its attributes that tells whether it has features, or 0.
    Interface(u32),
    /// Nothing: its features are of the whole router.
    Router,
}

impl Arcs {
    /// All features off.
    ///
    /// # Panics
    /// If an arc is not declared.
    pub fn new() -> Result<Self, OutOfMemory> {
        let arc = |name| {
            let spec = all().iter().find(|arc| arc.name == name);
            FeatureArc::new(spec.unwrap_or_else(|| panic!("the arc {name} is not declared")))
        };
        Ok(Self {
            ethernet_input: arc(ETHERNET_INPUT)?,
            ip4_input: arc(IP4_INPUT)?,
            ip6_input: arc(IP6_INPUT)?,
            ip_local: arc(IP_LOCAL)?,
            ip4_origin: arc(IP4_ORIGIN)?,
            ip6_origin: arc(IP6_ORIGIN)?,
            ip4_output: arc(IP4_OUTPUT)?,
            ip6_output: arc(IP6_OUTPUT)?,
            port_output: arc(PORT_OUTPUT)?,
        })
    }

    /// All arcs. Those of sending interfaces have no flag: the adjacencies of an interface tell whether
    /// it has output features, see [`Self::has_output4`].
    fn all(&self) -> [(&FeatureArc, Scope); 9] {
        [
            (&self.ethernet_input, Scope::Interface(FEATURES_ETHERNET)),
            (&self.ip4_input, Scope::Interface(FEATURES4)),
            (&self.ip6_input, Scope::Interface(FEATURES6)),
            (&self.ip_local, Scope::Interface(0)),
            (&self.ip4_origin, Scope::Router),
            (&self.ip6_origin, Scope::Router),
            (&self.ip4_output, Scope::Interface(0)),
            (&self.ip6_output, Scope::Interface(0)),
            (&self.port_output, Scope::Interface(0)),
        ]
    }

    /// Whether IPv4 packets meet features on their way out of an interface.
    pub fn has_output4(&self, interface: u32) -> bool {
        self.ip4_output.has_any(interface) || self.port_output.has_any(interface)
    }

    /// Whether IPv6 packets meet features on their way out of an interface.
    pub fn has_output6(&self, interface: u32) -> bool {
        self.ip6_output.has_any(interface) || self.port_output.has_any(interface)
    }

    /// Gives the feature with this node its argument, at an interface unless it is one of the whole
    /// router; 0 switches it off. Only the control thread calls this. When [`Self::has_output4`] or
    /// [`Self::has_output6`] changes, it rewrites the adjacencies of the interface.
    pub fn set(&self, attributes: &Attributes, interface: u32, node: &str, argument: u32) {
        for (arc, scope) in self.all() {
            if !arc.features().contains(&node) {
                continue;
            }
            match scope {
                Scope::Interface(flag) => {
                    let any = arc.set(interface, node, argument);
                    attributes.set_flag(interface, flag, any);
                }
                Scope::Router => {
                    arc.set(ROUTER, node, argument);
                }
            }
        }
    }

    /// Switches all features off at an interface; only the control thread calls this.
    pub fn clear(&self, attributes: &Attributes, interface: u32) {
        for (arc, scope) in self.all() {
            if let Scope::Interface(_) = scope {
                arc.clear(interface);
            }
        }
        attributes.set_flag(interface, FEATURES, false);
    }
}

#[cfg(test)]
mod tests;
