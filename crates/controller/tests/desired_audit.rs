//! The audit of the desired state against a fake forwarder: lost entries are found by kind, counted, and repaired.

mod fake;
mod scenario;

use fake::Lost;
use scenario::{Scenario, config, until};
use stoa_api::v1;

const LOSE_ADDRESS: Lost = |held| held.interfaces[1].ip4.as_mut().unwrap().addresses.clear();

/// A controller in sync with a forwarder that has lost nothing, after its own audit of this state: otherwise that one
/// might find, and repair, what a test loses next.
async fn begin() -> (Scenario, fake::Fake) {
    let mut scenario = Scenario::new(&config(&["10.0.0.1", "10.0.1.1"]));
    *scenario.record.lost.lock().unwrap() = Some(|_| {});
    let forwarder = scenario.forwarder();
    scenario.start();
    scenario.in_sync().await;
    until("the own audit", async || {
        let text = metrics(&scenario).await;
        text.lines().any(|it| it == "stoa_desired_audits_total 1").then_some(())
    })
    .await;
    (scenario, forwarder)
}

/// The tables of an audit, without those that are equal.
async fn different(scenario: &Scenario) -> Vec<(String, u64, u64, u64)> {
    let mut operator = scenario.operator().await;
    let audit = operator.audit_tables(v1::AuditTablesRequest {}).await.unwrap().into_inner();
    let kinds = ["interfaces", "addresses", "static-neighbors", "vrrp-groups", "static-routes"];
    for kind in kinds {
        let table = audit.tables.iter().find(|table| table.name == kind);
        assert!(table.is_some_and(|table| table.is_compared && table.is_sent), "{kind}: {audit:?}");
    }
    let tables = audit.tables.into_iter().filter(|table| table.different > 0);
    tables.map(|it| (it.name, it.desired, it.held, it.different)).collect()
}

async fn metrics(scenario: &Scenario) -> String {
    let mut operator = scenario.operator().await;
    operator.show_metrics(v1::ShowMetricsRequest {}).await.unwrap().into_inner().text
}

#[tokio::test]
async fn a_lost_entry_is_found_by_kind_counted_and_repaired() {
    let (mut scenario, _forwarder) = begin().await;
    assert_eq!(different(&scenario).await, []);
    *scenario.record.lost.lock().unwrap() = Some(LOSE_ADDRESS);
    assert_eq!(different(&scenario).await, [("addresses".to_owned(), 2, 1, 1)]);
    assert_eq!(*scenario.record.repairs.lock().unwrap(), [["addresses"]]);
    assert_eq!(different(&scenario).await, []);
    let text = metrics(&scenario).await;
    for line in [
        r#"stoa_desired_audit_different_entries_total{kind="addresses"} 1"#,
        r#"stoa_desired_audit_different_entries_total{kind="interfaces"} 0"#,
        "stoa_desired_audit_equal 1.0",
    ] {
        assert!(text.lines().any(|it| it == line), "{line} is missing in\n{text}");
    }
    assert_eq!(scenario.applied().len(), 1, "nothing else was sent");
    // The next state is audited, too.
    assert!(scenario.reload(&config(&["10.0.0.1", "10.0.1.1", "10.0.2.1"])).await.applied);
    assert_eq!(different(&scenario).await, []);
    scenario.kill().await;
}

#[tokio::test]
async fn what_cannot_be_repaired_is_sent_as_a_whole() {
    let (mut scenario, _forwarder) = begin().await;
    *scenario.record.refuses_repairs.lock().unwrap() = true;
    *scenario.record.lost.lock().unwrap() = Some(LOSE_ADDRESS);
    assert_eq!(different(&scenario).await, [("addresses".to_owned(), 2, 1, 1)]);
    until("the whole state is sent", async || (scenario.applied().len() == 2).then_some(())).await;
    assert_eq!(*scenario.record.changes.lock().unwrap(), 0);
    scenario.in_sync().await;
    assert_eq!(different(&scenario).await, []);
    scenario.kill().await;
}

/// Otherwise a forwarder that never becomes equal would get the whole state again and again.
#[tokio::test]
async fn what_stays_different_is_sent_once() {
    let (mut scenario, _forwarder) = begin().await;
    *scenario.record.refuses_repairs.lock().unwrap() = true;
    *scenario.record.stays_different.lock().unwrap() = true;
    *scenario.record.lost.lock().unwrap() = Some(LOSE_ADDRESS);
    for _ in 0..3 {
        assert_eq!(different(&scenario).await, [("addresses".to_owned(), 2, 1, 1)]);
        until("the whole state is sent", async || (scenario.applied().len() > 1).then_some(()))
            .await;
        scenario.in_sync().await;
    }
    assert_eq!(scenario.applied().len(), 2);
    assert!(metrics(&scenario).await.contains("stoa_desired_audit_equal 0.0"));
    scenario.kill().await;
}

#[tokio::test]
async fn a_forwarder_of_the_same_version_must_not_omit_a_kind() {
    let (mut scenario, _forwarder) = begin().await;
    *scenario.record.omits.lock().unwrap() = ("vrfs", false);
    assert_eq!(different(&scenario).await, []);
    // The next `Hello` reports this version.
    scenario.record.omits.lock().unwrap().1 = true;
    until("the kind is missing", async || {
        let different = different(&scenario).await;
        (different == [("vrfs".to_owned(), 0, 0, 1)]).then_some(())
    })
    .await;
    scenario.record.omits.lock().unwrap().0 = "";
    until("nothing differs", async || different(&scenario).await.is_empty().then_some(())).await;
    scenario.kill().await;
}

#[tokio::test]
async fn a_new_controller_audits_what_the_forwarder_has_kept() {
    let (mut scenario, _forwarder) = begin().await;
    scenario.kill().await;
    *scenario.record.lost.lock().unwrap() = Some(LOSE_ADDRESS);
    scenario.start();
    until("the difference is found", async || {
        let repairs = scenario.record.repairs.lock().unwrap();
        repairs.contains(&vec!["addresses".to_owned()]).then_some(())
    })
    .await;
    // The same state, sent again by the new controller, had repaired nothing.
    assert_eq!(scenario.applied().len(), 2);
    scenario.kill().await;
}
