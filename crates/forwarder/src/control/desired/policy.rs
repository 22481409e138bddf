//! Policy-routing rules of the contract, checked.

use std::collections::{BTreeMap, HashSet};

use stoa_api::v1;
use stoa_api::v1::rule::Action;

use super::change::DesiredChange;
use super::{DesiredState, Prefix, ValidationErrors, address, bits, network};
use crate::shared::SpecialNextHop;

/// What happens to packets that match a rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RuleAction {
    /// Route by the table of this VRF; `true`: ignore its default route.
    Table(String, bool),
    /// Drop.
    Special(SpecialNextHop),
    /// Continue with the first rule of at least this priority.
    Goto(u32),
}

/// A policy-routing rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// The VRF whose interfaces receive the packets.
    pub vrf: String,
    /// Whether it is for IPv4.
    pub is_ip4: bool,
    /// The lowest goes first; at least 1.
    pub priority: u32,
    /// Source prefix.
    pub from: Option<Prefix>,
    /// Destination prefix.
    pub to: Option<Prefix>,
    /// The receiving interface; "": any.
    pub interface: String,
    /// DSCP, at most 63.
    pub dscp: Option<u8>,
    /// Upper-layer protocol.
    pub ip_protocol: Option<u8>,
    /// First and last source port, at least 1.
    pub source_ports: Option<(u16, u16)>,
    /// First and last destination port, at least 1.
    pub destination_ports: Option<(u16, u16)>,
    /// What happens to matching packets.
    pub action: RuleAction,
    /// Its protocol, as numbered in the contract.
    pub protocol: i32,
}

/// The path of a rule in errors.
fn path((family, priority, vrf): (u32, u32, &str)) -> String {
    let vrf = if vrf.is_empty() { String::new() } else { format!(" of VRF {vrf}") };
    format!("IPv{family} rule {priority}{vrf}")
}

fn path_of_message(rule: &v1::Rule) -> String {
    path((rule.family, rule.priority, &rule.vrf))
}

impl DesiredChange {
    /// Sets all rules.
    pub(super) fn set_rules(&mut self, rules: &[v1::Rule], errors: &mut ValidationErrors) {
        let (mut seen, mut lists) = (HashSet::new(), BTreeMap::<_, Vec<Rule>>::new());
        for rule in rules {
            match checked_rule(rule) {
                Ok(checked) if !seen.insert(checked.clone()) => {
                    errors.add(path_of_message(rule), "is configured twice", "Send it once.");
                }
                Ok(checked) => {
                    let key = (checked.vrf.clone(), checked.is_ip4);
                    lists.entry(key).or_default().push(checked);
                }
                Err((cause, fix)) => errors.add(path_of_message(rule), cause, fix),
            }
        }
        // Rules of one priority keep the order in which they were sent.
        lists.values_mut().for_each(|rules| rules.sort_by_key(|rule| rule.priority));
        self.rules = Some(lists);
    }
}

