//! Real daemons hand over what they learn of two providers by an internal BGP session: what reaches the forwarder is what the
//! daemon itself takes for the best, with what comes next as backup, before and after they are killed.

mod daemons;
#[path = "../fake/mod.rs"]
mod fake;
mod hand;
mod lab;

use std::collections::BTreeMap;
use std::time::Duration;

use stoa_controller::learned::Session;
use stoa_lab::{Bird, Frr, Tool};

use daemons::{BIRD, best_of_bird, best_of_frr, bgpd, paths_of_bird, paths_of_frr, zebra};
use lab::{GROUPS, Lab, PER_GROUP, Seen};

const PATIENCE: Duration = Duration::from_secs(60);
const ALL: usize = GROUPS.len() * PER_GROUP;

/// Next hops of the daemon's paths by prefix, against what the forwarder was told: the best one first, then another one as backup, if
/// there is one. `shared`: of prefixes whose paths are equally good all are used.
fn compare(
    seen: &Seen,
    best: &BTreeMap<String, String>,
    paths: &BTreeMap<String, Vec<String>>,
    shared: bool,
) {
    assert_eq!((seen.len(), best.len(), paths.len()), (ALL, ALL, ALL));
    for (prefix, (ways, backup)) in seen {
        let (best, paths) = (&best[prefix], &paths[prefix]);
        if shared && prefix.starts_with("20.3.") {
            let mut all = paths.clone();
            all.sort();
            assert_eq!((ways, backup.len()), (&all, 0), "{prefix}");
            continue;
        }
        // Which of two paths that nothing tells apart is better only the daemon knows (its oldest, or by its neighbours' identifiers).
        if !prefix.starts_with("20.3.") {
            assert_eq!(ways.as_slice(), std::slice::from_ref(best), "{prefix}");
        }
        let others: Vec<String> = paths.iter().filter(|path| **path != ways[0]).cloned().collect();
        assert_eq!(backup, &others, "{prefix}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bird_hands_over_best_and_backup_and_may_be_killed() {
    let lab = Lab::new(true, 2);
    let mut bird = Bird::start(&lab.router, BIRD).unwrap();
    lab.speak();
    lab.wait_for("all routes with their paths", |seen| {
        seen.len() == ALL && lab::pairs(seen) == 3 * PER_GROUP
    })
    .await;
    lab.wait_session(Session::Complete).await;
    let (best, paths) = (best_of_bird(&bird), paths_of_bird(&bird));
    compare(&lab.seen(), &best, &paths, true);

    // Killed: what it had stays, and is what it was when it has said it again.
    let before = lab.seen();
    bird.kill();
    lab.wait_session(Session::Ended).await;
    assert_eq!(lab.seen(), before);
    bird.start_again().unwrap();
    lab.wait_for("all routes again", |seen| *seen == before).await;
    lab.wait_session(Session::Complete).await;
    lab.wait_for("the same routes", |seen| *seen == before).await;

    // One provider takes all back: the other one's paths are left.
    lab.withdraw_first();
    let by_second =
        |(ways, backup): &(Vec<String>, Vec<String>)| *ways == ["10.2.0.2"] && backup.is_empty();
    lab.wait_for("routes by the second provider", |seen| {
        seen.len() == ALL && seen.values().all(by_second)
    })
    .await;
    assert!(lab.audit().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frr_hands_over_best_and_backup_and_may_be_killed() {
    let lab = Lab::new(true, 1);
    let configuration = bgpd();
    let mut frr =
        Frr::start(&lab.router, zebra(), &[daemons::STATICD, (Tool::BGPD, &configuration)])
            .unwrap();
    lab.speak();
    lab.wait_for("all routes with their paths", |seen| {
        seen.len() == ALL && lab::pairs(seen) == 3 * PER_GROUP
    })
    .await;
    lab.wait_session(Session::Complete).await;
    compare(&lab.seen(), &best_of_frr(&frr), &paths_of_frr(&frr), false);

    let before = lab.seen();
    frr.kill(Tool::BGPD);
    lab.wait_session(Session::Ended).await;
    assert_eq!(lab.seen(), before);
    frr.add(Tool::BGPD, &configuration, &[]).unwrap();
    lab.wait_session(Session::Complete).await;
    lab.wait_for("all routes again", |seen| *seen == before).await;
    assert!(lab.audit().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_add_path_the_choice_is_the_daemons_to_the_letter() {
    let lab = Lab::new(false, 1);
    // Its routes are kept from zebra and the kernel: Stoa has them.
    let mut frr = Frr::start(&lab.router, zebra(), &[daemons::STATICD]).unwrap();
    frr.add(Tool::BGPD, &bgpd(), &["-n"]).unwrap();
    lab.speak();
    lab.wait_for("all routes", |seen| seen.len() == ALL).await;
    lab.wait_session(Session::Complete).await;
    // The daemon chooses again while paths come in.
    lab.wait_for("what FRR takes for the best", |seen| {
        let best = best_of_frr(&frr);
        let is_best = |(prefix, (ways, _)): (&String, &(Vec<String>, Vec<String>))| {
            best.get(prefix).is_some_and(|best| *ways == [best.clone()])
        };
        lab::pairs(seen) == 0 && seen.iter().all(is_best)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_of_another_as_is_refused_and_told_reason() {
    let lab = Lab::new(true, 1);
    let other = BIRD.replace("as 65000", "as 65007");
    let bird = Bird::start(&lab.router, &other).unwrap();
    let reason = "the daemon is in AS 65007 and the route source in AS 65000: set `as` of the route source to 65007";
    lab.wait_until("the state says why", || {
        let said = lab.state.statistics().reason;
        if said == reason { Ok(()) } else { Err(said) }
    })
    .await;
    bird.wait_for("show protocols all stoa", &["Bad peer AS"], PATIENCE).unwrap();
    assert_eq!(lab.state.statistics().sessions, 0);
}
