//! A configuration from an earlier one and a changed part of it: validates and translates the part, and shares the
//! rest.
//!
//! The part has all but the bulk, the entries of the bulk that changed, and the interfaces that these refer to. Where
//! that does not suffice to know that the whole is valid and what it is, there is no answer, and the whole is
//! validated.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use stoa_api::v1;
use stoa_yang::error::ValidationErrors;
use yang5::data::DataNodeRef;

use super::contents::Contents;
use super::dependents::are_independent;
use super::routes_of_part::{Held, RoutesOfPart};
use super::{Configuration, ConfigurationText, Given};
use crate::capability::list;
use crate::config::addresses::Addressing;
use crate::config::others::{InterfaceChange, Others};
use crate::config::{Interfaces, Translated};
use crate::nat;

/// Most interfaces of a part that may differ: each is compared with all others.
const CHANGED_MAX: usize = 64;

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
    /// The part as it was.
    pub before: &'a Given,
    /// The part as it is new.
    pub after: &'a Given,
    /// The paths of all changes.
    pub paths: &'a [&'a str],
}

/// Leafs of an interface that nothing else depends on, neither in the YANG modules nor in `config`.
const OWN_LEAFS: [&str; 2] = ["description", "enabled"];

impl ChangedPart<'_> {
    /// Whether it changes leafs alone that nothing else depends on, nor any capability reads.
    pub(crate) fn has_own_leafs_only(&self) -> bool {
        self.paths.iter().all(|path| is_own_leaf(path))
    }

    /// Whether it changes the portal where hosts log in: all interfaces where they have to have its address.
    fn changes_login(&self) -> bool {
        self.paths.iter().any(|path| path.starts_with("/stoa-login:login"))
    }

    /// Whether it changes where access lists are attached. An interface that loses its attachment point is not in the
    /// part, which has the interfaces that it still refers to.
    fn attaches_access_lists(&self) -> bool {
        self.paths.iter().any(|path| {
            let rest = path.strip_prefix("/ietf-access-control-list:acls");
            let own = ["/acl[", "/stoa-acl:defined-sets"];
            rest.is_some_and(|rest| !own.iter().any(|own| rest.starts_with(own)))
        })
    }
}

impl Configuration {
    /// This configuration with a changed part. `None`: the whole has to be validated.
    pub(crate) fn with_part(
        &self,
        path: &Path,
        bulk: Bulk,
        part: ChangedPart<'_>,
    ) -> Option<Configuration> {
        if bulk.interfaces && (part.attaches_access_lists() || part.changes_login()) {
            return None;
        }
        let changed = match bulk.interfaces && part.has_own_leafs_only() {
            true => self.with_leafs(part)?,
            false => self.with_translated(bulk, part)?,
        };
        Some(Configuration { path: path.to_owned(), text: ConfigurationText::default(), ..changed })
    }

