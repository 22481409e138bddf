//! The datastores over real sockets, with a fake forwarder: transactions, and the files on disk.

mod fake;
mod many_entries;
mod own_access;
mod rollback_entries;
mod scenario;
mod test_operator;

use std::time::Duration;

use scenario::{Scenario, config, until};
use stoa_api::v1;
use stoa_api::v1::configuration_edit::Edit;
use test_operator::{ADDRESS, TestOperator};

fn length(it: &v1::Desired) -> u32 {
    it.interfaces[0].ip4.as_ref().unwrap().addresses[0].prefix_length
}

/// The prefix lengths of the first address in all states that the forwarder received.
fn lengths(scenario: &Scenario) -> Vec<u32> {
    scenario.applied().iter().map(length).collect()
}

#[tokio::test]
async fn a_commit_takes_effect_and_survives_a_restart() {
    let mut scenario = Scenario::new(&config(&["10.0.0.1"]));
    let forwarder = scenario.forwarder();
    scenario.start();
    let mut operator = TestOperator::of(&scenario).await;
    operator.set_length("25").await;
    assert_eq!((operator.differs().await, lengths(&scenario)), (1, vec![24]), "only the candidate");
    let reply = operator.commit(0, false).await;
    assert_eq!(reply.errors, []);
    assert_eq!((reply.number, reply.changes.len()), (2, 1));
    assert_eq!(reply.changes[0].new.as_deref(), Some("25"));
    assert_eq!(lengths(&scenario), [24, 25]);
    assert_eq!(operator.differs().await, 0);
    let file = std::fs::read_to_string(scenario.path("stoa.json")).unwrap();
    assert_eq!(file, operator.text(v1::Store::Running).await);
    assert!(file.contains("\"prefix-length\": 25"), "{file}");
    let history = operator.history().await.entries;
    assert_eq!(history.len(), 2, "the previous configuration is in the history too");
    assert_eq!((history[0].comment.as_str(), history[0].client.as_str()), ("a test", "shell"));
    assert_eq!(history[1].client, "file");
    assert_eq!(operator.commit(0, false).await.number, 0, "a commit without changes has no entry");
    assert_eq!(lengths(&scenario), [24, 25, 25], "sent again, which changes nothing");
    // Controller and forwarder restart, as after a power failure.
    scenario.kill().await;
    drop(forwarder);
    std::fs::remove_file(scenario.path("stoa.sock.running")).unwrap();
    let _forwarder = scenario.forwarder();
    scenario.start();
    scenario.in_sync().await;
    assert_eq!(lengths(&scenario), [24, 25, 25, 25]);
    scenario.kill().await;
}

#[tokio::test]
async fn a_refused_commit_changes_nothing() {
    let before = config(&["10.0.0.1"]);
    let mut scenario = Scenario::new(&before);
    let _forwarder = scenario.forwarder();
    scenario.start();
    let mut operator = TestOperator::of(&scenario).await;
    // Refused by libyang in the edit and in the commit, by a check, and by the forwarder.
    let wrong = operator.set(&format!("{ADDRESS}/prefix-length"), "33").await;
    assert!(wrong[0].cause.contains("33") || wrong[0].fix.contains("0 to 32"), "{wrong:?}");
    let state =
        operator.set("/ietf-interfaces:interfaces/interface[name='if0']/oper-status", "up").await;
    assert!(state[0].cause.contains("this is state"), "{state:?}");
    let key = operator.edit(Edit::Delete(format!("{ADDRESS}/ip"))).await;
    assert!(key[0].cause.contains("the key of a list entry"), "{key:?}");
    let missing = operator.edit(Edit::Delete(ADDRESS.replace("10.0.0.1", "10.9.9.9"))).await;
    assert!(missing[0].cause.contains("does not exist"), "{missing:?}");
    assert_eq!(operator.differs().await, 0);
    assert_eq!(operator.set("/ietf-interfaces:interfaces/interface[name='if1']", "").await, []);
    let reply = operator.commit(0, false).await;
    assert!(reply.errors.iter().any(|it| it.cause.contains("type")), "{:?}", reply.errors);
    operator.client.discard(v1::DiscardRequest::default()).await.unwrap();
    operator.set_length("25").await;
    let (path, cause, fix) = ("/x".into(), "no room".into(), "make some".into());
    let reason = v1::ValidationError { path, cause, fix, names: Vec::new() };
    *scenario.record.refuse.lock().unwrap() = vec![reason];
    let reply = operator.commit(0, false).await;
    assert_eq!(reply.errors[0].cause, "no room");
    assert_eq!(std::fs::read_to_string(scenario.path("stoa.json")).unwrap(), before);
    let entries = operator.history().await.entries;
    assert!(entries.iter().all(|entry| entry.client == "file"), "{entries:?}");
    assert_eq!(
        (lengths(&scenario), operator.differs().await),
        (vec![24], 1),
        "the candidate stays"
    );
    scenario.record.refuse.lock().unwrap().clear();
    assert_eq!(operator.commit(0, false).await.errors, []);
    assert!(!scenario.path("stoa.json.new").exists());
    scenario.kill().await;
}

