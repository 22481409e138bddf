//! One subscription of a stream: its schedule, its stored values, and the changes to report.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use stoa_api::gnmi::{Path, Subscription, SubscriptionMode};
use tonic::Status;
use yang5::schema::{DataValueType, SchemaNode, SchemaNodeKind};

use super::path::{Elem, PathPattern};
use super::tree::{find, values};
use super::value::ValueEncoding;

/// Minimum and default sample interval.
pub const INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Sample interval of counters in mode TARGET_DEFINED.
const INTERVAL_OWN: Duration = Duration::from_secs(10);
/// Read interval of state in mode ON_CHANGE.
const LOOK: Duration = Duration::from_secs(1);
/// A slow read is repeated after this multiple of its duration at the earliest.
pub const REST: u32 = 10;
/// Values by their data paths.
pub type Values = BTreeMap<String, String>;

/// Which values a subscription has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueClass {
    All,
    /// Values that change rarely.
    Slow,
    /// Counters and gauges.
    Fast,
}

/// One subscription.
#[derive(Debug)]
pub struct Watch {
    /// The path.
    pub pattern: Arc<PathPattern>,
    which: ValueClass,
    /// The sample interval; `None`: report on change.
    interval: Option<Duration>,
    is_suppressed: bool,
    heartbeat: Option<Duration>,
    held: Values,
    /// Time of the next read; `None`: when the configuration changes.
    due: Option<Instant>,
    /// Time to report all values, changed or not.
    beat: Option<Instant>,
}

/// The result of one read.
#[derive(Clone, Debug, Default)]
pub struct ReadResult {
    /// The values of the subscription.
    pub picked: Values,
    /// Paths of other values below the same nodes.
    others: BTreeSet<String>,
}

/// The changes to report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// New values by path.
    pub updates: Vec<(String, String)>,
    /// Deleted paths.
    pub deletes: Vec<String>,
}

fn period(nanoseconds: u64, what: &str) -> Result<Option<Duration>, Status> {
    let period = Duration::from_nanos(nanoseconds);
    match nanoseconds {
        0 => Ok(None),
        _ if period < INTERVAL_MIN => {
            let words = format!("{what} must be at least {} s", INTERVAL_MIN.as_secs());
            Err(Status::invalid_argument(words))
        }
        _ => Ok(Some(period)),
    }
}

impl Watch {
    /// Parses a subscription: one, or two in mode TARGET_DEFINED, for counters and for the rest.
    ///
    /// # Errors
    /// When its path is not in the schema, or an interval is too short.
    pub fn of(prefix: Option<&Path>, subscription: &Subscription) -> Result<Vec<Watch>, Status> {
        let pattern = Arc::new(PathPattern::read(prefix, subscription.path.as_ref())?);
        let mode = SubscriptionMode::try_from(subscription.mode);
        let mode = mode.map_err(|_| {
            Status::invalid_argument("unknown mode: use TARGET_DEFINED, ON_CHANGE or SAMPLE")
        })?;
        let interval = period(subscription.sample_interval, "sample_interval")?;
        let heartbeat = period(subscription.heartbeat_interval, "heartbeat_interval")?;
        let watch = |which, interval| Watch {
            pattern: Arc::clone(&pattern),
            which,
            interval,
            is_suppressed: subscription.suppress_redundant,
            heartbeat,
            held: Values::new(),
            due: None,
            beat: None,
        };
        Ok(match mode {
            SubscriptionMode::OnChange => vec![watch(ValueClass::All, None)],
            SubscriptionMode::Sample => {
                vec![watch(ValueClass::All, Some(interval.unwrap_or(INTERVAL_MIN)))]
            }
            SubscriptionMode::TargetDefined => {
                let own = Some(interval.unwrap_or(INTERVAL_OWN));
                vec![watch(ValueClass::Slow, None), watch(ValueClass::Fast, own)]
            }
        })
    }

    /// Time of the next read.
    pub fn due(&self) -> Option<Instant> {
        [self.due, self.beat].into_iter().flatten().min()
    }

    /// Reads soon: the configuration or the access rules have changed.
    pub fn hurry(&mut self, moment: Instant) {
        if self.interval.is_none() {
            self.due = Some(moment);
        }
    }

