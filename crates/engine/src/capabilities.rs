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

/// How to get capabilities that are missing, as words. Root lacks them in a container or unit alone.
pub fn fix(missing: &[&str]) -> String {
    fix_for(nix::unistd::geteuid().is_root(), missing)
}

/// [`fix`], for root or another user.
pub fn fix_for(is_root: bool, missing: &[&str]) -> String {
    if !is_root {
        return "run as root or give the program what is missing".to_owned();
    }
    let name = |name: &&str| format!("--cap-add {}", name.trim_start_matches("CAP_"));
    let add = missing.iter().map(name).collect::<Vec<_>>().join(" ");
    format!(
        "root lacks it here: start the container with {add}, or extend CapabilityBoundingSet of the unit"
    )
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
    fn root_in_a_container_is_not_told_to_be_root() {
        let missing = ["CAP_NET_RAW", "CAP_BPF"];
        let of_root = fix_for(true, &missing);
        assert!(of_root.contains("--cap-add NET_RAW --cap-add BPF,"), "{of_root}");
        assert!(!of_root.contains("run as root"), "{of_root}");
        assert!(fix_for(false, &missing).starts_with("run as root"));
    }

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
