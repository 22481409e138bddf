//! Interfaces that rules of access lists name.

use super::{AclRule, AclRuleKey, Fault, RuleOfList, fault, path};
use crate::control::desired::ValidationErrors;
use crate::control::desired::change::DesiredChange;
use crate::control::desired::held::Held;

/// Rules with an interface that does not exist that are reported at most.
const SHOWN: usize = 16;

/// The greatest ID of a VLAN (IEEE 802.1Q).
const VLAN_MAX: u32 = 4094;

/// An interface of the contract; "": none.
pub(super) fn named(name: &str) -> Option<String> {
    (!name.is_empty()).then(|| name.to_owned())
}

/// A VLAN of the contract; 0: untagged.
pub(super) fn vlan(id: Option<u32>) -> Result<Option<u16>, Fault> {
    match id {
        Some(id) if id > VLAN_MAX => {
            fault(format!("has the VLAN {id}, more than {VLAN_MAX}"), "Use a smaller value.")
        }
        id => Ok(id.map(|id| id as u16)),
    }
}

impl RuleOfList {
    /// The interfaces that it names.
    pub fn interfaces(&self) -> impl Iterator<Item = &String> {
        self.ingress.iter().chain(&self.egress)
    }

    /// Whether it looks at the interfaces of packets, or at their VLANs.
    pub fn reads_interfaces(&self) -> bool {
        self.vlan.is_some() || self.interfaces().next().is_some()
    }
}

impl Held {
    /// Checks after an exchange that the interfaces of touched rules exist, and those of all rules if an interface is
    /// gone.
    pub(super) fn check_rule_interfaces(
        &self,
        inverse: &DesiredChange,
        errors: &mut ValidationErrors,
    ) {
        let (interfaces, rules) = (&self.desired().interfaces, &self.desired().acl_rules);
        let missing = |(key, rule): (&AclRuleKey, &AclRule)| {
            let name = rule.rule.interfaces().find(|name| !interfaces.contains_key(*name))?;
            Some((key.clone(), name.clone()))
        };
        let is_gone = inverse.interfaces.keys().any(|name| !interfaces.contains_key(name));
        let missing: Vec<_> = if is_gone {
            rules.iter().filter_map(missing).take(SHOWN).collect()
        } else {
            let touched = inverse.acl_rules.keys().filter_map(|key| rules.get_key_value(key));
            touched.filter_map(missing).take(SHOWN).collect()
        };
        for ((acl, rule), name) in missing {
            let cause = format!("names the interface {name:?}, which does not exist");
            errors.add(path((&acl, &rule)), cause, "Use an existing interface.");
        }
    }
}
