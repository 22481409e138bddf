//! State as YANG data.

use stoa_api::v1;
use yang5::data::{Data, DataTree};

use super::prefix;
use crate::operational_state::{OperationalState, StateSection};
use crate::state::{StateRequest, tree};

fn value(tree: &DataTree<'_>, path: &str) -> Option<String> {
    tree.find_path(path).ok()?.value_canonical()
}

/// A server that has given a mapping.
fn server() -> v1::NatPortControlState {
    let answer = |result: &str, count| v1::NatPortControlCount {
        protocol: "pcp".to_owned(),
        result: result.to_owned(),
        count,
    };
    v1::NatPortControlState {
        answers: vec![answer("SUCCESS", 4), answer("NO_RESOURCES", 0)],
        leases: 3,
        lease_limit: 9,
        expired: 2,
        epoch_s: 77,
    }
}

fn listed(instances: &[u32]) -> v1::ListNatReply {
    let policy = |instance: &u32| v1::NatPolicyState {
        policy: Some(v1::NatPolicy {
            instance: *instance,
            policy: 10,
            pools: vec![prefix("203.0.113.0/28")],
            ..v1::NatPolicy::default()
        }),
        flows: 7,
        dynamic_mappings: 5,
        out_of_ports: 3,
        no_address: 2,
        table_full: 1,
        ..v1::NatPolicyState::default()
    };
    let mapping = |external_ports| v1::NatStaticState {
        mapping: Some(v1::NatMapping { instance: 1, external_ports, ..v1::NatMapping::default() }),
        ..v1::NatStaticState::default()
    };
    let address = |last, flows| v1::NatAddressState {
        address: vec![203, 0, 113, last],
        flows,
        ..v1::NatAddressState::default()
    };
    v1::ListNatReply {
        policies: instances.iter().map(policy).collect(),
        mappings: vec![mapping(None), mapping(Some(v1::PortRange { first: 1, last: 2 }))],
        addresses: vec![address(1, 4), address(2, 0), address(77, 9)],
        out_packets: 99,
        port_control: Some(server()),
        ..v1::ListNatReply::default()
    }
}

#[test]
fn instances_have_the_statistics_of_the_standard_and_of_their_policies() {
    let path = "/ietf-nat:nat/instances/instance[id='1']";
    let request = StateRequest::at(path);
    assert!(request.is(StateSection::Nat) && StateRequest::at("/").is(StateSection::Nat));
    let state = |instances: &[u32]| {
        let operational = OperationalState {
            nat: Some((listed(instances), 951_782_400)),
            ..OperationalState::default()
        };
        tree(&operational, &request).unwrap()
    };
    let tree = state(&[1]);
    let of = |leaf: &str| value(&tree, &format!("{path}/{leaf}")).unwrap_or_default();
    assert_eq!(of("policy[id='10']/stoa-nat:statistics/active-flows"), "7");
    assert_eq!(of("policy[id='10']/stoa-nat:statistics/no-port-packets"), "3");
    assert_eq!(of("capabilities/fragment-behavior"), "in-order");
    assert!(of("statistics/discontinuity-time").starts_with("2000-02-29"));
    let traffic = |leaf: &str| of(&format!("statistics/traffic-statistics/{leaf}"));
    assert_eq!(traffic("sent-packets"), "99");
    assert_eq!(
        (traffic("dropped-packets"), traffic("dropped-port-packets")),
        ("6".into(), "3".into())
    );
    assert_eq!(of("statistics/mappings-statistics/total-port-mappings"), "6");
    assert_eq!(of("statistics/mappings-statistics/total-address-mappings"), "1");
    assert_eq!(of("statistics/pools-stats/addresses-allocated"), "1");
    assert_eq!(of("statistics/pools-stats/addresses-free"), "15");
    let server = "/ietf-nat:nat/stoa-nat:port-control";
    let of = |leaf: &str| value(&tree, &format!("{server}/{leaf}"));
    assert_eq!(of("answer[protocol='pcp'][result='SUCCESS']/answers"), Some("4".to_owned()));
    assert_eq!(of("answer[protocol='pcp'][result='NO_RESOURCES']/answers"), None);
    assert_eq!((of("active-leases"), of("epoch")), (Some("3".to_owned()), Some("77".to_owned())));
    // Of several instances, nobody knows whose packets were translated.
    let tree = state(&[1, 2]);
    let sent = format!("{path}/statistics/traffic-statistics/sent-packets");
    assert_eq!(value(&tree, &sent), None);
}
