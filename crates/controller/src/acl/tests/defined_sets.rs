//! Rules with sets: what they become, what is refused, what commits warn about, and decisions about packets.

use stoa_api::acl::conditions_text;

use super::*;

/// A configuration with one list of a family, and sets.
fn with_sets(kind: &str, rules: &[Value], sets: &Value) -> Result<Configuration, Vec<String>> {
    let edge =
        json!({ "name": "edge", "type": format!("{MODULE}:{kind}"), "aces": { "ace": rules } });
    let interface = json!({
        "name": "lan", "type": "iana-if-type:ethernetCsmacd",
        "stoa-interfaces:port": { "null": {} }, "ietf-ip:ipv4": {}, "ietf-ip:ipv6": {},
    });
    let point = json!({ "interface-id": "lan", "ingress": { "acl-sets": { "acl-set": [{ "name": "edge" }] } } });
    let text = json!({
        "ietf-interfaces:interfaces": { "interface": [interface] },
        "ietf-access-control-list:acls": {
            "stoa-acl:defined-sets": sets,
            "acl": [edge],
            "attachment-points": { "interface": [point] },
        },
    });
    let parsed = Configuration::parse(Path::new("test"), text.to_string());
    let text =
        |it: stoa_yang::error::ValidationError| format!("{}: {} {}", it.path, it.cause, it.fix);
    parsed.map_err(|errors| errors.into_iter().map(text).collect())
}

/// The sets of most tests.
fn sets() -> Value {
    json!({
        "ipv4-prefix-sets": { "prefix-set": [
            { "name": "sites", "prefix": ["10.0.0.0/9", "192.0.2.0/25"], "include": ["more"] },
            { "name": "more", "prefix": ["10.128.0.0/9", "192.0.2.128/25"] },
            { "name": "everyone", "prefix": ["0.0.0.0/0"] },
            { "name": "nobody" },
        ] },
        "ipv6-prefix-sets": { "prefix-set": [{ "name": "six", "prefix": ["2001:db8::/32"] }] },
        "port-sets": { "port-set": [
            { "name": "web", "port": [80, 443, "8000-8080"] },
            { "name": "none" },
        ] },
        "protocol-sets": { "protocol-set": [{ "name": "vpn", "protocol": [50, 47] }] },
    })
}

fn to_web(source: &str) -> Value {
    json!({
        "ipv4": { "stoa-acl:source-ipv4-prefix-list": source },
        "tcp": { "stoa-acl:destination-tcp-port-set": "web" },
    })
}

fn four(rules: &[Value]) -> Result<Configuration, Vec<String>> {
    with_sets("ipv4-acl-type", rules, &sets())
}

#[test]
fn a_rule_has_the_values_of_its_sets() {
    let vpn = json!({ "ipv4": { "stoa-acl:protocol-set": "vpn" } });
    let back = json!({
        "ipv4": { "stoa-acl:destination-ipv4-prefix-list": "more" },
        "udp": { "stoa-acl:source-udp-port-set": "web", "destination-port": { "port": 53 } },
    });
    let rules = [
        rule("web", &to_web("sites"), "accept"),
        rule("vpn", &vpn, "accept"),
        rule("back", &back, "accept"),
        rule("all", &to_web("everyone"), "accept"),
    ];
    let configuration = four(&rules).unwrap();
    let [web, vpn, back, all] = configuration.desired.acl_rules.as_slice() else { panic!() };
    assert_eq!(stoa_api::acl::prefixes_text(&web.sources), "10.0.0.0/8, 192.0.2.0/24");
    assert_eq!((web.family, web.protocols.as_slice()), (4, &[6][..]));
    assert_eq!(stoa_api::acl::ranges_text(&web.destination_ports), "80, 443, 8000-8080");
    assert_eq!(stoa_api::acl::entry_count(web), 6);
    assert_eq!(
        conditions_text(web),
        "family IPv4 source set sites protocol tcp destination-port set web"
    );
    assert_eq!(vpn.protocols, [47, 50]);
    assert_eq!(
        conditions_text(back),
        "family IPv4 destination set more protocol udp source-port set web destination-port 53"
    );
    // All addresses are no condition.
    assert!(all.sources.is_empty() && !all.matches_nothing);
}

#[test]
fn sets_of_the_other_family_are_unknown() {
    let six = json!({ "ipv6": { "stoa-acl:source-ipv6-prefix-list": "six" } });
    let configuration =
        with_sets("ipv6-acl-type", &[rule("six", &six, "accept")], &sets()).unwrap();
    assert_eq!(configuration.desired.acl_rules[0].family, 6);
    let wrong = json!({ "ipv6": { "stoa-acl:source-ipv6-prefix-list": "sites" } });
    let errors = with_sets("ipv6-acl-type", &[rule("six", &wrong, "accept")], &sets()).unwrap_err();
    let leaf = "/ietf-access-control-list:acls/acl[name='edge']/aces/ace[name='six']/matches/ipv6\
                /stoa-acl:source-ipv6-prefix-list";
    let wanted = format!(
        "{leaf}: there is no set of IPv6 prefixes \"sites\" Define \"sites\", or use one that is defined."
    );
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].replace(" (line 1)", "").starts_with(&wanted), "{errors:?}");
}

