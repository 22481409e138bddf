//! Rules that look at interfaces and VLANs: what a commit refuses and warns about, and decisions about packets.

use super::*;
use crate::acl::evaluate;

/// lan and wan with a sub-interface of each, and lists without a type: their names, rules, and where they are attached.
fn whole(lists: &[(&str, &[Value])], points: &Value, pairs: &[(&str, &str, &str)]) -> Value {
    let port = |name: &str| {
        json!({
            "name": name, "type": "iana-if-type:ethernetCsmacd",
            "stoa-interfaces:port": { "null": {} }, "ietf-ip:ipv4": {}, "ietf-ip:ipv6": {},
        })
    };
    let sub = |name: &str, parent: &str, vid: u32| {
        json!({
            "name": name, "type": "iana-if-type:l2vlan",
            "stoa-interfaces:sub-interface": { "parent": parent, "outer": { "tpid": "c-vlan", "vid": vid } },
            "ietf-ip:ipv4": {}, "ietf-ip:ipv6": {},
        })
    };
    let acl = |(name, rules): &(&str, &[Value])| json!({ "name": name, "aces": { "ace": rules } });
    let pair = |(from, to, acl): &(&str, &str, &str)| json!({ "from": from, "to": to, "acl-sets": { "acl-set": [{ "name": acl }] } });
    json!({
        "ietf-interfaces:interfaces": { "interface": [
            port("lan"), port("wan"), sub("lan.10", "lan", 10), sub("wan.20", "wan", 20),
        ] },
        "ietf-access-control-list:acls": {
            "acl": lists.iter().map(acl).collect::<Vec<_>>(),
            "attachment-points": { "interface": points },
            "stoa-acl:zones": { "zone": [
                { "name": "inside", "interface": ["lan", "lan.10"] },
                { "name": "outside", "interface": ["wan", "wan.20"] },
            ] },
            "stoa-acl:zone-pairs": { "zone-pair": pairs.iter().map(pair).collect::<Vec<_>>() },
        },
    })
}

/// The lists of an interface in a direction.
fn point(interface: &str, direction: &str, acl: &str) -> Value {
    json!({ "interface-id": interface, direction: { "acl-sets": { "acl-set": [{ "name": acl }] } } })
}

fn parsed(value: &Value) -> Result<Configuration, Vec<(String, String, String)>> {
    let parsed = Configuration::parse(Path::new("test"), value.to_string());
    parsed.map_err(|errors| errors.into_iter().map(|it| (it.path, it.cause, it.fix)).collect())
}

fn ingress(name: &str) -> Value {
    rule(name, &json!({ "ingress-interface": name }), "accept")
}

fn egress(name: &str) -> Value {
    rule(name, &json!({ "egress-interface": name }), "accept")
}

fn vlan(id: u32) -> Value {
    rule(&format!("vlan {id}"), &json!({ "stoa-acl:vlan-id": id }), "accept")
}

const RULE: &str = "/ietf-access-control-list:acls/acl[name='edge']/aces/ace";

#[test]
fn a_sending_interface_is_refused_where_there_is_none() {
    let edge: (&str, &[Value]) = ("edge", &[egress("wan")]);
    let of_input = parsed(&whole(&[edge], &json!([point("lan", "ingress", "edge")]), &[]));
    let (path, cause, fix) = of_input.unwrap_err().remove(0);
    assert_eq!(path, format!("{RULE}[name='wan']/matches/egress-interface"));
    assert!(cause.contains("\"lan\" receives"), "{cause}");
    assert!(fix.contains("attach the list to egress"), "{fix}");
    let of_router = parsed(&whole(&[edge], &json!([]), &[("inside", "router", "edge")]));
    let (path, cause, _) = of_router.unwrap_err().remove(0);
    assert_eq!(path, format!("{RULE}[name='wan']/matches/egress-interface"));
    assert!(cause.contains("zone \"inside\" to the router itself"), "{cause}");
    let points = json!([point("wan", "egress", "edge")]);
    let sent = parsed(&whole(&[edge], &points, &[("inside", "outside", "edge")])).unwrap();
    assert_eq!(sent.desired.acl_rules[0].egress_interface, "wan");
}

