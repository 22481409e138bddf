//! Arrays of processes that follow each other, with the supervisor's store between them.

use std::sync::atomic::Ordering::Relaxed;

use super::*;
use crate::regions::Regions;
use crate::regions::tests::Supervisor;

const WORDS: usize = ARRAY_ALIGN as usize / 4;

/// Cells that begin and end at a multiple of the alignment, and are never freed.
fn cells(arrays: usize) -> &'static [AtomicU32] {
    let all: Vec<AtomicU32> = (0..(arrays + 1) * WORDS).map(|_| AtomicU32::new(0)).collect();
    let all: &'static [AtomicU32] = Vec::leak(all);
    let skew = all.as_ptr().addr().wrapping_neg() % ARRAY_ALIGN as usize / 4;
    &all[skew..][..arrays * WORDS]
}

fn open(regions: &mut Regions) -> ([&'static [AtomicU32]; 2], Arrays, Option<FormerWords>) {
    let all = cells(3);
    let cells = [&all[..WORDS], &all[WORDS..]];
    let (arrays, former) = regions.open_arrays("flows", || cells.to_vec()).unwrap().unwrap();
    let words = [WORDS as u64 - 9, 2 * WORDS as u64];
    (cells, arrays, former.map(|it| it.with_words(words).unwrap()))
}

fn word(former: &FormerWords, array: usize, at: u64) -> u32 {
    let mut word = [0];
    assert!(former.read(array, at, &mut word));
    word[0]
}

#[test]
fn the_next_process_reads_what_was_stored_last() {
    let mut supervisor = Supervisor::new();
    let (cells, arrays, former) = open(&mut supervisor.start());
    assert!(former.is_none());
    arrays.write_head(8, b"head").unwrap();
    arrays.hold();
    cells[0][3].store(7, Relaxed);
    cells[1][WORDS + 5].store(8, Relaxed);
    drop(arrays);
    let mut regions = supervisor.start();
    let (cells, arrays, former) = open(&mut regions);
    let former = former.unwrap();
    let written = [word(&former, 0, 3), word(&former, 1, WORDS as u64 + 5), word(&former, 1, 0)];
    assert_eq!(written, [7, 8, 0]);
    assert_eq!(cells[0][3].load(Relaxed), 0, "it has memory of its own");
    // Until it has taken over what it believes, the next process finds the former arrays.
    cells[0][3].store(9, Relaxed);
    assert_eq!(supervisor.names(), ["flows.1"]);
    let (_, _, again) = open(&mut supervisor.start());
    assert_eq!(word(&again.unwrap(), 0, 3), 7);
    arrays.hold();
}

#[test]
fn arrays_that_are_held_replace_the_former_ones() {
    let mut supervisor = Supervisor::new();
    let (_, arrays, _) = open(&mut supervisor.start());
    arrays.hold();
    let mut regions = supervisor.start();
    let (cells, arrays, _) = open(&mut regions);
    cells[0][3].store(9, Relaxed);
    arrays.hold();
    arrays.hold();
    assert_eq!(supervisor.names(), ["flows.2"]);
    // A second start in this process.
    let (_, second, former) = open(&mut regions);
    assert_eq!(word(&former.unwrap(), 0, 3), 9);
    second.hold();
    assert_eq!(supervisor.names(), ["flows.3"]);
}

#[test]
fn what_was_never_written_need_not_be_read() {
    let mut supervisor = Supervisor::new();
    let (cells, arrays, _) = open(&mut supervisor.start());
    let is_written = |former: &FormerWords, at: u64| {
        former.written(1, at).is_some_and(|range| range.start <= at && at < range.end)
    };
    cells[1][300_000].store(1, Relaxed);
    arrays.hold();
    let (_, _, former) = open(&mut supervisor.start());
    let former = former.unwrap();
    assert_eq!(former.written(0, 0), None);
    assert!(is_written(&former, 300_000));
    assert!(former.written(1, 0).is_some_and(|range| range.start > 100_000));
    assert!(former.written(1, 600_000).is_none() && former.written(1, u64::MAX).is_none());
    assert!(former.written(2, 0).is_none());
    assert!(!former.read(2, 0, &mut [0]) && !former.read(1, 2 * WORDS as u64, &mut [0]));
    assert!(!former.read(1, u64::MAX / 4, &mut [0]));
}

#[test]
fn what_is_no_such_memory_is_not_read() {
    let file = |bytes: u64| {
        let file = sealed("test", bytes, |file| ftruncate(file, bytes as i64)).unwrap();
        Arc::new(File::from(file))
    };
    assert!(FormerArrays::of(Arc::new(tempfile::tempfile().unwrap())).is_err());
    assert!(FormerArrays::of(file(4096)).is_err());
    let former = FormerArrays::of(file(2 * ARRAY_ALIGN)).unwrap();
    assert!(former.clone().with_words([1]).is_some() && former.clone().with_words([0]).is_none());
    assert!(former.with_words([u64::MAX, 1]).is_none());
    // Nobody holds it.
    let mut alone = Regions::in_this_process();
    assert!(alone.open_arrays("flows", || panic!("nobody reads them")).unwrap().is_none());
}

#[test]
fn cells_that_share_a_page_are_refused() {
    let all = cells(1);
    let file = sealed("test", ARRAY_ALIGN, |file| ftruncate(file, ARRAY_ALIGN as i64)).unwrap();
    assert!(map_in_place(&all[1..], &file, 0).is_err());
    assert!(map_in_place(&all[..WORDS - 1], &file, 0).is_err());
    assert!(map_in_place(&[], &file, 0).is_ok() && map_in_place(all, &file, 0).is_ok());
}