#[test]
fn a_set_and_a_value_exclude_each_other() {
    let cases = [
        (
            json!({ "ipv4": {
                "source-ipv4-network": "10.0.0.0/8", "stoa-acl:source-ipv4-prefix-list": "sites",
            } }),
            "\"source-ipv4-network\" and \"source-ipv4-prefix-list\" exclude each other",
        ),
        (
            json!({ "ipv4": { "protocol": 47, "stoa-acl:protocol-set": "vpn" } }),
            "\"protocol\" and \"protocol-set\" exclude each other",
        ),
        (
            json!({ "tcp": {
                "source-port": { "port": 80 }, "stoa-acl:source-tcp-port-set": "web",
            } }),
            "\"source-port\" and \"source-tcp-port-set\" exclude each other",
        ),
        (
            json!({ "ipv4": { "stoa-acl:protocol-set": "vpn" }, "tcp": {
                "stoa-acl:source-tcp-port-set": "web",
            } }),
            "the protocol of tcp is 6, so a set of protocols has no effect",
        ),
    ];
    for (matches, cause) in cases {
        let errors = four(&[rule("a", &matches, "accept")]).unwrap_err();
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].contains(cause) && !errors[0].contains("libyang"), "{errors:?}");
    }
}

#[test]
fn a_rule_with_too_many_entries_is_named() {
    let every_second = |count: u32| -> Vec<u32> { (0..count).map(|n| 2 * n).collect() };
    let hosts: Vec<String> = every_second(1_000)
        .into_iter()
        .map(|n| format!("{}/32", std::net::Ipv4Addr::from(n)))
        .collect();
    let with = |ports: u32| {
        let sets = json!({
            "ipv4-prefix-sets": { "prefix-set": [{ "name": "hosts", "prefix": hosts }] },
            "port-sets": { "port-set": [{ "name": "web", "port": every_second(ports) }] },
        });
        with_sets("ipv4-acl-type", &[rule("web", &to_web("hosts"), "accept")], &sets)
    };
    assert!(with(262).is_ok());
    let errors = with(263).unwrap_err();
    assert_eq!(
        errors,
        [
            "/ietf-access-control-list:acls/acl[name='edge']/aces/ace[name='web']: the rule combines 1000 source \
          prefixes with 263 ranges of destination ports: 263000 entries, more than 262144 Use smaller sets, or prefixes \
          and ranges that cover several of their values."
        ]
    );
}

#[test]
fn a_rule_with_an_empty_set_matches_nothing_and_is_named() {
    // A set of all addresses has no condition, and is not the one without values.
    let ports = json!({
        "ipv4": { "stoa-acl:source-ipv4-prefix-list": "everyone" },
        "tcp": { "stoa-acl:source-tcp-port-set": "none" },
    });
    let ends = json!({ "ipv4": {
        "stoa-acl:source-ipv4-prefix-list": "everyone",
        "stoa-acl:destination-ipv4-prefix-list": "nobody",
    } });
    let rules = [
        rule("nobody", &to_web("nobody"), "drop"),
        rule("ports", &ports, "drop"),
        rule("ends", &ends, "drop"),
        rule("web", &to_web("everyone"), "accept"),
    ];
    let configuration = four(&rules).unwrap();
    let text = |name: &str, set: &str| {
        format!(
            "access list edge: rule {name} matches no packet: its set {set} has no values; add some, or deactivate \
             the rule"
        )
    };
    assert_eq!(
        texts(&configuration),
        [text("nobody", "nobody"), text("ports", "none"), text("ends", "nobody")]
    );
    let to = v1::TestAclRequest { protocol: 6, destination_port: 80, ..Default::default() };
    let decided = decision(&configuration, to);
    assert_eq!((decided.rule.as_str(), decided.passed_total), ("web", 3));
    assert_eq!(decided.passed[0].reason, "a set of it has no values");
}

#[test]
fn rules_that_sets_hide_are_named() {
    let net = |net: &str| {
        json!({
            "ipv4": { "source-ipv4-network": net }, "tcp": { "destination-port": { "port": 8_001 } },
        })
    };
    let rules = [
        rule("web", &to_web("sites"), "accept"),
        // Only the sets that sites includes and its own ones cover it together.
        rule("inside", &net("10.0.0.0/8"), "drop"),
        rule("beside", &net("192.0.2.0/23"), "drop"),
        rule("again", &to_web("more"), "accept"),
        rule("wider", &to_web("everyone"), "accept"),
    ];
    assert_eq!(
        texts(&four(&rules).unwrap()),
        [
            "access list edge: rule inside is shadowed: rule web, which comes first, matches all its packets",
            "access list edge: rule again is redundant: rule web, which comes first, matches the same packets with the \
             same action",
        ]
    );
}

#[test]
fn a_decision_names_sets() {
    let rules = [rule("web", &to_web("sites"), "accept"), rule("rest", &json!({}), "drop")];
    let configuration = four(&rules).unwrap();
    let to =
        |port| v1::TestAclRequest { protocol: 6, destination_port: port, ..Default::default() };
    let web = decision(&configuration, to(8_010));
    assert_eq!(web.rule, "web");
    assert!(
        web.reason.ends_with("source set sites protocol tcp destination-port set web"),
        "{web:?}"
    );
    assert_eq!(
        decision(&configuration, to(22)).passed[0].reason,
        "destination-port 22 is not in set web"
    );
}
