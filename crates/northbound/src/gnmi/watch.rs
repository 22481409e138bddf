//! One subscription of a stream: when it looks, what it remembers, and what of it is told.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use stoa_api::gnmi::{Path, Subscription, SubscriptionMode};
use tonic::Status;
use yang5::schema::{DataValueType, SchemaNode, SchemaNodeKind};

use super::path::{Elem, Way};
use super::tree::{find, values};
use super::value::Coding;

/// Shortest time between two samples, and the one when the client does not say.
pub const INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Time between two samples of counters when the router chooses.
const INTERVAL_OWN: Duration = Duration::from_secs(10);
/// How often facts are looked at that are told when they change.
const LOOK: Duration = Duration::from_secs(1);
/// A look that took long is not taken again before so many times that long.
pub const REST: u32 = 10;
/// Values by their data paths.
pub type Values = BTreeMap<String, String>;

/// Which of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    All,
    /// What stays as it is for long.
    Slow,
    /// Counters and the like.
    Fast,
}

/// One subscription.
#[derive(Debug)]
pub struct Watch {
    /// What is watched.
    pub way: Arc<Way>,
    which: Which,
    /// Time between two samples; `None`: told when it changes.
    interval: Option<Duration>,
    is_suppressed: bool,
    heartbeat: Option<Duration>,
    held: Values,
    /// When to look next; `None`: when the configuration changes.
    due: Option<Instant>,
    /// When to tell all, changed or not.
    beat: Option<Instant>,
}

/// What was seen in one look.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The values of the subscription.
    pub picked: Values,
    /// Paths of values beside them, below the same nodes.
    others: BTreeSet<String>,
}

/// What has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// New values by their paths.
    pub updates: Vec<(String, String)>,
    /// What is gone.
    pub deletes: Vec<String>,
}

fn period(nanoseconds: u64, what: &str) -> Result<Option<Duration>, Status> {
    let period = Duration::from_nanos(nanoseconds);
    match nanoseconds {
        0 => Ok(None),
        _ if period < INTERVAL_MIN => {
            let words = format!("the shortest {what} is {} s", INTERVAL_MIN.as_secs());
            Err(Status::invalid_argument(words))
        }
        _ => Ok(Some(period)),
    }
}

impl Watch {
    /// What a subscription comes to: one, or two when the router chooses between counters and the rest.
    ///
    /// # Errors
    /// When its path leads nowhere in the schema, or a time is too short.
    pub fn of(prefix: Option<&Path>, subscription: &Subscription) -> Result<Vec<Watch>, Status> {
        let way = Arc::new(Way::read(prefix, subscription.path.as_ref())?);
        let mode = SubscriptionMode::try_from(subscription.mode);
        let mode = mode.map_err(|_| Status::invalid_argument("there is no such mode"))?;
        let interval = period(subscription.sample_interval, "sample_interval")?;
        let heartbeat = period(subscription.heartbeat_interval, "heartbeat_interval")?;
        let watch = |which, interval| Watch {
            way: Arc::clone(&way),
            which,
            interval,
            is_suppressed: subscription.suppress_redundant,
            heartbeat,
            held: Values::new(),
            due: None,
            beat: None,
        };
        Ok(match mode {
            SubscriptionMode::OnChange => vec![watch(Which::All, None)],
            SubscriptionMode::Sample => {
                vec![watch(Which::All, Some(interval.unwrap_or(INTERVAL_MIN)))]
            }
            SubscriptionMode::TargetDefined => {
                let own = Some(interval.unwrap_or(INTERVAL_OWN));
                vec![watch(Which::Slow, None), watch(Which::Fast, own)]
            }
        })
    }

    /// When to look next.
    pub fn due(&self) -> Option<Instant> {
        [self.due, self.beat].into_iter().flatten().min()
    }

    /// The configuration has changed, or the rules of who may see what.
    pub fn hurry(&mut self, moment: Instant) {
        if self.interval.is_none() {
            self.due = Some(moment);
        }
    }

    /// Looks again later, for now there is nothing to be seen.
    pub fn postpone(&mut self, moment: Instant) {
        self.due = Some(moment + LOOK);
        self.beat = None;
    }

    /// Remembers nothing, so that all is told again.
    pub fn forget(&mut self) {
        self.held.clear();
    }

    /// Number of values that are remembered.
    pub fn count(&self) -> usize {
        self.held.len()
    }

