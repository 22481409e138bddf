//! What a commit warns about: rules with interfaces or VLANs that no packet has where their list is attached.

use std::collections::{HashMap, HashSet};

use stoa_api::acl::interfaces_text;
use stoa_api::v1;
use stoa_api::zones::ROUTER;

use super::interfaces::{reads_interfaces, vlan_of};
use super::paths::rule_path;
use crate::config::Interfaces;
use crate::warning::Warning;

/// Where lists are attached.
struct Attached<'a> {
    interfaces: &'a Interfaces,
    /// Lists with the interfaces that receive their packets, and with the VLANs of these.
    inputs: HashSet<(&'a str, &'a str)>,
    input_vlans: HashSet<(&'a str, u32)>,
    /// Lists with the interfaces that send their packets, and without.
    outputs: HashSet<(&'a str, &'a str)>,
    have_output: HashSet<&'a str>,
    pairs: HashMap<&'a str, Vec<&'a v1::ZonePair>>,
    /// All lists that are attached.
    attached: HashSet<&'a str>,
    /// Zones with the VLANs of their interfaces, and all VLANs.
    zone_vlans: HashSet<(&'a str, u32)>,
    vlans: HashSet<u32>,
}

impl<'a> Attached<'a> {
    fn new(interfaces: &'a Interfaces, pairs: &'a [v1::ZonePair]) -> Self {
        let mut all = Self {
            interfaces,
            inputs: HashSet::new(),
            input_vlans: HashSet::new(),
            outputs: HashSet::new(),
            have_output: HashSet::new(),
            pairs: HashMap::new(),
            attached: HashSet::new(),
            zone_vlans: HashSet::new(),
            vlans: HashSet::new(),
        };
        for it in interfaces.iter() {
            let vlan = vlan_of(it);
            all.vlans.insert(vlan);
            all.zone_vlans.insert((&it.zone, vlan));
            if let Some(sets) = &it.acls {
                for acl in sets.in4.iter().chain(&sets.in6) {
                    all.inputs.insert((acl, &it.name));
                    all.input_vlans.insert((acl, vlan));
                    all.attached.insert(acl);
                }
                for acl in sets.out4.iter().chain(&sets.out6) {
                    all.outputs.insert((acl, &it.name));
                    all.have_output.insert(acl);
                    all.attached.insert(acl);
                }
            }
        }
        for pair in pairs {
            for acl in pair.acls4.iter().chain(&pair.acls6) {
                all.pairs.entry(acl).or_default().push(pair);
                all.attached.insert(acl);
            }
        }
        all
    }

    /// Whether a rule that looks at interfaces can match a packet where its list is attached. One that is attached
    /// nowhere can.
    fn can_match(&self, rule: &v1::AclRule) -> bool {
        let acl = rule.acl.as_str();
        let named = |name: &str| self.interfaces.named(name);
        let (ingress, egress) = (named(&rule.ingress_interface), named(&rule.egress_interface));
        let vlan = rule.vlan_id;
        if !self.attached.contains(acl) {
            return true;
        }
        if ingress.zip(vlan).is_some_and(|(ingress, vlan)| vlan_of(ingress) != vlan) {
            return false;
        }
        let at_input = egress.is_none()
            && match ingress {
                Some(it) => self.inputs.contains(&(acl, it.name.as_str())),
                None => vlan.is_some_and(|vlan| self.input_vlans.contains(&(acl, vlan))),
            };
        let at_output = match egress {
            Some(it) => self.outputs.contains(&(acl, it.name.as_str())),
            None => self.have_output.contains(acl),
        };
        let is_received = ingress.is_some() || vlan.is_none_or(|it| self.vlans.contains(&it));
        at_input
            || at_output && is_received
            || self.pairs.get(acl).is_some_and(|pairs| {
                let ends = (ingress, egress);
                pairs.iter().any(|pair| self.can_match_between(pair, ends, vlan))
            })
    }

    fn can_match_between(
        &self,
        pair: &v1::ZonePair,
        (ingress, egress): (Option<&v1::Interface>, Option<&v1::Interface>),
        vlan: Option<u32>,
    ) -> bool {
        let is_from = match (ingress, vlan) {
            (None, None) => true,
            _ if pair.from == ROUTER => false,
            (Some(it), _) => it.zone == pair.from,
            (None, Some(vlan)) => self.zone_vlans.contains(&(pair.from.as_str(), vlan)),
        };
        is_from && egress.is_none_or(|it| it.zone == pair.to)
    }
}

/// The warnings, at most so many.
pub(super) fn warnings(
    all: &[v1::AclRule],
    (interfaces, pairs): (&Interfaces, &[v1::ZonePair]),
    most: usize,
) -> Vec<Warning> {
    let mut reading = all.iter().filter(|rule| reads_interfaces(rule)).peekable();
    if reading.peek().is_none() {
        return Vec::new();
    }
    let attached = Attached::new(interfaces, pairs);
    let never = reading.filter(|rule| !attached.can_match(rule));
    let warning = |rule: &v1::AclRule| {
        let (acl, name) = (&rule.acl, &rule.name);
        Warning {
            text: format!(
                "access list {acl}: rule {name} matches no packet: where the list is attached, no packet has {}; \
                 correct the rule, or move it to a list of another place",
                interfaces_text(rule)
            ),
            nodes: vec![rule_path(acl, name)],
        }
    };
    never.map(warning).take(most).collect()
}
