//! Several hosts behind a mapping, other sources, and internal addresses of another VRF.

use super::*;

fn service(backends: Value, more: Value) -> Value {
    let mut mapping = json!({
        "index": 1, "transport-protocol": 6, "external-src-address": "203.0.113.1/32",
        "external-src-port": port(80, 82), "stoa-nat:backend": backends,
    });
    mapping.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    mapping
}

fn found(mapping: Value) -> v1::NatMapping {
    nat(&json!([instance(&[policy(1, json!({}))], &[mapping])])).mappings.remove(0)
}

#[test]
fn backends_have_defaults() {
    let two = json!([
        { "id": 7, "address": "10.0.0.7", "weight": 5 },
        { "id": 3, "address": "10.0.0.3", "start-port-number": 8000 },
    ]);
    let by_source = json!({ "stoa-nat:backend-selection": "source" });
    let it = found(service(two, by_source));
    let backend = |address: [u8; 4], first_port, weight| v1::NatBackend {
        address: address.into(),
        first_port,
        weight,
    };
    let mut all = it.backends.clone();
    all.sort_by_key(|it| it.weight);
    assert_eq!(all, [backend([10, 0, 0, 3], 8000, 1), backend([10, 0, 0, 7], 80, 5)]);
    assert_eq!((it.internal, it.internal_ports, it.by_source), (None, None, true));
    assert_eq!((it.internal_remote, it.internal_vrf), (None, None));
}

#[test]
fn sources_and_vrfs_are_those_of_the_mapping() {
    let more = json!({
        "internal-dst-address": "10.0.0.1/32", "internal-dst-port": port(2000, 2999),
        "stoa-nat:internal-vrf": "red",
    });
    let mut mapping = forward(1, ("203.0.113.1/32", port(80, 80)), ("10.0.0.8/32", port(80, 80)));
    mapping.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let it = found(mapping.clone());
    assert_eq!(it.internal_remote, Some(prefix("10.0.0.1/32")));
    assert_eq!(it.internal_remote_ports, Some(v1::PortRange { first: 2000, last: 2999 }));
    assert_eq!((it.vrf.as_str(), it.internal_vrf.as_deref()), ("", Some("red")));
    // The same address of two VRFs.
    let mut other = one_to_one(2, "203.0.113.2/32", "10.0.0.9/32");
    let blue = one_to_one(3, "203.0.113.3/32", "10.0.0.9/32");
    other["stoa-nat:internal-vrf"] = json!("red");
    let both = nat(&json!([instance(&[policy(1, json!({}))], &[other, blue])]));
    assert_eq!(both.mappings.len(), 2);
}

#[test]
fn wrong_backends_are_refused_with_their_paths() {
    let of = |mapping: Value| {
        let (path, cause) = error(&instance(&[policy(1, json!({}))], &[mapping]));
        let entry = "mapping-table/mapping-entry[index='1']/";
        (path.strip_prefix(entry).expect(&path).to_owned(), cause)
    };
    let one = || json!([{ "id": 1, "address": "10.0.0.7" }]);
    let with = |leaf: &str, value: Value| of(service(one(), json!({ leaf: value })));
    assert_eq!(with("internal-src-address", json!("10.0.0.9/32")).0, "internal-src-address");
    assert_eq!(with("internal-src-port", port(80, 82)).0, "internal-src-port");
    assert_eq!(with("internal-dst-port", port(80, 82)).0, "internal-dst-port");
    assert_eq!(with("transport-protocol", json!(47)).0, "transport-protocol");
    let list = |value: Value| of(service(value, json!({})));
    let high = list(json!([{ "id": 1, "address": "10.0.0.7", "start-port-number": 65534 }]));
    assert_eq!(high.0, "stoa-nat:backend[id='1']/start-port-number");
    let group = list(json!([{ "id": 1, "address": "224.0.0.7" }]));
    assert_eq!(group.0, "stoa-nat:backend[id='1']/address");
    let twice = json!([{ "id": 1, "address": "10.0.0.7" }, { "id": 2, "address": "10.0.0.7" }]);
    let twice = list(twice);
    assert_eq!(twice.0, "stoa-nat:backend[id='2']/address");
    assert!(twice.1.contains("backend 1 has 10.0.0.7:80"), "{twice:?}");
    assert_eq!(
        list(json!([{ "id": 1, "address": "10.0.0.7", "weight": 0 }])).0,
        "stoa-nat:backend"
    );
    let many: Vec<_> =
        (1..34).map(|id| json!({ "id": id, "address": format!("10.0.0.{id}") })).collect();
    assert!(list(json!(many)).1.contains("33 backends"));
    let mut without = forward(1, ("203.0.113.1/32", port(80, 80)), ("10.0.0.8/32", port(80, 80)));
    without["stoa-nat:backend-selection"] = json!("source");
    assert_eq!(of(without).0, "stoa-nat:backend-selection");
    let mut whole = service(one(), json!({}));
    whole.as_object_mut().unwrap().remove("external-src-port");
    assert_eq!(of(whole).0, "stoa-nat:backend");
}