    /// Reads later: currently there is no data.
    pub fn postpone(&mut self, moment: Instant) {
        self.due = Some(moment + LOOK);
        self.beat = None;
    }

    /// Clears the stored values, so that all are reported again.
    pub fn forget(&mut self) {
        self.held.clear();
    }

    /// Number of stored values.
    pub fn count(&self) -> usize {
        self.held.len()
    }

    /// A function that picks the values of this subscription from the read data; `None`: they exceed `room`.
    pub fn picker(
        &self,
        coding: ValueEncoding,
        room: usize,
    ) -> impl FnOnce(Option<&Value>) -> Option<ReadResult> + Send + 'static {
        let (pattern, which) = (Arc::clone(&self.pattern), self.which);
        move |value| {
            let mut seen = ReadResult::default();
            let mut is_full = false;
            for found in value.map(|value| find(&pattern, value)).unwrap_or_default() {
                values(&found, &mut |path, node, value| {
                    is_full |= seen.picked.len() > room;
                    if is_full {
                        return;
                    }
                    if which == ValueClass::All || (which == ValueClass::Fast) == is_fast(node) {
                        seen.picked.insert(path.to_owned(), coding.text_of(value));
                    } else {
                        seen.others.insert(path.to_owned());
                    }
                });
            }
            (seen.picked.len() <= room).then_some(seen)
        }
    }

    /// Takes the result of a read from `begun` to `moment`; returns the changes to report.
    pub fn take(&mut self, seen: ReadResult, begun: Instant, moment: Instant) -> Difference {
        let is_beat = self.beat.is_some_and(|beat| beat <= moment);
        if is_beat || self.beat.is_none() {
            self.beat = self.heartbeat.map(|period| moment + period);
        }
        let is_sampled = self.interval.is_some() && !self.is_suppressed;
        let is_due = self.due.is_none_or(|due| due <= moment);
        let rest = moment.duration_since(begun) * REST;
        self.due = match self.interval {
            // Samples keep their schedule, except for missed ones and those too soon after a slow read.
            Some(interval) if is_due => {
                let interval = interval.max(rest);
                let next = self.due.map_or(moment, |due| due) + interval;
                Some(if next <= moment { moment + interval } else { next })
            }
            Some(_) => self.due,
            None => {
                let pause = LOOK.max(rest);
                self.pattern.has_facts().then_some(moment + pause)
            }
        };
        let is_all = is_beat || is_sampled && is_due;
        let difference = difference(&self.held, &seen, is_all, self.depth());
        self.held = seen.picked;
        difference
    }

    /// Minimum number of steps of a deleted path: nodes above are not subscribed to.
    fn depth(&self) -> usize {
        match self.pattern.rest.contains(&Elem::Deep) {
            true => usize::MAX,
            false => (self.pattern.resource.steps.len() + self.pattern.rest.len()).max(1),
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

/// The changes from `held` to `seen`; with `is_all`, all values.
fn difference(held: &Values, seen: &ReadResult, is_all: bool, depth: usize) -> Difference {
    let is_generated =
        |(path, value): &(&String, &String)| is_all || held.get(*path) != Some(*value);
    let picked = &seen.picked;
    let updates =
        picked.iter().filter(is_generated).map(|(path, value)| (path.clone(), value.clone()));
    let gone = held.keys().filter(|path| !picked.contains_key(*path));
    let deletes: BTreeSet<&str> = gone.filter_map(|path| top(path, seen, depth)).collect();
    Difference {
        updates: updates.collect(),
        deletes: deletes.into_iter().map(str::to_owned).collect(),
    }
}

/// The topmost deleted node of a deleted value. `None`: values remain below the path, because an empty container got
/// content.
fn top<'a>(path: &'a str, seen: &ReadResult, depth: usize) -> Option<&'a str> {
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

/// The end offsets of the steps of a path.
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
    fn slow_reads_are_repeated_later() {
        let begun = Instant::now();
        for mode in [SubscriptionMode::OnChange, SubscriptionMode::Sample] {
            let mut watch = watch(mode);
            let moment = begun + Duration::from_secs(3);
            watch.take(ReadResult::default(), begun, moment);
            assert_eq!(watch.due(), Some(moment + Duration::from_secs(30)), "{mode:?}");
            let (begun, moment) =
                (moment + Duration::from_secs(30), moment + Duration::from_secs(30));
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
}