#[test]
fn interfaces_that_rules_name_exist() {
    for (leaf, name) in [("ingress-interface", "lan.10"), ("egress-interface", "wan.20")] {
        let named = rule("named", &json!({ leaf: name }), "accept");
        let mut value = whole(&[("edge", &[named])], &json!([]), &[]);
        assert!(parsed(&value).is_ok());
        // It is removed, and nothing else names it.
        let all = value["ietf-interfaces:interfaces"]["interface"].as_array_mut().unwrap();
        all.retain(|it| it["name"] != name);
        for zone in
            value["ietf-access-control-list:acls"]["stoa-acl:zones"]["zone"].as_array_mut().unwrap()
        {
            zone["interface"].as_array_mut().unwrap().retain(|it| it != name);
        }
        let errors = parsed(&value).unwrap_err();
        assert_eq!(errors.len(), 1, "{errors:?}");
        let (path, cause, fix) = &errors[0];
        assert_eq!(*path, format!("{RULE}[name='named']/matches/{leaf}"));
        assert!(cause.contains(name) && !fix.is_empty(), "{cause}: {fix}");
    }
    let with = |id: u32| parsed(&whole(&[("edge", &[vlan(id)])], &json!([]), &[])).is_ok();
    assert_eq!([0, 4094, 4095].map(with), [true, true, false]);
}

/// The warnings about rules that match no packet: their names.
fn never(value: &Value) -> Vec<String> {
    let warnings = parsed(value).unwrap().warnings().into_iter().map(|it| it.text);
    let names = warnings.filter_map(|text| {
        let rest = text.strip_prefix("access list edge: rule ")?;
        rest.split_once(" matches no packet: where").map(|(name, _)| name.to_owned())
    });
    names.collect()
}

#[test]
fn a_rule_that_no_packet_matches_where_its_list_is_attached_is_named() {
    let receive = [ingress("lan"), ingress("wan"), vlan(0), vlan(10)];
    let edge: (&str, &[Value]) = ("edge", &receive);
    let at = |points: Value, pairs: &[(&str, &str, &str)]| never(&whole(&[edge], &points, pairs));
    assert_eq!(at(json!([]), &[]), [""; 0], "it is attached nowhere");
    assert_eq!(at(json!([point("lan", "ingress", "edge")]), &[]), ["wan", "vlan 10"]);
    let points = json!([point("lan.10", "ingress", "edge"), point("wan", "ingress", "edge")]);
    assert_eq!(at(points, &[]), ["lan"]);
    assert_eq!(at(json!([point("lan", "egress", "edge")]), &[]), [""; 0]);
    assert_eq!(at(json!([]), &[("inside", "outside", "edge")]), ["wan"]);
    assert_eq!(at(json!([]), &[("outside", "router", "edge")]), ["lan", "vlan 10"]);
    let own = at(json!([]), &[("router", "outside", "edge")]);
    assert_eq!(own, ["lan", "wan", "vlan 0", "vlan 10"]);
    let send = [egress("lan"), egress("wan"), vlan(30)];
    let edge: (&str, &[Value]) = ("edge", &send);
    let at = |points: Value, pairs: &[(&str, &str, &str)]| never(&whole(&[edge], &points, pairs));
    assert_eq!(at(json!([point("wan", "egress", "edge")]), &[]), ["lan", "vlan 30"]);
    assert_eq!(at(json!([]), &[("inside", "outside", "edge")]), ["lan", "vlan 30"]);
    let both = json!({ "ingress-interface": "lan.10", "stoa-acl:vlan-id": 20 });
    let edge = whole(
        &[("edge", &[rule("both", &both, "drop")])],
        &json!([point("wan", "egress", "edge")]),
        &[],
    );
    assert_eq!(never(&edge), ["both"]);
    let text = parsed(&edge).unwrap().warnings().into_iter().map(|it| it.text);
    let text: Vec<String> = text.filter(|it| it.contains("matches no packet")).collect();
    assert!(text[0].contains("no packet has ingress-interface lan.10 vlan-id 20;"), "{text:?}");
}