/// Checks a rule on its own.
fn checked_rule(rule: &v1::Rule) -> Result<Rule, (String, &'static str)> {
    let no = |cause: &str, fix: &'static str| Err((cause.to_owned(), fix));
    if !matches!(rule.family, 4 | 6) {
        return no("has an invalid family", "Use 4 or 6.");
    }
    if rule.priority == 0 {
        return no(
            "has no priority",
            "Use at least 1; 0 is reserved for the router's own addresses.",
        );
    }
    let is_small = |value: Option<u32>, max| value.is_none_or(|value| value <= max);
    if !is_small(rule.dscp, 63) || !is_small(rule.ip_protocol, 255) {
        let (dscp, protocol) = (rule.dscp.unwrap_or(0), rule.ip_protocol.unwrap_or(0));
        let cause = format!("has the DSCP {dscp} and the protocol {protocol}");
        return Err((cause, "Use at most 63 and 255."));
    }
    let action = match &rule.action {
        Some(Action::Table(table)) => RuleAction::Table(table.vrf.clone(), table.suppress_default),
        Some(Action::Special(special)) => match v1::Special::try_from(*special) {
            Ok(v1::Special::Blackhole) => RuleAction::Special(SpecialNextHop::Blackhole),
            Ok(v1::Special::Unreachable) => RuleAction::Special(SpecialNextHop::Unreachable),
            Ok(v1::Special::Prohibit) => RuleAction::Special(SpecialNextHop::Prohibited),
            _ => {
                return no(
                    "has an action that rules do not support",
                    "Use a table, blackhole, unreachable or prohibit.",
                );
            }
        },
        Some(Action::GotoPriority(to)) if *to > rule.priority => RuleAction::Goto(*to),
        Some(Action::GotoPriority(_)) => {
            return no(
                "continues with an earlier rule or itself",
                "Use a higher priority to go to.",
            );
        }
        None => return no("has no action", "Set an action."),
    };
    Ok(Rule {
        vrf: rule.vrf.clone(),
        is_ip4: rule.family == 4,
        priority: rule.priority,
        from: prefix(rule.from.as_ref(), rule.family)?,
        to: prefix(rule.to.as_ref(), rule.family)?,
        interface: rule.interface.clone(),
        dscp: rule.dscp.map(|dscp| dscp as u8),
        ip_protocol: rule.ip_protocol.map(|protocol| protocol as u8),
        source_ports: ports(rule.source_ports.as_ref())?,
        destination_ports: ports(rule.destination_ports.as_ref())?,
        action,
        protocol: rule.protocol,
    })
}

/// The path of a rule in errors.
fn path_of(rule: &Rule) -> String {
    path((if rule.is_ip4 { 4 } else { 6 }, rule.priority, &rule.vrf))
}

impl DesiredState {
    /// Checks that what rules refer to exists.
    pub(super) fn check_rules(&self, errors: &mut ValidationErrors) {
        let is_vrf = |name: &String| name.is_empty() || self.vrfs.contains_key(name);
        for rule in self.rules.values().flatten() {
            let mut add = |cause: String, fix| errors.add(path_of(rule), cause, fix);
            if !is_vrf(&rule.vrf) {
                let cause = format!("is in the VRF {:?}, which does not exist", rule.vrf);
                add(cause, "Use an existing VRF.");
            } else if !rule.interface.is_empty() && !self.interfaces.contains_key(&rule.interface) {
                let interface = &rule.interface;
                let cause = format!("matches the interface {interface:?}, which does not exist");
                add(cause, "Use an existing interface.");
            } else if let RuleAction::Table(vrf, _) = &rule.action
                && !is_vrf(vrf)
            {
                let cause = format!("uses the table of VRF {vrf:?}, which does not exist");
                add(cause, "Use an existing VRF.");
            }
        }
    }

    /// The rules of one VRF and family, in order.
    pub fn rules_of(&self, vrf: &str, is_ip4: bool) -> &[Rule] {
        self.rules.get(&(vrf.to_owned(), is_ip4)).map_or(&[], Vec::as_slice)
    }
}

fn prefix(
    prefix: Option<&v1::Prefix>,
    family: u32,
) -> Result<Option<Prefix>, (String, &'static str)> {
    let Some(prefix) = prefix else { return Ok(None) };
    let ip = address(&prefix.address).filter(|ip| ip.is_ipv4() == (family == 4));
    let Some(ip) = ip.filter(|ip| prefix.length <= u32::from(bits(*ip))) else {
        let cause = "has a prefix that is too long, or of another family";
        return Err((cause.to_owned(), "Use a prefix of the rule's family."));
    };
    let length = prefix.length as u8;
    if network(ip, length) != ip {
        return Err((format!("has host bits set in {ip}/{length}"), "Clear the host bits."));
    }
    Ok(Some((ip, length)))
}

