//! Names of the YANG modules that earlier versions used. A configuration, a path or a request with an old name is
//! refused; the fix of the error is the new name.

/// A data node: its parent, its old name and its new name, with their modules.
///
/// `None`: it stands at the top or below several nodes.
type Node = (Option<&'static str>, &'static str, &'static str);

const NODES: &[Node] = &[
    (Some("interface"), "stoa-mirror:mirror", "stoa-host-interface:host-interface"),
    (Some("interface"), "stoa-mirror:mirror-state", "stoa-host-interface:host-interface-state"),
    (Some("interface"), "stoa-mirror:linux-orders", "stoa-host-interface:kernel-configuration"),
    (Some("port"), "stoa-interfaces:spread", "stoa-interfaces:software-rss"),
    (None, "stoa-interfaces:is-spread", "stoa-interfaces:software-rss-active"),
    (None, "stoa-routing:door", "stoa-routing:route-source"),
    (Some("door"), "stoa-routing:left-out", "stoa-routing:not-imported"),
    (Some("route-source"), "stoa-routing:left-out", "stoa-routing:not-imported"),
    (Some("route-source"), "stoa-routing:why", "stoa-routing:reason"),
    (None, "stoa-routing:routes-left-out", "stoa-routing:routes-omitted"),
    (Some("route"), "stoa-routing:why", "stoa-routing:reason"),
    (None, "stoa-forwarder:door", "stoa-forwarder:route-source"),
    (None, "stoa-forwarder:why", "stoa-forwarder:reason"),
    (None, "stoa-forwarder:sentence", "stoa-forwarder:description"),
    (None, "stoa-forwarder:mend", "stoa-forwarder:fix"),
    (None, "stoa-forwarder:turns", "stoa-forwarder:loops"),
    (None, "stoa-datastore:anyway", "stoa-datastore:force"),
    (None, "stoa-datastore:remark", "stoa-datastore:warning"),
    (None, "stoa-datastore:door", "stoa-datastore:client"),
];

const IDENTITIES: &[(&str, &str)] = &[
    ("stoa-routing:linux", "stoa-routing:netlink"),
    ("stoa-routing:bgp-session", "stoa-routing:bgp"),
];

/// Enumeration values: the leaf, its old value and its new value.
const VALUES: &[(&str, &str, &str)] = &[
    ("huge-pages", "when-there", "if-available"),
    ("name", "arp-answer", "arp-reply"),
    ("name", "nd-answer", "nd-reply"),
    ("name", "own-resolve", "local-resolve"),
];

/// The fix for a data node of an old name below `parent`.
pub fn node(parent: Option<&str>, name: &str) -> Option<String> {
    let (module, bare) = split(name);
    let parent = parent.map(|parent| split(parent).1);
    let (_, old, new) = NODES.iter().find(|(above, old, _)| {
        let (old_module, old_name) = split(old);
        old_name == bare
            && module.is_none_or(|module| Some(module) == old_module)
            && (above.is_none() || parent.is_none() || parent == *above)
    })?;
    // A name without its module stays without it, unless the module was renamed too.
    match module.is_none() && split(old).0 == split(new).0 {
        true => Some(fix(split(new).1, name)),
        false => Some(fix(new, name)),
    }
}

/// The fix for a node of a module that has a new name: the module has one configuration node.
pub fn module(name: &str) -> Option<String> {
    let (_, old, new) = NODES.iter().find(|(_, old, _)| split(old).0 == Some(name))?;
    (split(old).0 != split(new).0).then(|| fix(new, old))
}

/// The fix for a step of a path that has an old name, or is of a module that has a new one. `parents`: the nodes that
/// the step may be below.
pub fn step<'a>(parents: impl IntoIterator<Item = &'a str>, name: &str) -> Option<String> {
    let renamed = parents.into_iter().find_map(|parent| node(Some(parent), name));
    renamed.or_else(|| module(split(name).0?))
}

/// The fix for an identity of an old name.
pub fn identity(name: &str) -> Option<String> {
    let (module, bare) = split(name);
    let is_it = |old: &str| old == name || (module.is_none() && split(old).1 == bare);
    IDENTITIES.iter().find(|(old, _)| is_it(old)).map(|(_, new)| fix(new, name))
}

