//! The feature arcs: where each starts, its features in order, where it ends. To add a feature, add
//! one line in `list`; the graph adds the edges and checks the order.

mod feature;
mod list;

use std::sync::{Arc, LazyLock};

use stoa_engine::arc::{ArcHook, ArcSpec, FeatureArc};
use stoa_engine::counters::OutOfMemory;

use crate::attributes::Attributes;
use crate::attributes::interface_flags::{FEATURES, FEATURES_ETHERNET, FEATURES4, FEATURES6};
use crate::ip::ip6_translated_fragment;
use crate::nodes;
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

/// All arcs, with the features of plugins.
pub fn all() -> &'static [ArcSpec<Arc<Shared>>] {
    static ALL: LazyLock<Vec<ArcSpec<Arc<Shared>>>> =
        LazyLock::new(|| plugin::with_features(list::ARCS, plugin::all()));
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

    /// Whether IPv6 packets with the flag `CUT` are cut on their way out of an interface.
    pub fn cuts_translated(&self, interface: u32) -> bool {
        let arc = &self.ip6_output;
        let position = arc.features().iter().position(|it| *it == ip6_translated_fragment::NODE);
        position.is_some_and(|position| arc.enabled(interface) & 1 << position != 0)
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
