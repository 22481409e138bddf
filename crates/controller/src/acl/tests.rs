//! What commits warn about, and decisions about packets.

mod defined_sets;
mod flow_state;
mod flows;
mod interfaces;
mod unmatched;

use std::net::IpAddr;
use std::path::Path;

use serde_json::{Value, json};
use stoa_api::v1;

use super::*;
use crate::configuration::Configuration;
use crate::operational_state::OperationalState;
use crate::state::{StateRequest, render, tree};

const MODULE: &str = "ietf-access-control-list";

fn rule(name: &str, matches: &Value, action: &str) -> Value {
    let actions = json!({ "forwarding": format!("{MODULE}:{action}") });
    json!({ "name": name, "matches": matches, "actions": actions })
}

fn list(name: &str, rules: &[Value]) -> Value {
    json!({ "name": name, "type": format!("{MODULE}:ipv4-acl-type"), "aces": { "ace": rules } })
}

/// A configuration with lists that are attached to the input of an interface, in their order.
fn configuration(lists: &[Value]) -> Configuration {
    configuration_of(&["lan"], lists)
}

/// The same for several interfaces.
fn configuration_of(interfaces: &[&str], lists: &[Value]) -> Configuration {
    let text = text_of(interfaces, lists).to_string();
    Configuration::parse(Path::new("test"), text).unwrap()
}

/// Its text.
fn text_of(interfaces: &[&str], lists: &[Value]) -> Value {
    let names: Vec<Value> = lists.iter().map(|list| json!({ "name": list["name"] })).collect();
    let interface = |name: &&str| {
        json!({
            "name": name, "type": "iana-if-type:ethernetCsmacd",
            "stoa-interfaces:port": { "null": {} },
            "ietf-ip:ipv4": {}, "ietf-ip:ipv6": {},
        })
    };
    let point = |name: &&str| json!({ "interface-id": name, "ingress": { "acl-sets": { "acl-set": names } } });
    let interface: Vec<Value> = interfaces.iter().map(interface).collect();
    let points: Vec<Value> = interfaces.iter().map(point).collect();
    json!({
        "ietf-interfaces:interfaces": { "interface": interface },
        "ietf-access-control-list:acls": {
            "acl": lists, "attachment-points": { "interface": points },
        },
    })
}

fn warned(lists: &[Value]) -> Vec<String> {
    texts(&configuration(lists))
}

/// The warnings of a configuration, but not those about the other family, which many tests have no list of.
fn texts(configuration: &Configuration) -> Vec<String> {
    let found = warnings(&configuration.desired.acl_rules, (&configuration.interfaces, &[]));
    let found = found.into_iter().map(|it| it.text);
    found.filter(|text| !text.contains("attach a list of IPv")).collect()
}

fn tcp(port: u16) -> Value {
    json!({ "tcp": { "destination-port": { "port": port } } })
}

#[test]
fn hidden_rules_are_named_with_those_that_hide_them() {
    let net = |net: &str| json!({ "ipv4": { "source-ipv4-network": net } });
    let edge = list(
        "edge",
        &[
            rule("wide", &net("10.0.0.0/8"), "accept"),
            rule("narrow", &net("10.1.0.0/16"), "drop"),
            rule("again", &net("10.2.0.0/16"), "accept"),
            rule("other", &net("10.0.0.0/8"), "reject"),
            rule("free", &net("192.0.2.0/24"), "accept"),
        ],
    );
    assert_eq!(
        warned(&[edge]),
        [
            "access list edge: rule narrow is shadowed: rule wide, which comes first, matches all its packets",
            "access list edge: rule again is redundant: rule wide, which comes first, matches the same packets with \
             the same action",
            "access list edge: rule other contradicts rule wide, which comes first and matches the same packets: it \
             has no effect",
        ]
    );
}

#[test]
fn a_rule_without_conditions_is_named_unless_it_is_the_last() {
    let dns = rule("dns", &json!({ "udp": {} }), "accept");
    let rest = rule("rest", &json!({}), "drop");
    let web = [80, 81].map(|port| rule(&port.to_string(), &tcp(port), "drop"));
    let all = [dns.clone(), web[0].clone(), web[1].clone(), rest];
    let found = warned(&[list("edge", &all)]);
    assert_eq!(
        found[0],
        "access list edge: rule dns has no condition and matches every packet: the 3 rules behind it cannot decide; \
         give it a condition, or make it the last one"
    );
    assert_eq!(found.len(), 1, "{found:?}");
    // It may have a prefix: that of all addresses.
    let all = rule("all", &json!({ "ipv4": { "source-ipv4-network": "0.0.0.0/0" } }), "accept");
    let found = warned(&[list("edge", &[all, web[0].clone()])]);
    assert!(found[0].contains("the rule behind it cannot decide"), "{found:?}");
    assert_eq!(warned(&[list("edge", &[web[0].clone(), dns])]), [""; 0]);
}

