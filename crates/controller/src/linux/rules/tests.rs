//! Import and export of rules.

use std::path::Path;

use super::*;

/// Host interfaces of "wan" (default VRF) and "lan" (VRF red) in "local"; a route source imports table 100
/// into red, table 200 is blue's.
fn configuration(rules: &str) -> Configuration {
    let text = format!(
        r#"{{
          "ietf-interfaces:interfaces": {{"interface": [
            {{"name": "wan", "type": "iana-if-type:ethernetCsmacd", "stoa-interfaces:port": {{"null": {{}}}},
             "stoa-host-interface:host-interface": {{"netns": "local", "device": "w"}}}},
            {{"name": "lan", "type": "iana-if-type:ethernetCsmacd", "stoa-interfaces:port": {{"null": {{}}}},
             "stoa-vrf:vrf": "red", "stoa-host-interface:host-interface": {{"netns": "local"}}}},
            {{"name": "dmz", "type": "iana-if-type:ethernetCsmacd", "stoa-interfaces:port": {{"null": {{}}}}}}
          ]}},
          "stoa-vrf:vrfs": {{"vrf": [{{"name": "red"}}, {{"name": "green"}},
            {{"name": "blue", "stoa-policy:kernel-table": 200}}]}},
          "ietf-routing:routing": {{
            "stoa-policy:policy": {{"rule": [{rules}]}},
            "control-plane-protocols": {{"control-plane-protocol": [
              {{"type": "stoa-routing:netlink", "name": "k", "stoa-vrf:vrf": "red",
               "stoa-routing:route-source": {{"netns": "local", "kernel-table": 100}}}}]}}}}
        }}"#
    );
    let parsed = Configuration::parse(Path::new("test"), text);
    parsed.unwrap_or_else(|errors| panic!("{errors:#?}"))
}

fn table(priority: u32, table: u32) -> Rule {
    Rule::new(false, priority, RuleAction::Table(table))
}

/// VRF, priority and action of each rule, and why others are not imported.
fn imported_rules(rules: &[Rule]) -> (Vec<(String, u32, Action)>, Vec<String>) {
    let (imported, rejected) = import(rules, &configuration(""), "local");
    (imported.into_iter().map(|it| (it.vrf, it.priority, it.action.unwrap())).collect(), rejected)
}

fn to(vrf: &str) -> Action {
    Action::Table(v1::RuleTable { vrf: vrf.to_owned(), suppress_default: false })
}

#[test]
fn a_rule_is_imported_into_each_vrf_with_a_host_interface() {
    let rule = Rule { from: "10.0.0.0/8".parse().ok(), ..table(50, 100) };
    let (imported, rejected) = import(&[rule], &configuration(""), "local");
    assert_eq!(imported.iter().map(|it| it.vrf.as_str()).collect::<Vec<_>>(), ["", "red"]);
    assert_eq!(imported[0].from.as_ref().unwrap().to_string(), "10.0.0.0/8");
    assert_eq!(imported[0].protocol(), v1::Protocol::Kernel);
    assert!(rejected.is_empty());
    // With a device, it applies to that one only.
    let device = |name: &str| Rule { device: name.to_owned(), ..table(50, 200) };
    let (imported, _) = import(&[device("w")], &configuration(""), "local");
    assert_eq!(
        (imported.len(), imported[0].interface.as_str(), imported[0].vrf.as_str()),
        (1, "wan", "")
    );
    // Without a host interface, it applies to nothing.
    assert_eq!(import(&[table(50, 100)], &configuration(""), "elsewhere").0, []);
}

