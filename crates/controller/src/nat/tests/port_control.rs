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
fn external_interfaces_of_other_policies_are_refused() {
    let of_wan = of(json!({ "interface": ["lan", "red"] }), json!({}));
    let mut of_red = instance(&[policy(1, json!({}))], &[]);
    of_red["id"] = json!(2);
    of_red["policy"][0]["external-realm"] = json!({ "external-interface": "red" });
    let refusal = |instances: Value| {
        let errors = parsed(&whole(&instances)).unwrap_err();
        assert!(errors[0].0.ends_with("port-control/interface[.='red']"), "{errors:?}");
        errors[0].1.clone()
    };
    let errors = refusal(json!([of_wan.clone(), of_red.clone()]));
    assert!(errors.contains("the external interface of policy 1 of instance 2"), "{errors}");
    of_red["type"] = json!("ietf-nat:nptv6");
    of_red["policy"][0]["nptv6-prefixes"] = json!([{
        "internal-ipv6-prefix": "fd12:3456:789a::/48", "external-ipv6-prefix": "2001:db8:1::/48",
    }]);
    refusal(json!([of_wan.clone(), of_red.clone()]));
    // One that is not enabled translates nothing.
    of_red["enable"] = json!(false);
    nat(&json!([of_wan, of_red]));
}
