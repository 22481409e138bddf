//! The interfaces of packets, as rules look at them.

use std::collections::HashMap;

use stoa_api::v1;
use stoa_api::zones::ROUTER;
use stoa_yang::error::ValidationErrors;

use super::paths::rule_path;
use crate::config::model::Acls;

/// The interfaces that a packet passes. `None`: none, or unknown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Way<'a> {
    /// The one that has received it.
    pub(super) ingress: Option<&'a v1::Interface>,
    /// The one that sends it.
    pub(super) egress: Option<&'a v1::Interface>,
}

impl<'a> Way<'a> {
    /// Of a packet that an interface has received, and that no interface sends yet.
    pub(super) fn received(interface: &'a v1::Interface) -> Self {
        Self { ingress: Some(interface), egress: None }
    }
}

/// The ID of the outer VLAN of an interface; 0: it has none.
pub(super) fn vlan_of(interface: &v1::Interface) -> u32 {
    interface.outer.as_ref().map_or(0, |tag| tag.vid)
}

/// Whether a rule looks at interfaces.
pub(super) fn reads_interfaces(rule: &v1::AclRule) -> bool {
    !(rule.ingress_interface.is_empty() && rule.egress_interface.is_empty())
        || rule.vlan_id.is_some()
}

/// Checks that lists with rules for a sending interface are where there is one.
pub(super) fn check(acls: &Acls, errors: &mut ValidationErrors) {
    // Of each list without a sending interface: what it is attached to, and the interface.
    let mut places: HashMap<&str, (String, &str)> = HashMap::new();
    for point in &acls.attachment_points.interface {
        let name = point.interface_id.as_str();
        for set in &point.ingress.acl_sets.acl_set {
            let what = format!("packets that \"{name}\" receives (ingress)");
            places.entry(&set.name).or_insert((what, name));
        }
    }
    for pair in acls.zone_pairs.zone_pair.iter().filter(|pair| pair.to == ROUTER) {
        for set in &pair.acl_sets.acl_set {
            let what = format!("packets from the zone \"{}\" to the router itself", pair.from);
            places.entry(&set.name).or_insert((what, ""));
        }
    }
    for acl in &acls.acl {
        let Some((what, interface)) = places.get(acl.name.as_str()) else { continue };
        let rules = acl.aces.ace.iter().filter(|ace| ace.matches.egress_interface.is_some());
        for ace in rules {
            errors.add_about(
                format!("{}/matches/egress-interface", rule_path(&acl.name, &ace.name)),
                format!("the list is attached to {what}: which interface sends them is not known there"),
                "Remove the leaf, or attach the list to egress or to a pair of zones with interfaces only.",
                &[interface],
            );
        }
    }
}
