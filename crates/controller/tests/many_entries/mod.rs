//! Commits among many static routes or interfaces, which take a short way: what they do equals a commit of the whole.

mod device_mtus;
mod disk_errors;
mod entries;

use std::path::Path;

use crate::scenario::{Scenario, until};
use crate::test_operator::TestOperator;
use stoa_api::v1;
use stoa_api::v1::configuration_edit::Edit;
use stoa_controller::configuration::Configuration;
use stoa_controller::datastore::{self, Author, Client, Datastore, Store};
use stoa_controller::service::{self, Options};

/// Enough entries of a list for the short way.
const MANY: usize = 4_100;

/// A leaf of the second interface, which nothing else needs.
const DESCRIPTION: &str = "/ietf-interfaces:interfaces/interface[name='b']/description";

fn config(routes: usize, interfaces: usize) -> String {
    let routes: Vec<String> = (0..routes)
        .map(|at| {
            let next_hop = match at {
                0 => r#""outgoing-interface": "c""#,
                _ => r#""next-hop-address": "192.0.2.2""#,
            };
            let prefix = format!("10.{}.{}.0/24", at >> 8, at & 255);
            format!(r#"{{"destination-prefix": "{prefix}", "next-hop": {{{next_hop}}}}}"#)
        })
        .collect();
    let named = ["a", "b", "c"].map(str::to_owned);
    let more = (0..interfaces.saturating_sub(named.len())).map(|at| format!("if{at}"));
    let interfaces: Vec<String> = named
        .into_iter()
        .chain(more)
        .map(|name| {
            let address = match name.as_str() {
                "a" => r#""address": [{"ip": "192.0.2.1", "prefix-length": 24}]"#,
                _ => "",
            };
            format!(
                r#"{{"name": "{name}", "type": "iana-if-type:ethernetCsmacd",
                     "stoa-interfaces:port": {{"null": {{}}}}, "ietf-ip:ipv4": {{{address}}}}}"#
            )
        })
        .collect();
    format!(
        r#"{{"ietf-interfaces:interfaces": {{"interface": [{}]}},
             "ietf-routing:routing": {{"control-plane-protocols": {{"control-plane-protocol": [
               {{"type": "ietf-routing:static", "name": "many", "static-routes": {{
                 "ietf-ipv4-unicast-routing:ipv4": {{"route": [{}]}}}}}}]}}}}}}"#,
        interfaces.join(","),
        routes.join(",")
    )
}

/// Starts a controller with many routes, and waits until it is prepared for the short way.
async fn prepared(scenario: &mut Scenario) -> (TestOperator, Datastore) {
    let options = Options {
        config: scenario.path("stoa.json"),
        state: scenario.path("stoa.state"),
        socket: scenario.path("stoa.sock"),
        forwarder_socket: scenario.path("forwarder.sock"),
        spare_queue: |_, _, _| Err(std::io::ErrorKind::Unsupported.into()),
    };
    let (sender, receiver) = std::sync::mpsc::channel();
    let started = service::run(options, move |datastore| sender.send(datastore));
    scenario.controller = Some(tokio::spawn(started));
    let mut operator = TestOperator::of(scenario).await;
    until("the history has running", async || {
        (!operator.history().await.entries.is_empty()).then_some(())
    })
    .await;
    (operator, receiver.recv().unwrap())
}

fn is_unsaved(scenario: &Scenario) -> bool {
    scenario.path("stoa.state/unsaved.json").exists()
}

fn file(scenario: &Scenario) -> String {
    std::fs::read_to_string(scenario.path("stoa.json")).unwrap()
}

async fn saved(scenario: &Scenario) {
    until("the startup file is saved", async || (!is_unsaved(scenario)).then_some(())).await;
}

fn sorted(mut desired: v1::Desired) -> v1::Desired {
    desired.routes.sort_by_cached_key(|route| format!("{:?}", route.prefix));
    desired
}

/// Compares two states; thousands of equal routes are not printed.
fn assert_same(applied: v1::Desired, expected: v1::Desired, round: usize) {
    let only = |these: &v1::Desired, those: &v1::Desired| -> Vec<v1::Route> {
        let others: std::collections::HashSet<String> =
            those.routes.iter().map(|route| format!("{route:?}")).collect();
        let is_own = |route: &&v1::Route| !others.contains(&format!("{route:?}"));
        these.routes.iter().filter(is_own).cloned().collect()
    };
    if applied.routes != expected.routes {
        assert_eq!(only(&applied, &expected), only(&expected, &applied), "round {round}");
    }
    // The seed of this router is added when it is sent.
    let bare = |desired| v1::Desired {
        routes: vec![],
        interfaces: vec![],
        ports: vec![],
        multipath: None,
        ..desired
    };
    assert!(applied.interfaces == expected.interfaces, "round {round}: interfaces");
    assert!(applied.ports == expected.ports, "round {round}: ports");
    assert!(applied.routes.len() == expected.routes.len(), "round {round}: routes");
    assert_eq!(bare(applied), bare(expected), "round {round}");
}

