//! Where lists are attached.

use std::collections::{HashMap, HashSet};

use stoa_api::v1;
use stoa_yang::error::ValidationErrors;

use super::paths::point_path;
use super::rules::family_of;
use crate::capability::{Settings, Translated, interface_path};
use crate::config::data_path::predicate;
use crate::config::model::{AttachmentPoint, Direction};

/// Lists of an interface and direction, at most.
const LISTS: usize = 16;

/// Attaches lists to the desired interfaces.
pub(super) fn attach(
    settings: &Settings<'_>,
    translated: &mut Translated,
    errors: &mut ValidationErrors,
) {
    let acls = &settings.model.acls;
    let points: HashMap<&str, &AttachmentPoint> = acls
        .attachment_points
        .interface
        .iter()
        .map(|point| (point.interface_id.as_str(), point))
        .collect();
    if points.is_empty() {
        return;
    }
    let families: HashMap<&str, u32> =
        acls.acl.iter().map(|acl| (acl.name.as_str(), family_of(acl))).collect();
    let given = settings.model.interfaces.interface.iter();
    let given = given.filter(|interface| points.contains_key(interface.name.as_str()));
    for (interface, desired) in translated.interfaces_of(given) {
        let Some(point) = points.get(interface.name.as_str()) else { continue };
        let has = |it: &Option<crate::config::model::Family>| {
            it.as_ref().is_some_and(|family| family.enabled)
        };
        let place = Place {
            path: point_path(&interface.name),
            name: &interface.name,
            families: &families,
            has: [has(&interface.ip4), has(&interface.ip6)],
            is_cross_connected: !interface.cross_connect.is_empty(),
        };
        let [in4, in6] = place.lists("ingress", &point.ingress, errors);
        let [out4, out6] = place.lists("egress", &point.egress, errors);
        let sets = v1::AclSets { in4, in6, out4, out6 };
        desired.acls = (sets != v1::AclSets::default()).then_some(sets);
    }
}

/// An interface with lists.
struct Place<'a> {
    path: String,
    name: &'a str,
    /// The families of the lists by their names.
    families: &'a HashMap<&'a str, u32>,
    /// Whether the interface has IPv4, and IPv6.
    has: [bool; 2],
    is_cross_connected: bool,
}

impl Place<'_> {
    /// The lists of a direction: those of IPv4 packets, and those of IPv6 packets.
    fn lists(
        &self,
        direction: &str,
        given: &Direction,
        errors: &mut ValidationErrors,
    ) -> [Vec<String>; 2] {
        let sets = &given.acl_sets.acl_set;
        let path = format!("{}/{direction}/acl-sets", self.path);
        if sets.len() > LISTS {
            let cause = format!(
                "{} lists at one interface and direction are more than {LISTS}",
                sets.len()
            );
            errors.add(&path, cause, "Put the rules of several lists into one.");
        }
        let (mut lists, mut seen) = ([Vec::new(), Vec::new()], HashSet::new());
        for name in sets.iter().map(|set| &set.name).filter(|name| seen.insert(name.as_str())) {
            // libyang has checked that the list exists.
            let family = self.families.get(name.as_str()).copied().unwrap_or_default();
            let of_path = format!("{path}/acl-set{}", predicate("name", name));
            self.check(&of_path, (name, family), direction, errors);
            for (at, number) in [4, 6].into_iter().enumerate() {
                if (family == number || family == 0) && self.has[at] {
                    lists[at].push(name.clone());
                }
            }
        }
        lists
    }

    /// Checks that a list can act at the interface.
    fn check(
        &self,
        path: &str,
        (name, family): (&str, u32),
        direction: &str,
        errors: &mut ValidationErrors,
    ) {
        let interface = self.name;
        if self.is_cross_connected && direction == "ingress" {
            errors.add_about(
                path,
                format!("\"{interface}\" is cross-connected: its frames do not pass access lists"),
                "Remove the list, or stoa-interfaces:cross-connect of the interface.",
                &[&interface],
            );
            return;
        }
        let has = match family {
            4 => self.has[0],
            6 => self.has[1],
            _ => self.has[0] || self.has[1],
        };
        if !has {
            let (what, container) = match family {
                4 => ("IPv4", "ietf-ip:ipv4"),
                6 => ("IPv6", "ietf-ip:ipv6"),
                _ => ("IP", "ietf-ip:ipv4 or ietf-ip:ipv6"),
            };
            errors.add_about(
                path,
                format!("\"{name}\" matches {what} packets, but \"{interface}\" has no {what}"),
                format!("Remove the list, or add {container} to {}.", interface_path(interface)),
                &[&interface],
            );
        }
    }
}