/// The fix for an old value of an enumeration.
pub fn value(leaf: &str, value: &str) -> Option<String> {
    let is_it = |(of, old, _): &&(&str, &str, &str)| *of == leaf && *old == value;
    VALUES.iter().find(is_it).map(|(_, _, new)| fix(new, value))
}

fn split(name: &str) -> (Option<&str>, &str) {
    name.split_once(':').map_or((None, name), |(module, bare)| (Some(module), bare))
}

fn fix(new: &str, old: &str) -> String {
    format!("Use \"{new}\" (it was \"{old}\").")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{schema, source};

    #[test]
    fn old_names_have_their_new_ones() {
        let text = |fix: Option<String>| fix.unwrap_or_default();
        let host = "Use \"stoa-host-interface:host-interface\" (it was \"stoa-mirror:mirror\").";
        assert_eq!(text(module("stoa-mirror")), host);
        assert_eq!(text(node(Some("interface"), "stoa-mirror:mirror")), host);
        assert_eq!(text(node(Some("port"), "spread")), "Use \"software-rss\" (it was \"spread\").");
        assert_eq!(
            text(node(Some("control-plane-protocol"), "stoa-routing:door")),
            "Use \"stoa-routing:route-source\" (it was \"stoa-routing:door\")."
        );
        assert_eq!(
            text(identity("stoa-routing:linux")),
            "Use \"stoa-routing:netlink\" (it was \"stoa-routing:linux\")."
        );
        assert_eq!(
            text(value("huge-pages", "when-there")),
            "Use \"if-available\" (it was \"when-there\")."
        );
        for (parent, name) in [("vlan", "spread"), ("port", "stoa-system:spread"), ("port", "mtu")]
        {
            assert_eq!(node(Some(parent), name), None, "{parent}/{name}");
        }
        assert_eq!(identity("ietf-routing:linux"), None);
        assert_eq!(value("name", "when-there"), None);
        assert_eq!(module("stoa-routing"), None);
    }

    #[test]
    fn steps_of_paths_have_their_new_names() {
        let text = |parents: &[&str], name| step(parents.iter().copied(), name).unwrap_or_default();
        let host = "Use \"stoa-host-interface:host-interface\" (it was \"stoa-mirror:mirror\").";
        assert_eq!(text(&["interface"], "stoa-mirror:mirror"), host);
        assert_eq!(text(&[], "stoa-mirror:other"), host);
        let software_rss = "Use \"software-rss\" (it was \"spread\").";
        assert_eq!(text(&["vlan", "port"], "spread"), software_rss);
        assert_eq!(text(&["vlan"], "spread"), "");
        assert_eq!(text(&[], "spread"), "");
        assert_eq!(text(&["port"], "mtu"), "");
    }

    #[test]
    fn the_modules_have_the_new_names_alone() {
        let nodes: Vec<_> = schema().context().traverse().collect();
        let is_there = |name: &str| {
            let (module, bare) = split(name);
            nodes.iter().any(|it| Some(it.module().name()) == module && it.name() == bare)
        };
        // The input and output of RPCs are not traversed.
        let is_written = |name: &str| {
            let (module, bare) = split(name);
            let text = module.and_then(source).unwrap_or_default();
            text.contains(&format!(" {bare} {{"))
        };
        for (_, old, new) in NODES {
            assert!(!is_there(old), "{old}");
            assert!(is_there(new) || is_written(new), "{new}");
        }
        let routing = source("stoa-routing").unwrap();
        for (old, new) in IDENTITIES {
            assert!(!routing.contains(&format!("identity {} {{", split(old).1)), "{old}");
            assert!(routing.contains(&format!("identity {} {{", split(new).1)), "{new}");
        }
        let system = source("stoa-system").unwrap();
        for (_, old, new) in VALUES {
            assert!(!system.contains(&format!("enum {old}")), "{old}");
            assert!(system.contains(&format!("enum {new}")), "{new}");
        }
    }
}
