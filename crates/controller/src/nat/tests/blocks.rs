//! Blocks of ports: what they translate to, and what is refused.

use serde_json::{Value, json};
use stoa_api::v1;

use super::{ONE, error, instance, nat, parsed, policy, pool, port, sources, warnings, whole};

/// A policy with port sets of 512 ports, and more.
fn by_blocks(id: u32, set: Value, more: Value) -> Value {
    let mut policy = policy(id, pool("203.0.113.0/28"));
    policy["port-allocation-type"] = json!("port-range-allocation");
    policy["port-set"] = json!({ "port-set-size": 512 });
    for (to, from) in [(&["port-set"][..], set), (&[][..], more)] {
        let mut at = &mut policy;
        for name in to {
            at = &mut at[*name];
        }
        at.as_object_mut().unwrap().extend(from.as_object().unwrap().clone());
    }
    policy
}

fn deterministic(size: u32, more: Value) -> Value {
    let set = json!({ "port-set-size": size, "stoa-nat:deterministic": true });
    let mut policy = by_blocks(1, set, sources("100.64.0.0/20"));
    policy.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    policy
}

#[test]
fn port_sets_have_defaults_and_quotas() {
    let found = nat(&json!([instance(&[by_blocks(1, json!({}), json!({}))], &[])]));
    let blocks = v1::NatPortBlocks {
        size: 512,
        limit: 4,
        timeout_s: 120,
        subscriber_length: 32,
        deterministic: false,
    };
    let first = &found.policies[0];
    assert_eq!((first.blocks, first.silent, first.quotas.len()), (Some(blocks), false, 0));
    let set = json!({ "port-set-timeout": 300, "stoa-nat:max-port-sets": 8 });
    let more = json!({
        "stoa-nat:subscriber-mask-v4": 24, "stoa-nat:refusal": "silent",
        "port-quota": [{ "quota-type": 17, "port-limit": 900 }, { "quota-type": 0, "port-limit": 1500 }],
    });
    let found = nat(&json!([instance(&[by_blocks(1, set, more)], &[])]));
    let first = &found.policies[0];
    let blocks = v1::NatPortBlocks { limit: 8, timeout_s: 300, subscriber_length: 24, ..blocks };
    assert_eq!((first.blocks, first.silent), (Some(blocks), true));
    let mut quotas: Vec<_> = first.quotas.iter().map(|it| (it.protocol, it.ports)).collect();
    quotas.sort_unstable();
    assert_eq!(quotas, [(0, 1500), (17, 900)]);
}

#[test]
fn wrong_port_sets_are_refused_with_their_paths() {
    let of = |set, more| error(&instance(&[by_blocks(1, set, more)], &[]));
    let size = "policy[id='1']/port-set/port-set-size";
    let found = of(json!({ "port-set-size": 16 }), json!({}));
    assert_eq!(found.0, size);
    assert!(found.1.contains("16 ports of a port set are not between 32 and 64512"), "{found:?}");
    let narrow = json!({ "port-set-restrict": port(2000, 2099) });
    assert_eq!(of(json!({}), narrow).0, size);
    let found = of(json!({ "port-set-timeout": 0 }), json!({}));
    assert_eq!(found.0, "policy[id='1']/port-set/port-set-timeout");
    let quota =
        |kind, limit| json!({ "port-quota": [{ "quota-type": kind, "port-limit": limit }] });
    let at = |kind| format!("policy[id='1']/port-quota[quota-type='{kind}']");
    assert_eq!(of(json!({}), quota(132, 9)).0, at(132));
    assert_eq!(of(json!({}), quota(6, 0)).0, format!("{}/port-limit", at(6)));
    let deterministic = deterministic(64, quota(0, 64));
    assert_eq!(error(&instance(&[deterministic], &[])).0, at(0));
    let mut without = policy(1, json!({ "stoa-nat:subscriber-mask-v4": 24 }));
    assert_eq!(
        error(&instance(&[without.clone()], &[])).0,
        "policy[id='1']/stoa-nat:subscriber-mask-v4"
    );
    without = policy(1, json!({ "port-set": { "port-set-size": 512 } }));
    assert!(parsed(&whole(&json!([instance(&[without], &[])]))).is_err());
    let mut fixed = instance(&[by_blocks(1, json!({}), json!({}))], &[]);
    fixed["policy"][0].as_object_mut().unwrap().remove("external-ip-address-pool");
    fixed["type"] = json!("ietf-nat:basic-nat44");
    assert_eq!(error(&fixed).0, "policy[id='1']/port-allocation-type");
}

#[test]
fn more_subscribers_than_port_sets_are_refused_with_numbers_and_a_fix() {
    let wrong = instance(&[deterministic(512, json!({}))], &[]);
    let path = std::path::Path::new("test");
    let value = whole(&json!([wrong])).to_string();
    let errors = crate::configuration::Configuration::parse(path, value).map(drop).unwrap_err();
    let [error] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!(error.path, format!("{ONE}/policy[id='1']/port-set/port-set-size"));
    assert_eq!(
        error.cause,
        "4096 subscribers are more than the 2016 port sets: 16 external addresses with 126 port sets of 512 ports each"
    );
    assert_eq!(error.fix, "Set port-set-size to 252 or less, or use 33 external addresses.");
    let right = deterministic(252, json!({}));
    let found = nat(&json!([instance(&[right], &[])]));
    assert!(found.policies[0].blocks.unwrap().deterministic);
    let masked = deterministic(512, json!({ "stoa-nat:subscriber-mask-v4": 29 }));
    assert_eq!(nat(&json!([instance(&[masked], &[])])).policies.len(), 1);
}

