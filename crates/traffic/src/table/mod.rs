//! `stoa bench table`: speed and memory of the longest-prefix match alone.
//!
//! Look-ups run in batches of a vector over many keys in turn (by default 2^20); the least disturbed of many
//! passes is reported. Changes are timed by this thread's processor time.

mod redirect;
#[cfg(test)]
mod tests;

use std::hint::black_box;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Instant;

use serde::Serialize;
use stoa_engine::{VECTOR, clock};
use stoa_tables::Reclaim;
use stoa_tables::lpm::{Kernel, Lpm, LpmCapacity, LpmError};

use crate::prefixes::{self, Family, PrefixError, Source};
use crate::random::Random;

/// Default keys of a pass.
pub const LOOKUPS: u32 = 1 << 20;
/// The least keys of a pass.
pub const LOOKUPS_MIN: u32 = 1 << 12;
/// The most keys of a pass.
pub const LOOKUPS_MAX: u32 = 1 << 26;
/// Passes over all keys for each round.
const PASSES: u32 = 5;
/// The most prefixes removed and added again while a reader is active.
const CHURN: usize = 200_000;
/// Changes between two grace periods.
const BATCH: usize = 64;
/// Default number of values.
pub const VALUES: u32 = 1024;

/// The keys to look up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keys {
    /// Random addresses (IPv6: in 2000::/3).
    Random,
    /// An address of a prefix, with uniformly distributed prefixes.
    InTable,
    /// An address of a prefix, with prefixes by Zipf's law.
    Zipf,
    /// Addresses of a file, one a line.
    File(PathBuf),
}

impl FromStr for Keys {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "random" => Self::Random,
            "in-table" => Self::InTable,
            "zipf" => Self::Zipf,
            path => Self::File(path.into()),
        })
    }
}

impl std::fmt::Display for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Random => f.write_str("random"),
            Self::InTable => f.write_str("in-table"),
            Self::Zipf => f.write_str("zipf"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// The workload.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The prefixes.
    pub prefixes: Source,
    /// The keys.
    pub keys: Keys,
    /// How batches are looked up.
    pub kernel: Kernel,
    /// Distinct values, as next hops are: 1 to 2^20.
    pub values: u32,
    /// How often the table is filled and emptied; the fastest round counts. 1 to 100. Each round
    /// has five passes over the keys.
    pub rounds: u32,
    /// Keys of a pass, at least: [`LOOKUPS_MIN`] to [`LOOKUPS_MAX`].
    pub lookups: u32,
}

/// Results of the measurement. Bytes count the memory in use, not the reserved address space.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Million look-ups per second.
    pub mlps: f64,
    /// Ticks of the time stamp counter per look-up.
    pub cycles_per_lookup: f64,
    /// Bytes that workers read.
    pub bytes_per_route: f64,
    /// Bytes that workers read and the writer's bookkeeping.
    pub bytes_per_route_all: f64,
    /// Single prefixes added, in random order.
    pub inserts_per_second: f64,
    /// Single prefixes removed, in random order.
    pub deletes_per_second: f64,
    /// Prefixes added in ascending order to an empty table.
    pub bulk_inserts_per_second: f64,
    /// Prefixes removed and added again while a reader delays freeing memory.
    pub changes_per_second_shared: f64,
    /// Median time in microseconds until every reader uses a new neighbour behind all prefixes.
    pub redirect_us_median: f64,
    /// The slowest of a thousand such changes, or of fewer with few look-ups.
    pub redirect_us_most: f64,
    /// Number of readers: one for each processor but one.
    pub redirect_readers: usize,
    /// Seconds to fill the empty table in ascending order.
    pub build_seconds: f64,
    /// Prefixes.
    pub routes: usize,
    /// Bytes that workers read.
    pub lookup_bytes: usize,
    /// Bytes of the writer's bookkeeping.
    pub bookkeeping_bytes: usize,
    /// `ip4` or `ip6`.
    pub family: &'static str,
    /// Source of the prefixes.
    pub prefixes: String,
    /// The keys.
    pub keys: String,
    /// Distinct values of the prefixes.
    pub values: u32,
    /// How batches were looked up.
    pub kernel: &'static str,
    /// Ticks of the counter per second.
    pub tsc_hz: u64,
}

/// Why the measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// A number out of range.
    #[error("{0}")]
    Range(String),
    /// No prefixes or no keys.
    #[error(transparent)]
    Prefixes(#[from] PrefixError),
    /// The table rejected a change.
    #[error("the table refused a change: {0}")]
    Refused(#[from] LpmError),
    /// The address space could not be reserved.
    #[error(
        "the system gives no memory for {0} routes: give fewer, or raise the limit (ulimit -v)"
    )]
    Memory(usize),
}

