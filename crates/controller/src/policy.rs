//! Policy routing: the rules of the configuration, and the kernel tables of VRFs.

use std::collections::BTreeMap;

use ipnet::IpNet;
use serde_json::{Map, Value, json};
use stoa_api::v1;
use stoa_api::v1::rule::Action;
use stoa_yang::error::ValidationErrors;

use crate::capability::{Capability, Facts, Settings, Translated};
use crate::config::model::{AddressFamily, Policy, PortRange, Refuse, Rule, Vrfs};
use crate::json::{number, object, text};
use crate::prefix::prefix_to_proto;

/// The capability.
pub(crate) struct PolicyRouting;

impl Capability for PolicyRouting {
    fn is_by_interface(&self) -> bool {
        true
    }

    fn translate(
        &self,
        settings: &Settings<'_>,
        translated: &mut Translated,
        errors: &mut ValidationErrors,
    ) {
        translated.desired.rules = rules(&settings.model.routing.policy, errors);
        translated.kernel_tables = kernel_tables(&settings.model.vrfs, errors);
    }

    /// `/ietf-routing:routing/stoa-policy:policy`. The rules of Linux are not in the configuration and have no counters
    /// here.
    fn state(&self, facts: &Facts<'_>, state: &mut Map<String, Value>) {
        let rules: Vec<Value> =
            facts.rules.unwrap_or_default().iter().filter_map(rule_state).collect();
        if rules.is_empty() {
            return;
        }
        let routing = state.entry("ietf-routing:routing").or_insert_with(|| json!({}));
        routing["stoa-policy:policy"] = json!({ "rule": rules });
    }
}

fn rule_state(state: &v1::RuleState) -> Option<Value> {
    let rule = state.rule.as_ref().filter(|rule| rule.protocol() == v1::Protocol::Static)?;
    let vrf = if rule.vrf.is_empty() { DEFAULT } else { &rule.vrf };
    let counters = object([("packets", number(state.packets)), ("octets", number(state.bytes))]);
    Some(object([
        ("vrf", text(vrf)),
        ("address-family", text(if rule.family == 4 { "ipv4" } else { "ipv6" })),
        ("priority", json!(rule.priority)),
        ("statistics", counters),
    ]))
}

/// The name of the default VRF where one is required.
const DEFAULT: &str = "default";

fn vrf(name: &str) -> String {
    if name == DEFAULT { String::new() } else { name.to_owned() }
}

/// The desired rules, by VRF, family and priority.
fn rules(policy: &Policy, errors: &mut ValidationErrors) -> Vec<v1::Rule> {
    let mut rules: Vec<v1::Rule> =
        policy.rule.iter().filter_map(|rule| one(rule, errors)).collect();
    rules.sort_by(|a, b| (&a.vrf, a.family, a.priority).cmp(&(&b.vrf, b.family, b.priority)));
    rules
}

/// The table numbers of VRFs in Linux.
fn kernel_tables(vrfs: &Vrfs, errors: &mut ValidationErrors) -> Vec<(String, u32)> {
    let mut owners: BTreeMap<u32, &str> = BTreeMap::new();
    for vrf in &vrfs.vrf {
        let Some(table) = vrf.kernel_table else { continue };
        let name = &vrf.of.name;
        if let Some(other) = owners.insert(table, name) {
            errors.add_about(
                format!("/stoa-vrf:vrfs/vrf[name='{name}']/stoa-policy:kernel-table"),
                format!("table {table} is already that of \"{other}\""),
                "Set a different table for each VRF.",
                &[&other],
            );
        }
    }
    owners.into_iter().map(|(table, vrf)| (vrf.to_owned(), table)).collect()
}

