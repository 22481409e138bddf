//! `stoa bench classify`: speed, memory and changes of the packet classifier alone.
//!
//! Look-ups run in batches of 64 over all keys in turn. Runs of some batches are timed one by one, and
//! the least disturbed pass over each run counts: a pass over all keys takes longer than a busy machine
//! leaves a thread its processor. Builds and changes are timed by this thread's processor time.

mod filters;
mod keys;
mod rules;
#[cfg(test)]
mod tests;

use std::hint::black_box;
use std::str::FromStr;

use serde::Serialize;
use stoa_engine::clock;
use stoa_tables::Reclaim;
use stoa_tables::classifier::{
    Classifier, ClassifierCapacity, ClassifierError, ClassifierReader, Ip4Columns, Ip6Columns, Key,
    LANES, NO_RULE, Rule,
};
use stoa_tables::lpm::Kernel;

pub use filters::Rules;
pub use keys::Address;
pub use rules::{Kind, MOST_RULES, RuleSet, generate};

use crate::random::Random;
use crate::table;

/// Passes over all keys.
const PASSES: usize = 15;
/// Batches that are timed together.
const RUN: usize = 8;
/// The least number of keys in a pass, of which fewer may be distinct.
const LEAST_KEYS: usize = 1 << 14;
/// The most distinct keys.
pub const MOST_KEYS: usize = 1 << 22;
/// The most rules that are removed and added again.
const CHANGES: usize = 500;
/// The seed of rules and keys.
const SEED: u64 = 1;

/// The keys to look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// Each meets a rule, all rules equally often, unless an earlier rule hides it.
    Matching,
    /// Random addresses and ports.
    Random,
}

impl FromStr for Keys {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "matching" => Ok(Self::Matching),
            "random" => Ok(Self::Random),
            _ => Err(format!("{text:?}: give matching or random")),
        }
    }
}

/// The workload.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The rules.
    pub rules: Rules,
    /// The keys.
    pub keys: Keys,
    /// Distinct keys, 1 to 4,194,304.
    pub distinct: usize,
    /// How batches are looked up.
    pub kernel: Kernel,
}

/// Results of the measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Ticks of the time stamp counter per look-up.
    pub cycles_per_lookup: f64,
    /// Seconds to build the trees from all rules.
    pub build_seconds: f64,
    /// Mean milliseconds until a rule that was added or removed is published.
    pub update_ms: f64,
    /// The slowest of these changes.
    pub update_ms_most: f64,
    /// Bytes that workers read, for each rule.
    pub bytes_per_rule: f64,
    /// Bytes that workers read.
    pub lookup_bytes: usize,
    /// Bytes of the writer's bookkeeping.
    pub bookkeeping_bytes: usize,
    /// Keys that meet no rule, of all.
    pub unmatched: f64,
    /// Number of rules.
    pub rules: usize,
    /// The rule set.
    pub set: String,
    /// `ip4` or `ip6`.
    pub family: &'static str,
    /// `matching` or `random`.
    pub keys: &'static str,
    /// Distinct keys.
    pub distinct: usize,
    /// How batches were looked up.
    pub kernel: &'static str,
    /// Ticks of the counter per second.
    pub tsc_hz: u64,
}

/// Why the measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum ClassifyError {
    /// A number out of range.
    #[error("{0}")]
    Range(String),
    /// The classifier refused a change.
    #[error("the classifier refused a change: {0}")]
    Refused(#[from] ClassifierError),
    /// The address space could not be reserved.
    #[error("the system gives no memory for {0} rules: give fewer, or raise the limit (ulimit -v)")]
    Memory(usize),
}

/// A family of keys, in columns.
pub trait Family: Address {
    /// The columns of 64 keys.
    type Columns: Default;
    /// Sets the key of a lane.
    fn set(columns: &mut Self::Columns, lane: usize, key: &Key<Self>);
    /// Looks up a whole batch.
    fn lookup(reader: &ClassifierReader, columns: &Self::Columns, ids: &mut [u32; LANES]);
}

impl Family for u32 {
    type Columns = Ip4Columns;

    fn set(columns: &mut Ip4Columns, lane: usize, key: &Key<u32>) {
        columns.set(lane, key);
    }

    fn lookup(reader: &ClassifierReader, columns: &Ip4Columns, ids: &mut [u32; LANES]) {
        reader.lookup_ip4(columns, LANES, ids);
    }
}

impl Family for u128 {
    type Columns = Ip6Columns;

    fn set(columns: &mut Ip6Columns, lane: usize, key: &Key<u128>) {
        columns.set(lane, key);
    }

    fn lookup(reader: &ClassifierReader, columns: &Ip6Columns, ids: &mut [u32; LANES]) {
        reader.lookup_ip6(columns, LANES, ids);
    }
}