#[test]
fn a_list_that_nothing_has_is_named() {
    let [edge, spare] =
        ["edge", "spare"].map(|name| list(name, &[rule("web", &tcp(80), "accept")]));
    let mut text = text_of(&["lan"], &[edge]);
    let lists = &mut text["ietf-access-control-list:acls"]["acl"];
    lists.as_array_mut().unwrap().push(spare);
    let configuration = Configuration::parse(Path::new("test"), text.to_string()).unwrap();
    assert_eq!(
        texts(&configuration),
        [
            "access list spare decides nothing: no interface has it, and no pair of zones; attach it, or deactivate \
             it"
        ]
    );
}

#[test]
fn conditions_of_a_family_need_the_type_of_their_list() {
    for (family, kind) in [("ipv4", "ipv4-acl-type"), ("ipv6", "ipv6-acl-type")] {
        let rules = [rule("tcp", &json!({ family: { "protocol": 6 } }), "accept")];
        let acls = json!({ "acl": [{ "name": "edge", "aces": { "ace": rules } }] });
        let text = json!({ "ietf-access-control-list:acls": acls }).to_string();
        let errors = Configuration::parse(Path::new("test"), text).unwrap_err();
        let list = "/ietf-access-control-list:acls/acl[name='edge']";
        assert_eq!(errors[0].path, format!("{list}/aces/ace[name='tcp']/matches/{family}"));
        let fix = format!("Set {list}/type to {kind}, or move the rule to a list of this type.");
        assert_eq!((errors.len(), &errors[0].fix), (1, &fix));
        // The same if another list has the type, for which libyang accepts it.
        let other = json!({ "name": "other", "type": format!("{MODULE}:{kind}") });
        let rules = [rule("tcp", &json!({ family: { "protocol": 6 } }), "accept")];
        let acls = json!({ "acl": [{ "name": "edge", "aces": { "ace": rules } }, other] });
        let text = json!({ "ietf-access-control-list:acls": acls }).to_string();
        let errors = Configuration::parse(Path::new("test"), text).unwrap_err();
        assert_eq!(errors[0].path, format!("{list}/aces/ace[name='tcp']/matches/{family}"));
        assert_eq!((errors.len(), &errors[0].fix), (1, &fix));
    }
}

#[test]
fn a_family_without_a_list_beside_one_with_a_list_is_named() {
    let with = |kind: &str| {
        let mut list = list("edge", &[rule("dns", &tcp(53), "accept")]);
        match kind {
            "" => drop(list.as_object_mut().and_then(|list| list.remove("type"))),
            kind => list["type"] = json!(format!("{MODULE}:{kind}")),
        }
        let configuration = configuration(&[list]);
        let found = warnings(&configuration.desired.acl_rules, (&configuration.interfaces, &[]));
        found.into_iter().map(|it| it.text).collect::<Vec<_>>()
    };
    let warning = |of_list: u8, other: u8| {
        format!(
            "interface lan: all its lists for packets that it receives are of IPv{of_list}, so all IPv{other} packets \
             pass; attach a list of IPv{other}, too, or one without a type"
        )
    };
    assert_eq!(with(""), [""; 0]);
    assert_eq!(with("ipv4-acl-type"), [warning(4, 6)]);
    assert_eq!(with("ipv6-acl-type"), [warning(6, 4)]);
}

#[test]
fn lists_before_hide_rules_too_and_empty_ones_are_named() {
    let first = list("first", &[rule("all", &json!({}), "accept")]);
    let second = list("second", &[rule("web", &tcp(80), "accept")]);
    let found = warned(&[first, second, list("third", &[])]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("access list third has no rules"), "{found:?}");
    assert!(found[1].contains("rule web is redundant: rule all of access list first"), "{found:?}");
}

