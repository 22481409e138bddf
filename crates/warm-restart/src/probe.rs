//! The test capability: counts sequence numbers as fast as it can, so that tests can kill its process.
//!
//! Controller and forwarder have it in their lists of capabilities. It runs if `STOA_TEST_WARM_RESTART` names a file:
//! each half appends to a file of its own what its next process must find. [`verify`] reads such a journal.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::{Opened, Slot, State};

/// Names the journals.
pub const ENVIRONMENT: &str = "STOA_TEST_WARM_RESTART";

/// Entries of the region.
pub const ENTRIES: usize = (STEADY + PASSING) as usize;

/// Entries that stay.
const STEADY: u64 = 48;
/// Entries that come and go.
const PASSING: u64 = 8;
/// Writes of an entry before the journal has the last one. The process is killed during a write now and then, not
/// always between writes.
const BATCH: u64 = 500;
/// Ends each complete line: a process is killed while it writes one, too.
const END: &str = " .";

crate::record! {
    /// A sequence number, and bytes that follow from it: a value that is put together from two would be noticed.
    pub struct Sequence {
        number: u64,
        pattern: [u8; 40],
    }
}

impl Sequence {
    fn of(number: u64) -> Self {
        let byte = |at: usize| (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> at) as u8;
        Self { number, pattern: std::array::from_fn(byte) }
    }
}

/// The region of the test capability.
pub struct Sequences;

impl State for Sequences {
    const NAME: &'static str = "test-sequences";
    const VERSION: u32 = 1;
    type Key = u64;
    type Value = Sequence;

    fn is_valid(_: &u64, value: &Sequence) -> bool {
        *value == Sequence::of(value.number)
    }
}

/// What the next process must find, as lines of a file.
#[derive(Clone, Debug)]
pub struct Journal(Arc<File>);

impl Journal {
    /// The journal of this half of the router (`FILE.HALF`); `None`: the test capability does not run.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn of(half: &str) -> std::io::Result<Option<Self>> {
        let Some(mut path) = std::env::var_os(ENVIRONMENT) else { return Ok(None) };
        path.push(".");
        path.push(half);
        Ok(Some(Self::new(File::options().append(true).create(true).open(path)?)))
    }

    /// A journal in this file.
    #[must_use]
    pub fn new(file: File) -> Self {
        Self(Arc::new(file))
    }

    fn line(&self, text: &str) -> std::io::Result<()> {
        (&*self.0).write_all(format!("{text}{END}\n").as_bytes())
    }
}

/// The thread that counts. Dropping it ends the thread, which leaves its entries to the next start.
#[derive(Debug)]
pub struct Counting {
    is_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Counting {
    /// Continues with the entries of the last start.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(opened: Opened<Sequences>, journal: Journal) -> std::io::Result<Self> {
        let is_ended = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&is_ended);
        let thread = std::thread::Builder::new().name("warm-restart".to_owned());
        let thread = thread.spawn(move || {
            // The end of the test removes the journal.
            let _ = run(opened, &journal, &ended);
        })?;
        Ok(Self { is_ended, thread: Some(thread) })
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        self.is_ended.store(true, Ordering::Relaxed);
        // One that panicked has reported it on stderr.
        self.thread.take().map(JoinHandle::join);
    }
}

fn run(opened: Opened<Sequences>, journal: &Journal, is_ended: &AtomicBool) -> std::io::Result<()> {
    let Opened { mut region, entries, report } = opened;
    // The last line of a killed process may be incomplete.
    let (left_out, pid) = (report.left_out + report.discarded.len(), std::process::id());
    journal.line(&format!("\nstart {pid} {} {left_out}", report.torn))?;
    let (mut steady, mut passing) = (Vec::new(), VecDeque::new());
    let mut next_key = STEADY;
    for (slot, value) in entries {
        journal.line(&format!("adopted {} {}", slot.key(), value.number))?;
        next_key = next_key.max(slot.key() + 1);
        let is_steady = *slot.key() < STEADY;
        if is_steady { steady.push((slot, value.number)) } else { passing.push_back(slot) }
    }
    journal.line("ready")?;
    for key in steady.len() as u64..STEADY {
        journal.line(&format!("inserting {key}"))?;
        let slot = region.insert(key, &Sequence::of(0)).expect("room for all");
        journal.line(&format!("inserted {key} 0"))?;
        steady.push((slot, 0));
    }
    loop {
        for (slot, number) in &mut steady {
            if is_ended.load(Ordering::Relaxed) {
                return Ok(());
            }
            count(slot, number, journal)?;
            if number.is_multiple_of(4 * BATCH) {
                if passing.len() as u64 == PASSING {
                    let old: Slot<Sequences> = passing.pop_front().expect("there are some");
                    let key = *old.key();
                    journal.line(&format!("removing {key}"))?;
                    region.remove(old);
                    journal.line(&format!("removed {key}"))?;
                }
                journal.line(&format!("inserting {next_key}"))?;
                passing.extend(region.insert(next_key, &Sequence::of(0)));
                journal.line(&format!("inserted {next_key} 0"))?;
                next_key += 1;
            }
        }
    }
}