#[test]
fn rules_of_other_interfaces_hide_nothing() {
    let https = |mut matches: Value| {
        matches["tcp"] = json!({ "destination-port": { "port": 443 } });
        matches
    };
    let rules = [
        rule("lan", &json!({ "ingress-interface": "lan" }), "accept"),
        rule("lan web", &https(json!({ "ingress-interface": "lan" })), "drop"),
        rule("wan web", &https(json!({ "ingress-interface": "wan" })), "drop"),
        rule("tagged web", &https(json!({ "stoa-acl:vlan-id": 10 })), "drop"),
        rule("sent web", &https(json!({ "egress-interface": "lan" })), "drop"),
        rule(
            "sent by lan",
            &https(json!({ "ingress-interface": "lan", "egress-interface": "wan" })),
            "drop",
        ),
        rule("web", &https(json!({})), "drop"),
    ];
    let configuration = parsed(&whole(&[("edge", &rules)], &json!([]), &[])).unwrap();
    let texts = configuration.warnings().into_iter().map(|it| it.text);
    let texts: Vec<String> = texts.filter(|it| !it.contains("decides nothing")).collect();
    assert_eq!(
        texts,
        ["lan web", "sent by lan"].map(|name| format!(
            "access list edge: rule {name} is shadowed: rule lan, which comes first, matches all its packets"
        ))
    );
}

#[test]
fn decisions_look_at_the_interfaces_of_a_packet() {
    let rules = [ingress("lan"), egress("wan.20"), vlan(10), rule("rest", &json!({}), "reject")];
    let edge: (&str, &[Value]) = ("edge", &rules);
    let points = json!([point("wan", "egress", "edge"), point("wan.20", "egress", "edge")]);
    let configuration = parsed(&whole(&[edge], &points, &[("inside", "outside", "edge")])).unwrap();
    let asked = |of: v1::TestAclRequest| {
        let of = v1::TestAclRequest { protocol: 17, ..of };
        let packet = Packet { source: [10, 0, 0, 1].into(), destination: [10, 1, 0, 1].into(), of };
        evaluate(&configuration, &packet).unwrap()
    };
    let through = |interface: &str, output: &str| {
        asked(v1::TestAclRequest {
            interface: interface.into(),
            direction: "in".into(),
            output: output.into(),
            ..v1::TestAclRequest::default()
        })
    };
    assert_eq!(through("lan", "wan").rule, "lan");
    assert_eq!(through("lan.10", "wan").rule, "vlan 10");
    assert_eq!(through("lan.10", "wan.20").rule, "wan.20");
    let other = through("wan.20", "wan");
    let reasons: Vec<&str> = other.passed.iter().map(|it| it.reason.as_str()).collect();
    assert_eq!(other.rule, "rest");
    assert_eq!(
        reasons,
        [
            "ingress-interface is wan.20, not lan",
            "egress-interface is wan, not wan.20",
            "vlan-id is 20, not 10"
        ]
    );
    // The receiving interface is not known.
    let sent = |from_zone: &str| {
        asked(v1::TestAclRequest {
            interface: "wan".into(),
            direction: "out".into(),
            from_zone: from_zone.into(),
            ..v1::TestAclRequest::default()
        })
    };
    assert_eq!(sent("").rule, "rest");
    let unknown = "ingress-interface is not lan: the packet has none, or it was not named";
    assert_eq!(sent("").passed[0].reason, unknown);
    let conditions = "it is the first rule that matches: ingress-interface lan";
    assert_eq!(through("lan", "wan").reason, conditions);
}

#[test]
fn a_rule_of_an_interface_drops_what_links_need_there_only() {
    let rules = [
        rule("lan", &json!({ "ingress-interface": "lan" }), "drop"),
        rule("rest", &json!({}), "accept"),
    ];
    let points = |names: &[&str]| {
        names.iter().map(|name| point(name, "ingress", "edge")).collect::<Vec<_>>()
    };
    let warned = |names: &[&str]| {
        let value = whole(&[("edge", &rules)], &json!(points(names)), &[]);
        let texts = parsed(&value).unwrap().warnings().into_iter().map(|it| it.text);
        texts.filter(|text| text.contains("rule lan drops neighbor solicitations at")).collect()
    };
    let text: Vec<String> = warned(&["wan", "lan"]);
    assert!(text.len() == 1 && text[0].contains("at interface lan:"), "{text:?}");
    assert_eq!(warned(&["wan"]), [""; 0]);
}