    /// With other leafs of interfaces.
    fn with_leafs(&self, part: ChangedPart<'_>) -> Option<Configuration> {
        let mut changed = self.clone();
        let top = part.after.reference()?.inclusive_siblings();
        let all = top.filter(|node| node.schema().name() == "interfaces");
        for entry in all.flat_map(|node| node.children()) {
            let leaf = |name: &str| {
                let found = entry.children().find(|leaf| leaf.schema().name() == name);
                found.and_then(|leaf: DataNodeRef<'_>| leaf.value_canonical())
            };
            let held = self.interfaces.named(&leaf("name")?)?;
            changed.interfaces.set(v1::Interface {
                description: leaf("description").unwrap_or_default(),
                enabled: leaf("enabled").is_none_or(|value| value == "true"),
                ..held.clone()
            });
        }
        Some(changed)
    }

    /// With a part that is validated and translated.
    fn with_translated(&self, bulk: Bulk, part: ChangedPart<'_>) -> Option<Configuration> {
        let (before, after) = (Contents::of(part.before), Contents::of(part.after));
        let others = match bulk.interfaces {
            true => Others::of(&self.interfaces, &self.desired.ports, &before.interfaces),
            false => Others::default(),
        };
        let held = before.interfaces.iter().filter_map(|name| self.interfaces.named(name));
        let held: Vec<&v1::Interface> = held.collect();
        let addressing = match bulk.interfaces {
            true => self.addressing_without(&held)?,
            false => Addressing::default(),
        };
        let mut new = translated(part.after, (&others, addressing))?;
        let changes = self.changes(&held, &new.desired);
        let is_gone = |vrf: &&String| !after.vrfs.contains(*vrf);
        if before.vrfs.iter().filter(is_gone).any(|vrf| others.are_in(vrf))
            || !others.is_empty() && changes.len() > CHANGED_MAX
            || !are_independent(&others, &changes)
        {
            return None;
        }
        let held = Held {
            routes: &self.routes,
            has_hidden: self.has_hidden,
            annotations: &self.annotations,
            floating: &self.floating,
        };
        let contents = [&before, &after];
        let routes = RoutesOfPart { held, is_bulk: bulk.routes, contents, new: &new };
        let routes = routes.merge(&changes)?;
        let of_part = std::mem::take(&mut new.desired.interfaces);
        let (mut desired, interfaces) = match bulk.interfaces {
            true => self.merged((new.desired, of_part), &before.interfaces, &after.interfaces),
            false => (new.desired, of_part.into()),
        };
        let around = nat::Around {
            interfaces: &interfaces,
            addressing: &new.addressing,
            sources: &new.route_sources,
            management: &new.management,
            login: &new.login,
        };
        let mut errors = ValidationErrors::default();
        nat::refuse_own_ports(&desired, around, &mut errors);
        if !errors.is_empty() {
            return None;
        }
        nat::own_ports(&mut desired, around);
        Some(Configuration {
            path: self.path.clone(),
            text: ConfigurationText::default(),
            desired,
            interfaces,
            routes: routes.routes,
            has_hidden: self.has_hidden,
            addressing: Arc::new(new.addressing),
            annotations: routes.annotations,
            floating: routes.floating,
            route_sources: new.route_sources.into(),
            kernel_tables: new.kernel_tables.into(),
            management: Arc::new(new.management),
            login: Arc::new(new.login),
        })
    }

    /// The addresses of all but these interfaces; `None`: unknown.
    fn addressing_without(&self, interfaces: &[&v1::Interface]) -> Option<Addressing> {
        let mut addressing = Addressing::clone(&self.addressing);
        interfaces.iter().all(|interface| addressing.remove(interface)).then_some(addressing)
    }

    /// The interfaces of a part that differ, or whose ports do.
    fn changes<'a>(
        &'a self,
        held: &[&'a v1::Interface],
        new: &'a v1::Desired,
    ) -> Vec<InterfaceChange<'a>> {
        let port_of = |desired: &'a v1::Desired, interface: &v1::Interface| {
            desired.ports.iter().find(|port| port.interface == interface.name)
        };
        let of_held = held.iter().map(|it| (*it, port_of(&self.desired, it)));
        let mut changes = Vec::new();
        for old in of_held {
            let now = new.interfaces.iter().find(|it| it.name == old.0.name);
            let now = now.map(|it| (it, port_of(new, it)));
            changes.push(InterfaceChange { old: Some(old), new: now });
        }
        let is_new = |it: &&v1::Interface| held.iter().all(|held| held.name != it.name);
        let created = new.interfaces.iter().filter(is_new).map(|it| (it, port_of(new, it)));
        changes.extend(created.map(|it| InterfaceChange { old: None, new: Some(it) }));
        changes.retain(|change| change.old != change.new);
        changes
    }

    /// The desired state of a part with the interfaces that it lacks.
    fn merged(
        &self,
        (part, of_part): (v1::Desired, Vec<v1::Interface>),
        before: &HashSet<String>,
        after: &HashSet<String>,
    ) -> (v1::Desired, Interfaces) {
        let v1::Desired { ports: ports_of_part, neighbors: known, .. } = part;
        let mut interfaces = self.interfaces.clone();
        before.difference(after).for_each(|name| interfaces.remove_named(name));
        for new in of_part {
            let held = interfaces.named(&new.name);
            // A sub-interface that becomes that of a port has another place.
            if held.is_some_and(|held| held.parent.is_empty() != new.parent.is_empty()) {
                interfaces.remove_named(&new.name);
            }
            interfaces.set(new);
        }
        let is_in_part = |name: &String| before.contains(name) || after.contains(name);
        let mut ports = self.desired.ports.clone();
        ports.retain(|it| {
            !is_in_part(&it.interface) || {
                ports_of_part.iter().any(|new| new.interface == it.interface)
            }
        });
        for new in ports_of_part {
            match ports.iter_mut().find(|it| it.interface == new.interface) {
                Some(port) => *port = new,
                None => {
                    let at = ports.partition_point(|it| it.interface < new.interface);
                    ports.insert(at, new);
                }
            }
        }
        let mut neighbors = self.desired.neighbors.clone();
        let first = neighbors.iter().position(|it| is_in_part(&it.interface));
        neighbors.retain(|it| !is_in_part(&it.interface));
        let at = first.unwrap_or(neighbors.len());
        neighbors.splice(at..at, known);
        (v1::Desired { ports, neighbors, ..part }, interfaces)
    }
}

fn translated(part: &Given, others: (&Others<'_>, Addressing)) -> Option<Translated> {
    if !others.0.is_empty() && !list::all().all(|capability| capability.is_by_interface()) {
        return None;
    }
    let mut errors = ValidationErrors::default();
    let valid = stoa_yang::schema().validate(part).ok()?;
    let translated = list::translate_among(&valid, others, &mut errors).ok()?;
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

#[cfg(test)]
mod tests;
