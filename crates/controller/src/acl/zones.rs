//! Zones of interfaces, and the lists of their pairs.

use std::collections::{HashMap, HashSet};

use stoa_api::v1;
use stoa_api::zones::{ROUTER, ZONES};
use stoa_yang::error::ValidationErrors;

use super::paths::{ACLS, pair_path, zone_path};
use super::rules::family_of;
use crate::capability::{Settings, Translated};
use crate::config::data_path::predicate;
use crate::config::model::{Acls, Zone, ZonePair};
use crate::warning::Warning;

/// Lists of a pair, at most.
const LISTS: usize = 16;

/// Gives zones to the desired interfaces, and adds the pairs.
pub(super) fn translate(
    settings: &Settings<'_>,
    translated: &mut Translated,
    errors: &mut ValidationErrors,
) {
    let acls = &settings.model.acls;
    let count = acls.zones.zone.iter().filter(|zone| zone.name != ROUTER).count();
    if count > ZONES {
        let cause = format!("{count} zones are more than {ZONES}");
        errors.add(format!("{ACLS}/stoa-acl:zones"), cause, "Use fewer zones.");
    }
    let cookies: HashMap<&str, u32> = acls.zones.zone.iter().filter_map(cookies_of).collect();
    let zones = zones(acls, errors);
    if !zones.is_empty() {
        let given = settings.model.interfaces.interface.iter();
        let given = given.filter(|interface| zones.contains_key(interface.name.as_str()));
        for (interface, desired) in translated.interfaces_of(given) {
            let Some(zone) = zones.get(interface.name.as_str()) else { continue };
            (*zone).clone_into(&mut desired.zone);
            desired.zone_syn_cookies = cookies.get(*zone).copied();
            if !interface.cross_connect.is_empty() {
                let name = &interface.name;
                errors.add_about(
                    format!("{}/interface{}", zone_path(zone), predicate(".", name)),
                    format!("\"{name}\" is cross-connected: its frames do not pass access lists"),
                    "Remove it from the zone, or stoa-interfaces:cross-connect of the interface.",
                    &[name],
                );
            }
        }
    }
    let families: HashMap<&str, u32> =
        acls.acl.iter().map(|acl| (acl.name.as_str(), family_of(acl))).collect();
    let pairs = acls.zone_pairs.zone_pair.iter().map(|it| pair(it, &families, errors));
    translated.desired.zone_pairs = pairs.collect();
}

/// The name of a zone with SYN cookies, and their threshold.
fn cookies_of(zone: &Zone) -> Option<(&str, u32)> {
    zone.syn_cookies.as_ref().map(|it| (zone.name.as_str(), it.threshold))
}

/// The zone of each interface that is in one.
fn zones<'a>(acls: &'a Acls, errors: &mut ValidationErrors) -> HashMap<&'a str, &'a str> {
    let mut zones: HashMap<&str, &str> = HashMap::new();
    for zone in &acls.zones.zone {
        for interface in &zone.interface {
            let Some(former) = zones.insert(interface, &zone.name) else { continue };
            let name = &zone.name;
            errors.add_about(
                format!("{}/interface{}", zone_path(name), predicate(".", interface)),
                format!("\"{interface}\" is in the zone \"{former}\" as well"),
                "An interface is in one zone at most: remove it from one of the two.",
                &[interface],
            );
        }
    }
    zones
}

/// A pair with its lists by family.
fn pair(
    ZonePair { from, to, acl_sets }: &ZonePair,
    families: &HashMap<&str, u32>,
    errors: &mut ValidationErrors,
) -> v1::ZonePair {
    let sets = &acl_sets.acl_set;
    if sets.len() > LISTS {
        let path = format!("{}/acl-sets", pair_path(from, to));
        let cause = format!("{} lists of one pair are more than {LISTS}", sets.len());
        errors.add(path, cause, "Put the rules of several lists into one.");
    }
    let mut pair = v1::ZonePair { from: from.clone(), to: to.clone(), ..v1::ZonePair::default() };
    let mut seen = HashSet::new();
    for name in sets.iter().map(|set| &set.name).filter(|name| seen.insert(name.as_str())) {
        // libyang has checked that the list exists.
        let family = families.get(name.as_str()).copied().unwrap_or_default();
        for (number, lists) in [(4, &mut pair.acls4), (6, &mut pair.acls6)] {
            if family == number || family == 0 {
                lists.push(name.clone());
            }
        }
    }
    pair
}

/// The warnings about pairs without lists.
pub(super) fn without_lists(pairs: &[v1::ZonePair]) -> impl Iterator<Item = Warning> {
    let empty = pairs.iter().filter(|pair| pair.acls4.is_empty() && pair.acls6.is_empty());
    empty.map(|v1::ZonePair { from, to, .. }| Warning {
        text: format!(
            "zones {from} to {to}: the pair has no lists, so packets are dropped; add one by \"set acls zone-pairs \
             zone-pair {from} {to} acl-sets acl-set LIST\""
        ),
        nodes: vec![pair_path(from, to)],
    })
}

#[cfg(test)]
mod tests;