#[test]
fn tables_belong_to_route_sources_vrfs_and_main() {
    let rules = [table(1, 100), table(2, 200), table(3, 254)];
    let (imported, rejected) = imported_rules(&rules);
    let here: Vec<_> =
        imported.iter().filter(|it| it.0.is_empty()).map(|it| it.2.clone()).collect();
    assert_eq!(here, [to("red"), to("blue"), to("")]);
    assert!(rejected.is_empty());
    let first = Rule { suppressed: Some(0), ..table(1, 254) };
    let beyond = v1::RuleTable { vrf: String::new(), suppress_default: true };
    assert_eq!(imported_rules(&[first]).0[0].2, Action::Table(beyond));
}

#[test]
fn unsupported_rules_are_rejected_with_a_fix() {
    let rules = [
        table(1, 77),
        table(0, 100),
        Rule { device: "eth7".to_owned(), ..table(2, 100) },
        Rule { device: "lo".to_owned(), ..table(3, 100) },
        Rule { suppressed: Some(8), ..table(4, 100) },
        Rule { unsupported: Some("packet marks (fwmark)"), ..table(5, 100) },
        Rule { unsupported: Some(TOS), ..table(5, 100) },
        Rule::new(true, 6, RuleAction::Nothing),
    ];
    let (imported, rejected) = imported_rules(&rules);
    assert!(imported.is_empty());
    assert_eq!(
        rejected,
        [
            "ip rule 1 from all lookup 77: table 77 belongs to no VRF: set kernel-table 77 of a VRF, or add a netlink route source for it",
            "ip rule 0 from all lookup 100: priority 0 is reserved for local addresses; use a higher one",
            "ip rule 2 from all iif eth7 lookup 100: the device eth7 is not a host interface",
            "ip rule 3 from all iif lo lookup 100: the rule matches packets that this machine sends (iif lo)",
            "ip rule 4 from all lookup 100: suppress_prefixlength 8 is not supported: use 0",
            "ip rule 5 from all lookup 100: the rule uses packet marks (fwmark); use VRFs instead",
            "ip rule 5 from all lookup 100: the rule matches three bits of the TOS (tos); use dscp",
        ]
    );
}

#[test]
fn exported_rules_are_imported_unchanged() {
    let configured = configuration(
        r#"{"vrf": "default", "address-family": "ipv4", "priority": 10,
            "match": {"source-prefix": "10.0.0.0/8", "interface": "wan", "dscp": 46, "protocol": 6,
              "destination-port": {"lower-port": 80}}, "table": "blue"},
           {"vrf": "red", "address-family": "ipv6", "priority": 20, "refuse": "prohibit"},
           {"vrf": "red", "address-family": "ipv6", "priority": 30, "table": "default",
            "ignore-default": true},
           {"vrf": "default", "address-family": "ipv4", "priority": 40, "table": "green"},
           {"vrf": "default", "address-family": "ipv4", "priority": 50,
            "match": {"interface": "dmz"}, "goto": 60},
           {"vrf": "blue", "address-family": "ipv4", "priority": 70, "table": "red"}"#,
    );
    let (rules, rejected) = export(&configured, "local");
    let texts: Vec<String> = rules.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "ip rule 10 from 10.0.0.0/8 iif w lookup 200",
            "ip -6 rule 20 from all iif lan prohibit",
            "ip -6 rule 30 from all iif lan lookup 254",
        ]
    );
    assert_eq!(
        rejected,
        [
            "IPv4 rule 40: VRF green has no kernel-table: set one",
            "IPv4 rule 50: interface dmz has no host interface there"
        ]
    );
    assert!(rules.iter().all(|rule| rule.protocol == RTPROT_STOA));
    // An exported rule would be imported unchanged.
    let first = rules.into_iter().next().unwrap();
    let (imported, _) = import(&[first], &configured, "local");
    let desired =
        v1::Rule { protocol: imported[0].protocol, ..configured.desired.rules[0].clone() };
    assert_eq!(imported, [desired]);
}

