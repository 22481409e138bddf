//! The state of flows as YANG data.

use stoa_api::v1;
use yang5::data::{Data, DataTree};

use crate::operational_state::{OperationalState, StateSection};
use crate::state::{StateRequest, tree};

fn value(tree: &DataTree<'_>, path: &str) -> Option<String> {
    tree.find_path(path).ok()?.value_canonical()
}

#[test]
fn flows_have_states_and_a_capacity() {
    let flows = "/ietf-access-control-list:acls/stoa-acl:flows";
    let request = StateRequest::at(flows);
    assert!(request.is(StateSection::Flows) && !request.is(StateSection::Acls));
    assert!(StateRequest::at("/ietf-access-control-list:acls").is(StateSection::Flows));
    assert!(!StateRequest::at("/ietf-access-control-list:acls/acl").is(StateSection::Flows));
    assert!(!StateRequest::at("/").is(StateSection::Flows), "all flows would be counted");
    let count = v1::FlowCount { family: 6, state: "udp-new".into(), flows: 7, suspended: 2 };
    let counts = |family| v1::FlowCounts { family, refused: 31, ..v1::FlowCounts::default() };
    let limit = v1::LimitState {
        name: "ipv6-flows".into(),
        used: Some(9),
        limit: 65_536,
        ..v1::LimitState::default()
    };
    let operational = OperationalState {
        flow_states: vec![count],
        flows: vec![counts(4), counts(6)],
        limits: vec![limit],
        ..OperationalState::default()
    };
    let tree = tree(&operational, &request).unwrap();
    let six = |leaf: &str| value(&tree, &format!("{flows}/family[name='ipv6']/{leaf}"));
    let all = ["active-flows", "capacity", "refused-packets"].map(|leaf| six(leaf).unwrap());
    assert_eq!(all, ["9", "65536", "31"]);
    assert_eq!(six("state[name='udp-new']/suspended-flows").as_deref(), Some("2"));
    assert!(tree.find_path("/stoa-forwarder:forwarder").is_err());
}