#[test]
fn rules_that_differ_in_any_condition_hide_nothing() {
    let web = tcp(80);
    let others = [
        tcp(81),
        json!({ "udp": { "destination-port": { "port": 80 } } }),
        json!({ "tcp": { "source-port": { "port": 80 } } }),
        json!({ "ipv4": { "dscp": 1 } }),
        json!({ "stoa-acl:fragment": "first" }),
        json!({ "stoa-acl:packet-length": { "upper": 100 } }),
        json!({ "tcp": { "stoa-acl:tcp-flags": { "set": "syn" } } }),
        json!({ "icmp": { "type": 8 } }),
    ];
    for other in others {
        let rules = [rule("a", &web, "accept"), rule("b", &other, "drop"), rule("c", &web, "drop")];
        let found = warned(&[list("edge", &rules)]);
        assert_eq!(found.len(), 1, "{other}: {found:?}");
        assert!(found[0].contains("rule c contradicts rule a"), "{found:?}");
    }
}

#[test]
fn rules_that_cut_links_and_paths_are_named() {
    let all = rule("rest", &json!({}), "drop");
    let echo = |kind: u8| json!({ "icmp": { "type": kind } });
    let of6 = |rules: &[Value]| {
        let mut six = list("six", rules);
        six["type"] = json!(format!("{MODULE}:ipv6-acl-type"));
        warned(&[six])
    };
    let found = of6(std::slice::from_ref(&all));
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(
        found[0],
        "access list six: rule rest drops neighbor solicitations at interface lan: IPv6 hosts on the link do not find \
         the router; accept ICMPv6 type 135 before it"
    );
    let accepted = [135, 136, 2].map(|kind| rule(&kind.to_string(), &echo(kind), "accept"));
    assert_eq!(of6(&[accepted.to_vec(), vec![all.clone()]].concat()), [""; 0]);
    // Echo requests and bogons are no part of it.
    let bogons = json!({ "ipv6": { "source-ipv6-network": "2001:db8::/32" } });
    assert_eq!(of6(&[rule("ping", &echo(128), "drop"), rule("bogons", &bogons, "drop")]), [""; 0]);
    let found = warned(&[list("four", &[all])]);
    assert!(found.len() == 1 && found[0].contains("fragmentation needed"), "{found:?}");
}