    /// What picks the values of this subscription out of what stands at its place; `None`: they are more than `room`.
    pub fn picker(
        &self,
        coding: Coding,
        room: usize,
    ) -> impl FnOnce(Option<&Value>) -> Option<Seen> + Send + 'static {
        let (way, which) = (Arc::clone(&self.way), self.which);
        move |value| {
            let mut seen = Seen::default();
            let mut is_full = false;
            for found in value.map(|value| find(&way, value)).unwrap_or_default() {
                values(&found, &mut |path, node, value| {
                    is_full |= seen.picked.len() > room;
                    if is_full {
                        return;
                    }
                    if which == Which::All || (which == Which::Fast) == is_fast(node) {
                        seen.picked.insert(path.to_owned(), coding.kept(value));
                    } else {
                        seen.others.insert(path.to_owned());
                    }
                });
            }
            (seen.picked.len() <= room).then_some(seen)
        }
    }

    /// Takes what was seen in a look that began at `begun` and ended at `moment`; gives what is to be told of it.
    pub fn take(&mut self, seen: Seen, begun: Instant, moment: Instant) -> Difference {
        let is_beat = self.beat.is_some_and(|beat| beat <= moment);
        if is_beat || self.beat.is_none() {
            self.beat = self.heartbeat.map(|period| moment + period);
        }
        let is_sampled = self.interval.is_some() && !self.is_suppressed;
        let is_due = self.due.is_none_or(|due| due <= moment);
        let rest = moment.duration_since(begun) * REST;
        self.due = match self.interval {
            // Samples keep their beat, but for those that were missed, and those that would leave no rest.
            Some(interval) if is_due => {
                let interval = interval.max(rest);
                let next = self.due.map_or(moment, |due| due) + interval;
                Some(if next <= moment { moment + interval } else { next })
            }
            Some(_) => self.due,
            None => {
                let pause = LOOK.max(rest);
                self.way.has_facts().then_some(moment + pause)
            }
        };
        let is_all = is_beat || is_sampled && is_due;
        let difference = difference(&self.held, &seen, is_all, self.depth());
        self.held = seen.picked;
        difference
    }

    /// Steps of a path that a delete has at least: what stands above is not subscribed to.
    fn depth(&self) -> usize {
        match self.way.rest.contains(&Elem::Deep) {
            true => usize::MAX,
            false => (self.way.place.steps.len() + self.way.rest.len()).max(1),
        }
    }
}

/// Whether a value changes all the time.
fn is_fast(node: &SchemaNode<'_>) -> bool {
    if node.is_config() || node.kind() != SchemaNodeKind::Leaf {
        return false;
    }
    let Some(kind) = node.leaf_type() else { return false };
    let is_counted = kind.typedef_name().is_some_and(|name| {
        ["counter", "gauge"]
            .iter()
            .any(|word| name.rsplit(':').next().unwrap_or(&name).starts_with(word))
    });
    is_counted
        || kind.base_type() == DataValueType::Dec64
        || ["age", "queued"].contains(&node.name())
}

/// What `seen` has that `held` has not, and the other way round; with `is_all`, all of it.
fn difference(held: &Values, seen: &Seen, is_all: bool, depth: usize) -> Difference {
    let is_told = |(path, value): &(&String, &String)| is_all || held.get(*path) != Some(*value);
    let picked = &seen.picked;
    let updates = picked.iter().filter(is_told).map(|(path, value)| (path.clone(), value.clone()));
    let gone = held.keys().filter(|path| !picked.contains_key(*path));
    let deletes: BTreeSet<&str> = gone.filter_map(|path| top(path, seen, depth)).collect();
    Difference {
        updates: updates.collect(),
        deletes: deletes.into_iter().map(str::to_owned).collect(),
    }
}

/// The uppermost node on the way to a value that is gone, of which nothing is left. `None`: something is left below it,
/// for a container that was empty has got something.
fn top<'a>(path: &'a str, seen: &Seen, depth: usize) -> Option<&'a str> {
    let has_below = |above: &str| {
        let start = format!("{above}/");
        let from = (Bound::Included(start.as_str()), Bound::Unbounded);
        let is_next = |next: Option<&String>| next.is_some_and(|path| path.starts_with(&start));
        seen.picked.contains_key(above)
            || seen.others.contains(above)
            || is_next(seen.picked.range::<str, _>(from).next().map(|(path, _)| path))
            || is_next(seen.others.range::<str, _>(from).next())
    };
    let ends = ends(path);
    let from = depth.min(ends.len()).saturating_sub(1);
    let end = ends[from..].iter().find(|end| !has_below(&path[..**end]));
    end.map(|end| &path[..*end])
}

