//! Limits of flows, and what a commit warns about: limits that hold nothing up.

use std::collections::BTreeSet;

use stoa_api::v1;

use super::paths::ACLS;
use crate::config::Interfaces;
use crate::config::data_path::predicate;
use crate::warning::Warning;

/// The name of the default VRF in the configuration.
const DEFAULT: &str = "default";

fn is_any(it: &v1::FlowLimit) -> bool {
    (it.live, it.half_open, it.new_per_second) != (None, None, None)
}

/// The limits of the desired state; `None`: nothing is limited, and senders of what finds no room are answered.
pub(super) fn translate(given: &v1::FlowLimits) -> Option<v1::FlowLimits> {
    let vrf = |it: &v1::FlowLimit| {
        let name = if it.name == DEFAULT { String::new() } else { it.name.clone() };
        v1::FlowLimit { name, ..it.clone() }
    };
    let limits = v1::FlowLimits {
        host: given.host.clone().filter(is_any),
        prefix: given.prefix.clone().filter(is_any),
        zones: given.zones.iter().filter(|it| is_any(it)).cloned().collect(),
        vrfs: given.vrfs.iter().filter(|it| is_any(it)).map(vrf).collect(),
        refusal: given.refusal,
    };
    (limits != v1::FlowLimits::default()).then_some(limits)
}

/// The path of a limit. `of`: what is below the limits.
fn path(of: &str) -> String {
    format!("{ACLS}/stoa-acl:flow-limits/{of}")
}

/// The warnings about limits that hold nothing up: nothing has flows, a zone has no interfaces, or one limit is above
/// another one that holds first.
pub(crate) fn flow_limit_warnings(desired: &v1::Desired, interfaces: &Interfaces) -> Vec<Warning> {
    let Some(limits) = &desired.flow_limits else { return Vec::new() };
    let has_flows = desired.acl_rules.iter().any(|rule| rule.stateful) || desired.nat.is_some();
    if !has_flows {
        return vec![Warning {
            text: "flow-limits have no effect: no stateful entry and no policy of NAT begins flows; make an entry \
                   stateful by \"actions stateful true\", or remove flow-limits"
                .to_owned(),
            nodes: vec![format!("{ACLS}/stoa-acl:flow-limits")],
        }];
    }
    let zones: BTreeSet<&str> = interfaces.iter().map(|it| it.zone.as_str()).collect();
    let empty = limits.zones.iter().filter(|it| !zones.contains(it.name.as_str()));
    let mut found: Vec<Warning> = empty
        .map(|v1::FlowLimit { name, .. }| Warning {
            text: format!(
                "zone {name}: its flow-limits have no effect: it has no interfaces; add one by \"set acls zones zone \
                 {name} interface INTERFACE\", or remove the limits"
            ),
            nodes: vec![path(&format!("zone{}", predicate("name", name)))],
        })
        .collect();
    if let (Some(host), Some(prefix)) = (&limits.host, &limits.prefix) {
        let each = [
            ("live", host.live, prefix.live),
            ("half-open", host.half_open, prefix.half_open),
            ("new-per-second", host.new_per_second, prefix.new_per_second),
        ];
        for (leaf, host, prefix) in each {
            let (Some(host), Some(prefix)) = (host, prefix) else { continue };
            if host > prefix {
                found.push(Warning {
                    text: format!(
                        "flow-limits: a host may have {host} and its prefix only {prefix} ({leaf}): no host reaches \
                         its limit; raise that of prefixes, or lower that of hosts"
                    ),
                    nodes: vec![path(&format!("host/{leaf}"))],
                });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(name: &str, live: Option<u32>) -> v1::FlowLimit {
        v1::FlowLimit { name: name.into(), live, ..v1::FlowLimit::default() }
    }

    #[test]
    fn what_limits_nothing_is_left_out() {
        let given = v1::FlowLimits {
            host: Some(limit("", None)),
            prefix: Some(v1::FlowLimit { ip4_length: 24, ..limit("", None) }),
            zones: vec![limit("lan", None)],
            vrfs: vec![limit("red", None)],
            ..v1::FlowLimits::default()
        };
        assert_eq!(translate(&given), None);
        let vrfs = vec![limit("default", Some(0)), limit("red", Some(7))];
        let read = translate(&v1::FlowLimits { vrfs, ..given.clone() }).unwrap();
        let vrfs = vec![limit("", Some(0)), limit("red", Some(7))];
        assert_eq!(read, v1::FlowLimits { vrfs, ..v1::FlowLimits::default() });
        let refusal = v1::FlowRefusal::Silent.into();
        let read = translate(&v1::FlowLimits { refusal, ..given });
        assert_eq!(read, Some(v1::FlowLimits { refusal, ..v1::FlowLimits::default() }));
    }

    #[test]
    fn limits_that_hold_nothing_up_are_named() {
        let limits = v1::FlowLimits {
            host: Some(limit("", Some(100))),
            prefix: Some(limit("", Some(50))),
            zones: vec![limit("lan", Some(1)), limit("dmz", Some(1))],
            ..v1::FlowLimits::default()
        };
        let mut desired = v1::Desired { flow_limits: Some(limits), ..v1::Desired::default() };
        let lan = v1::Interface { zone: "lan".into(), ..v1::Interface::default() };
        let interfaces = Interfaces::from(vec![lan]);
        let found = |desired: &v1::Desired| -> Vec<String> {
            let warnings = flow_limit_warnings(desired, &interfaces).into_iter();
            warnings.map(|it| it.nodes[0].replace(ACLS, "")).collect()
        };
        assert_eq!(found(&desired), ["/stoa-acl:flow-limits"]);
        desired.acl_rules = vec![v1::AclRule { stateful: true, ..v1::AclRule::default() }];
        let named = "/stoa-acl:flow-limits/zone[name='dmz']";
        assert_eq!(found(&desired), [named, "/stoa-acl:flow-limits/host/live"]);
    }
}