/// The kernel with this name; the best one for an empty name.
///
/// # Errors
///
/// The kernel is unknown, or not supported on this machine.
pub fn kernel(name: &str) -> Result<Kernel, String> {
    let kernel = match name {
        "" => Kernel::detect(),
        "scalar" => Kernel::Scalar,
        "bits" => Kernel::Bits,
        "avx2" => Kernel::Avx2,
        "avx512" => Kernel::Avx512,
        other => {
            return Err(format!("there is no kernel {other:?}: give scalar, bits, avx2 or avx512"));
        }
    };
    if kernel.is_available() { Ok(kernel) } else { Err(format!("this processor has no {name}")) }
}

/// Its name.
pub(crate) fn name(kernel: Kernel) -> &'static str {
    match kernel {
        Kernel::Scalar => "scalar",
        Kernel::Bits => "bits",
        Kernel::Avx2 => "avx2",
        Kernel::Avx512 => "avx512",
    }
}

/// Measures a table of the family `K`; `progress` receives the completed share.
///
/// # Errors
///
/// A workload that is out of range, or a file that cannot be read.
pub fn run<K: Family>(workload: &Workload, progress: impl Fn(f64)) -> Result<Figures, TableError> {
    check(workload)?;
    let mut random = Random::new(7);
    let prefixes = prefixes::load::<K>(&workload.prefixes)?;
    let mut value = || 1 + random.below(workload.values as usize) as u32;
    let mut routes: Vec<_> =
        prefixes.into_iter().map(|(prefix, len)| (prefix, len, value())).collect();
    let steps = f64::from(workload.rounds) + 2.0;
    progress(0.5 / steps);
    let mut changes = Changes::default();
    let mut lpm = changes.build(&routes)?;
    for round in 0..workload.rounds {
        if round > 0 {
            changes.build(&routes)?;
        }
        progress((1.0 + f64::from(round)) / steps);
    }
    random.shuffle(&mut routes);
    for _ in 0..workload.rounds {
        changes.empty_and_fill(&mut lpm, &routes)?;
    }
    let memory = lpm.memory();
    let shared = churn(&mut lpm, &routes, &mut random)?;
    let redirect = redirect::measure(&lpm, workload, &routes, &mut random)?;
    progress((steps - 1.0) / steps);
    let keys = keys(workload, &routes, &mut random)?;
    let (cycles, seconds) = measure(&lpm, (workload.kernel, workload.rounds * PASSES), &keys);
    progress(1.0);
    let (count, looked_up) = (routes.len() as f64, keys.len() as f64);
    let (lookup, accounting) = (memory.lookup_bytes, memory.bookkeeping_bytes);
    Ok(Figures {
        mlps: looked_up / seconds / 1e6,
        cycles_per_lookup: cycles as f64 / looked_up,
        bytes_per_route: lookup as f64 / count,
        bytes_per_route_all: (lookup + accounting) as f64 / count,
        inserts_per_second: count / changes.fill,
        deletes_per_second: count / changes.empty,
        bulk_inserts_per_second: count / changes.build,
        changes_per_second_shared: shared,
        redirect_us_median: redirect.median_us,
        redirect_us_most: redirect.most_us,
        redirect_readers: redirect.readers,
        build_seconds: changes.build,
        routes: routes.len(),
        lookup_bytes: lookup,
        bookkeeping_bytes: accounting,
        family: if K::BITS == 32 { "ip4" } else { "ip6" },
        prefixes: workload.prefixes.to_string(),
        keys: workload.keys.to_string(),
        values: workload.values,
        kernel: name(workload.kernel),
        tsc_hz: clock::tsc_hz(),
    })
}

fn check(workload: &Workload) -> Result<(), TableError> {
    if !(1..=1 << 20).contains(&workload.values) {
        return Err(TableError::Range(format!("{} values: give 1 to 1048576", workload.values)));
    }
    if !(1..=100).contains(&workload.rounds) {
        return Err(TableError::Range(format!("{} rounds: give 1 to 100", workload.rounds)));
    }
    if !(LOOKUPS_MIN..=LOOKUPS_MAX).contains(&workload.lookups) {
        let reason = format!("{} look-ups: give {LOOKUPS_MIN} to {LOOKUPS_MAX}", workload.lookups);
        return Err(TableError::Range(reason));
    }
    Ok(())
}

/// Seconds of the fastest round.
struct Changes {
    build: f64,
    empty: f64,
    fill: f64,
}

impl Default for Changes {
    fn default() -> Self {
        Self { build: f64::MAX, empty: f64::MAX, fill: f64::MAX }
    }
}

