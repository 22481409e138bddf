//! The seed of this router's flow hashes: random at the first start, and kept in the state folder, so that flows keep
//! their paths over restarts.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;

use super::stored_text::store;

/// The name of its file.
const FILE: &str = "flow-hash-seed";

/// The seed in the state folder, which is chosen and stored if there is none. One that cannot be stored is used until
/// the next start.
pub fn kept(state: &Path) -> u32 {
    let file = state.join(FILE);
    let stored = fs::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok());
    if let Some(seed) = stored.filter(|seed| *seed != 0) {
        return seed;
    }
    // The hasher has keys of the system's random numbers.
    let seed = (RandomState::new().hash_one(FILE) as u32).max(1);
    match store(&file, &format!("{seed}\n")) {
        Ok(()) => tracing::info!(seed, file = %file.display(), "chose a seed for flow hashes"),
        Err(refusal) => {
            tracing::warn!(seed, "flows may change their paths at the next start: {refusal}");
        }
    }
    seed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_chosen_once() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let first = kept(&state);
        assert_ne!(first, 0);
        assert_eq!(kept(&state), first);
        let other = folder.path().join("other");
        assert_ne!(kept(&other), first, "another router");
        // What is not a seed is replaced.
        fs::write(state.join(FILE), "none").unwrap();
        let second = kept(&state);
        assert_ne!(second, first);
        assert_eq!(kept(&state), second);
        // Without a place to keep it, there is one all the same.
        assert_ne!(kept(Path::new("/dev/null/state")), 0);
    }
}