#[tokio::test]
async fn a_commit_that_is_not_confirmed_is_rolled_back() {
    let before = config(&["10.0.0.1"]);
    let mut scenario = Scenario::new(&before);
    let forwarder = scenario.forwarder();
    scenario.start();
    let mut operator = TestOperator::of(&scenario).await;
    operator.set_length("25").await;
    let reply = operator.commit(1, false).await;
    assert!(reply.errors.is_empty() && reply.number == 0 && reply.confirm_by_unix_ms > 0);
    assert_eq!(std::fs::read_to_string(scenario.path("stoa.json")).unwrap(), before);
    until("it is rolled back", async || (lengths(&scenario) == [24, 25, 24]).then_some(())).await;
    until("nothing waits", async || {
        (scenario
            .operator()
            .await
            .show_history(v1::ShowHistoryRequest {})
            .await
            .ok()?
            .into_inner()
            .confirm_by_unix_ms
            == 0)
            .then_some(())
    })
    .await;
    // The controller is killed while a commit waits: the next controller rolls it back.
    operator.set_length("26").await;
    assert_eq!(operator.commit(2, false).await.errors, []);
    scenario.kill().await;
    scenario.start();
    until("it is rolled back", async || (lengths(&scenario).last() == Some(&24)).then_some(()))
        .await;
    assert!(lengths(&scenario).contains(&26));
    // Both are killed while a commit waits: the confirmed configuration is started.
    let mut operator = TestOperator::of(&scenario).await;
    operator.set_length("27").await;
    assert_eq!(operator.commit(3600, false).await.errors, []);
    scenario.kill().await;
    drop(forwarder);
    std::fs::remove_file(scenario.path("stoa.sock.running")).unwrap();
    let _forwarder = scenario.forwarder();
    scenario.start();
    let mut operator = TestOperator::of(&scenario).await;
    assert_eq!(lengths(&scenario).last(), Some(&24));
    assert_eq!(operator.history().await.confirm_by_unix_ms, 0);
    scenario.kill().await;
}

#[tokio::test]
async fn a_confirmed_commit_stays_and_a_cancelled_one_is_rolled_back() {
    let mut scenario = Scenario::new(&config(&["10.0.0.1"]));
    let _forwarder = scenario.forwarder();
    scenario.start();
    let mut operator = TestOperator::of(&scenario).await;
    operator.set_length("25").await;
    assert_eq!(operator.commit(3600, false).await.errors, []);
    let confirm = v1::ConfirmRequest { comment: "it works".into(), ..Default::default() };
    let reply = operator.client.confirm(confirm.clone()).await.unwrap().into_inner();
    assert_eq!((reply.errors.as_slice(), reply.number), (&[][..], 2));
    let history = operator.history().await;
    assert_eq!((history.confirm_by_unix_ms, history.entries[0].comment.as_str()), (0, "it works"));
    // A confirmation without a comment keeps the comment of the commit.
    operator.set_length("28").await;
    assert_eq!(operator.commit(3600, false).await.errors, []);
    let reload = v1::ReloadRequest { path: String::new() };
    let refused = scenario.operator().await.reload(reload).await.unwrap().into_inner();
    assert!(!refused.applied && refused.errors[0].cause.starts_with("a commit waits"));
    let confirmed =
        operator.client.confirm(v1::ConfirmRequest::default()).await.unwrap().into_inner();
    assert_eq!(confirmed.errors, []);
    assert_eq!(operator.history().await.entries[0].comment, "a test");
    operator.set_length("26").await;
    assert_eq!(operator.commit(3600, false).await.errors, []);
    let cancel = v1::ConfirmRequest { is_cancelled: true, ..Default::default() };
    assert_eq!(operator.client.confirm(cancel).await.unwrap().into_inner().errors, []);
    assert_eq!(lengths(&scenario), [24, 25, 25, 28, 28, 26, 28]);
    let again = operator.client.confirm(confirm).await.unwrap().into_inner();
    assert_eq!(again.errors[0].cause, "no commit waits for its confirmation");
    scenario.kill().await;
}