#[test]
fn main_without_a_device_is_the_table_of_each_vrf() {
    let (imported, _) = imported_rules(&[Rule { suppressed: Some(0), ..table(7, 254) }]);
    let beyond =
        |vrf: &str| Action::Table(v1::RuleTable { vrf: vrf.to_owned(), suppress_default: true });
    assert_eq!(imported, [(String::new(), 7, beyond("")), ("red".to_owned(), 7, beyond("red"))]);
    // With a device, it is that of the default VRF.
    let (imported, _) = imported_rules(&[Rule { device: "lan".to_owned(), ..table(7, 254) }]);
    assert_eq!(imported, [("red".to_owned(), 7, to(""))]);
}

/// One rule that rejects everything in the default VRF, which has two host interfaces in "local".
fn with_two_host_interfaces() -> Configuration {
    let mut configured = configuration(
        r#"{"vrf": "default", "address-family": "ipv4", "priority": 10, "refuse": "prohibit"}"#,
    );
    let host_interface =
        Some(v1::HostInterface { netns: "local".to_owned(), device: "d".to_owned() });
    let dmz = configured.interfaces.named("dmz").unwrap().clone();
    configured.interfaces.set(v1::Interface { host_interface, ..dmz });
    configured
}

#[test]
fn a_rule_is_exported_for_each_host_interface_of_its_vrf() {
    let mut configured = with_two_host_interfaces();
    let (rules, _) = export(&configured, "local");
    let texts: Vec<String> = rules.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["ip rule 10 from all iif d prohibit", "ip rule 10 from all iif w prohibit"]);
    assert!(export(&configured, "elsewhere").0.is_empty());
    // Two rules exceed the limit.
    let rule = configured.desired.rules[0].clone();
    let many = (1..=2_050).map(|priority| v1::Rule { priority, ..rule.clone() });
    configured.desired.rules = many.collect();
    let (rules, rejected) = export(&configured, "local");
    assert_eq!((rules.len(), rejected.len()), (4_096, 1));
    assert!(rejected[0].starts_with("2 rules exceed the limit of 4096"), "{rejected:?}");
}

#[test]
fn rules_of_our_and_of_missing_devices_are_ours() {
    let devices = Devices {
        ours: HashSet::from(["w".to_owned()]),
        others: HashSet::from(["eth0".to_owned()]),
    };
    let rule = |priority, device: &str, protocol| Rule {
        device: device.to_owned(),
        protocol,
        ..table(priority, 100)
    };
    let there = vec![
        rule(1, "w", RTPROT_STOA),
        rule(2, "gone", RTPROT_STOA),
        // Those of another Stoa with its own host interfaces, one without a device, and one of an operator.
        rule(3, "eth0", RTPROT_STOA),
        rule(4, "", RTPROT_STOA),
        rule(5, "w", 3),
    ];
    let ours: Vec<u32> = devices.ours(there).iter().map(|it| it.priority).collect();
    assert_eq!(ours, [1, 2]);
}

#[test]
fn rules_that_the_kernel_alters_are_found() {
    let rule = |priority, dscp| Rule {
        device: "w".to_owned(),
        dscp,
        protocol: RTPROT_STOA,
        ..Rule::new(false, priority, RuleAction::Prohibit)
    };
    let (of_dscp, other, plain) = (rule(10, Some(46)), rule(10, None), rule(20, None));
    let added = [&of_dscp, &plain];
    let all = BTreeSet::from([of_dscp.clone(), plain.clone()]);
    assert_eq!(altered_rules(&added, &all, &all), []);
    let imported = BTreeSet::from([other.clone(), plain.clone()]);
    assert_eq!(altered_rules(&added, &all, &imported), [(&of_dscp, &other)]);
    assert_eq!(
        unsupported_reason(&of_dscp),
        "ip rule 10 from all iif w prohibit: this kernel cannot match DSCP: use Linux 6.12"
    );
    // Somebody else removed it meanwhile: it is tried again.
    assert_eq!(altered_rules(&added, &all, &BTreeSet::from([plain.clone()])), []);
}
