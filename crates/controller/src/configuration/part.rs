//! A configuration from an earlier one and a changed part of it: translates the part, and shares the rest.
//!
//! The part has all but the bulk, and the entries of the bulk that changed. Where that does not suffice to know that the
//! whole is valid and what it is, there is no answer, and the whole is validated.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use stoa_api::v1;
use stoa_yang::error::ValidationErrors;
use yang5::data::DataNodeRef;

use super::{Configuration, ConfigurationText, Given};
use crate::config::addresses::Addressing;
use crate::config::routes::{Key, StaticNextHop, StaticRoute, StaticRoutes};
use crate::config::{self, Translated};
use crate::prefix::prefix_from_proto;
use crate::rib;

/// Which lists of a configuration are so long that parts have only some of their entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bulk {
    /// The interfaces.
    pub interfaces: bool,
    /// The static routes.
    pub routes: bool,
}

/// A changed part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChangedPart<'a> {
    /// The part of the earlier configuration.
    pub before: &'a Given,
    /// That of the new one.
    pub after: &'a Given,
    /// The paths of all changes.
    pub paths: &'a [&'a str],
}

/// Leafs of an interface that nothing else depends on, neither in the YANG modules nor in `config`.
const OWN_LEAFS: [&str; 2] = ["description", "enabled"];

impl Configuration {
    /// This configuration with a changed part. `None`: the whole has to be validated.
    pub(crate) fn with_part(
        &self,
        path: &Path,
        bulk: Bulk,
        part: ChangedPart<'_>,
    ) -> Option<Configuration> {
        let changed = match bulk.interfaces {
            true => self.with_leafs(part)?,
            false => self.with_core(part)?,
        };
        Some(Configuration { path: path.to_owned(), text: ConfigurationText::default(), ..changed })
    }

    /// With other leafs of interfaces.
    fn with_leafs(&self, part: ChangedPart<'_>) -> Option<Configuration> {
        if !part.paths.iter().all(|path| is_own_leaf(path)) {
            return None;
        }
        let mut changed = self.clone();
        let top = part.after.reference()?.inclusive_siblings();
        let all = top.filter(|node| node.schema().name() == "interfaces");
        for entry in all.flat_map(|node| node.children()) {
            let leaf = |name: &str| {
                let found = entry.children().find(|leaf| leaf.schema().name() == name);
                found.and_then(|leaf: DataNodeRef<'_>| leaf.value_canonical())
            };
            let name = leaf("name")?;
            let interfaces = &mut changed.desired.interfaces;
            let interface = interfaces.iter_mut().find(|interface| interface.name == name)?;
            interface.description = leaf("description").unwrap_or_default();
            interface.enabled = leaf("enabled").is_none_or(|value| value == "true");
        }
        Some(changed)
    }

    /// With another core, and maybe other static routes.
    fn with_core(&self, part: ChangedPart<'_>) -> Option<Configuration> {
        if part.paths.iter().any(|path| concerns_all_routes(path)) {
            return None;
        }
        let new = translated(part.after)?;
        // Static routes refer to interfaces by name, and to addresses.
        let interfaces = &new.desired.interfaces;
        let names: HashSet<&str> = interfaces.iter().map(|it| it.name.as_str()).collect();
        let are_there = self.desired.interfaces.iter().all(|it| names.contains(it.name.as_str()));
        if !are_there || new.addressing != *self.addressing {
            return None;
        }
        let routes = match part.paths.iter().any(|path| is_of_route(path)) {
            true => Arc::new(self.changed_routes(&translated(part.before)?, &new)?),
            false => Arc::clone(&self.routes),
        };
        Some(Configuration {
            path: self.path.clone(),
            text: ConfigurationText::default(),
            desired: new.desired,
            routes,
            addressing: Arc::clone(&self.addressing),
            annotations: Arc::clone(&self.annotations),
            floating: Arc::clone(&self.floating),
            route_sources: new.route_sources.into(),
            kernel_tables: new.kernel_tables.into(),
            management: Arc::new(new.management),
        })
    }

    /// The routes with other static routes. `None`: others may depend on them.
    fn changed_routes(&self, old: &Translated, new: &Translated) -> Option<Vec<v1::Route>> {
        // A recursive next hop may be resolved by any route.
        let is_plain = |route: &StaticRoute| match route {
            StaticRoute::Special(_) => true,
            StaticRoute::NextHops(hops) => {
                hops.iter().all(|hop| matches!(hop, StaticNextHop::OnLink(_)))
            }
        };
        let are_plain = old.statics.values().chain(new.statics.values()).all(is_plain);
        let has_others =
            !self.annotations.is_empty() || !old.floating.is_empty() || !new.floating.is_empty();
        if !are_plain || has_others {
            return None;
        }
        let mut routes = self.routes.to_vec();
        for key in old.statics.keys() {
            routes.remove(find(&routes, key).ok()?);
        }
        let own: StaticRoutes = new.statics.clone();
        for route in rib::routes(&Addressing::default(), &own).routes {
            let key = (route.vrf.as_str().into(), prefix_from_proto(route.prefix.as_ref()?)?);
            match find(&routes, &key) {
                // Another instance has it.
                Ok(_) => return None,
                Err(at) => routes.insert(at, route),
            }
        }
        Some(routes)
    }
}

/// The place of a route, by VRF, family and prefix.
fn find(routes: &[v1::Route], key: &Key) -> Result<usize, usize> {
    routes.binary_search_by(|route| {
        let prefix = route.prefix.as_ref().and_then(prefix_from_proto);
        (route.vrf.as_str(), prefix).cmp(&(&*key.0, Some(key.1)))
    })
}

fn translated(part: &Given) -> Option<Translated> {
    let mut errors = ValidationErrors::default();
    let valid = stoa_yang::schema().validate(part).ok()?;
    let translated = config::translate(&valid, &mut errors).ok()?;
    errors.is_empty().then_some(translated)
}

fn is_own_leaf(path: &str) -> bool {
    let leaf = path
        .rsplit_once("]/")
        .filter(|_| path.starts_with("/ietf-interfaces:interfaces/interface[name="));
    leaf.is_some_and(|(entry, leaf)| {
        // One predicate: the leaf is that of the interface itself.
        OWN_LEAFS.contains(&leaf) && entry.matches("][").count() == 0 && !entry.contains("]/")
    })
}

fn is_of_route(path: &str) -> bool {
    path.contains("/static-routes/") && path.contains("/route[")
}

/// Whether a change may concern a protocol instance with all its routes.
fn concerns_all_routes(path: &str) -> bool {
    path.contains("/control-plane-protocol[") && !is_of_route(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leafs_of_interfaces_are_their_own() {
        let interface = "/ietf-interfaces:interfaces/interface[name='a']";
        assert!(is_own_leaf(&format!("{interface}/description")));
        assert!(is_own_leaf(&format!("{interface}/enabled")));
        for path in [
            "/ietf-interfaces:interfaces/interface[name=']/description']",
            &format!("{interface}/ietf-ip:ipv4/enabled"),
            &format!("{interface}/ietf-ip:ipv4/neighbor[ip='10.0.0.1']/enabled"),
            "/stoa-vrf:vrfs/vrf[name='a']/description",
            interface,
        ] {
            assert!(!is_own_leaf(path), "{path}");
        }
    }
}
