//! What instances translate to, what is refused, and what a commit warns about.

mod alg;
mod backends;
mod blocks;
mod nat64;
mod nptv6;
mod port_control;
mod services;
mod siit;
mod state;

use std::path::Path;

use serde_json::{Value, json};
use stoa_api::v1;

use crate::configuration::Configuration;

/// The path of instance 1.
const ONE: &str = "/ietf-nat:nat/instances/instance[id='1']";

/// wan is outside in 198.51.100.0/24, lan inside in 10.0.0.0/24, red is of another VRF.
fn whole(instances: &Value) -> Value {
    let interface = |name: &str, address: &str| {
        json!({
            "name": name, "type": "iana-if-type:ethernetCsmacd",
            "stoa-interfaces:port": { "null": {} },
            "ietf-ip:ipv4": { "forwarding": true,
                              "address": [{ "ip": address, "prefix-length": 24 }] },
        })
    };
    let mut red = interface("red", "192.0.2.1");
    red["stoa-vrf:vrf"] = json!("red");
    json!({
        "ietf-interfaces:interfaces": { "interface": [
            interface("wan", "198.51.100.2"), interface("lan", "10.0.0.1"), red,
        ] },
        "stoa-vrf:vrfs": { "vrf": [{ "name": "red" }] },
        "ietf-nat:nat": { "instances": { "instance": instances } },
    })
}

fn policy(id: u32, more: Value) -> Value {
    let mut policy = json!({ "id": id, "external-realm": { "external-interface": "wan" } });
    policy.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    policy
}

fn pool(prefix: &str) -> Value {
    json!({ "external-ip-address-pool": [{ "pool-id": 1, "external-ip-pool": prefix }] })
}

fn sources(prefix: &str) -> Value {
    json!({ "subscriber-match": [{ "match-id": 1, "subnet": prefix }] })
}

fn instance(policies: &[Value], mappings: &[Value]) -> Value {
    json!({ "id": 1, "policy": policies, "mapping-table": { "mapping-entry": mappings } })
}

fn port(first: u32, last: u32) -> Value {
    json!({ "start-port-number": first, "end-port-number": last })
}

/// A port forward of TCP.
fn forward(index: u32, external: (&str, Value), internal: (&str, Value)) -> Value {
    json!({
        "index": index, "type": "static", "transport-protocol": 6,
        "external-src-address": external.0, "external-src-port": external.1,
        "internal-src-address": internal.0, "internal-src-port": internal.1,
    })
}

/// Addresses that stand for others.
fn one_to_one(index: u32, external: &str, internal: &str) -> Value {
    json!({ "index": index, "external-src-address": external, "internal-src-address": internal })
}

/// Path and cause of each error.
fn parsed(value: &Value) -> Result<Configuration, Vec<(String, String)>> {
    let parsed = Configuration::parse(Path::new("test"), value.to_string());
    parsed.map_err(|errors| errors.into_iter().map(|it| (it.path, it.cause)).collect())
}

fn nat(instances: &Value) -> v1::Nat {
    let configuration = parsed(&whole(instances)).unwrap_or_else(|errors| panic!("{errors:#?}"));
    configuration.desired.nat.unwrap_or_default()
}

fn prefix(text: &str) -> v1::Prefix {
    crate::prefix::prefix_to_proto(&text.parse().unwrap())
}

#[test]
fn policies_have_the_order_of_their_numbers_and_defaults() {
    let edm = json!({
        "mapping-type": "edm", "port-set-restrict": port(2000, 2999),
        "address-allocation-type": "paired", "fragment-behavior": "in-order",
    });
    let second = policy(2, edm);
    let first = json!({
        "id": 7, "nat-pass-through": [{ "id": 1, "prefix": "10.0.0.0/8" }],
        "policy": [policy(30, pool("203.0.113.0/28")), policy(4, sources("10.0.0.9/24"))],
    });
    let found = nat(&json!([first, instance(&[second], &[])]));
    let keys: Vec<_> = found.policies.iter().map(|it| (it.instance, it.policy)).collect();
    assert_eq!(keys, [(1, 2), (7, 4), (7, 30)]);
    let [edm, masquerade, of_pool] = &found.policies[..] else { panic!() };
    assert_eq!((edm.first_port, edm.last_port), (2000, 2999));
    assert_eq!(edm.mapping(), v1::NatMappingType::NatEdm);
    assert_eq!(masquerade.mapping(), v1::NatMappingType::NatEim);
    assert_eq!(masquerade.filtering(), v1::NatFilteringType::NatEdf);
    assert_eq!((masquerade.first_port, masquerade.last_port), (1024, 65_535));
    assert_eq!(masquerade.subscribers, [prefix("10.0.0.0/24")]);
    assert_eq!(masquerade.exempt, [prefix("10.0.0.0/8")]);
    assert!(masquerade.pools.is_empty() && masquerade.interface == "wan");
    assert_eq!(of_pool.pools, [prefix("203.0.113.0/28")]);
}

