//! Plugins: capabilities that a program adds to the forwarder without a change of this tree. A plugin adds features
//! to arcs, drop reasons, and a part that its nodes and the control thread share.
//!
//! The contract carries settings and state of a plugin as bytes that only its two halves understand.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use stoa_engine::arc::{ArcSpec, FEATURES, FeatureSpec};
use stoa_engine::drops::ReasonSpec;
use stoa_warm_restart::{Opened, Regions, State};

use crate::arcs::{self, IP4_INPUT, IP4_ORIGIN, IP6_INPUT, IP6_ORIGIN};
use crate::control::desired::Interface;
use crate::shared::Shared;

/// What a plugin adds to the forwarder.
pub struct Plugin {
    /// Its name, which is that of its YANG module.
    pub name: &'static str,
    /// Its features.
    pub features: &'static [Feature],
    /// Its drop reasons; [`crate::drops::named`] finds them.
    pub drops: &'static [ReasonSpec],
    /// Checks the settings of an interface, as the controller sent them. An error says what is wrong.
    pub check: fn(settings: &[u8]) -> Result<(), String>,
    /// Makes its part.
    pub start: fn(start: &mut Start<'_>) -> Result<Arc<dyn Part>, StartFailure>,
}

/// Why something does not start.
pub type StartFailure = Box<dyn std::error::Error + Send + Sync>;

/// What the part of a plugin begins with.
pub struct Start<'a> {
    /// Number of workers.
    pub workers: usize,
    plugin: &'static str,
    regions: &'a mut Regions,
}

impl Start<'_> {
    /// Opens a region of the plugin, with room for `capacity` entries and with those of its last start, in this
    /// process or in an earlier one. The name of the region is that of the plugin, alone or before `-` and more.
    ///
    /// # Errors
    /// The system has not enough memory, or the name is that of another capability.
    pub fn open<S: State>(&mut self, capacity: usize) -> std::io::Result<Opened<S>> {
        if !is_region_of(self.plugin, S::NAME) {
            let (region, plugin) = (S::NAME, self.plugin);
            let cause =
                format!("name the region {region:?} {plugin:?}, or {plugin:?} with `-` and more");
            return Err(std::io::Error::other(cause));
        }
        self.regions.open(capacity)
    }
}

/// Whether a region has the name of the plugin, alone or before `-`. Another plugin's name may begin with this one's.
fn is_region_of(plugin: &str, region: &str) -> bool {
    region.strip_prefix(plugin).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Makes the parts of all plugins.
pub(crate) fn start_all(
    workers: usize,
    regions: &mut Regions,
) -> Result<Vec<Arc<dyn Part>>, StartFailure> {
    let start = |plugin: &Plugin| {
        let failed = |error| format!("plugin {}: {error}", plugin.name).into();
        let mut start = Start { workers, plugin: plugin.name, regions };
        (plugin.start)(&mut start).map_err(failed)
    };
    all().iter().map(start).collect()
}

/// A feature of a plugin.
pub struct Feature {
    /// Its arc: one of those of interfaces.
    pub arc: &'static str,
    /// Its node, and its place in the arc.
    pub spec: FeatureSpec<Arc<Shared>>,
    /// Its argument at an interface with these settings; 0: it is off there. It is off at interfaces without
    /// settings of the plugin.
    pub argument: fn(settings: &[u8]) -> u32,
}

/// What the nodes of a plugin and the control thread share: tables and counters. Nodes get it by
/// [`Shared::part`] when they are made.
pub trait Part: Any + Send + Sync {
    /// The settings of an interface, before packets meet the features that they switch on; `None`: the interface
    /// has none, or is removed next. The control thread calls this at each change of an interface, also when these
    /// settings are as before.
    fn set_interface(&self, interface: u32, settings: Option<&[u8]>);

    /// What the controller learns about an interface with settings.
    fn state(&self, interface: u32) -> Vec<u8>;
}

/// The plugins of this process.
static PLUGINS: OnceLock<Vec<Plugin>> = OnceLock::new();

/// Adds plugins to the forwarder: once, before anything else of this crate is used.
///
/// # Panics
/// If it is too late, or if a plugin is wrong: errors of the program.
pub fn install(plugins: Vec<Plugin>) {
    assert!(PLUGINS.set(plugins).is_ok(), "plugins are installed once, before the graph is used");
}

/// All plugins.
pub fn all() -> &'static [Plugin] {
    PLUGINS.get_or_init(Vec::new)
}

/// The plugin of this name.
pub fn named(name: &str) -> Option<&'static Plugin> {
    all().iter().find(|plugin| plugin.name == name)
}