fn ports(range: Option<&v1::PortRange>) -> Result<Option<(u16, u16)>, (String, &'static str)> {
    let Some(range) = range else { return Ok(None) };
    match (u16::try_from(range.first), u16::try_from(range.last)) {
        (Ok(first), Ok(last)) if 0 < first && first <= last => Ok(Some((first, last))),
        _ => {
            let cause = format!("has the ports {} to {}", range.first, range.last);
            Err((cause, "Use two ports from 1 to 65,535, the lower one first."))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule() -> v1::Rule {
        let table = v1::RuleTable { vrf: "red".to_owned(), suppress_default: false };
        let action = Some(Action::Table(table));
        v1::Rule { family: 4, priority: 100, action, ..v1::Rule::default() }
    }

    /// The errors of rules; "red" is a VRF.
    fn refused(rules: Vec<v1::Rule>) -> Vec<String> {
        let vrfs = vec![v1::Vrf { name: "red".to_owned(), ..v1::Vrf::default() }];
        let desired = v1::Desired { vrfs, rules, ..v1::Desired::default() };
        let errors = DesiredState::parse(&desired).err().unwrap_or_default();
        errors.into_iter().map(|error| format!("{} {}", error.path, error.cause)).collect()
    }

    #[test]
    fn invalid_rules_are_refused() {
        let with = |change: fn(&mut v1::Rule)| {
            let mut rule = rule();
            change(&mut rule);
            refused(vec![rule])
        };
        assert!(with(|_| {}).is_empty());
        let range = |first, last| Some(v1::PortRange { first, last });
        assert_eq!(with(|rule| rule.family = 5), ["IPv5 rule 100 has an invalid family"]);
        assert_eq!(with(|rule| rule.priority = 0), ["IPv4 rule 0 has no priority"]);
        let none = with(|rule| rule.vrf = "blue".to_owned());
        assert_eq!(
            none,
            ["IPv4 rule 100 of VRF blue is in the VRF \"blue\", which does not exist"]
        );
        assert_eq!(with(|rule| rule.interface = "x".to_owned()).len(), 1);
        assert_eq!(with(|rule| rule.dscp = Some(64)).len(), 1);
        assert_eq!(with(|rule| rule.ip_protocol = Some(256)).len(), 1);
        assert_eq!(with(|rule| rule.action = None), ["IPv4 rule 100 has no action"]);
        assert_eq!(with(|rule| rule.action = Some(Action::Special(0))).len(), 1);
        assert_eq!(with(|rule| rule.action = Some(Action::GotoPriority(100))).len(), 1);
        let from = |address: &[u8], length| {
            let mut rule = rule();
            rule.from = Some(v1::Prefix { address: address.to_vec(), length });
            refused(vec![rule])
        };
        assert!(from(&[10, 0, 0, 0], 8).is_empty());
        for (address, length) in [(&[10, 0, 0, 1][..], 8), (&[10, 0, 0, 0], 33), (&[0; 16], 0)] {
            assert_eq!(from(address, length).len(), 1);
        }
        for (first, last) in [(0, 0), (0, 9), (9, 8), (1, 65_536)] {
            let mut rule = rule();
            rule.source_ports = range(first, last);
            assert_eq!(refused(vec![rule]).len(), 1, "{first} to {last}");
        }
        assert_eq!(refused(vec![rule(), rule()]), ["IPv4 rule 100 is configured twice"]);
    }

    #[test]
    fn rules_are_ordered_by_priority() {
        let numbered = |priority, dscp| v1::Rule { priority, dscp: Some(dscp), ..rule() };
        let rules = vec![numbered(200, 1), numbered(100, 2), numbered(200, 3), numbered(100, 4)];
        let vrfs = vec![v1::Vrf { name: "red".to_owned(), ..v1::Vrf::default() }];
        let desired = v1::Desired { vrfs, rules, ..v1::Desired::default() };
        let desired = DesiredState::parse(&desired).unwrap();
        let order: Vec<_> =
            desired.rules_of("", true).iter().filter_map(|rule| rule.dscp).collect();
        assert_eq!(order, [2, 4, 1, 3]);
    }
}