#[tokio::test]
async fn rollback_restores_earlier_configurations() {
    let mut scenario = Scenario::new(&config(&["10.0.0.1"]));
    let _forwarder = scenario.forwarder();
    scenario.start();
    let mut operator = TestOperator::of(&scenario).await;
    for length in ["25", "26"] {
        operator.set_length(length).await;
        assert_eq!(operator.commit(0, false).await.errors, []);
    }
    let back = |back| v1::RollbackRequest { back, ..Default::default() };
    assert_eq!(operator.client.rollback(back(2)).await.unwrap().into_inner().errors, []);
    assert_eq!(operator.differs().await, 1);
    assert_eq!(operator.commit(0, false).await.errors, []);
    assert_eq!(lengths(&scenario), [24, 25, 26, 24]);
    let none = operator.client.rollback(back(9)).await.unwrap().into_inner().errors;
    assert!(none[0].cause.contains("none of 9 commits ago"), "{none:?}");
    scenario.kill().await;
}

#[tokio::test]
async fn one_session_holds_the_lock() {
    let mut scenario = Scenario::new(&config(&["10.0.0.1"]));
    let _forwarder = scenario.forwarder();
    scenario.start();
    let mut one = TestOperator::of(&scenario).await;
    let mut other = TestOperator::of(&scenario).await;
    let caller =
        Some(v1::Caller { login: "ann".into(), is_console: true, ..v1::Caller::default() });
    let request = v1::LockRequest { caller };
    let mut held = one.client.lock(request.clone()).await.unwrap().into_inner();
    one.caller.session = held.message().await.unwrap().unwrap().session;
    one.set_length("25").await;
    let refused = other.set(&format!("{ADDRESS}/prefix-length"), "26").await;
    assert!(
        refused[0].cause.starts_with("ann (") && refused[0].cause.contains("console"),
        "{refused:?}"
    );
    assert!(!other.commit(0, false).await.errors.is_empty());
    let mut second = other.client.lock(request).await.unwrap().into_inner();
    assert!(second.message().await.unwrap().unwrap().errors[0].cause.contains("locked"));
    assert_eq!(one.commit(0, false).await.errors, []);
    drop(held);
    until("the lock is free", async || {
        let path = format!("{ADDRESS}/prefix-length");
        let set = Edit::Set(v1::SetEdit { path, value: Some("26".into()) });
        let edits = vec![v1::ConfigurationEdit { edit: Some(set) }];
        let request = v1::EditRequest { caller: None, edits };
        let reply = scenario.operator().await.edit(request).await.ok()?.into_inner();
        reply.errors.is_empty().then_some(())
    })
    .await;
    scenario.kill().await;
}