#[test]
fn mappings_have_the_vrf_of_their_instance() {
    let mut red = instance(&[policy(1, json!({}))], &[]);
    red["policy"][0]["external-realm"]["external-interface"] = json!("red");
    red["mapping-table"] = json!({ "mapping-entry": [
        forward(1, ("192.0.2.5/32", port(8000, 8010)), ("10.0.0.80/32", port(80, 90))),
        one_to_one(2, "192.0.2.64/30", "10.0.0.64/30"),
    ] });
    let found = nat(&json!([red]));
    let [forward, whole] = &found.mappings[..] else { panic!("{found:?}") };
    assert_eq!((forward.vrf.as_str(), forward.protocol), ("red", 6));
    assert_eq!(forward.external_ports, Some(v1::PortRange { first: 8000, last: 8010 }));
    assert_eq!(forward.internal_ports, Some(v1::PortRange { first: 80, last: 90 }));
    assert_eq!((whole.protocol, whole.external_ports), (0, None));
    assert_eq!(whole.internal, Some(prefix("10.0.0.64/30")));
}

#[test]
fn an_instance_that_is_not_enabled_translates_nothing_but_is_checked() {
    let mut off = instance(&[policy(1, json!({}))], &[]);
    off["enable"] = json!(false);
    assert_eq!(parsed(&whole(&json!([off]))).unwrap().desired.nat, None);
    off["policy"][0]["mapping-type"] = json!("adm");
    assert!(parsed(&whole(&json!([off]))).is_err());
    let mut fixed = instance(&[policy(1, json!({}))], &[]);
    fixed["type"] = json!("ietf-nat:basic-nat44");
    assert!(nat(&json!([fixed])).policies[0].static_only);
}

/// The only error of an instance: its path below the instance, and its cause.
fn error(instance: &Value) -> (String, String) {
    let errors = parsed(&whole(&json!([instance]))).map(drop).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:#?}");
    let (path, cause) = errors.into_iter().next().unwrap();
    let path = path.strip_prefix(&format!("{ONE}/")).map(str::to_owned).unwrap_or(path);
    (path, cause)
}

