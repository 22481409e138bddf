//! Commits that would cut off their author's shell.

use serde_json::json;
use stoa_api::v1;
use stoa_api::v1::configuration_edit::Edit;

use crate::lengths;
use crate::scenario::{Scenario, config};
use crate::test_operator::{ADDRESS, TestOperator};

#[tokio::test]
async fn a_commit_that_cuts_off_its_author_is_refused_unless_forced() {
    let mut scenario = Scenario::new(&config(&["10.0.0.1"]));
    let _forwarder = scenario.forwarder();
    scenario.start();
    let mut operator = TestOperator::of(&scenario).await;
    // A shell over SSH to the address of the interface.
    operator.caller.local_address = "10.0.0.1".into();
    assert_eq!(operator.edit(Edit::Delete(ADDRESS.into())).await, []);
    let refused = operator.commit(0, false).await.errors;
    assert_eq!(refused[0].path, ADDRESS);
    assert!(refused[0].cause.contains("cut off your own access"), "{refused:?}");
    assert!(refused[0].fix.contains("confirm-within"), "{refused:?}");
    assert_eq!(lengths(&scenario), [24]);
    // A confirmed commit is allowed, since it is rolled back.
    assert_eq!(operator.commit(3600, false).await.errors, []);
    let cancel = v1::ConfirmRequest { is_cancelled: true, ..Default::default() };
    assert_eq!(operator.client.confirm(cancel).await.unwrap().into_inner().errors, []);
    operator.client.discard(v1::DiscardRequest::default()).await.unwrap();
    assert_eq!(operator.edit(Edit::Delete(ADDRESS.into())).await, []);
    let force = v1::CommitRequest {
        caller: Some(operator.caller.clone()),
        is_forced: true,
        ..Default::default()
    };
    assert_eq!(operator.client.commit(force).await.unwrap().into_inner().errors, []);
    assert!(!operator.text(v1::Store::Running).await.contains("10.0.0.1"));
    scenario.kill().await;
}

#[tokio::test]
async fn a_commit_whose_lists_drop_the_shell_of_its_author_is_refused() {
    let mut scenario = Scenario::new(&config(&["10.0.0.1"]));
    let _forwarder = scenario.forwarder();
    scenario.start();
    let mut operator = TestOperator::of(&scenario).await;
    operator.caller.local_address = "10.0.0.1".into();
    operator.caller.local_port = 22;
    operator.caller.peer_address = "10.0.0.2".into();
    let rule = json!({
        "name": "web",
        "matches": { "tcp": { "destination-port": { "port": 443 } } },
        "actions": { "forwarding": "ietf-access-control-list:accept" },
    });
    let ingress = json!({ "acl-sets": { "acl-set": [{ "name": "edge" }] } });
    let lists = json!({ "ietf-access-control-list:acls": {
        "acl": [{ "name": "edge", "aces": { "ace": [rule] } }],
        "attachment-points": { "interface": [{ "interface-id": "if0", "ingress": ingress }] },
    } });
    assert_eq!(operator.edit(Edit::Merge(lists.to_string())).await, []);
    let refused = operator.commit(0, false).await.errors;
    assert!(refused[0].path.ends_with("/ingress"), "{refused:?}");
    assert!(refused[0].cause.contains("packets from 10.0.0.2 to 10.0.0.1:22"), "{refused:?}");
    scenario.kill().await;
}