/// Edits of a part, edits that need the whole, and edits that the commit refuses.
fn edits() -> Vec<Edit> {
    let interface = |name: &str| format!("/ietf-interfaces:interfaces/interface[name='{name}']");
    let set = |path: String, value: &str| {
        let value = (!value.is_empty()).then(|| value.to_owned());
        Edit::Set(v1::SetEdit { path, value })
    };
    let protocols = "/ietf-routing:routing/control-plane-protocols/control-plane-protocol";
    let instance = |name: &str| format!("{protocols}[type='ietf-routing:static'][name='{name}']");
    let route = |name: &str, prefix: &str| {
        let routes = "static-routes/ietf-ipv4-unicast-routing:ipv4/route";
        format!("{}/{routes}[destination-prefix='{prefix}']", instance(name))
    };
    let gateway = |prefix: &str, gateway: &str| {
        set(format!("{}/next-hop/next-hop-address", route("many", prefix)), gateway)
    };
    let address = |ip: &str| format!("{}/ietf-ip:ipv4/address[ip='{ip}']", interface("b"));
    let body = |interface: &str| {
        Edit::Merge(format!(r#"{{"ietf-interfaces:interfaces": {{"interface": [{interface}]}}}}"#))
    };
    vec![
        set(format!("{}/description", interface("a")), "one"),
        set(format!("{}/description", interface("b")), "two 'quoted' words"),
        Edit::Delete(format!("{}/description", interface("b"))),
        set(format!("{}/enabled", interface("a")), "false"),
        set(format!("{}/enabled", interface("a")), "true"),
        body(r#"{"name": "c", "description": "merged", "enabled": false}"#),
        body(r#"{"name": "b", "description": "also merged"}, {"name": "c", "enabled": true}"#),
        body(r#"{"name": "b", "description": 7}"#),
        // New and changed addresses decide about gateways.
        set(format!("{}/prefix-length", address("10.9.9.1")), "24"),
        set(format!("{}/prefix-length", address("10.9.9.1")), "25"),
        Edit::Delete(address("10.9.9.1")),
        // Its address is the gateway of a route.
        set(format!("{}/prefix-length", address("192.0.2.2")), "32"),
        Edit::Delete(address("192.0.2.2")),
        // A route leaves by it.
        Edit::Delete(interface("c")),
        set(format!("{}/ietf-ip:ipv4/enabled", interface("c")), "false"),
        Edit::Delete(format!("{}/ietf-ip:ipv4/enabled", interface("c"))),
        // Without type and port.
        set(interface("d"), ""),
        Edit::Delete(interface("d")),
        set("/stoa-vrf:vrfs/vrf[name='red']".into(), ""),
        set(format!("{}/stoa-vrf:vrf", interface("b")), "red"),
        Edit::Delete(format!("{}/stoa-vrf:vrf", interface("b"))),
        set(format!("{}/description", instance("many")), "of the instance"),
        set(format!("{}/stoa-vrf:vrf", instance("many")), "red"),
        Edit::Delete(format!("{}/stoa-vrf:vrf", instance("many"))),
        set(instance("empty"), ""),
        Edit::Delete(instance("empty")),
        // Routes: new, changed, deleted, of another instance, recursive, floating, without a next hop.
        gateway("10.200.0.0/16", "192.0.2.7"),
        gateway("10.200.0.0/16", "192.0.2.8"),
        gateway("10.0.7.0/24", "192.0.2.9"),
        gateway("10.0.7.0/24", "192.0.2.1"),
        gateway("10.0.3.0/24", "10.9.9.9"),
        gateway("10.0.3.0/24", "192.0.2.2"),
        Edit::Delete(route("many", "10.200.0.0/16")),
        Edit::Delete(route("many", "10.0.7.0/24")),
        set(format!("{}/next-hop/special-next-hop", route("many", "10.0.6.0/24")), "blackhole"),
        set(format!("{}/stoa-routing:preference", route("many", "10.0.5.0/24")), "200"),
        Edit::Delete(format!("{}/stoa-routing:preference", route("many", "10.0.5.0/24"))),
        set(format!("{}/next-hop/special-next-hop", route("other", "10.0.5.0/24")), "prohibit"),
        Edit::Delete(instance("other")),
        set(route("many", "10.201.0.0/16"), ""),
        Edit::Delete(route("many", "10.201.0.0/16")),
        set("/stoa-system:system/workers/polling".into(), "polling"),
        set("/stoa-management:management/user[name='ann']/admin".into(), "true"),
        Edit::Delete("/stoa-management:management/user[name='ann']".into()),
        Edit::Merge(
            r#"{"ietf-netconf-acm:nacm": {"rule-list": [{"name": "x", "rule":
            [{"name": "r", "action": "deny"}, {"name": "s", "action": "permit"}]}]}}"#
                .into(),
        ),
        Edit::Merge(
            r#"{"stoa-vrf:vrfs": {"vrf": [{"name": "blue", "description": "merged"}]}}"#.into(),
        ),
    ]
}

#[tokio::test]
async fn random_commits_among_routes_equal_those_of_the_whole() {
    random_commits(MANY, 3, rounds(24)).await;
}

#[tokio::test]
async fn random_commits_among_interfaces_equal_those_of_the_whole() {
    random_commits(10, MANY, rounds(4)).await;
}

/// A number of rounds, or more by the cases of property tests, of which 256 are usual.
fn rounds(usual: usize) -> usize {
    let given = std::env::var("PROPTEST_CASES").ok();
    let cases: Option<usize> = given.and_then(|cases| cases.parse().ok());
    (usual * cases.unwrap_or(256) / 256).max(usual)
}

/// Random edits, several before each commit. The commit is refused if and only if the whole is invalid, with its
/// errors; otherwise the forwarder has the state of the whole.
async fn random_commits(routes: usize, interfaces: usize, rounds: usize) {
    let mut scenario = Scenario::new(&config(routes, interfaces));
    let _forwarder = scenario.forwarder();
    let (mut operator, datastore) = prepared(&mut scenario).await;
    let all = edits();
    let (mut random, mut refused, mut short) = (0x2545_F491_4F6C_DD1D_u64, 0, 0);
    for round in 0..rounds {
        for _ in 0..=random % 2 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            // A node to delete may not exist.
            // The first ones more often: they take the short way among interfaces, too.
            let at = (random >> 16) as usize % (2 * all.len());
            operator.edit(all[if at < all.len() { at } else { at % 7 }].clone()).await;
        }
        let candidate = operator.text(v1::Store::Candidate).await;
        let expected = Configuration::parse(Path::new("t"), candidate.clone());
        let reply = operator.commit(0, false).await;
        match expected {
            Ok(expected) => {
                assert_eq!(reply.errors, [], "round {round}");
                short += u32::from(!reply.changes.is_empty() && is_unsaved(&scenario));
                let applied = scenario.applied().pop().unwrap();
                assert_same(sorted(applied), sorted(expected.whole_desired()), round);
            }
            Err(errors) => {
                let causes = |errors: &[v1::ValidationError]| -> Vec<String> {
                    // A commit may name the changed node, and put the other one before the cause.
                    let bare = |it: &v1::ValidationError| {
                        let conflict = it.cause.strip_prefix("this change conflicts with ");
                        let cause = conflict.and_then(|rest| Some(rest.split_once(": ")?.1));
                        cause.unwrap_or(&it.cause).to_owned()
                    };
                    let mut causes: Vec<_> = errors.iter().map(bare).collect();
                    causes.sort();
                    causes
                };
                assert_eq!(causes(&reply.errors), causes(&errors), "round {round}");
                operator.client.discard(v1::DiscardRequest::default()).await.unwrap();
                refused += 1;
                continue;
            }
        }
        assert!(operator.text(v1::Store::Running).await == candidate, "round {round}");
        assert_eq!(operator.differs().await, 0, "round {round}");
    }
    let few = if rounds > 4 { 3 } else { 0 };
    assert!(refused + short > few && short > 0, "{refused} refused, {short} by the short way");
    // The history has them all, as differences or whole.
    let newest = operator.history().await.entries[0].number;
    let running = operator.text(v1::Store::Running).await;
    assert!(datastore.history_tree(newest).unwrap().text().unwrap() == running);
    saved(&scenario).await;
    assert!(file(&scenario) == running);
    scenario.kill().await;
}

