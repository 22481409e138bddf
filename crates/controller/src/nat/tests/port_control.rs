//! Who may ask for mappings.

use super::*;

/// A policy of wan that answers so.
fn of(control: Value, more: Value) -> Value {
    let mut policy = policy(1, more);
    policy["stoa-nat:port-control"] = control;
    instance(&[policy], &[])
}

#[test]
fn requests_are_answered_where_a_policy_names_an_interface() {
    let found = nat(&json!([of(json!({ "interface": ["lan"] }), json!({}))]));
    let defaults = v1::NatPortControl {
        interfaces: vec!["lan".to_owned()],
        no_nat_pmp: false,
        third_party: false,
        min_lifetime_s: 120,
        max_lifetime_s: 86_400,
        host_leases: 128,
    };
    assert_eq!(found.policies[0].port_control, Some(defaults.clone()));
    let all = json!({
        "interface": ["lan"], "nat-pmp": false, "third-party": true, "min-lifetime": 600, "max-lifetime": 600,
        "max-mappings-per-host": 7,
    });
    let found = nat(&json!([of(all, json!({}))]));
    let expected = v1::NatPortControl {
        no_nat_pmp: true,
        third_party: true,
        min_lifetime_s: 600,
        max_lifetime_s: 600,
        host_leases: 7,
        ..defaults
    };
    assert_eq!(found.policies[0].port_control, Some(expected));
    let none = nat(&json!([of(json!({}), json!({}))]));
    assert_eq!(none.policies[0].port_control, None);
}

#[test]
fn wrong_settings_of_requests_are_refused_with_their_paths() {
    let lan = json!({ "interface": ["lan"] });
    let reversed = json!({ "interface": ["lan"], "min-lifetime": 700, "max-lifetime": 600 });
    for (control, more, leaf, cause) in [
        (json!({ "nat-pmp": false }), json!({}), "/interface", "no interface"),
        (lan, json!({ "mapping-type": "edm" }), "", "no host can hold it"),
        (
            json!({ "interface": ["lan", "wan"] }),
            json!({}),
            "/interface[.='wan']",
            "the external interface",
        ),
        (reversed, json!({}), "/max-lifetime", "less than the minimum of 700"),
    ] {
        let found = error(&of(control, more));
        assert_eq!(found.0, format!("policy[id='1']/stoa-nat:port-control{leaf}"));
        assert!(found.1.contains(cause), "{found:?}");
    }
    let mut bare = of(json!({ "interface": ["lan"] }), json!({}));
    bare["type"] = json!("ietf-nat:basic-nat44");
    assert!(error(&bare).1.contains("no mappings that hosts could ask for"));
}

#[test]
fn a_commit_warns_of_others_who_could_ask() {
    let warned = |interface: &str, change: fn(&mut Value)| -> Vec<String> {
        let of_wan = of(json!({ "interface": [interface] }), json!({}));
        let mut of_red = instance(&[policy(1, json!({}))], &[]);
        of_red["id"] = json!(2);
        of_red["policy"][0]["external-realm"] = json!({ "external-interface": "red" });
        let mut value = whole(&json!([of_wan, of_red]));
        change(&mut value);
        let text = value.to_string();
        let texts = Configuration::parse(Path::new("test"), text).unwrap().warnings();
        let texts = texts.into_iter().map(|it| it.text);
        texts.filter(|it| it.contains("port-control") || it.contains("forged")).collect()
    };
    let forged = warned("lan", |_| {});
    assert!(forged[0].contains("hosts at lan can open ports of hosts elsewhere"), "{forged:?}");
    let strict = warned("lan", |value| {
        let all = value["ietf-interfaces:interfaces"]["interface"].as_array_mut().unwrap();
        let lan = all.iter_mut().find(|it| it["name"] == "lan").unwrap();
        lan["ietf-ip:ipv4"]["stoa-interfaces:reverse-path"] = json!("strict");
    });
    assert_eq!(strict, [""; 0]);
    let outside = warned("red", |_| {});
    assert!(outside[0].contains("the external interface of policy 1 of instance 2"), "{outside:?}");
}
