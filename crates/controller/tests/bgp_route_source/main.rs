//! Real daemons send the routes of two providers over an internal BGP session: the forwarder gets the
//! daemon's best paths with the next best as backup, before and after the daemons are killed.

mod daemons;
#[path = "../fake/mod.rs"]
mod fake;
mod raw_session;
mod testbed;

use std::collections::BTreeMap;
use std::time::Duration;

use stoa_controller::learned::Session;
use stoa_lab::{Bird, Frr, Tool};

use daemons::{BIRD, best_of_bird, best_of_frr, bgpd, paths_of_bird, paths_of_frr, zebra};
use testbed::{ForwarderRoutes, GROUPS, PER_GROUP, Testbed};

const PATIENCE: Duration = Duration::from_secs(60);
const ALL: usize = GROUPS.len() * PER_GROUP;

/// Compares the forwarder's routes with the daemon's paths: the best one first, then another one as backup if
/// there is one. `shared`: equally good paths are all used.
fn compare(
    seen: &ForwarderRoutes,
    best: &BTreeMap<String, String>,
    paths: &BTreeMap<String, Vec<String>>,
    shared: bool,
) {
    assert_eq!((seen.len(), best.len(), paths.len()), (ALL, ALL, ALL));
    for (prefix, (installed, backup)) in seen {
        let (best, paths) = (&best[prefix], &paths[prefix]);
        if shared && prefix.starts_with("20.3.") {
            let mut all = paths.clone();
            all.sort();
            assert_eq!((installed, backup.len()), (&all, 0), "{prefix}");
            continue;
        }
        // Only the daemon knows which of two otherwise equal paths is better (the oldest, or by neighbour
        // identifier).
        if !prefix.starts_with("20.3.") {
            assert_eq!(installed.as_slice(), std::slice::from_ref(best), "{prefix}");
        }
        let others: Vec<String> =
            paths.iter().filter(|path| **path != installed[0]).cloned().collect();
        assert_eq!(backup, &others, "{prefix}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bird_provides_best_and_backup_and_may_be_killed() {
    let testbed = Testbed::new(true, 2);
    let mut bird = Bird::start(&testbed.router, BIRD).unwrap();
    testbed.speak();
    testbed
        .wait_for("all routes with their paths", |seen| {
            seen.len() == ALL && testbed::pairs(seen) == 3 * PER_GROUP
        })
        .await;
    testbed.wait_session(Session::Complete).await;
    let (best, paths) = (best_of_bird(&bird), paths_of_bird(&bird));
    compare(&testbed.seen(), &best, &paths, true);

    // Killed: routes are retained, and are the same after the restart.
    let before = testbed.seen();
    bird.kill();
    testbed.wait_session(Session::Ended).await;
    assert_eq!(testbed.seen(), before);
    bird.restart().unwrap();
    testbed.wait_for("all routes again", |seen| *seen == before).await;
    testbed.wait_session(Session::Complete).await;
    testbed.wait_for("the same routes", |seen| *seen == before).await;

    // One provider withdraws its routes: the paths of the other one remain.
    testbed.withdraw_first();
    let by_second =
        |(paths, backup): &(Vec<String>, Vec<String>)| *paths == ["10.2.0.2"] && backup.is_empty();
    testbed
        .wait_for("routes by the second provider", |seen| {
            seen.len() == ALL && seen.values().all(by_second)
        })
        .await;
    assert!(testbed.audit().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frr_provides_best_and_backup_and_may_be_killed() {
    let testbed = Testbed::new(true, 1);
    let configuration = bgpd();
    let mut frr =
        Frr::start(&testbed.router, zebra(), &[daemons::STATICD, (Tool::BGPD, &configuration)])
            .unwrap();
    testbed.speak();
    testbed
        .wait_for("all routes with their paths", |seen| {
            seen.len() == ALL && testbed::pairs(seen) == 3 * PER_GROUP
        })
        .await;
    testbed.wait_session(Session::Complete).await;
    compare(&testbed.seen(), &best_of_frr(&frr), &paths_of_frr(&frr), false);

    let before = testbed.seen();
    frr.kill(Tool::BGPD);
    testbed.wait_session(Session::Ended).await;
    assert_eq!(testbed.seen(), before);
    frr.add(Tool::BGPD, &configuration, &[]).unwrap();
    testbed.wait_session(Session::Complete).await;
    testbed.wait_for("all routes again", |seen| *seen == before).await;
    assert!(testbed.audit().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_add_path_the_daemons_best_paths_are_used() {
    let testbed = Testbed::new(false, 1);
    // -n keeps its routes out of zebra and the kernel.
    let mut frr = Frr::start(&testbed.router, zebra(), &[daemons::STATICD]).unwrap();
    frr.add(Tool::BGPD, &bgpd(), &["-n"]).unwrap();
    testbed.speak();
    testbed.wait_for("all routes", |seen| seen.len() == ALL).await;
    testbed.wait_session(Session::Complete).await;
    // The daemon selects again while paths arrive.
    testbed
        .wait_for("FRR's best paths", |seen| {
            let best = best_of_frr(&frr);
            let is_best = |(prefix, (paths, _)): (&String, &(Vec<String>, Vec<String>))| {
                best.get(prefix).is_some_and(|best| *paths == [best.clone()])
            };
            testbed::pairs(seen) == 0 && seen.iter().all(is_best)
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_of_another_as_is_refused() {
    let testbed = Testbed::new(true, 1);
    let other = BIRD.replace("as 65000", "as 65007");
    let bird = Bird::start(&testbed.router, &other).unwrap();
    let reason = "the daemon is in AS 65007, the route source in AS 65000: set `as` of the route source to 65007";
    testbed
        .wait_until("the state has the reason", || {
            let received_messages = testbed.state.statistics().reason;
            if received_messages == reason { Ok(()) } else { Err(received_messages) }
        })
        .await;
    bird.wait_for("show protocols all stoa", &["Bad peer AS"], PATIENCE).unwrap();
    assert_eq!(testbed.state.statistics().sessions, 0);
}