fn one(rule: &Rule, errors: &mut ValidationErrors) -> Option<v1::Rule> {
    let is_ip4 = rule.address_family == AddressFamily::Ipv4;
    let family = if is_ip4 { "ipv4" } else { "ipv6" };
    let place = format!(
        "/ietf-routing:routing/stoa-policy:policy/rule[vrf='{}'][address-family='{family}']\
         [priority='{}']",
        rule.vrf, rule.priority
    );
    let of = &rule.of;
    let from = prefix(&of.source_prefix, is_ip4, (&place, "source-prefix"), errors);
    let to = prefix(&of.destination_prefix, is_ip4, (&place, "destination-prefix"), errors);
    let source_ports = ports(&of.source_port, (&place, "source-port"), errors);
    let destination_ports = ports(&of.destination_port, (&place, "destination-port"), errors);
    let action = match (&rule.table, rule.refuse, rule.goto) {
        (Some(table), ..) => {
            let suppress_default = rule.ignore_default;
            Action::Table(v1::RuleTable { vrf: vrf(table), suppress_default })
        }
        (_, Some(refuse), _) => Action::Special(match refuse {
            Refuse::Blackhole => v1::Special::Blackhole.into(),
            Refuse::Unreachable => v1::Special::Unreachable.into(),
            Refuse::Prohibit => v1::Special::Prohibit.into(),
        }),
        (.., Some(to)) if to > rule.priority => Action::GotoPriority(to),
        (.., Some(to)) => {
            let reason = format!("{to} is not greater than the rule's own priority");
            errors.add(format!("{place}/goto"), reason, "Set a greater priority.");
            return None;
        }
        // libyang checks that there is an action.
        (None, None, None) => return None,
    };
    Some(v1::Rule {
        vrf: vrf(&rule.vrf),
        family: if is_ip4 { 4 } else { 6 },
        priority: rule.priority,
        from,
        to,
        source_ports,
        destination_ports,
        action: Some(action),
        protocol: v1::Protocol::Static.into(),
        ..of.of.clone()
    })
}

fn prefix(
    given: &Option<String>,
    is_ip4: bool,
    (place, leaf): (&str, &str),
    errors: &mut ValidationErrors,
) -> Option<v1::Prefix> {
    let prefix: IpNet = given.as_ref()?.parse().ok()?;
    if prefix.addr().is_ipv4() != is_ip4 {
        errors.add(
            format!("{place}/match/{leaf}"),
            format!("{prefix} is of the other address family"),
            "Use a prefix of the rule's address family, or a rule of the other family.",
        );
    }
    // A prefix of length 0 matches everything, as no prefix does. Linux does not distinguish them either.
    (prefix.prefix_len() > 0).then(|| prefix_to_proto(&prefix.trunc()))
}

