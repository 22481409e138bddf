//! The startup file cannot be written: no commit is lost.

use super::{DESCRIPTION, MANY, config, file, is_unsaved, prepared, saved};
use crate::scenario::Scenario;
use stoa_api::v1;

/// While the startup file cannot be written, commits are refused, and what was committed before is not lost.
#[tokio::test]
async fn commits_are_refused_while_the_startup_file_cannot_be_written() {
    let mut scenario = Scenario::new(&config(MANY, 3));
    let forwarder = scenario.forwarder();
    let (mut operator, datastore) = prepared(&mut scenario).await;
    // Stands in for a full or read-only folder: a file of this name cannot be created.
    std::fs::create_dir(scenario.path("stoa.json.new")).unwrap();
    assert_eq!(operator.set(DESCRIPTION, "accepted").await, []);
    assert_eq!(operator.commit(0, false).await.errors, []);
    assert!(is_unsaved(&scenario), "the commit took the short way");
    // As the saver a second later.
    datastore.end().await;
    operator.set(DESCRIPTION, "refused").await;
    let reply = operator.commit(0, false).await;
    assert!(reply.errors[0].cause.contains("stoa.json cannot be written"), "{reply:?}");
    let running = operator.text(v1::Store::Running).await;
    assert!(running.contains("accepted") && !file(&scenario).contains("accepted"));
    drop(datastore);
    scenario.kill().await;
    // After a power failure, the same: the accepted commits stay the newest of the history.
    std::fs::remove_file(scenario.path("stoa.sock.running")).unwrap();
    drop(forwarder);
    let _forwarder = scenario.forwarder();
    let (mut operator, datastore) = prepared(&mut scenario).await;
    operator.set(DESCRIPTION, "later").await;
    let reply = operator.commit(0, false).await;
    assert!(reply.errors[0].cause.contains("stoa.json cannot be written"), "{reply:?}");
    let newest = operator.history().await.entries[0].number;
    assert!(is_unsaved(&scenario));
    assert!(datastore.history_tree(newest).unwrap().text().unwrap() == running);
    // The first call that can write the file does; a reload applies it.
    std::fs::remove_dir(scenario.path("stoa.json.new")).unwrap();
    let reply = operator.commit(0, false).await;
    assert!(reply.errors[0].cause.contains("was edited since"), "{reply:?}");
    assert!(file(&scenario) == running && !is_unsaved(&scenario));
    operator.client.discard(v1::DiscardRequest::default()).await.unwrap();
    let reload = v1::ReloadRequest { path: String::new() };
    assert_eq!(operator.client.reload(reload).await.unwrap().into_inner().errors, []);
    assert!(operator.text(v1::Store::Running).await == running);
    operator.set(DESCRIPTION, "last").await;
    assert_eq!(operator.commit(0, false).await.errors, []);
    saved(&scenario).await;
    assert!(file(&scenario).contains("last"));
    drop(datastore);
    scenario.kill().await;
}
