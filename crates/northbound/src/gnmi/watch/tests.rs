//! Schedules, differences, and what a subscription picks.

use super::*;
use proptest::prelude::*;

fn made(list: &[(&str, &str)]) -> Values {
    list.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect()
}

fn seen(picked: Values) -> ReadResult {
    ReadResult { picked, others: BTreeSet::new() }
}

#[test]
fn deletes_name_the_topmost_node() {
    let lan = "/i:interfaces/interface[name='l/an']";
    let (name, text, up) = (
        format!("{lan}/name"),
        format!("{lan}/description"),
        "/i:interfaces/interface[name='b']/up",
    );
    let held = made(&[(&name, "1"), (&text, "2"), (up, "true")]);
    let gone =
        |list: &[(&str, &str)], depth| difference(&held, &seen(made(list)), false, depth).deletes;
    assert_eq!(gone(&[(up, "true")], 1), [lan]);
    assert_eq!(gone(&[(&name, "1"), (up, "true")], 1), [text.as_str()]);
    assert_eq!(gone(&[], 1), ["/i:interfaces"]);
    assert_eq!(gone(&[], 2), ["/i:interfaces/interface[name='b']", lan]);
    assert_eq!(gone(&[(up, "true")], usize::MAX), [text.as_str(), name.as_str()]);
    let held_empty =
        difference(&made(&[("/a/b", "{}")]), &seen(made(&[("/a/b/c", "1")])), false, 1);
    assert!(held_empty.deletes.is_empty(), "a container that got something: {held_empty:?}");
    let others = BTreeSet::from([format!("{lan}/statistics/in-octets")]);
    let left = ReadResult { picked: made(&[(up, "true")]), others };
    let deletes = difference(&held, &left, false, 1).deletes;
    assert_eq!(deletes, [text.as_str(), name.as_str()], "what others watch is still there");
}

fn watch(mode: SubscriptionMode) -> Watch {
    let path = Some(crate::gnmi::tests::path("interfaces/interface"));
    let subscription = Subscription { path, mode: mode.into(), ..Subscription::default() };
    Watch::of(None, &subscription).unwrap().remove(0)
}

#[test]
fn too_many_values_are_not_picked() {
    let watch = watch(SubscriptionMode::OnChange);
    let interface = |number| serde_json::json!({ "name": number, "description": "x" });
    let list: Vec<_> = (0..50).map(|number: u32| interface(number.to_string())).collect();
    let value = serde_json::json!({ "interface": list });
    let picked = |room| watch.picker(ValueEncoding::Json, room)(Some(&value));
    assert_eq!(picked(100).map(|seen| seen.picked.len()), Some(100));
    assert!(picked(99).is_none());
}

#[test]
fn too_many_leaves_of_openconfig_are_not_picked() {
    let path = Some(crate::gnmi::tests::path("openconfig-interfaces:interfaces/interface/state"));
    let mode = SubscriptionMode::OnChange.into();
    let subscription = Subscription { path, mode, ..Subscription::default() };
    let watch = Watch::of(None, &subscription).unwrap().remove(0);
    let interface = |number: u32| serde_json::json!({ "name": number.to_string() });
    let list: Vec<_> = (0..50).map(interface).collect();
    let value = serde_json::json!({ "interface": list });
    let picked = |room| watch.picker(ValueEncoding::Json, room)(Some(&value));
    assert_eq!(picked(50).map(|seen| seen.picked.len()), Some(50));
    assert!(picked(49).is_none());
}

#[test]
fn slow_reads_are_repeated_later() {
    let begun = Instant::now();
    for mode in [SubscriptionMode::OnChange, SubscriptionMode::Sample] {
        let mut watch = watch(mode);
        let moment = begun + Duration::from_secs(3);
        watch.take(ReadResult::default(), begun, moment);
        assert_eq!(watch.due(), Some(moment + Duration::from_secs(30)), "{mode:?}");
        let (begun, moment) = (moment + Duration::from_secs(30), moment + Duration::from_secs(30));
        watch.take(ReadResult::default(), begun, moment);
        assert_eq!(watch.due(), Some(moment + Duration::from_secs(1)), "{mode:?}");
    }
}

#[test]
fn counters_are_recognized() {
    let is = |text: &str| {
        let pattern = PathPattern::read(None, Some(&crate::gnmi::tests::path(text))).unwrap();
        is_fast(&pattern.ends[0])
    };
    for fast in [
        "interfaces/interface/statistics/in-octets",
        "interfaces/interface/statistics/in-pkts",
        "stoa-forwarder:forwarder/workers/worker/busy",
    ] {
        assert!(is(fast), "{fast}");
    }
    for slow in ["interfaces/interface/oper-status", "interfaces/interface/description"] {
        assert!(!is(slow), "{slow}");
    }
}

fn some() -> impl Strategy<Value = Values> {
    let path = prop::collection::vec(prop::sample::select(vec!["a", "b", "c[k='/x']"]), 1..4);
    let leaf = prop::sample::select(vec!["x", "y"]);
    let path = (path, leaf).prop_map(|(steps, leaf)| format!("/{}/{leaf}", steps.join("/")));
    prop::collection::btree_map(path, prop::sample::select(vec!["1", "2"]), 0..12)
        .prop_map(|all| all.into_iter().map(|(path, value)| (path, value.to_owned())).collect())
}

proptest! {
    #[test]
    fn updates_and_deletes_reproduce_the_data(held in some(), now in some(), depth in 1_usize..5) {
        let reported = difference(&held, &seen(now.clone()), false, depth);
        let mut known = held;
        for gone in &reported.deletes {
            let below = format!("{gone}/");
            known.retain(|path, _| path != gone && !path.starts_with(&below));
        }
        known.extend(reported.updates);
        prop_assert_eq!(known, now);
    }
}