#[tokio::test]
async fn an_edited_startup_file_is_not_overwritten() {
    let mut scenario = Scenario::new(&config(&["10.0.0.1"]));
    let _forwarder = scenario.forwarder();
    scenario.start();
    let mut operator = TestOperator::of(&scenario).await;
    operator.set_length("25").await;
    let by_hand = config(&["10.0.0.1", "10.0.1.1"]);
    std::fs::write(scenario.path("stoa.json"), &by_hand).unwrap();
    let refused = operator.commit(0, false).await.errors;
    assert!(refused[0].cause.contains("was edited since"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(scenario.path("stoa.json")).unwrap(), by_hand);
    // A reload applies it; the edits of the candidate stay.
    assert!(scenario.reload(&by_hand).await.applied);
    assert_eq!(operator.differs().await, 1);
    assert_eq!(operator.commit(0, false).await.errors, []);
    let last = scenario.applied().pop().unwrap();
    assert_eq!((last.interfaces.len(), length(&last)), (2, 25));
    std::fs::write(scenario.path("stoa.json"), &by_hand).unwrap();
    operator.set_length("26").await;
    assert_eq!(operator.commit(0, true).await.errors, []);
    scenario.kill().await;
}

#[tokio::test]
async fn a_conflicting_change_of_running_is_an_error() {
    let mut scenario = Scenario::new(&config(&["10.0.0.1"]));
    let _forwarder = scenario.forwarder();
    scenario.start();
    let mut operator = TestOperator::of(&scenario).await;
    operator.set_length("25").await;
    assert!(scenario.reload(&config(&["10.0.0.1"]).replace("24}", "26}")).await.applied);
    let refused = operator.commit(0, false).await.errors;
    assert!(refused[0].cause.contains("change of running by reload (file)"), "{refused:?}");
    assert_eq!(lengths(&scenario), [24, 26]);
    operator.client.discard(v1::DiscardRequest::default()).await.unwrap();
    operator.set_length("27").await;
    assert_eq!(operator.commit(0, false).await.errors, []);
    assert_eq!(lengths(&scenario), [24, 26, 27]);
    scenario.kill().await;
}

#[tokio::test]
async fn a_disconnect_does_not_interrupt_a_commit() {
    let mut scenario = Scenario::new(&config(&["10.0.0.1"]));
    let _forwarder = scenario.forwarder();
    scenario.start();
    let mut operator = TestOperator::of(&scenario).await;
    for length in 17..25_u32 {
        operator.set_length(&length.to_string()).await;
        let mut client = operator.client.clone();
        let commit = tokio::spawn(async move { client.commit(v1::CommitRequest::default()).await });
        tokio::time::sleep(Duration::from_millis(u64::from(length) % 4)).await;
        commit.abort();
        let _ = commit.await;
    }
    operator.set_length("30").await;
    assert_eq!(operator.commit(0, false).await.errors, []);
    assert_eq!(lengths(&scenario).last(), Some(&30));
    let file = std::fs::read_to_string(scenario.path("stoa.json")).unwrap();
    assert!(file.contains("\"prefix-length\": 30"), "{file}");
    scenario.kill().await;
}

#[tokio::test]
async fn an_interrupted_commit_is_completed() {
    let mut scenario = Scenario::new(&config(&["10.0.0.1"]));
    let _forwarder = scenario.forwarder();
    scenario.start();
    let mut operator = TestOperator::of(&scenario).await;
    operator.set_length("25").await;
    assert_eq!(operator.commit(0, false).await.errors, []);
    let before = std::fs::read_to_string(scenario.path("stoa.json")).unwrap();
    operator.set_length("26").await;
    assert_eq!(operator.commit(0, false).await.errors, []);
    let after = std::fs::read_to_string(scenario.path("stoa.json")).unwrap();
    scenario.kill().await;
    // As if it was killed before the files were renamed.
    std::fs::write(scenario.path("stoa.json"), &before).unwrap();
    std::fs::remove_file(scenario.path("stoa.state/history/000000003.json.gz")).unwrap();
    scenario.start();
    let mut operator = TestOperator::of(&scenario).await;
    assert_eq!(std::fs::read_to_string(scenario.path("stoa.json")).unwrap(), after);
    assert_eq!(operator.history().await.entries[0].client, "Stoa");
    assert_eq!(lengths(&scenario).last(), Some(&26));
    scenario.kill().await;
    // A file that was edited while the controller was down stays.
    std::fs::write(scenario.path("stoa.json"), config(&["10.0.0.7"])).unwrap();
    scenario.start();
    scenario.in_sync().await;
    assert_eq!(lengths(&scenario).last(), Some(&26));
    assert_eq!(std::fs::read_to_string(scenario.path("stoa.json")).unwrap(), config(&["10.0.0.7"]));
    scenario.kill().await;
}

#[tokio::test]
async fn another_file_applies_without_being_saved() {
    let before = config(&["10.0.0.1"]);
    let mut scenario = Scenario::new(&before);
    let _forwarder = scenario.forwarder();
    scenario.start();
    let mut operator = TestOperator::of(&scenario).await;
    let other = scenario.path("other.json");
    std::fs::write(&other, before.replace("24}", "25}")).unwrap();
    let reload = |path: String| v1::ReloadRequest { path };
    let reply = operator.client.reload(reload(other.display().to_string())).await.unwrap();
    assert!(reply.into_inner().applied);
    assert_eq!(std::fs::read_to_string(scenario.path("stoa.json")).unwrap(), before);
    assert!(operator.text(v1::Store::Startup).await.contains("24"));
    assert!(operator.client.reload(reload(String::new())).await.unwrap().into_inner().applied);
    assert_eq!(lengths(&scenario), [24, 25, 24]);
    // A commit saves it; the earlier startup file is in the history.
    let reply = operator.client.reload(reload(other.display().to_string())).await.unwrap();
    assert!(reply.into_inner().applied);
    assert_eq!(operator.commit(0, false).await.errors, []);
    assert!(std::fs::read_to_string(scenario.path("stoa.json")).unwrap().contains("25"));
    scenario.kill().await;
}

#[tokio::test]
async fn a_disk_error_occurs_before_anything_changes() {
    let mut scenario = Scenario::new(&config(&["10.0.0.1"]));
    let _forwarder = scenario.forwarder();
    scenario.start();
    let mut operator = TestOperator::of(&scenario).await;
    operator.set_length("25").await;
    std::fs::remove_dir_all(scenario.path("stoa.state")).unwrap();
    std::fs::write(scenario.path("stoa.state"), "in the way").unwrap();
    let refused = operator.commit(0, false).await.errors;
    assert!(refused[0].cause.contains("stoa.state"), "{refused:?}");
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(lengths(&scenario), [24]);
    scenario.kill().await;
}