fn count(slot: &mut Slot<Sequences>, number: &mut u64, journal: &Journal) -> std::io::Result<()> {
    for _ in 0..BATCH {
        *number += 1;
        slot.write(&Sequence::of(*number));
    }
    journal.line(&format!("wrote {} {number}", slot.key()))
}

/// What a journal proves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Processes that found what the last one left.
    pub lives: usize,
    /// Entries that the last one found.
    pub entries: usize,
    /// Unfinished writes that were discarded.
    pub torn: usize,
    /// The sum of all sequence numbers.
    pub sum: u64,
}

/// Checks that each process found every entry of the journal with its last value or a newer one, and no removed entry.
///
/// # Errors
/// What a process found instead.
pub fn verify(journal: &str) -> Result<Summary, String> {
    let mut summary = Summary::default();
    let (mut known, mut found) = (BTreeMap::new(), BTreeMap::new());
    let mut uncertain = None;
    for line in journal.lines().filter_map(|line| line.strip_suffix(END)) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| -> Result<u64, String> {
            let word = words.get(at).and_then(|word| word.parse().ok());
            word.ok_or_else(|| format!("not a line of a journal: {line}"))
        };
        match words[0] {
            "start" => {
                found.clear();
                summary.torn += number(2)? as usize;
                if number(3)? != 0 {
                    return Err(format!("entries were left out: {line}"));
                }
            }
            "adopted" => drop(found.insert(number(1)?, number(2)?)),
            "ready" => {
                compare(&known, &found, uncertain.take())?;
                summary.lives += 1;
                summary.entries = found.len();
                known = std::mem::take(&mut found);
            }
            "wrote" | "inserted" => {
                uncertain = None;
                known.insert(number(1)?, number(2)?);
            }
            "inserting" => uncertain = Some(number(1)?),
            "removing" => {
                uncertain = Some(number(1)?);
            }
            "removed" => {
                uncertain = None;
                known.remove(&number(1)?);
            }
            _ => return Err(format!("not a line of a journal: {line}")),
        }
    }
    summary.sum = known.values().sum();
    Ok(summary)
}

fn compare(
    known: &BTreeMap<u64, u64>,
    found: &BTreeMap<u64, u64>,
    uncertain: Option<u64>,
) -> Result<(), String> {
    for (key, last) in known {
        match found.get(key) {
            None if uncertain == Some(*key) => {}
            None => return Err(format!("entry {key} is lost, its last value was {last}")),
            Some(value) if value < last => {
                return Err(format!("entry {key} went back from {last} to {value}"));
            }
            Some(value) if *value > last + BATCH => {
                return Err(format!("entry {key} jumped from {last} to {value}"));
            }
            Some(_) => {}
        }
    }
    let unknown = found.keys().find(|key| !known.contains_key(key) && uncertain != Some(**key));
    unknown.map_or(Ok(()), |key| Err(format!("entry {key} was removed, and is there again")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verified(lines: &[&str]) -> Result<Summary, String> {
        verify(&lines.iter().map(|line| format!("{line} .\n")).collect::<String>())
    }

    #[test]
    fn a_journal_tells_what_was_lost() {
        let first = ["start 1 0 0", "ready", "inserting 1", "inserted 1 0", "wrote 1 500"];
        let then = |more: &[&str]| verified(&[&first[..], more].concat());
        let adopted = |line: &str| then(&["start 2 1 0", line, "ready"]);
        let summary = adopted("adopted 1 501").unwrap();
        assert_eq!(summary, Summary { lives: 2, entries: 1, torn: 1, sum: 501 });
        assert!(adopted("adopted 1 499").unwrap_err().contains("went back"));
        assert!(adopted("adopted 1 1001").unwrap_err().contains("jumped"));
        assert!(adopted("adopted 2 500").unwrap_err().contains("is lost"));
        assert!(then(&["start 2 0 1", "ready"]).unwrap_err().contains("left out"));
        let removed = ["removing 1", "removed 1", "start 2 0 0", "adopted 1 500", "ready"];
        assert!(then(&removed).unwrap_err().contains("there again"));
        let removing = ["removing 1", "start 2 0 0", "ready"];
        assert_eq!(then(&removing).unwrap().entries, 0);
        assert!(then(&["something"]).is_err());
    }
}