fn ports(
    given: &PortRange,
    (place, leaf): (&str, &str),
    errors: &mut ValidationErrors,
) -> Option<v1::PortRange> {
    let (first, last) = match (given.lower_port, given.upper_port) {
        (None, None) => return None,
        (Some(first), last) => (first, last.unwrap_or(first)),
        (None, Some(last)) => (1, last),
    };
    if first > last {
        errors.add(
            format!("{place}/match/{leaf}"),
            format!("the port range {first} to {last} is empty"),
            "Set lower-port to the lower port.",
        );
    }
    Some(v1::PortRange { first, last })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::configuration::Configuration;
    use crate::operational_state::OperationalState;
    use crate::state::{StateRequest, render, tree};

    #[test]
    fn rules_of_the_configuration_have_counters() {
        let state = |vrf: &str, family, priority, protocol: v1::Protocol| v1::RuleState {
            rule: Some(v1::Rule {
                vrf: vrf.into(),
                family,
                priority,
                protocol: protocol.into(),
                ..v1::Rule::default()
            }),
            packets: 5_000_000_000,
            bytes: 7,
        };
        let rules = vec![
            state("", 4, 100, v1::Protocol::Static),
            state("red", 6, 7, v1::Protocol::Static),
            state("", 4, 200, v1::Protocol::Kernel),
        ];
        let operational = OperationalState { rules, ..OperationalState::default() };
        let request = StateRequest::at("/ietf-routing:routing/stoa-policy:policy");
        let rendered = render(&operational, &request);
        let rules = rendered["ietf-routing:routing"]["stoa-policy:policy"]["rule"].as_array();
        let rules = rules.unwrap();
        assert_eq!(rules.len(), 2, "those of Linux are not in the configuration: {rendered}");
        assert_eq!(
            (&rules[0]["vrf"], &rules[1]["address-family"]),
            (&json!("default"), &json!("ipv6"))
        );
        assert_eq!(rules[0]["statistics"], json!({ "packets": "5000000000", "octets": "7" }));
        tree(&operational, &request).unwrap();
        let other = render(&operational, &StateRequest::at("/ietf-routing:routing/ribs"));
        assert!(other["ietf-routing:routing"]["stoa-policy:policy"].is_null());
    }

    fn parse(rules: &str) -> Result<Vec<v1::Rule>, Vec<String>> {
        let text = format!(
            r#"{{
              "ietf-interfaces:interfaces": {{"interface": [
                {{"name": "lan", "type": "iana-if-type:ethernetCsmacd",
                 "stoa-interfaces:port": {{"null": {{}}}}}}]}},
              "stoa-vrf:vrfs": {{"vrf": [{{"name": "red"}}]}},
              "ietf-routing:routing": {{"stoa-policy:policy": {{"rule": [{rules}]}}}}
            }}"#
        );
        let parsed = Configuration::parse(Path::new("test"), text);
        parsed.map(|it| it.desired.rules).map_err(|errors| {
            errors.into_iter().map(|it| format!("{}: {}", it.path, it.cause)).collect()
        })
    }

    #[test]
    fn rules_are_converted_in_order() {
        let rules = parse(
            r#"{"vrf": "red", "address-family": "ipv6", "priority": 7, "refuse": "prohibit"},
               {"vrf": "default", "address-family": "ipv4", "priority": 200,
                "match": {"dscp": 46, "protocol": 17, "interface": "lan",
                 "source-port": {"upper-port": 1023},
                 "destination-port": {"lower-port": 53}},
                "goto": 300},
               {"vrf": "default", "address-family": "ipv4", "priority": 100,
                "match": {"source-prefix": "10.0.0.0/8"},
                "table": "red", "ignore-default": true}"#,
        );
        let rules = rules.unwrap();
        let order: Vec<_> = rules.iter().map(|rule| (rule.vrf.as_str(), rule.priority)).collect();
        assert_eq!(order, [("", 100), ("", 200), ("red", 7)]);
        let first = &rules[0];
        assert_eq!(first.from, Some(v1::Prefix { address: vec![10, 0, 0, 0], length: 8 }));
        let table = v1::RuleTable { vrf: "red".to_owned(), suppress_default: true };
        assert_eq!(first.action, Some(Action::Table(table)));
        let second = &rules[1];
        assert_eq!((second.dscp, second.ip_protocol), (Some(46), Some(17)));
        assert_eq!(second.source_ports, Some(v1::PortRange { first: 1, last: 1023 }));
        assert_eq!(second.destination_ports, Some(v1::PortRange { first: 53, last: 53 }));
        assert_eq!(second.action, Some(Action::GotoPriority(300)));
        assert_eq!(rules[2].family, 6);
        let all = parse(
            r#"{"vrf": "red", "address-family": "ipv6", "priority": 7, "refuse": "prohibit",
                "match": {"source-prefix": "::/0", "destination-prefix": "::/0"}}"#,
        );
        assert_eq!(all.unwrap(), rules[2..]);
        assert_eq!(rules[2].action, Some(Action::Special(v1::Special::Prohibit.into())));
    }

    #[test]
    fn semantic_errors_are_found() {
        let found = |rest: &str| {
            let rule = r#""vrf": "default", "address-family": "ipv4", "priority": 100"#;
            parse(&format!("{{{rule}, {rest}}}")).unwrap_err()
        };
        let place = "/ietf-routing:routing/stoa-policy:policy\
                     /rule[vrf='default'][address-family='ipv4'][priority='100']";
        assert_eq!(
            found(r#""match": {"source-prefix": "2001:db8::/32"}, "table": "red""#),
            [format!("{place}/match/source-prefix: 2001:db8::/32 is of the other address family")]
        );
        assert_eq!(
            found(r#""goto": 100"#),
            [format!("{place}/goto: 100 is not greater than the rule's own priority")]
        );
        let ports = r#""match": {"source-port": {"lower-port": 9, "upper-port": 8}}"#;
        assert_eq!(
            found(&format!(r#"{ports}, "table": "red""#)),
            [format!("{place}/match/source-port: the port range 9 to 8 is empty")]
        );
        // Checked by the YANG module: an unknown VRF, two actions, none.
        assert_eq!(found(r#""table": "blue""#).len(), 1);
        assert!(!found(r#""table": "red", "refuse": "prohibit""#).is_empty());
        assert!(!found(r#""description": "nothing""#).is_empty());
    }
}
