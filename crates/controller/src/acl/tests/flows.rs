//! Stateful rules: what begins a flow, and how flows are followed.

use super::*;

#[test]
fn only_what_is_accepted_begins_a_flow() {
    let with = |action: &str| {
        let mut rule = rule("out", &json!({}), action);
        rule["actions"]["stoa-acl:stateful"] = json!(true);
        list("edge", &[rule])
    };
    let configuration = configuration(&[with("accept")]);
    assert!(configuration.desired.acl_rules[0].stateful);
    let of = v1::TestAclRequest { protocol: 17, ..v1::TestAclRequest::default() };
    assert!(decision(&configuration, of).stateful);
    let text = json!({ "ietf-access-control-list:acls": { "acl": [with("drop")] } });
    let errors = Configuration::parse(Path::new("test"), text.to_string()).unwrap_err();
    let paths: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
    let list = "/ietf-access-control-list:acls/acl[name='edge']";
    assert_eq!(paths, [format!("{list}/aces/ace[name='out']/actions/stoa-acl:stateful")]);
    assert!(errors[0].cause.contains("drop"), "{}", errors[0].cause);
}

#[test]
fn a_decision_tells_what_begins_a_flow() {
    let with = |is_loose: bool| {
        let mut rule = rule("out", &json!({}), "accept");
        rule["actions"]["stoa-acl:stateful"] = json!(true);
        rule["actions"]["stoa-acl:flow-profile"] = json!("open");
        let mut text = text_of(&["lan"], &[list("edge", &[rule])]);
        text["ietf-access-control-list:acls"]["stoa-acl:flow-profile"] =
            json!([{ "name": "open", "tcp": { "loose": is_loose } }]);
        text["ietf-interfaces:interfaces"]["interface"][0]["ietf-ip:ipv4"] =
            json!({ "address": [{ "ip": "192.0.2.9", "prefix-length": 24 }] });
        Configuration::parse(Path::new("test"), text.to_string()).unwrap()
    };
    let [strict, loose] = [with(false), with(true)];
    let of = |protocol| v1::TestAclRequest { protocol, hop_limit: 64, ..Default::default() };
    let found = |configuration: &Configuration, of| {
        let found = decision(configuration, of);
        (found.action, found.stateful)
    };
    let tcp = |tcp_flags| v1::TestAclRequest { tcp_flags, ..of(6) };
    let is = |action: &str, stateful| (action.to_owned(), stateful);
    assert_eq!(found(&strict, tcp(2)), is("accept", true));
    assert_eq!(found(&strict, tcp(16)), is("drop", false));
    assert_eq!(found(&loose, tcp(16)), is("accept", true));
    assert_eq!(found(&loose, tcp(17)), is("drop", false));
    let icmp = |icmp_type| v1::TestAclRequest { icmp_type, ..of(1) };
    assert_eq!(found(&strict, icmp(8)), is("accept", true));
    assert_eq!(found(&strict, icmp(0)), is("accept", false));
    assert_eq!(found(&strict, icmp(3)), is("accept", false));
    let later = v1::AclFragment::LaterFragment.into();
    assert_eq!(
        found(&strict, v1::TestAclRequest { fragment: later, ..of(17) }),
        is("accept", false)
    );
    assert_eq!(found(&strict, v1::TestAclRequest { hop_limit: 1, ..of(17) }), is("accept", false));
    let to = |destination: &str, tcp_flags| {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let of = v1::TestAclRequest {
            interface: "lan".into(),
            direction: "in".into(),
            ..tcp(tcp_flags)
        };
        let (source, destination) = (address("10.1.0.1"), address(destination));
        let found = evaluate(&strict, &Packet { source, destination, of }).unwrap();
        (found.action, found.stateful)
    };
    assert_eq!(to("192.0.2.9", 16), is("accept", false), "the router's own address");
    assert_eq!(to("224.0.0.5", 2), is("accept", false));
    assert!(decision(&strict, tcp(2)).has_flows);
}

#[test]
fn a_flow_profile_completes_its_rules() {
    let rule = |is_stateful: bool| {
        let mut rule = rule("out", &json!({}), "accept");
        rule["actions"]["stoa-acl:stateful"] = json!(is_stateful);
        rule["actions"]["stoa-acl:flow-profile"] = json!("quick");
        rule
    };
    let parsed = |rule: Value, profile: Value| {
        let mut acls = json!({ "acl": [list("edge", &[rule])] });
        acls["stoa-acl:flow-profile"] = json!([profile]);
        let text = json!({ "ietf-access-control-list:acls": acls }).to_string();
        Configuration::parse(Path::new("test"), text)
    };
    let quick = json!({ "name": "quick", "timeouts": { "tcp-established": 600, "icmp": 5 }, "tcp": { "loose": true } });
    let configuration = parsed(rule(true), quick.clone()).unwrap();
    let profile = configuration.desired.acl_rules[0].flow_profile.unwrap();
    assert_eq!((profile.tcp_established_s, profile.udp_new_s), (600, 300));
    assert_eq!((profile.tcp_loose, profile.tcp_liberal), (true, false));
    let warned = warnings(&configuration.desired.acl_rules, (&configuration.interfaces, &[]));
    let about = |text: &str| warned.iter().filter(|it| it.text.contains(text)).count();
    assert_eq!(
        about("tcp-established after 600 s (RFC 5382 REQ-5: no less than 7440 s), icmp after 5 s"),
        1
    );
    let long =
        parsed(rule(true), json!({ "name": "quick", "timeouts": { "udp-new": 120 } })).unwrap();
    let warned = warnings(&long.desired.acl_rules, (&long.interfaces, &[]));
    assert!(!warned.iter().any(|it| it.text.contains("sooner than")), "{warned:?}");
    let errors = parsed(rule(false), quick).unwrap_err();
    assert!(errors[0].path.ends_with("/actions/stoa-acl:flow-profile"), "{}", errors[0].path);
    let errors = parsed(rule(true), json!({ "name": "other" })).unwrap_err();
    assert!(!errors.is_empty());
}

#[test]
fn a_gateway_needs_flows_of_its_protocol() {
    let with = |protocol: &str, alg: &str, is_stateful: bool| {
        let mut rule =
            rule("out", &json!({ protocol: { "destination-port": { "port": 21 } } }), "accept");
        rule["actions"]["stoa-acl:stateful"] = json!(is_stateful);
        rule["actions"]["stoa-acl:alg"] = json!(alg);
        list("edge", &[rule])
    };
    assert_eq!(configuration(&[with("tcp", "ftp", true)]).desired.acl_rules[0].alg, "ftp");
    assert_eq!(configuration(&[with("udp", "tftp", true)]).desired.acl_rules[0].alg, "tftp");
    for (wrong, cause) in [
        (with("tcp", "ftp", false), "not stateful"),
        (with("udp", "ftp", true), "are TCP"),
        (with("tcp", "tftp", true), "are UDP"),
        (with("udp", "pptp", true), "are TCP"),
        (with("tcp", "sip", true), "are UDP"),
    ] {
        let text = json!({ "ietf-access-control-list:acls": { "acl": [wrong] } });
        let errors = Configuration::parse(Path::new("test"), text.to_string()).unwrap_err();
        let list = "/ietf-access-control-list:acls/acl[name='edge']";
        assert_eq!(errors[0].path, format!("{list}/aces/ace[name='out']/actions/stoa-acl:alg"));
        assert!(errors[0].cause.contains(cause), "{}", errors[0].cause);
    }
}
