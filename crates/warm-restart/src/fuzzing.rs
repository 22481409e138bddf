//! For the fuzzer: memory that another process wrote.

use std::sync::atomic::Ordering::Relaxed;

use crate::header;
use crate::mapping::Mapping;
use crate::record::State;
use crate::region::Region;

struct Fuzzed;

impl State for Fuzzed {
    const NAME: &'static str = "fuzzed";
    const VERSION: u32 = 1;
    type Key = u16;
    type Value = [u8; 9];

    fn is_valid(key: &u16, value: &[u8; 9]) -> bool {
        *key != 7 && value[0] != 7
    }
}

const CAPACITY: usize = 4;

/// Adopts a region that the input has changed. The first byte tells how many real entries there are and whether the
/// header is repaired; then come pairs of a position and the word to store there.
pub fn region(bytes: &[u8]) {
    let Some((mode, bytes)) = bytes.split_first() else { return };
    let (mut region, file) = Region::<Fuzzed>::create(CAPACITY, 1).expect("memory");
    for key in 0..u16::from(mode >> 1) % 5 {
        let Some(mut slot) = region.insert(key, &[key as u8; 9]) else { break };
        slot.write(&[1; 9]);
    }
    let memory = Mapping::of(&file).expect("our own memory");
    for change in bytes.chunks_exact(9) {
        let word = u64::from_le_bytes(*change[1..].first_chunk().expect("eight bytes"));
        memory.words()[usize::from(change[0]) % memory.words().len()].store(word, Relaxed);
    }
    if mode & 1 == 1 {
        header::write::<Fuzzed>(memory.words(), CAPACITY, 1);
    }
    let Ok(mut adopted) = Region::<Fuzzed>::adopt(&file, 1) else { return };
    let mut keys: Vec<u16> = adopted.entries.iter().map(|(slot, _)| *slot.key()).collect();
    assert!(adopted.entries.iter().all(|(slot, value)| Fuzzed::is_valid(slot.key(), value)));
    keys.sort_unstable();
    assert!(keys.windows(2).all(|two| two[0] != two[1]), "{keys:?}");
    let found = adopted.entries.len() + adopted.left_out + adopted.region.room();
    assert_eq!(found, CAPACITY);
    // What was believed can be written and removed.
    for (mut slot, _) in adopted.entries.drain(..) {
        slot.write(&[2; 9]);
        adopted.region.remove(slot);
    }
    let again = Region::<Fuzzed>::adopt(&file, 1);
    let again = again.map_err(|error| error.to_string()).expect("the header is the same");
    assert!(again.entries.is_empty() || adopted.left_out > 0);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_changes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            super::region(&bytes);
        }
    }
}
