//! Instances that translate IPv6 prefixes.

use serde_json::{Value, json};
use stoa_api::v1;
use yang5::data::{Data, DataTree};

use super::{ONE, parsed, policy, pool, prefix, whole};
use crate::operational_state::OperationalState;
use crate::state::{StateRequest, tree};

fn pairs(pairs: &[(&str, &str)]) -> Value {
    let pair = |(internal, external): &(&str, &str)| json!({ "internal-ipv6-prefix": internal, "external-ipv6-prefix": external });
    json!({ "nptv6-prefixes": pairs.iter().map(pair).collect::<Vec<_>>() })
}

fn instance(policies: &[Value]) -> Value {
    json!([{ "id": 1, "type": "ietf-nat:nptv6", "policy": policies }])
}

#[track_caller]
fn refused(instances: &Value, path: &str, cause: &str) {
    let errors = parsed(&whole(instances)).map(drop).unwrap_err();
    let [(at, found)] = errors.as_slice() else { panic!("{errors:#?}") };
    assert_eq!((at.as_str(), found.as_str()), (format!("{ONE}{path}").as_str(), cause));
}

#[test]
fn pairs_reach_the_forwarder() {
    let given = pairs(&[("fd00:1::/48", "2001:db8:1::/48"), ("fd00:2::/32", "2001:db8:2:8::/62")]);
    let found = parsed(&whole(&instance(&[policy(3, given)]))).unwrap().desired;
    let [first, second] = &found.nptv6.unwrap().prefixes[..] else { panic!() };
    assert_eq!((first.instance, first.policy, first.interface.as_str()), (1, 3, "wan"));
    assert_eq!(first.internal, Some(prefix("fd00:1::/48")));
    assert_eq!(second.external, Some(prefix("2001:db8:2:8::/62")));
    assert_eq!(found.nat, None);
    let mut off = instance(&[policy(3, pairs(&[("fd00:1::/48", "2001:db8:1::/48")]))]);
    off[0]["enable"] = json!(false);
    assert_eq!(parsed(&whole(&off)).unwrap().desired.nptv6, None);
}

#[test]
fn what_cannot_be_translated_is_refused() {
    let key = |internal: &str| {
        format!("/policy[id='3']/nptv6-prefixes[internal-ipv6-prefix='{internal}']")
    };
    let one =
        |internal: &str, external: &str| instance(&[policy(3, pairs(&[(internal, external)]))]);
    refused(
        &one("fd00:1::/48", "2001:db8::/65"),
        &format!("{}/external-ipv6-prefix", key("fd00:1::/48")),
        "the prefix 2001:db8::/65 has 65 bits",
    );
    refused(
        &one("fd00:1::/48", "fd00:1:0:5::/64"),
        &format!("{}/external-ipv6-prefix", key("fd00:1::/48")),
        "fd00:1:0:5::/64 and the internal prefix fd00:1::/48 have addresses in common",
    );
    refused(
        &one("fe80::/48", "2001:db8::/48"),
        &format!("{}/internal-ipv6-prefix", key("fe80::/48")),
        "fe80::/48 has addresses that are not routed to hosts",
    );
    let given = [("fd00:1::/48", "2001:db8:1::/48"), ("fd00:2::/48", "2001:db8:1:2::/64")];
    refused(
        &instance(&[policy(3, pairs(&given))]),
        &format!("{}/external-ipv6-prefix", key("fd00:2::/48")),
        "2001:db8:1:2::/64 has addresses of 2001:db8:1::/48, which policy 3 of instance 1 has",
    );
    refused(
        &instance(&[policy(3, json!({}))]),
        "/policy[id='3']/nptv6-prefixes",
        "the policy has no prefixes",
    );
    let mut mixed = pairs(&given[..1]);
    mixed["external-ip-address-pool"] = pool("203.0.113.0/28")["external-ip-address-pool"].clone();
    refused(
        &instance(&[policy(3, mixed)]),
        "/policy[id='3']",
        "an instance of the type nptv6 translates by its prefixes alone",
    );
    let mut without_type = instance(&[policy(3, pairs(&given[..1]))]);
    without_type[0]["type"] = json!("ietf-nat:napt44");
    refused(
        &without_type,
        "/policy[id='3']/nptv6-prefixes",
        "only an instance of the type nptv6 translates IPv6 prefixes",
    );
}

fn value(tree: &DataTree<'_>, path: &str) -> Option<String> {
    tree.find_path(path).ok()?.value_canonical()
}

#[test]
fn an_instance_has_the_packets_of_its_pairs() {
    let state = |policy, out_packets| v1::NptPrefixState {
        prefix: Some(v1::NptPrefix { instance: 6, policy, ..v1::NptPrefix::default() }),
        out_packets,
        in_bytes: 5,
        ..v1::NptPrefixState::default()
    };
    let prefixes = vec![state(1, 7), state(1, 2), state(2, 4)];
    let listed = v1::ListNatReply { prefixes, ..v1::ListNatReply::default() };
    let operational =
        OperationalState { nat: Some((listed, 951_782_400)), ..OperationalState::default() };
    let path = "/ietf-nat:nat/instances/instance[id='6']";
    let tree = tree(&operational, &StateRequest::at(path)).unwrap();
    let of = |leaf: &str| value(&tree, &format!("{path}/statistics/traffic-statistics/{leaf}"));
    assert_eq!(of("sent-packets").as_deref(), Some("13"));
    assert_eq!(of("rcvd-bytes").as_deref(), Some("15"));
}