/// A confirmed commit survives: the end of the controller, of all, and an edited startup file.
#[tokio::test]
async fn commits_survive_before_the_startup_file_has_them() {
    let mut scenario = Scenario::new(&config(MANY, 3));
    let mut forwarder = scenario.forwarder();
    for (value, is_all) in [("one", false), ("two", true), ("three", false)] {
        let (mut operator, datastore) = prepared(&mut scenario).await;
        until("a commit takes the short way", async || {
            operator.set(DESCRIPTION, "another").await;
            operator.commit(0, false).await;
            assert_eq!(operator.set(DESCRIPTION, value).await, []);
            let reply = operator.commit(0, false).await;
            assert!(reply.errors.is_empty() && reply.number > 0, "{reply:?}");
            is_unsaved(&scenario).then_some(())
        })
        .await;
        let running = operator.text(v1::Store::Running).await;
        let line = format!("\"description\": \"{value}\"");
        assert!(running.contains(&line) && !file(&scenario).contains(&line));
        drop(datastore);
        scenario.kill().await;
        if is_all {
            // As after a power failure.
            std::fs::remove_file(scenario.path("stoa.sock.running")).unwrap();
            drop(forwarder);
            forwarder = scenario.forwarder();
        }
        let (mut operator, _datastore) = prepared(&mut scenario).await;
        assert!(operator.text(v1::Store::Running).await == running);
        assert!(operator.text(v1::Store::Startup).await == running);
        assert!(file(&scenario) == running && !is_unsaved(&scenario));
        scenario.kill().await;
    }
    // An edit by hand stays.
    let (mut operator, _datastore) = prepared(&mut scenario).await;
    operator.set(DESCRIPTION, "four").await;
    assert_eq!(operator.commit(0, false).await.errors, []);
    std::fs::write(scenario.path("stoa.json"), "{}").unwrap();
    saved(&scenario).await;
    assert_eq!(file(&scenario), "{}");
    operator.set(DESCRIPTION, "five").await;
    let reply = operator.commit(0, false).await;
    assert!(reply.errors[0].cause.contains("was edited since"), "{reply:?}");
    assert_eq!(operator.commit(0, true).await.errors, []);
    assert!(file(&scenario) == operator.text(v1::Store::Running).await);
    scenario.kill().await;
    drop(forwarder);
}