#[test]
fn rows_of_lists_are_compared_once_and_not_without_end() {
    let rules = [rule("ping", &json!({ "icmp": { "type": 128 } }), "accept")];
    let mut six = list("six", &[&rules[..], &[rule("rest", &json!({}), "drop")]].concat());
    six["type"] = json!(format!("{MODULE}:ipv6-acl-type"));
    let names: Vec<String> = (0..50).map(|at| format!("lan{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let configuration = configuration_of(&names, &[six]);
    let all: Vec<&v1::AclRule> = configuration.desired.acl_rules.iter().collect();
    let lists = std::collections::BTreeMap::from([("six", all)]);
    // Two rules and three messages, at whatever number of interfaces.
    let found = |steps| essential::warnings(&lists, (&configuration.interfaces, &[]), steps);
    let texts: Vec<String> = found(6).into_iter().map(|it| it.text).collect();
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert!(texts.iter().all(|text| text.contains("rule rest drops")), "{texts:?}");
    let texts: Vec<String> = found(5).into_iter().map(|it| it.text).collect();
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert!(texts[2].contains("those of interface lan0 and of later ones"), "{texts:?}");
}

#[test]
fn rules_with_all_ports_match_no_later_fragments() {
    let all = json!({ "tcp": { "destination-port": { "lower-port": 0, "upper-port": 65_535 } } });
    let fragments = json!({ "ipv4": { "protocol": 6 }, "stoa-acl:fragment": "later" });
    let rules = [rule("ports", &all, "accept"), rule("later", &fragments, "accept")];
    let edge = list("edge", &rules);
    assert_eq!(warned(std::slice::from_ref(&edge)), [""; 0], "the first rule does not hide it");
    let later = v1::AclFragment::LaterFragment.into();
    let of = v1::TestAclRequest { protocol: 6, fragment: later, ..Default::default() };
    assert_eq!(decision(&configuration(&[edge]), of).rule, "later");
}

fn decision(configuration: &Configuration, of: v1::TestAclRequest) -> Decision {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let of = v1::TestAclRequest { interface: "lan".into(), direction: "in".into(), ..of };
    let packet = Packet { source: address("10.1.0.1"), destination: address("192.0.2.1"), of };
    evaluate(configuration, &packet).unwrap()
}

#[test]
fn a_decision_names_the_rule_and_what_passed_before() {
    let rules = [
        rule("other", &json!({ "ipv4": { "source-ipv4-network": "203.0.113.0/24" } }), "drop"),
        rule("dns", &json!({ "udp": { "destination-port": { "port": 53 } } }), "accept"),
        rule("web", &tcp(80), "reject"),
    ];
    let edge = configuration(&[list("edge", &rules)]);
    let to =
        |port| v1::TestAclRequest { protocol: 6, destination_port: port, ..Default::default() };
    let web = decision(&edge, to(80));
    assert_eq!((web.action.as_str(), web.rule.as_str(), web.passed_total), ("reject", "web", 2));
    assert_eq!(web.passed[0].reason, "source 10.1.0.1 is not in 203.0.113.0/24");
    assert_eq!(web.passed[1].reason, "protocol is tcp, not udp");
    assert!(web.reason.contains("protocol tcp destination-port 80"), "{}", web.reason);
    let none = decision(&edge, to(81));
    assert_eq!((none.action.as_str(), none.rule.as_str()), ("drop", ""));
    assert_eq!(none.passed[2].reason, "destination-port 81 is not in 80");
    let later = v1::AclFragment::LaterFragment.into();
    let later = decision(&edge, v1::TestAclRequest { fragment: later, ..to(80) });
    assert_eq!(later.passed[2].reason, "later fragments have no upper-layer header");
    let needed =
        v1::TestAclRequest { protocol: 1, icmp_type: 3, icmp_code: 4, ..Default::default() };
    assert_eq!(decision(&edge, needed).action, "accept");
    let none = configuration(&[]);
    assert_eq!(decision(&none, to(80)).action, "accept");
}

#[test]
fn a_rule_may_have_a_log() {
    let mut with = rule("dns", &json!({}), "drop");
    with["actions"]["logging"] = json!(format!("{MODULE}:log-syslog"));
    let configuration = configuration(&[list("edge", &[with, rule("rest", &json!({}), "accept")])]);
    let logs: Vec<bool> = configuration.desired.acl_rules.iter().map(|it| it.log).collect();
    assert_eq!(logs, [true, false]);
}

#[test]
fn what_is_accepted_may_be_limited() {
    let parsed = |action: &str, limit: Value| {
        let mut rule = rule("ping", &json!({}), action);
        rule["actions"]["stoa-acl:rate-limit"] = limit;
        let acls = json!({ "acl": [list("edge", &[rule])] });
        let text = json!({ "ietf-access-control-list:acls": acls }).to_string();
        Configuration::parse(Path::new("test"), text)
    };
    let limit = |limit| parsed("accept", limit).unwrap().desired.acl_rules[0].rate_limit.unwrap();
    let found = limit(json!({ "packets-per-second": 10 }));
    assert_eq!((found.packets_per_second, found.burst), (10, 10));
    assert_eq!(limit(json!({ "packets-per-second": 10, "burst": 2 })).burst, 2);
    let refused = |action, limit| parsed(action, limit).unwrap_err()[0].path.clone();
    let path = refused("drop", json!({ "packets-per-second": 10 }));
    assert!(path.ends_with("/actions/stoa-acl:rate-limit"), "{path}");
    let path = refused("accept", json!({ "burst": 10 }));
    assert!(path.ends_with("stoa-acl:rate-limit/burst"), "{path}");
}

#[test]
fn counters_are_statistics_of_the_standard_module() {
    let rule = |acl: &str, name: &str| v1::AclRule {
        acl: acl.into(),
        name: name.into(),
        ..v1::AclRule::default()
    };
    let state = |rule: v1::AclRule, packets, last_hit_unix_s| v1::AclRuleState {
        rule: Some(rule),
        packets,
        bytes: 7,
        last_hit_unix_s,
        position: 1,
        row: None,
    };
    let acls = vec![
        state(rule("edge", "web"), 5_000_000_000, 951_782_400),
        state(rule("edge", "rest"), 0, 0),
        state(rule("lan", "all"), 1, 0),
    ];
    let operational = OperationalState { acls, ..OperationalState::default() };
    let request = StateRequest::at("/ietf-access-control-list:acls");
    let rendered = render(&operational, &request);
    let lists = &rendered["ietf-access-control-list:acls"]["acl"];
    assert_eq!(
        lists[0]["aces"]["ace"][0]["statistics"],
        json!({
            "matched-packets": "5000000000", "matched-octets": "7",
            "stoa-acl:last-hit": "2000-02-29T00:00:00Z",
        })
    );
    assert_eq!(lists[1]["name"], "lan");
    tree(&operational, &request).unwrap();
}
