//! Policy rules: stoa-policy. The rules of Linux are not in the configuration and have no counters here.

use serde_json::{Value, json};
use stoa_api::v1;

use super::request::StateRequest;
use crate::json::{list, number, object, text};
use crate::operational_state::{OperationalState, StateSection};

/// `/ietf-routing:routing/stoa-policy:policy`; `None` without rules.
pub(super) fn render(operational: &OperationalState, request: &StateRequest) -> Option<Value> {
    request.is(StateSection::Rules).then_some(())?;
    let rules = list(operational.rules.iter().filter_map(rule));
    (!rules.is_null()).then(|| json!({ "rule": rules }))
}

fn rule(state: &v1::RuleState) -> Option<Value> {
    let rule = state.rule.as_ref().filter(|rule| rule.protocol() == v1::Protocol::Static)?;
    let vrf = if rule.vrf.is_empty() { "default" } else { &rule.vrf };
    let counters = object([("packets", number(state.packets)), ("octets", number(state.bytes))]);
    Some(object([
        ("vrf", text(vrf)),
        ("address-family", text(if rule.family == 4 { "ipv4" } else { "ipv6" })),
        ("priority", json!(rule.priority)),
        ("statistics", counters),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let rendered = render(&operational, &request).unwrap();
        let rules = rendered["rule"].as_array().unwrap();
        assert_eq!(rules.len(), 2, "those of Linux are not in the configuration: {rendered}");
        assert_eq!(
            (&rules[0]["vrf"], &rules[1]["address-family"]),
            (&json!("default"), &json!("ipv6"))
        );
        assert_eq!(rules[0]["statistics"], json!({ "packets": "5000000000", "octets": "7" }));
        super::super::tree(&operational, &request).unwrap();
        assert!(render(&operational, &StateRequest::at("/ietf-routing:routing/ribs")).is_none());
    }
}