/// Measures a classifier with keys of a family; `progress` receives the completed share.
///
/// # Errors
///
/// A workload that is out of range, or a classifier that is full.
pub fn run<F: Family>(
    workload: &Workload,
    progress: impl Fn(f64),
) -> Result<Figures, ClassifyError> {
    let Workload { rules: ref set, keys, distinct, kernel } = *workload;
    if !(1..=MOST_KEYS).contains(&distinct) {
        return Err(ClassifyError::Range(format!("{distinct} keys: give 1 to {MOST_KEYS}")));
    }
    let rules = set.of_family(F::IS_IP6, SEED);
    progress(0.1);
    let capacity = ClassifierCapacity::for_rules(rules.len() + 1);
    let mut classifier = Classifier::new(capacity).ok_or(ClassifyError::Memory(rules.len()))?;
    let mut build_seconds = f64::MAX;
    for _ in 0..2 {
        build_seconds = build_seconds.min(build(&mut classifier, &rules)?);
    }
    progress(0.4);
    let batches = batches::<F>(keys, distinct, &rules);
    let reader = classifier.reader().with_kernel(kernel).unwrap_or_else(|| classifier.reader());
    let (cycles_per_lookup, unmatched) = measure::<F>(&reader, &batches);
    progress(0.8);
    let memory = classifier.memory();
    let (update_ms, update_ms_most) = change(&mut classifier, &rules)?;
    progress(1.0);
    Ok(Figures {
        cycles_per_lookup,
        build_seconds,
        update_ms,
        update_ms_most,
        bytes_per_rule: memory.lookup_bytes as f64 / rules.len() as f64,
        lookup_bytes: memory.lookup_bytes,
        bookkeeping_bytes: memory.bookkeeping_bytes,
        unmatched,
        rules: rules.len(),
        set: set.to_string(),
        family: if F::IS_IP6 { "ip6" } else { "ip4" },
        keys: if keys == Keys::Matching { "matching" } else { "random" },
        distinct,
        kernel: table::name(kernel),
        tsc_hz: clock::tsc_hz(),
    })
}

/// Seconds for which this thread has had a processor, or the time where that is not available.
fn seconds() -> f64 {
    table::on_cpu().unwrap_or_else(|| clock::tsc() as f64 / clock::tsc_hz() as f64)
}

/// Ranks with gaps between the rules.
fn rank(rules: &[Rule], at: usize) -> u32 {
    at as u32 * (u32::MAX / rules.len() as u32)
}

fn build(classifier: &mut Classifier, rules: &[Rule]) -> Result<f64, ClassifyError> {
    let numbered = rules.iter().enumerate();
    let begin = seconds();
    classifier.replace_all(numbered.map(|(at, rule)| (at as u32, rank(rules, at), *rule)))?;
    classifier.publish();
    Ok(seconds() - begin)
}

/// Columns of at least so many keys.
fn batches<F: Family>(keys: Keys, distinct: usize, rules: &[Rule]) -> Vec<F::Columns> {
    let mut random = Random::new(SEED + 1);
    let key = |random: &mut Random| match keys {
        Keys::Matching => keys::within::<F>(&rules[random.below(rules.len())], random),
        Keys::Random => keys::random::<F>(random),
    };
    let distinct: Vec<Key<F>> = (0..distinct).map(|_| key(&mut random)).collect();
    let count = distinct.len().max(LEAST_KEYS).next_multiple_of(LANES * RUN);
    let mut order: Vec<usize> = (0..distinct.len()).cycle().take(count).collect();
    random.shuffle(&mut order);
    let batch = |places: &[usize]| {
        let mut columns = F::Columns::default();
        places.iter().enumerate().for_each(|(lane, at)| F::set(&mut columns, lane, &distinct[*at]));
        columns
    };
    order.chunks(LANES).map(batch).collect()
}

/// Cycles per look-up, and the share that meets no rule.
fn measure<F: Family>(reader: &ClassifierReader, batches: &[F::Columns]) -> (f64, f64) {
    let mut least = vec![u64::MAX; batches.len() / RUN];
    let mut ids = [0; LANES];
    for _ in 0..PASSES {
        for (batches, least) in batches.chunks_exact(RUN).zip(&mut least) {
            let begin = clock::tsc();
            for batch in batches {
                F::lookup(reader, black_box(batch), &mut ids);
                black_box(&ids);
            }
            *least = (*least).min(clock::tsc() - begin);
        }
    }
    let mut unmatched = 0;
    for batch in batches {
        F::lookup(reader, batch, &mut ids);
        unmatched += ids.iter().filter(|id| **id == NO_RULE).count();
    }
    let count = (batches.len() * LANES) as f64;
    (least.iter().sum::<u64>() as f64 / count, unmatched as f64 / count)
}

/// Mean and greatest milliseconds of a change and its publication, while a reader holds memory back.
fn change(classifier: &mut Classifier, rules: &[Rule]) -> Result<(f64, f64), ClassifyError> {
    let reader = classifier.reader();
    let mut random = Random::new(SEED + 2);
    let changes = rules.len().min(CHANGES);
    let (mut sum, mut most) = (0.0, 0.0_f64);
    for epoch in 0..changes {
        let at = random.below(rules.len());
        for is_removal in [true, false] {
            let begin = seconds();
            if is_removal {
                classifier.remove(at as u32)?;
            } else {
                classifier.insert(at as u32, rank(rules, at), &rules[at])?;
            }
            classifier.publish();
            let ms = (seconds() - begin) * 1e3;
            (sum, most) = (sum + ms, most.max(ms));
        }
        classifier.retire_mark(epoch as u64);
        classifier.reclaim(epoch as u64);
    }
    drop(reader);
    Ok((sum / (2 * changes) as f64, most))
}
