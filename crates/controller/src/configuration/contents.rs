//! What a part of a configuration has, read from its data: interfaces, VRFs, and static routes with their instances.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use ipnet::IpNet;
use yang5::data::{DataNodeRef, DataTree};

use crate::config::routes::Key;

/// What a part has.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// The names of its interfaces.
    pub interfaces: HashSet<String>,
    /// The names of its VRFs.
    pub vrfs: BTreeSet<String>,
    /// The VRFs of the routing protocol instances, by type and name.
    pub instances: BTreeMap<(String, String), String>,
    /// The static routes without a preference.
    pub statics: BTreeSet<Key>,
    /// The floating static routes.
    pub floating: BTreeSet<(Key, u8)>,
}

fn named<'a>(node: &DataNodeRef<'a>, name: &'static str) -> impl Iterator<Item = DataNodeRef<'a>> {
    node.children().filter(move |child| child.schema().name() == name)
}

fn leaf(node: &DataNodeRef<'_>, name: &'static str) -> Option<String> {
    named(node, name).next()?.value_canonical()
}

impl Contents {
    pub fn of(tree: &DataTree<'static>) -> Contents {
        let mut contents = Contents::default();
        let tops = tree.reference().into_iter().flat_map(|first| first.inclusive_siblings());
        for top in tops {
            match top.schema().name() {
                "interfaces" => {
                    let entries = named(&top, "interface");
                    contents.interfaces.extend(entries.filter_map(|it| leaf(&it, "name")));
                }
                "vrfs" => {
                    contents.vrfs.extend(named(&top, "vrf").filter_map(|it| leaf(&it, "name")))
                }
                "routing" => {
                    let all = named(&top, "control-plane-protocols");
                    all.flat_map(|it| it.children()).for_each(|it| contents.add_instance(&it));
                }
                _ => {}
            }
        }
        contents
    }

    fn add_instance(&mut self, instance: &DataNodeRef<'_>) {
        let (Some(kind), Some(name)) = (leaf(instance, "type"), leaf(instance, "name")) else {
            return;
        };
        let vrf = leaf(instance, "vrf").unwrap_or_default();
        for family in named(instance, "static-routes").flat_map(|it| it.children()) {
            for route in named(&family, "route") {
                let prefix = leaf(&route, "destination-prefix");
                let Some(prefix) = prefix.and_then(|it| it.parse::<IpNet>().ok()) else { continue };
                let key = (vrf.as_str().into(), prefix.trunc());
                match leaf(&route, "preference").and_then(|it| it.parse().ok()) {
                    Some(preference) => drop(self.floating.insert((key, preference))),
                    None => drop(self.statics.insert(key)),
                }
            }
        }
        self.instances.insert((kind, name), vrf);
    }
}
