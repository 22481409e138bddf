//! One subscription of a stream: its schedule, its stored values, and the changes to report.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use stoa_api::gnmi::{Path, Subscription, SubscriptionMode};
use tonic::Status;
use yang5::schema::{DataValueType, SchemaNode, SchemaNodeKind};

use super::openconfig::{self, Selected, Selection};
use super::path::{Elem, PathPattern};
use super::tree::{find, values};
use super::value::ValueEncoding;
use crate::restconf::path::data_path;

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
    /// The data to read.
    pub pattern: Arc<PathPattern>,
    /// The OpenConfig view of that part of the data; `None`: the data itself.
    view: Option<(openconfig::Part, Arc<Selection>)>,
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
    /// Parses a subscription: one, or two in mode TARGET_DEFINED, for counters and for the rest; of an OpenConfig path
    /// as many of each part of the data.
    ///
    /// # Errors
    /// When its path is not in the schema, or an interval is too short.
    pub fn of(prefix: Option<&Path>, subscription: &Subscription) -> Result<Vec<Watch>, Status> {
        let of_part = |(part, pattern): &(openconfig::Part, Arc<PathPattern>), selection| {
            (Arc::clone(pattern), Some((*part, Arc::clone(selection))))
        };
        let reads = match Selected::read(prefix, subscription.path.as_ref())? {
            Selected::Native(pattern) => vec![(pattern, None)],
            Selected::OpenConfig(selection) => {
                selection.reads.iter().map(|read| of_part(read, &selection)).collect()
            }
        };
        let mode = SubscriptionMode::try_from(subscription.mode);
        let mode = mode.map_err(|_| {
            Status::invalid_argument("unknown mode: use TARGET_DEFINED, ON_CHANGE or SAMPLE")
        })?;
        let interval = period(subscription.sample_interval, "sample_interval")?;
        let heartbeat = period(subscription.heartbeat_interval, "heartbeat_interval")?;
        let watch = |(pattern, view): &(Arc<PathPattern>, _), (which, interval)| Watch {
            pattern: Arc::clone(pattern),
            view: Option::clone(view),
            which,
            interval,
            is_suppressed: subscription.suppress_redundant,
            heartbeat,
            held: Values::new(),
            due: None,
            beat: None,
        };
        let classes = match mode {
            SubscriptionMode::OnChange => vec![(ValueClass::All, None)],
            SubscriptionMode::Sample => {
                vec![(ValueClass::All, Some(interval.unwrap_or(INTERVAL_MIN)))]
            }
            SubscriptionMode::TargetDefined => {
                let own = Some(interval.unwrap_or(INTERVAL_OWN));
                vec![(ValueClass::Slow, None), (ValueClass::Fast, own)]
            }
        };
        let of_read = |read| classes.iter().map(move |class| (read, *class));
        Ok(reads.iter().flat_map(of_read).map(|(read, class)| watch(read, class)).collect())
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
        let (pattern, view, which) = (Arc::clone(&self.pattern), self.view.clone(), self.which);
        move |value| {
            let mut seen = ReadResult::default();
            let mut pick = |path: &str, is_fast: bool, value: &Value| {
                if seen.picked.len() > room {
                    return ControlFlow::Break(());
                }
                if which == ValueClass::All || (which == ValueClass::Fast) == is_fast {
                    seen.picked.insert(path.to_owned(), coding.text_of(value));
                } else {
                    seen.others.insert(path.to_owned());
                }
                ControlFlow::Continue(())
            };
            match view {
                Some((part, selection)) => {
                    // Whether it stopped early shows in the number of picked values.
                    let _ = selection.each_leaf(part, value, &mut |leaf| {
                        pick(&data_path(&leaf.steps), leaf.is_fast, &leaf.value)
                    });
                }
                None => {
                    let all = value.map(|value| find(&pattern, value)).unwrap_or_default();
                    for found in &all {
                        values(found, &mut |path, node, value| {
                            let _ = pick(path, is_fast(node), value);
                        });
                    }
                }
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
        let (elems, above) = match &self.view {
            Some((_, selection)) => (&selection.elems, 0),
            None => (&self.pattern.rest, self.pattern.resource.steps.len()),
        };
        // Another part of the data may have more below the same node.
        let is_part = self.view.as_ref().is_some_and(|(_, selection)| selection.reads.len() > 1);
        match elems.contains(&Elem::Deep) || is_part {
            true => usize::MAX,
            false => (above + elems.len()).max(1),
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
mod tests;
