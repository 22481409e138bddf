//! Rollbacks of commits that nobody confirmed, in the history.

use stoa_api::v1;
use stoa_api::v1::earlier_commit::Outcome;

use crate::scenario::{Scenario, config, until};
use crate::test_operator::TestOperator;

async fn settled(operator: &mut TestOperator, entries: usize) {
    for _ in 0..1_000 {
        let history = operator.history().await;
        if history.confirm_by_unix_ms == 0 && history.entries.len() == entries {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("never rolled back: {:?}", operator.history().await);
}

#[tokio::test]
async fn a_rollback_is_an_entry_of_its_own() {
    let mut scenario = Scenario::new(&config(&["10.0.0.1"]));
    let forwarder = scenario.forwarder();
    scenario.start();
    let mut operator = TestOperator::of(&scenario).await;
    operator.set_length("25").await;
    assert_eq!(operator.commit(0, false).await.number, 2);
    operator.set_length("26").await;
    assert_eq!(operator.commit(1, false).await.errors, []);
    let status = scenario.operator().await.status(v1::StatusRequest {}).await.unwrap().into_inner();
    assert!(!status.unconfirmed_author.is_empty() && status.confirm_by_unix_ms > 0);
    settled(&mut operator, 3).await;
    let newest = operator.history().await.entries[0].clone();
    assert_eq!(
        (newest.number, newest.author.as_str(), newest.client.as_str()),
        (3, "stoa", "Stoa")
    );
    assert!(newest.comment.starts_with("rolls back the commit of "), "{}", newest.comment);
    assert!(newest.comment.ends_with(", not confirmed in time: a test"), "{}", newest.comment);
    // A cancelled commit is one of the user who cancelled it.
    operator.set_length("27").await;
    assert_eq!(operator.commit(3600, false).await.errors, []);
    let cancel = v1::ConfirmRequest { is_cancelled: true, ..Default::default() };
    assert_eq!(operator.client.confirm(cancel).await.unwrap().into_inner().errors, []);
    let newest = operator.history().await.entries[0].clone();
    assert_eq!(newest.number, 4);
    assert!(newest.author != "stoa" && newest.comment.contains("cancelled"), "{newest:?}");
    // Each line of the history counts: two rollbacks and the commit of 25 are newer than 24.
    let back = v1::RollbackRequest { back: 3, ..Default::default() };
    assert_eq!(operator.client.rollback(back).await.unwrap().into_inner().errors, []);
    assert!(operator.text(v1::Store::Candidate).await.contains("\"prefix-length\": 24"));
    operator.client.discard(v1::DiscardRequest::default()).await.unwrap();
    // Stoa ends while a commit waits.
    operator.set_length("28").await;
    assert_eq!(operator.commit(3600, false).await.errors, []);
    scenario.kill().await;
    drop(forwarder);
    std::fs::remove_file(scenario.path("stoa.sock.running")).unwrap();
    let _forwarder = scenario.forwarder();
    scenario.start();
    let mut operator = TestOperator::of(&scenario).await;
    settled(&mut operator, 5).await;
    let newest = operator.history().await.entries[0].clone();
    assert!(newest.author == "stoa" && newest.comment.contains("which Stoa ended before"));
    // The next commit follows, and the history has what is running.
    operator.set_length("29").await;
    assert_eq!(operator.commit(0, false).await.number, 6);
    until("it runs", async || {
        let applied = scenario.applied();
        let length = applied.last()?.interfaces[0].ip4.as_ref()?.addresses[0].prefix_length;
        (length == 29).then_some(())
    })
    .await;
    scenario.kill().await;
}

#[tokio::test]
async fn the_first_commit_of_all_can_be_rolled_back() {
    let mut scenario = Scenario::new(&config(&["10.0.0.1"]));
    let _forwarder = scenario.forwarder();
    scenario.start();
    let mut operator = TestOperator::of(&scenario).await;
    operator.set_length("25").await;
    assert_eq!(operator.commit(1, false).await.errors, []);
    settled(&mut operator, 2).await;
    let history = operator.history().await.entries;
    assert_eq!([&*history[0].client, &*history[1].client], ["Stoa", "file"]);
    operator.set_length("26").await;
    assert_eq!(operator.commit(0, false).await.errors, []);
    let back = v1::RollbackRequest { back: 1, ..Default::default() };
    assert_eq!(operator.client.rollback(back).await.unwrap().into_inner().errors, []);
    assert!(operator.text(v1::Store::Candidate).await.contains("\"prefix-length\": 24"));
    scenario.kill().await;
}

#[tokio::test]
async fn a_commit_names_the_one_that_it_confirms() {
    let mut scenario = Scenario::new(&config(&["10.0.0.1"]));
    let _forwarder = scenario.forwarder();
    scenario.start();
    let mut operator = TestOperator::of(&scenario).await;
    let became = |reply: &v1::CommitReply| {
        assert_eq!(reply.errors, []);
        let earlier = reply.earlier.as_ref();
        earlier.map(|earlier| (earlier.outcome(), earlier.author.is_empty()))
    };
    operator.set_length("25").await;
    assert_eq!(became(&operator.commit(3600, false).await), None);
    operator.set_length("26").await;
    let second = operator.commit(3600, false).await;
    assert_eq!(became(&second), Some((Outcome::Unchanged, false)));
    operator.set_length("27").await;
    let third = operator.commit(0, false).await;
    assert_eq!(became(&third), Some((Outcome::Confirmed, false)));
    assert_eq!(became(&operator.commit(0, false).await), None, "nothing waits");
    operator.set_length("28").await;
    assert_eq!(became(&operator.commit(3600, false).await), None);
    let cancel = v1::ConfirmRequest { is_cancelled: true, ..Default::default() };
    let cancelled = operator.client.confirm(cancel).await.unwrap().into_inner();
    assert_eq!(became(&cancelled), Some((Outcome::RolledBack, false)));
    scenario.kill().await;
}