#[test]
fn wrong_policies_are_refused_with_their_paths() {
    let of = |more| error(&instance(&[policy(1, more)], &[]));
    let path = |leaf: &str| format!("policy[id='1']/{leaf}");
    for (leaf, value, cause) in [
        ("address-allocation-type", json!("roundrobin"), "keeps its external address"),
        ("port-allocation-type", json!("random"), "keeps its port if it is free"),
        ("mapping-type", json!("adm"), "\"adm\""),
        ("fragment-behavior", json!("out-of-order"), "fragments follow the first one"),
        ("all-algs-enable", json!(true), "only gateways that algs names"),
    ] {
        let found = of(json!({ leaf: value }));
        assert_eq!(found.0, path(leaf));
        assert!(found.1.contains(cause), "{found:?}");
    }
    let found = of(json!({ "mapping-type": "edm", "filtering-type": "eif" }));
    assert_eq!(found.0, path("filtering-type"));
    let found = of(sources("2001:db8::/32"));
    assert_eq!(found.0, path("subscriber-match[match-id='1']/subnet"));
    assert!(found.1.contains("IPv6"), "{found:?}");
    let at_pool = path("external-ip-address-pool[pool-id='1']/external-ip-pool");
    assert_eq!(of(pool("224.0.0.0/24")).0, at_pool);
    assert!(of(pool("203.0.0.0/15")).1.contains("131072 external addresses"));
    let found = of(json!({ "port-set-restrict": { "start-port-number": 0 } }));
    assert_eq!(found.0, path("port-set-restrict/start-port-number"));
    let found = of(json!({ "port-quota": [{ "quota-type": 47, "port-limit": 9 }] }));
    assert_eq!(found.0, path("port-quota[quota-type='47']"));
    let mut without = instance(&[policy(1, json!({}))], &[]);
    without["policy"][0]["external-realm"] = json!({});
    assert_eq!(error(&without).0, path("external-realm/external-interface"));
    without["policy"][0]["external-realm"] = json!({ "external-interface": "none" });
    assert!(error(&without).1.contains("no interface \"none\""));
    let mut fixed = instance(&[policy(1, pool("203.0.113.0/28"))], &[]);
    fixed["type"] = json!("ietf-nat:basic-nat44");
    assert_eq!(error(&fixed).0, at_pool);
    fixed["type"] = json!("ietf-nat:clat");
    assert_eq!(error(&fixed).0, "type");
    let mut exempt = instance(&[policy(1, json!({}))], &[]);
    exempt["nat-pass-through"] = json!([{ "id": 1, "prefix": "10.0.0.0/8", "port": 53 }]);
    assert_eq!(error(&exempt).0, "nat-pass-through[id='1']/port");
}

#[test]
fn wrong_mappings_are_refused_with_their_paths() {
    let of = |mapping: Value| {
        let (path, cause) = error(&instance(&[policy(1, json!({}))], &[mapping]));
        let entry = "mapping-table/mapping-entry[index='1']/";
        (path.strip_prefix(entry).expect(&path).to_owned(), cause)
    };
    let fine = || forward(1, ("203.0.113.1/32", port(80, 89)), ("10.0.0.8/32", port(80, 89)));
    let with = |leaf: &str, value: Value| {
        let mut mapping = fine();
        mapping[leaf] = value;
        of(mapping)
    };
    let longer = with("external-src-port", port(80, 90));
    assert_eq!(longer.0, "external-src-port");
    assert!(
        longer.1.contains("the 11 external ports (80 to 90) and the 10 internal ones"),
        "{longer:?}"
    );
    assert_eq!(with("external-src-port", port(90, 80)).0, "external-src-port/end-port-number");
    assert_eq!(with("external-src-port", json!({})).0, "external-src-port");
    assert_eq!(with("internal-src-port", json!({})).0, "internal-src-port");
    assert!(with("transport-protocol", json!(132)).1.contains("protocol 132"));
    assert_eq!(with("external-src-address", json!("203.0.113.0/31")).0, "external-src-address");
    assert!(with("internal-src-address", json!("fd00::1/128")).1.contains("IPv6"));
    assert_eq!(with("type", json!("dynamic-explicit")).0, "type");
    assert!(with("lifetime", json!(9)).1.contains("until it is removed"));
    assert!(with("external-dst-address", json!("10.0.0.1/32")).1.contains("no destination"));
    let mut without = fine();
    without.as_object_mut().unwrap().remove("transport-protocol");
    assert_eq!(of(without).0, "transport-protocol");
    let mut without = one_to_one(1, "203.0.113.0/28", "10.0.0.0/28");
    without["transport-protocol"] = json!(47);
    assert_eq!(of(without).0, "transport-protocol");
    assert!(of(one_to_one(1, "203.0.113.0/28", "10.0.0.0/29")).1.contains("differ in length"));
    assert_eq!(
        of(json!({ "index": 1, "internal-src-address": "10.0.0.8/32" })).0,
        "external-src-address"
    );
    let alone = error(&instance(&[], &[fine()]));
    assert!(alone.1.contains("no policy"), "{alone:?}");
}