/// A feature that demands no place precedes the policy rules: packets that a rule routes meet no later
/// feature of the arc, and others behind it are looked up a second time.
fn placed(
    arc: &ArcSpec<Arc<Shared>>,
    feature: FeatureSpec<Arc<Shared>>,
) -> FeatureSpec<Arc<Shared>> {
    let rules: &'static [&'static str] = match arc.name {
        IP4_INPUT => &["ip4-policy"],
        IP6_INPUT => &["ip6-policy"],
        _ => return feature,
    };
    let is_free = feature.after.is_empty() && feature.before.is_empty();
    if is_free { FeatureSpec { before: rules, ..feature } } else { feature }
}

/// Arcs with the features of plugins.
///
/// # Panics
/// If a plugin names an arc that does not exist, or that has no interfaces, or if an arc is full.
pub(crate) fn with_features(
    arcs: &[ArcSpec<Arc<Shared>>],
    plugins: &'static [Plugin],
) -> Vec<ArcSpec<Arc<Shared>>> {
    let mut arcs = arcs.to_vec();
    for plugin in plugins {
        for feature in plugin.features {
            let of_router = [IP4_ORIGIN, IP6_ORIGIN].contains(&feature.arc);
            let arc = arcs.iter_mut().find(|arc| arc.name == feature.arc && !of_router);
            let Some(arc) = arc else {
                panic!("plugin {}: interfaces have no arc {}", plugin.name, feature.arc)
            };
            *arc = arc.with(placed(arc, feature.spec));
            assert!(
                arc.features.len() <= FEATURES,
                "plugin {}: the arc {} is full",
                plugin.name,
                arc.name
            );
        }
    }
    arcs
}

/// The features of plugins, with their arguments at an interface: those of sent packets, or the others.
pub(crate) fn arguments(
    interface: &Interface,
    are_of_sender: bool,
) -> impl Iterator<Item = (&'static str, u32)> {
    let features =
        all().iter().flat_map(|plugin| plugin.features.iter().map(move |it| (plugin, it)));
    let features = features.filter(move |(_, it)| arcs::is_of_sender(it.arc) == are_of_sender);
    features.map(|(plugin, feature)| {
        let settings = interface.plugins.get(plugin.name);
        (feature.spec.node.name, settings.map_or(0, |settings| (feature.argument)(settings)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arcs::PORT_OUTPUT;
    use crate::nodes::node;
    use crate::noop;

    const fn feature(arc: &'static str) -> Feature {
        let node = node("new", "is new", &[], noop::make_ip4);
        Feature {
            arc,
            spec: FeatureSpec { node, after: &["ip4-noop"], before: &[] },
            argument: |_| 1,
        }
    }

    static PLUGINS: [Plugin; 3] = [
        plugin(&[feature(IP4_INPUT)]),
        plugin(&[feature("nowhere")]),
        plugin(&[feature(IP4_ORIGIN)]),
    ];

    const fn plugin(features: &'static [Feature]) -> Plugin {
        let start = |_: &mut Start<'_>| unreachable!("it is not started");
        Plugin { name: "test", features, drops: &[], check: |_| Ok(()), start }
    }

    #[test]
    fn a_plugin_has_the_regions_of_its_whole_name() {
        let of_nat = ["nat", "nat-sessions", "nat64", "nat64-sessions", "na", "my-nat"]
            .map(|region| is_region_of("nat", region));
        assert_eq!(of_nat, [true, true, false, false, false, false]);
    }

    #[test]
    fn features_join_their_arc() {
        let all = with_features(arcs::all(), &PLUGINS[..1]);
        for (arc, declared) in all.iter().zip(arcs::all()) {
            let added = usize::from(arc.name == IP4_INPUT);
            assert_eq!(arc.features.len(), declared.features.len() + added, "{}", arc.name);
        }
        let arc = all.iter().find(|arc| arc.name == IP4_INPUT).unwrap();
        assert_eq!(arc.position("new"), arc.position("ip4-noop").map(|at| at + 1));
        assert!(arcs::is_of_sender(PORT_OUTPUT) && !arcs::is_of_sender(IP4_INPUT));
    }

    #[test]
    #[should_panic(expected = "plugin test: interfaces have no arc nowhere")]
    fn an_unknown_arc_is_an_error() {
        with_features(arcs::all(), &PLUGINS[1..2]);
    }

    #[test]
    #[should_panic(expected = "interfaces have no arc ip4-origin")]
    fn an_arc_of_the_router_is_an_error() {
        with_features(arcs::all(), &PLUGINS[2..]);
    }
}
