//! Instances of NAT64: what they translate to, and what is refused.

use serde_json::{Value, json};

use super::*;

fn of_type(policies: &[Value]) -> Value {
    let mut whole = instance(policies, &[]);
    whole["type"] = json!("ietf-nat:nat64");
    whole
}

fn prefixes(all: &[&str]) -> Value {
    let list: Vec<Value> = all.iter().map(|it| json!({ "nat64-prefix": it })).collect();
    json!({ "nat64-prefixes": list })
}

#[test]
fn a_policy_has_its_prefix() {
    let found = nat(&json!([of_type(&[policy(1, prefixes(&["64:ff9b::/96"]))])]));
    let [one] = found.policies.as_slice() else { panic!("{found:?}") };
    assert_eq!(one.nat64_prefix, Some(prefix("64:ff9b::/96")));
    assert_eq!((one.interface.as_str(), one.mapping()), ("wan", v1::NatMappingType::NatEim));
}

#[test]
fn wrong_prefixes_are_refused() {
    let of = |more| error(&of_type(&[policy(1, more)]));
    for (given, cause) in [
        (vec![], "has 0 prefixes"),
        (vec!["64:ff9b::/96", "2001:db8:64::/96"], "has 2 prefixes"),
        (vec!["2001:db8::/95"], "cannot hold IPv4 addresses"),
        (vec!["2001:db8:0:0:100::/96"], "cannot hold IPv4 addresses"),
        (vec!["ff0e::/96"], "not routed"),
    ] {
        let (path, found) = of(prefixes(&given));
        assert!(path.contains("/nat64-prefixes") && found.contains(cause), "{path}: {found}");
    }
    let mut stateless = prefixes(&["64:ff9b::/96"]);
    stateless["nat64-prefixes"][0]["stateless-enable"] = json!(true);
    assert!(of(stateless).1.contains("with state"));
    // In an instance of another type.
    let (path, _) = error(&instance(&[policy(1, prefixes(&["64:ff9b::/96"]))], &[]));
    assert!(path.contains("nat64-prefixes"), "{path}");
    // As one of NPTv6 does, whose pair replaces nothing here.
    let mut both = prefixes(&["64:ff9b::/96"]);
    both["nptv6-prefixes"] = json!([{
        "internal-ipv6-prefix": "fd12:3456:789a::/48", "external-ipv6-prefix": "2001:db8:1::/48",
    }]);
    let mut whole = instance(&[policy(1, both)], &[]);
    whole["type"] = json!("ietf-nat:nptv6");
    let (path, _) = error(&whole);
    assert!(path.contains("nat64-prefixes"), "{path}");
}

#[test]
fn what_only_nat44_has_is_refused() {
    for (leaf, value, fix) in [
        ("subscriber-match", sources("10.0.0.0/24")["subscriber-match"].clone(), "access list"),
        ("port-allocation-type", json!("port-range-allocation"), "port-quota"),
        ("algs", json!([{ "name": "ftp" }]), "EPSV"),
        ("stoa-nat:subscriber-mask-v4", json!(24), "64 bits"),
        ("stoa-nat:port-control", json!({ "interface": ["lan"] }), "NAT44"),
    ] {
        let mut more = prefixes(&["64:ff9b::/96"]);
        more[leaf] = value;
        if leaf == "port-allocation-type" {
            more["port-set"] = json!({ "port-set-size": 64 });
        }
        let given = whole(&json!([of_type(&[policy(1, more)])])).to_string();
        let errors = Configuration::parse(Path::new("test"), given).map(drop).unwrap_err();
        let path = format!("policy[id='1']/{leaf}");
        let found = errors.iter().find(|it| it.path.ends_with(&path));
        let found = found.unwrap_or_else(|| panic!("{path}: {errors:?}"));
        assert!(found.fix.starts_with("Remove ") && found.fix.contains(fix), "{found:?}");
    }
    let mut mapped = of_type(&[policy(1, prefixes(&["64:ff9b::/96"]))]);
    mapped["mapping-table"] =
        json!({ "mapping-entry": [one_to_one(1, "203.0.113.9/32", "10.0.0.9/32")] });
    assert_eq!(error(&mapped).0, "mapping-table");
}

#[test]
fn a_vrf_has_one_prefix() {
    let two = [policy(1, prefixes(&["64:ff9b::/96"])), policy(2, prefixes(&["2001:db8:64::/96"]))];
    let (path, cause) = error(&of_type(&two));
    assert_eq!(path, "policy[id='2']/nat64-prefixes");
    assert!(cause.contains("in the same VRF"), "{cause}");
}

#[test]
fn no_interface_has_addresses_of_the_prefix() {
    for (prefix, address, is_refused) in [
        ("2001:db8::/32", "2001:db8:7::1", true),
        ("2001:db8:64::/96", "2001:db8:64::1", true),
        ("2001:db8:64::/96", "2001:db8:65::1", false),
        // Another network on the same link.
        ("2001:db8:64:1::/96", "2001:db8:64::1", false),
    ] {
        let mut value = whole(&json!([of_type(&[policy(1, prefixes(&[prefix]))])]));
        let lan = &mut value["ietf-interfaces:interfaces"]["interface"][1];
        lan["ietf-ip:ipv6"] =
            json!({ "forwarding": true, "address": [{ "ip": address, "prefix-length": 64 }] });
        let errors = parsed(&value).map(drop).err().unwrap_or_default();
        assert_eq!(errors.len(), usize::from(is_refused), "{prefix} {address}: {errors:?}");
        let all = errors.iter();
        for (path, cause) in all {
            assert!(path.ends_with("/nat64-prefixes") && cause.contains("\"lan\""), "{cause}");
        }
    }
}

#[test]
fn a_commit_warns_about_a_prefix_that_does_not_reach_the_external_subnet() {
    let of = |prefix: &str| warnings(&whole(&json!([of_type(&[policy(1, prefixes(&[prefix]))])])));
    let found = of("64:ff9b::/96");
    assert!(found.iter().any(|it| it.contains("do not reach 198.51.100.0/24")), "{found:?}");
    assert_eq!(of("2001:db8:64::/96"), [] as [&str; 0]);
}