#[test]
fn external_addresses_belong_to_one() {
    let both =
        |first: Value, second: Value| error(&instance(&[policy(1, first), policy(2, second)], &[]));
    let found = both(pool("203.0.113.0/24"), pool("203.0.113.64/28"));
    let at = "policy[id='2']/external-ip-address-pool[pool-id='1']/external-ip-pool";
    assert_eq!(found.0, at);
    assert_eq!(
        found.1,
        "203.0.113.64/28 has addresses of pool 1 of policy 1 of instance 1, 203.0.113.0/24"
    );
    // Policies may share a whole pool.
    let shared = [policy(1, pool("203.0.113.0/24")), policy(2, pool("203.0.113.0/24"))];
    assert_eq!(nat(&json!([instance(&shared, &[])])).policies.len(), 2);
    let maps =
        |mappings: &[Value]| error(&instance(&[policy(1, pool("203.0.113.0/28"))], mappings));
    let to = |index, first, last| {
        forward(index, ("203.0.113.1/32", port(first, last)), ("10.0.0.8/32", port(first, last)))
    };
    let found = maps(&[to(1, 80, 89), to(2, 89, 99)]);
    assert_eq!(found.0, "mapping-table/mapping-entry[index='2']/external-src-address");
    assert!(found.1.contains("203.0.113.1/32 port 89 to 99 belongs to mapping 1"), "{found:?}");
    let found = maps(&[
        one_to_one(1, "198.51.100.64/30", "10.0.0.64/30"),
        one_to_one(2, "198.51.100.80/30", "10.0.0.64/30"),
    ]);
    assert_eq!(found.0, "mapping-table/mapping-entry[index='2']/internal-src-address");
    let found = maps(&[one_to_one(1, "203.0.113.4/32", "10.0.0.64/32")]);
    assert!(found.1.contains("pool 1 of policy 1 of instance 1"), "{found:?}");
    // Ports of a pool may be forwarded, and the same port of two protocols.
    let mut udp = to(2, 80, 89);
    udp["transport-protocol"] = json!(17);
    let fine = instance(&[policy(1, pool("203.0.113.0/28"))], &[to(1, 80, 89), udp]);
    assert_eq!(nat(&json!([fine])).mappings.len(), 2);
}

#[test]
fn mappings_of_an_instance_with_several_vrfs_are_refused() {
    let mut two = instance(
        &[policy(1, json!({})), policy(2, json!({}))],
        &[one_to_one(1, "203.0.113.1/32", "10.0.0.8/32")],
    );
    two["policy"][1]["external-realm"]["external-interface"] = json!("red");
    assert!(error(&two).1.contains("different VRFs"));
}

/// The texts of all warnings.
fn warnings(value: &Value) -> Vec<String> {
    let configuration = parsed(value).unwrap_or_else(|errors| panic!("{errors:#?}"));
    configuration.warnings().into_iter().map(|it| it.text).collect()
}

#[test]
fn a_commit_warns_about_what_does_nothing_or_belongs_to_others() {
    let of = |policies: &[Value], mappings: &[Value]| {
        warnings(&whole(&json!([instance(policies, mappings)])))
    };
    let all = [policy(1, json!({})), policy(2, sources("10.0.0.0/24"))];
    let found = of(&all, &[]);
    assert!(found[0].contains("policy 2 of instance 1 translates nothing: policy 1"), "{found:?}");
    let apart = [policy(1, sources("10.0.0.0/25")), policy(2, sources("10.0.0.0/24"))];
    assert_eq!(of(&apart, &[]), [] as [&str; 0]);
    let found = of(&[policy(1, pool("198.51.100.0/28"))], &[]);
    assert!(found[0].contains("has 198.51.100.2, the router's own address"), "{found:?}");
    let found = of(&[policy(1, pool("10.0.0.64/28"))], &[]);
    assert!(found[0].contains("subnet 10.0.0.0/24 of interface lan"), "{found:?}");
    assert_eq!(of(&[policy(1, pool("198.51.100.64/28"))], &[]), [] as [&str; 0]);
    let found = of(&[policy(1, json!({}))], &[one_to_one(1, "198.51.100.2/32", "10.0.0.8/32")]);
    assert!(found[0].contains("all packets to 198.51.100.2"), "{found:?}");
    let mut bare = whole(&json!([instance(&[policy(1, json!({}))], &[])]));
    bare["ietf-interfaces:interfaces"]["interface"][0]["ietf-ip:ipv4"]["address"] = json!([]);
    assert!(warnings(&bare)[0].contains("wan has no IPv4 address"));
}