impl Changes {
    fn build<K: Family>(&mut self, routes: &[(K, u8, u32)]) -> Result<Lpm<K>, TableError> {
        let capacity = LpmCapacity::for_routes(routes.len() + BATCH);
        let mut lpm = Lpm::new(capacity).ok_or(TableError::Memory(routes.len()))?;
        self.build = self.build.min(timed(|| {
            lpm.insert_all(routes.iter().copied()).map_err(|refused| refused.error)
        })?);
        Ok(lpm)
    }

    fn empty_and_fill<K: Family>(
        &mut self,
        lpm: &mut Lpm<K>,
        routes: &[(K, u8, u32)],
    ) -> Result<(), TableError> {
        let emptied = timed(|| {
            routes.iter().try_for_each(|&(prefix, len, _)| lpm.remove(prefix, len).map(drop))
        });
        self.empty = self.empty.min(emptied?);
        self.fill = self.fill.min(timed(|| {
            routes
                .iter()
                .try_for_each(|&(prefix, len, value)| lpm.insert(prefix, len, value).map(drop))
        })?);
        Ok(())
    }
}

/// Changes per second while a reader is active: freed memory waits for its epoch.
fn churn<K: Family>(
    lpm: &mut Lpm<K>,
    routes: &[(K, u8, u32)],
    random: &mut Random,
) -> Result<f64, TableError> {
    let reader = lpm.reader();
    let changes = routes.len().min(CHURN);
    let seconds = timed(|| {
        for number in 0..changes {
            let (prefix, len, value) = routes[random.below(routes.len())];
            lpm.remove(prefix, len)?;
            lpm.insert(prefix, len, value)?;
            if number % BATCH == 0 {
                lpm.retire_mark(number as u64);
                lpm.reclaim(number as u64);
            }
        }
        Ok(())
    })?;
    drop(reader);
    Ok(2.0 * changes as f64 / seconds)
}

/// Processor time of this thread in seconds, or elapsed time where that is not available.
fn timed(work: impl FnOnce() -> Result<(), LpmError>) -> Result<f64, LpmError> {
    let (start, begin) = (Instant::now(), on_cpu());
    work()?;
    let elapsed = start.elapsed().as_secs_f64();
    let seconds = on_cpu().zip(begin).map_or(elapsed, |(now, then)| now - then);
    // Never zero: it is a divisor.
    Ok(if seconds > 0.0 { seconds } else { elapsed.max(1e-9) })
}

/// Seconds for which this thread has had a processor.
pub(crate) fn on_cpu() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(text.split_whitespace().next()?.parse::<f64>().ok()? / 1e9)
}

fn keys<K: Family>(
    workload: &Workload,
    routes: &[(K, u8, u32)],
    random: &mut Random,
) -> Result<Vec<K>, TableError> {
    // The prefixes are shuffled, so ranks are spread over the table.
    let within = |at: usize, random: &mut Random| {
        let (prefix, len, _) = routes[at];
        prefix.inside(len, random)
    };
    let least = (workload.lookups as usize).next_multiple_of(VECTOR);
    Ok(match &workload.keys {
        Keys::Random => (0..least).map(|_| K::anywhere(random)).collect(),
        Keys::InTable => {
            let mut one = || within(random.below(routes.len()), random);
            (0..least).map(|_| one()).collect()
        }
        Keys::Zipf => {
            let mut one = || within(random.zipf(routes.len()), random);
            (0..least).map(|_| one()).collect()
        }
        Keys::File(path) => {
            let given = prefixes::addresses::<K>(path)?;
            let count = given.len().max(least).next_multiple_of(VECTOR);
            given.into_iter().cycle().take(count).collect()
        }
    })
}

/// Cycles and seconds of the least disturbed pass over all keys.
fn measure<K: Family>(lpm: &Lpm<K>, (kernel, passes): (Kernel, u32), keys: &[K]) -> (u64, f64) {
    // The kernel was checked when it was chosen.
    let reader = lpm.reader().with_kernel(kernel).unwrap_or_else(|| lpm.reader());
    let mut out = [0; VECTOR];
    let (mut cycles, mut seconds) = (u64::MAX, f64::MAX);
    for _ in 0..passes {
        let (start, begin) = (Instant::now(), clock::tsc());
        for vector in keys.chunks_exact(VECTOR) {
            reader.lookup_batch(black_box(vector), &mut out);
            black_box(&out);
        }
        cycles = cycles.min(clock::tsc() - begin);
        seconds = seconds.min(start.elapsed().as_secs_f64());
    }
    (cycles, seconds)
}