/// Where the steps of a path end.
fn ends(path: &str) -> Vec<usize> {
    let (mut quote, mut found) = (None, Vec::new());
    for (at, letter) in path.char_indices() {
        match (quote, letter) {
            (None, '/') if at > 0 => found.push(at),
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), letter) if open == letter => quote = None,
            _ => {}
        }
    }
    found.push(path.len());
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn made(list: &[(&str, &str)]) -> Values {
        list.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect()
    }

    fn seen(picked: Values) -> Seen {
        Seen { picked, others: BTreeSet::new() }
    }

    #[test]
    fn what_is_gone_is_told_by_its_uppermost_node() {
        let lan = "/i:interfaces/interface[name='l/an']";
        let (name, text, up) = (
            format!("{lan}/name"),
            format!("{lan}/description"),
            "/i:interfaces/interface[name='b']/up",
        );
        let held = made(&[(&name, "1"), (&text, "2"), (up, "true")]);
        let gone = |list: &[(&str, &str)], depth| {
            difference(&held, &seen(made(list)), false, depth).deletes
        };
        assert_eq!(gone(&[(up, "true")], 1), [lan]);
        assert_eq!(gone(&[(&name, "1"), (up, "true")], 1), [text.as_str()]);
        assert_eq!(gone(&[], 1), ["/i:interfaces"]);
        assert_eq!(gone(&[], 2), ["/i:interfaces/interface[name='b']", lan]);
        assert_eq!(gone(&[(up, "true")], usize::MAX), [text.as_str(), name.as_str()]);
        let held_empty =
            difference(&made(&[("/a/b", "{}")]), &seen(made(&[("/a/b/c", "1")])), false, 1);
        assert!(held_empty.deletes.is_empty(), "a container that got something: {held_empty:?}");
        let others = BTreeSet::from([format!("{lan}/statistics/in-octets")]);
        let left = Seen { picked: made(&[(up, "true")]), others };
        let deletes = difference(&held, &left, false, 1).deletes;
        assert_eq!(deletes, [text.as_str(), name.as_str()], "what others watch is still there");
    }

    fn watch(mode: SubscriptionMode) -> Watch {
        let path = Some(crate::gnmi::tests::path("interfaces/interface"));
        let subscription = Subscription { path, mode: mode.into(), ..Subscription::default() };
        Watch::of(None, &subscription).unwrap().remove(0)
    }

    #[test]
    fn what_is_too_much_is_not_picked() {
        let watch = watch(SubscriptionMode::OnChange);
        let interface = |number| serde_json::json!({ "name": number, "description": "x" });
        let list: Vec<_> = (0..50).map(|number: u32| interface(number.to_string())).collect();
        let value = serde_json::json!({ "interface": list });
        let picked = |room| watch.picker(Coding::Json, room)(Some(&value));
        assert_eq!(picked(100).map(|seen| seen.picked.len()), Some(100));
        assert!(picked(99).is_none());
    }

    #[test]
    fn who_looks_long_rests_long() {
        let begun = Instant::now();
        for mode in [SubscriptionMode::OnChange, SubscriptionMode::Sample] {
            let mut watch = watch(mode);
            let moment = begun + Duration::from_secs(3);
            watch.take(Seen::default(), begun, moment);
            assert_eq!(watch.due(), Some(moment + Duration::from_secs(30)), "{mode:?}");
            let (begun, moment) =
                (moment + Duration::from_secs(30), moment + Duration::from_secs(30));
            watch.take(Seen::default(), begun, moment);
            assert_eq!(watch.due(), Some(moment + Duration::from_secs(1)), "{mode:?}");
        }
    }

    #[test]
    fn counters_are_told_apart() {
        let is = |text: &str| {
            let way = Way::read(None, Some(&crate::gnmi::tests::path(text))).unwrap();
            is_fast(&way.ends[0])
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
        fn who_follows_knows_what_is(held in some(), now in some(), depth in 1_usize..5) {
            let told = difference(&held, &seen(now.clone()), false, depth);
            let mut known = held;
            for gone in &told.deletes {
                let below = format!("{gone}/");
                known.retain(|path, _| path != gone && !path.starts_with(&below));
            }
            known.extend(told.updates);
            prop_assert_eq!(known, now);
        }
    }
}
