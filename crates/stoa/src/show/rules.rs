//! Policy routing rules in the order in which they apply, with their hits.

use std::io::Write;

use comfy_table::{Cell, Table};
use serde_json::{Value, json};
use stoa_api::v1::rule::Action;
use stoa_api::v1::{ListRulesRequest, PortRange, Protocol, Rule, RuleState, Special};

use super::{count, table, write};
use crate::failure::Failure;
use crate::operator::Client;

/// Requests the state and prints it.
pub async fn show(client: &mut Client, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let rules = client.show_rules(ListRulesRequest {}).await?.into_inner().rules;
    if as_json {
        let list: Vec<Value> = rules.iter().filter_map(json).collect();
        writeln!(out, "{}", json!({ "rules": list }))?;
    } else if rules.is_empty() {
        writeln!(out, "No rules: packets use the table of their VRF.")?;
    } else {
        write(&to_table(&rules), out)?;
    }
    Ok(())
}

fn vrf(name: &str) -> &str {
    if name.is_empty() { "default" } else { name }
}

fn by(rule: &Rule) -> &'static str {
    if rule.protocol() == Protocol::Kernel { "Linux" } else { "configuration" }
}

fn to_table(rules: &[RuleState]) -> Table {
    let columns = ["vrf", ">priority", "match", "action", "by", ">hits", ">bytes"];
    let mut table = table(&columns);
    for state in rules {
        let Some(rule) = &state.rule else { continue };
        table.add_row(vec![
            Cell::new(vrf(&rule.vrf)),
            Cell::new(rule.priority),
            Cell::new(match_text(rule)),
            Cell::new(action_text(rule)),
            Cell::new(by(rule)),
            count(state.packets),
            count(state.bytes),
        ]);
    }
    table
}

fn range(ports: &PortRange) -> String {
    if ports.first == ports.last {
        ports.first.to_string()
    } else {
        format!("{}-{}", ports.first, ports.last)
    }
}

/// The match of a rule, in the terms of ip-rule(8).
fn match_text(rule: &Rule) -> String {
    let mut words = vec![format!("IPv{}", rule.family)];
    let mut add = |name: &str, value: Option<String>| {
        words.extend(value.map(|value| format!("{name} {value}")));
    };
    add("from", rule.from.as_ref().map(ToString::to_string));
    add("to", rule.to.as_ref().map(ToString::to_string));
    add("iif", (!rule.interface.is_empty()).then(|| rule.interface.clone()));
    add("dscp", rule.dscp.map(|dscp| dscp.to_string()));
    add("protocol", rule.ip_protocol.map(|protocol| protocol.to_string()));
    add("sport", rule.source_ports.as_ref().map(range));
    add("dport", rule.destination_ports.as_ref().map(range));
    words.join(" ")
}

fn action_text(rule: &Rule) -> String {
    match &rule.action {
        Some(Action::Table(table)) if table.suppress_default => {
            format!("table {} without its default route", vrf(&table.vrf))
        }
        Some(Action::Table(table)) => format!("table {}", vrf(&table.vrf)),
        Some(Action::Special(special)) => special_name(*special).to_owned(),
        Some(Action::GotoPriority(priority)) => format!("goto {priority}"),
        None => String::new(),
    }
}

fn special_name(special: i32) -> &'static str {
    match Special::try_from(special) {
        Ok(Special::Unreachable) => "unreachable",
        Ok(Special::Prohibit) => "prohibit",
        _ => "blackhole",
    }
}

fn json(state: &RuleState) -> Option<Value> {
    let rule = state.rule.as_ref()?;
    let ports = |ports: &Option<PortRange>| ports.as_ref().map(|it| json!([it.first, it.last]));
    let mut value = json!({
        "vrf": vrf(&rule.vrf),
        "family": rule.family,
        "priority": rule.priority,
        "from": rule.from.as_ref().map(ToString::to_string),
        "to": rule.to.as_ref().map(ToString::to_string),
        "interface": (!rule.interface.is_empty()).then_some(&rule.interface),
        "dscp": rule.dscp,
        "protocol": rule.ip_protocol,
        "source_ports": ports(&rule.source_ports),
        "destination_ports": ports(&rule.destination_ports),
        "by": by(rule),
        "packets": state.packets,
        "bytes": state.bytes,
    });
    match &rule.action {
        Some(Action::Table(table)) => {
            value["table"] = json!(vrf(&table.vrf));
            value["ignore_default"] = json!(table.suppress_default);
        }
        Some(Action::Special(special)) => value["refuse"] = json!(special_name(*special)),
        Some(Action::GotoPriority(priority)) => value["goto"] = json!(priority),
        None => {}
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use stoa_api::v1::{Prefix, RuleTable};

    use super::*;

    #[test]
    fn a_rule_has_the_terms_of_ip_rule() {
        let table = RuleTable { vrf: "red".to_owned(), suppress_default: false };
        let rule = Rule {
            family: 4,
            priority: 100,
            from: Some(Prefix { address: vec![10, 0, 0, 0], length: 8 }),
            dscp: Some(46),
            destination_ports: Some(PortRange { first: 80, last: 90 }),
            action: Some(Action::Table(table)),
            protocol: Protocol::Kernel.into(),
            ..Rule::default()
        };
        assert_eq!(match_text(&rule), "IPv4 from 10.0.0.0/8 dscp 46 dport 80-90");
        assert_eq!(action_text(&rule), "table red");
        let state = RuleState { rule: Some(rule), packets: 7, bytes: 700 };
        let shown = json(&state).unwrap();
        assert_eq!((&shown["table"], &shown["by"]), (&json!("red"), &json!("Linux")));
        assert_eq!(shown["destination_ports"], json!([80, 90]));
        assert!(to_table(&[state]).to_string().contains("table red"));
    }
}
