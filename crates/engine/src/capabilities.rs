//! Capabilities of Linux belong to threads: one that reads packets of strangers keeps none that it does not use.

use std::collections::HashSet;

use caps::errors::CapsError;
use caps::{CapSet, Capability};

/// Drops all capabilities of the calling thread but these, for ever.
///
/// # Errors
/// The system refuses.
pub fn keep(kept: &[Capability]) -> Result<(), CapsError> {
    let kept: HashSet<Capability> = kept.iter().copied().collect();
    caps::clear(None, CapSet::Inheritable)?;
    for set in [CapSet::Effective, CapSet::Permitted] {
        let held = caps::read(None, set)?;
        caps::set(None, set, &held.intersection(&kept).copied().collect())?;
    }
    Ok(())
}

/// Of a worker: it preempts other programs when it wakes.
pub(crate) fn keep_of_worker() {
    // What stays then is what the process has.
    let _ = keep(&[Capability::CAP_SYS_NICE]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_gives_up_what_it_does_not_need() {
        let before = caps::read(None, CapSet::Permitted).unwrap();
        let thread = std::thread::spawn(|| {
            keep_of_worker();
            [CapSet::Effective, CapSet::Permitted].map(|set| caps::read(None, set).unwrap())
        });
        let needed = HashSet::from([Capability::CAP_SYS_NICE]);
        for held in thread.join().unwrap() {
            assert!(held.is_subset(&needed), "{held:?}");
        }
        assert_eq!(caps::read(None, CapSet::Permitted).unwrap(), before, "others keep theirs");
    }
}
