//! Random words and secrets of flow tables.

use std::hash::{BuildHasher, RandomState};

use stoa_tables::flow_table::Secret;

/// Random words: the system gives the keys of the hash.
pub fn random<const WORDS: usize>() -> [u64; WORDS] {
    let state = RandomState::new();
    std::array::from_fn(|at| if cfg!(fuzzing) { at as u64 } else { state.hash_one(at) })
}

/// The secret of the hash of a flow table.
pub(super) fn secret() -> Secret {
    let mut bytes = [0; 64];
    for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(random::<8>()) {
        *to = word.to_le_bytes();
    }
    Secret(bytes)
}
