//! Rows of a running router that change all the time, while the test kills its processes: at the end they are equal.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use stoa_api::{rows::test, unix};
use stoa_controller::rows::{RowStream, RowTables};

use super::{BLOCK, TestRows, until_equal};
use crate::failure::Failure;

/// One of so many blocks ends the stream, and the next sender begins without knowing what the forwarder holds.
const ANEW_EVERY: u64 = 40;

/// What was done.
pub struct Churned {
    /// Rows at the end.
    pub rows: u64,
    /// Changes sent.
    pub changes: u64,
    /// Streams opened.
    pub streams: u64,
    /// Seconds from the last change until an audit found all rows equal.
    pub equal_s: f64,
}

/// What to do.
pub struct Work {
    /// Most rows.
    pub rows: u64,
    /// How long to change them.
    pub time: Duration,
    /// Whether all are set first.
    pub all: bool,
    /// The seed of the changes.
    pub seed: u64,
}

/// A generator of numbers (xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        for (left, by) in [(true, 13), (false, 7), (true, 17)] {
            self.0 ^= if left { self.0 << by } else { self.0 >> by };
        }
        self.0 % limit
    }
}

/// Opens the table with these rows.
async fn open(tables: &RowTables, all: &BTreeMap<test::Key, test::Row>) -> RowStream<TestRows> {
    let stream = tables.open::<TestRows>();
    let mut left = all.iter().map(|(key, row)| (*key, Some(*row)));
    loop {
        let block: Vec<_> = left.by_ref().take(BLOCK as usize).collect();
        if block.is_empty() {
            break;
        }
        stream.update(block).await;
    }
    stream.complete().await;
    stream
}

/// Changes, adds and removes rows of the forwarder behind a socket at random.
pub async fn churn(
    socket: &Path,
    Work { rows, time, all: is_full, seed }: Work,
) -> Result<Churned, Failure> {
    let channel = unix::connect_lazily(socket);
    let mut random = Random(seed.max(1));
    let first = |key: u64| (key, [1; 32]);
    let mut all: BTreeMap<_, _> = (0..if is_full { rows } else { 0 }).map(first).collect();
    let mut tables = RowTables::new(channel.clone());
    let mut stream = open(&tables, &all).await;
    let (begun, mut changes, mut streams) = (Instant::now(), all.len() as u64, 1);
    while begun.elapsed() < time {
        let mut block = Vec::new();
        let first = random.below(rows);
        for key in (first..rows).take(BLOCK as usize) {
            // Two in three are set, so that most rows exist.
            let row = (random.below(3) > 0).then(|| {
                let mut row = [0; 32];
                row[..8].copy_from_slice(&key.to_be_bytes());
                row[8..16].copy_from_slice(&random.below(u64::MAX).to_be_bytes());
                row
            });
            match row {
                Some(row) => drop(all.insert(key, row)),
                None => drop(all.remove(&key)),
            }
            block.push((key, row));
        }
        changes += block.len() as u64;
        stream.update(block).await;
        if random.below(ANEW_EVERY) == 0 {
            drop((stream, tables));
            tables = RowTables::new(channel.clone());
            stream = open(&tables, &all).await;
            streams += 1;
        }
    }
    let (rows, ended) = (all.len() as u64, Instant::now());
    let equal_s = until_equal(&tables, rows, ended).await?;
    Ok(Churned { rows, changes, streams, equal_s })
}
