//! A configuration from an earlier one and a changed part of it: translates the part, and shares the rest.
//!
//! The part has all but the bulk, and the entries of the bulk that changed. Where that does not suffice to know that
//! the whole is valid and what it is, there is no answer, and the whole is validated.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Weak};

use stoa_yang::error::ValidationErrors;
use yang5::data::DataNodeRef;

use super::{Configuration, ConfigurationText, Given};
use crate::capability::list;
use crate::config::Translated;

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
    /// The part as it is new.
    pub after: &'a Given,
    /// The paths of all changes.
    pub paths: &'a [&'a str],
}

/// The configuration that another one was made of, and the interfaces in which the two differ. Saves a comparison of
/// all interfaces; it is no part of what a configuration is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origin(Option<(Weak<Configuration>, Vec<usize>)>);

impl PartialEq for Origin {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Origin {
    /// The indexes of the interfaces that differ from those of `held`; `None`: unknown.
    pub(crate) fn changed_interfaces(&self, held: &Arc<Configuration>) -> Option<&[usize]> {
        let (origin, changed) = self.0.as_ref()?;
        std::ptr::eq(origin.as_ptr(), Arc::as_ptr(held)).then_some(changed.as_slice())
    }
}

/// Leafs of an interface that nothing else depends on, neither in the YANG modules nor in `config`.
const OWN_LEAFS: [&str; 2] = ["description", "enabled"];

impl Configuration {
    /// This configuration with a changed part. `None`: the whole has to be validated.
    pub(crate) fn with_part(
        self: &Arc<Self>,
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
    fn with_leafs(self: &Arc<Self>, part: ChangedPart<'_>) -> Option<Configuration> {
        if !part.paths.iter().all(|path| is_own_leaf(path)) {
            return None;
        }
        let (mut changed, mut indexes) = (Configuration::clone(self), Vec::new());
        let top = part.after.reference()?.inclusive_siblings();
        let all = top.filter(|node| node.schema().name() == "interfaces");
        for entry in all.flat_map(|node| node.children()) {
            let leaf = |name: &str| {
                let found = entry.children().find(|leaf| leaf.schema().name() == name);
                found.and_then(|leaf: DataNodeRef<'_>| leaf.value_canonical())
            };
            let name = leaf("name")?;
            let interfaces = &mut changed.desired.interfaces;
            let index = interfaces.iter().position(|interface| interface.name == name)?;
            indexes.push(index);
            let interface = &mut interfaces[index];
            interface.description = leaf("description").unwrap_or_default();
            interface.enabled = leaf("enabled").is_none_or(|value| value == "true");
        }
        changed.origin = Origin(Some((Arc::downgrade(self), indexes)));
        Some(changed)
    }

    /// With another core, and the same static routes.
    fn with_core(&self, part: ChangedPart<'_>) -> Option<Configuration> {
        if part.paths.iter().any(|path| concerns_routes(path)) {
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
        Some(Configuration {
            path: self.path.clone(),
            text: ConfigurationText::default(),
            desired: new.desired,
            routes: Arc::clone(&self.routes),
            addressing: Arc::clone(&self.addressing),
            annotations: Arc::clone(&self.annotations),
            floating: Arc::clone(&self.floating),
            route_sources: new.route_sources.into(),
            kernel_tables: new.kernel_tables.into(),
            management: Arc::new(new.management),
            origin: Origin::default(),
        })
    }
}

fn translated(part: &Given) -> Option<Translated> {
    let mut errors = ValidationErrors::default();
    let valid = stoa_yang::schema().validate(part).ok()?;
    let translated = list::translate(&valid, &mut errors).ok()?;
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

/// Whether a change may concern static routes or their protocol instances.
fn concerns_routes(path: &str) -> bool {
    path.contains("/control-plane-protocol[")
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