#[test]
fn a_deterministic_policy_needs_subscribers_and_pools() {
    let without = |leaf: &str| {
        let mut policy = deterministic(252, json!({}));
        policy.as_object_mut().unwrap().remove(leaf);
        error(&instance(&[policy], &[])).0
    };
    for leaf in ["subscriber-match", "external-ip-address-pool"] {
        assert_eq!(without(leaf), format!("policy[id='1']/{leaf}"));
    }
    let parts = deterministic(252, json!({ "stoa-nat:subscriber-mask-v4": 16 }));
    assert!(error(&instance(&[parts], &[])).1.contains("100.64.0.0/20 is a part of a subscriber"));
}

#[test]
fn a_pool_with_port_sets_belongs_to_one_policy() {
    let found = error(&instance(
        &[by_blocks(1, json!({}), sources("10.0.0.0/24")), policy(2, pool("203.0.113.0/28"))],
        &[],
    ));
    assert_eq!(found.0, "policy[id='2']/external-ip-address-pool[pool-id='1']/external-ip-pool");
    assert!(found.1.contains("a pool of policy 1 of instance 1, too"), "{found:?}");
}

/// Path, cause and fix of each error.
fn whole_errors(policies: &[Value]) -> Vec<(String, String, String)> {
    let value = whole(&json!([instance(policies, &[])])).to_string();
    let parsed = crate::configuration::Configuration::parse(std::path::Path::new("test"), value);
    let errors = parsed.map(drop).unwrap_err();
    errors.into_iter().map(|it| (it.path, it.cause, it.fix)).collect()
}

#[test]
fn each_fault_is_one_error_with_its_range() {
    let zero = by_blocks(1, json!({ "port-set-size": 0 }), json!({}));
    let found = whole_errors(&[zero]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].2, "Set it to 32 to 64512, such as 512.");
    let timeout = by_blocks(1, json!({ "port-set-timeout": 90_000 }), json!({}));
    let found = whole_errors(&[timeout]);
    assert!(found[0].2.starts_with("Set it to 1 to 86400, or remove it"), "{found:?}");
    let wide = policy(2, pool("203.0.113.0/24"));
    let found = whole_errors(&[by_blocks(1, json!({}), sources("10.0.0.0/24")), wide]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].2, "Use other addresses.");
}

#[test]
fn a_port_set_without_its_allocation_type_names_it() {
    let found = whole_errors(&[policy(1, json!({ "port-set": { "port-set-size": 512 } }))]);
    assert!(found[0].2.starts_with("Set port-allocation-type"), "{found:?}");
}

#[test]
fn a_commit_warns_about_a_quota_below_a_port_set() {
    let with = |quotas: &[(u32, u32)]| {
        let quota = |(kind, ports): &(u32, u32)| json!({ "quota-type": kind, "port-limit": ports });
        let quotas = json!({ "port-quota": quotas.iter().map(quota).collect::<Vec<_>>() });
        warnings(&whole(&json!([instance(&[by_blocks(1, json!({}), quotas)], &[])])))
    };
    let found = with(&[(0, 511)]);
    assert!(
        found[0].contains("511 ports of all protocols is less than one port set of 512"),
        "{found:?}"
    );
    assert_eq!(with(&[(0, 512)]), [] as [&str; 0]);
    assert_eq!(with(&[(1, 10)]), [] as [&str; 0], "TCP uses all ports");
    let found = with(&[(1, 10), (6, 400), (17, 300)]);
    assert!(found[0].contains("400 ports of tcp"), "{found:?}");
}

#[test]
fn quotas_need_no_port_sets() {
    let quota = json!({ "port-quota": [{ "quota-type": 6, "port-limit": 100 }] });
    let found = nat(&json!([instance(&[policy(1, quota)], &[])]));
    let [policy] = &found.policies[..] else { panic!("{found:?}") };
    assert_eq!(policy.quotas, [v1::NatPortQuota { protocol: 6, ports: 100 }]);
    assert_eq!(policy.blocks, None);
}

#[test]
fn a_commit_warns_about_a_quota_that_never_takes_effect() {
    let with = |kind: u32, ports: u32| {
        let quota = json!({ "port-quota": [{ "quota-type": kind, "port-limit": ports }] });
        warnings(&whole(&json!([instance(&[by_blocks(1, json!({}), quota)], &[])])))
    };
    let found = with(17, 2049);
    assert!(
        found[0].contains("the port-quota of 2049 ports of udp never takes effect: 4 port sets"),
        "{found:?}"
    );
    assert_eq!(with(17, 2048), [] as [&str; 0]);
    assert_eq!(with(0, 4000), [] as [&str; 0]);
}