/// Changes of running by another client meet a candidate that shares the routes; rollback and refusal.
#[tokio::test]
async fn candidates_share_the_routes_of_running() {
    let mut scenario = Scenario::new(&config(MANY, 3));
    let _forwarder = scenario.forwarder();
    let (mut operator, datastore) = prepared(&mut scenario).await;
    let other = Author::new("other", Client::Restconf);
    let change = async |path: &str, value: &str| {
        let edit = datastore::Edit::Set { path: path.into(), value: Some(value.into()) };
        datastore.edit(&other, Store::Running, vec![edit], None).await.unwrap()
    };
    let first = DESCRIPTION.replace("'b'", "'a'");
    assert_eq!(operator.set(DESCRIPTION, "mine").await, []);
    let revision = datastore.revision(Store::Running);
    assert!(change(&first, "theirs").await > revision);
    assert_eq!(operator.differs().await, 1, "the candidate has the change of running");
    assert_eq!(operator.commit(0, false).await.changes.len(), 1);
    let running = operator.text(v1::Store::Running).await;
    assert!(running.contains("mine") && running.contains("theirs"));
    // The same leaf.
    assert_eq!(operator.set(DESCRIPTION, "again mine").await, []);
    change(DESCRIPTION, "again theirs").await;
    let reply = operator.commit(0, false).await;
    assert!(reply.errors[0].cause.contains("conflicts"), "{reply:?}");
    assert!(operator.text(v1::Store::Candidate).await.contains("again mine"));
    operator.client.discard(v1::DiscardRequest::default()).await.unwrap();
    // Refused by the forwarder: nothing changes.
    let reason = v1::ValidationError { cause: "no room".into(), ..Default::default() };
    *scenario.record.refuse.lock().unwrap() = vec![reason];
    assert_eq!(operator.set(DESCRIPTION, "refused").await, []);
    assert_eq!(operator.commit(0, false).await.errors[0].cause, "no room");
    scenario.record.refuse.lock().unwrap().clear();
    assert!(operator.text(v1::Store::Running).await.contains("again theirs"));
    assert_eq!(operator.differs().await, 1);
    let back = v1::RollbackRequest { back: 1, ..Default::default() };
    operator.client.rollback(back).await.unwrap();
    assert!(operator.text(v1::Store::Candidate).await == running);
    assert_eq!(operator.commit(1, false).await.errors, [], "with a time limit");
    until("it is rolled back", async || {
        operator.text(v1::Store::Running).await.contains("again theirs").then_some(())
    })
    .await;
    scenario.kill().await;
}
