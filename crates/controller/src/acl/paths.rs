//! Paths of lists and rules, for errors and warnings.

use crate::config::data_path::predicate;

/// The path of the lists.
pub(crate) const ACLS: &str = "/ietf-access-control-list:acls";

/// The path of a list.
pub(crate) fn list_path(acl: &str) -> String {
    format!("{ACLS}/acl{}", predicate("name", acl))
}

/// The path of a rule.
pub(crate) fn rule_path(acl: &str, rule: &str) -> String {
    format!("{}/aces/ace{}", list_path(acl), predicate("name", rule))
}

/// The path of a zone.
pub(crate) fn zone_path(zone: &str) -> String {
    format!("{ACLS}/stoa-acl:zones/zone{}", predicate("name", zone))
}

/// The path of a pair of zones.
pub(crate) fn pair_path(from: &str, to: &str) -> String {
    let keys = predicate("from", from) + &predicate("to", to);
    format!("{ACLS}/stoa-acl:zone-pairs/zone-pair{keys}")
}

/// The path of what is attached to an interface.
pub(crate) fn point_path(interface: &str) -> String {
    format!("{ACLS}/attachment-points/interface{}", predicate("interface-id", interface))
}

/// The path of a defined set. `kind`: its list, as "port-sets/port-set".
pub(crate) fn set_path(kind: &str, name: &str) -> String {
    format!("{ACLS}/stoa-acl:defined-sets/{kind}{}", predicate("name", name))
}
