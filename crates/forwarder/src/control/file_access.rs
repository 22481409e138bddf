//! What the forwarder may open: by Landlock, it writes to the folders of its ports and to a few devices, and reads
//! what drivers and libraries need.
//!
//! The configuration and the state folder with keys, tokens and the audit log belong to the controller: a forwarder
//! that an attacker has taken over must not change these files. Landlock does not decide who connects to a Unix
//! socket: see the known limits in SECURITY.md.

use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, make_bitflags, path_beneath_rules,
};
use stoa_ports::Folders;

/// Network namespaces by name.
pub(crate) const NAMESPACES: &str = "/run/netns";
/// Locks of devices (`stoa_ports`, `device_lock.rs`).
const DEVICE_LOCKS: &str = "/run/stoa/devices";

/// Settings of network devices, which are in the same folder for all network namespaces.
pub(crate) const SETTINGS: &str = "/proc/sys/net";

/// Read by drivers and by the libraries of this program. Not all of /sys: with CAP_BPF and CAP_NET_ADMIN whoever opens
/// a control group attaches programs to the packets of its processes. O_PATH suffices for that, which Landlock does not
/// decide about: the filter of system calls refuses it.
const READ: &[&str] = &[
    "/proc",
    "/sys/block",
    "/sys/bus",
    "/sys/class",
    "/sys/dev",
    "/sys/devices",
    "/sys/firmware",
    "/sys/kernel/btf",
    "/sys/kernel/iommu_groups",
    "/sys/kernel/mm",
    "/sys/module",
    "/dev",
    "/usr",
    "/lib",
    "/lib64",
    "/etc/ld.so.cache",
];
/// Devices that drivers open for writing, and the settings of host interfaces. Those that appear later, with a module
/// that is loaded then, need a restart.
const WRITTEN: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/net",
    "/dev/vfio",
    "/dev/vhost-net",
    "/dev/infiniband",
    SETTINGS,
];

/// Restricts this thread, and all threads that it starts, to the files of `folders` and of the system, as long as the
/// result lives. Where Linux cannot, the log says so.
#[must_use]
pub(super) fn restrict(folders: &Folders) -> Pinned {
    for folder in [&folders.pcap, &folders.memif].into_iter().flatten() {
        // The state folder, if it is the first to need it.
        folder.parent().into_iter().for_each(|parent| create(parent, 0o700));
        create(folder, 0o750);
    }
    create(Path::new(DEVICE_LOCKS), 0o755);
    create(Path::new(NAMESPACES), 0o755);
    let pinned = Pinned { _settings: File::open(SETTINGS).ok() };
    match rules(folders) {
        Ok(RulesetStatus::FullyEnforced) => {}
        Ok(RulesetStatus::PartiallyEnforced) => tracing::info!(
            "this version of Linux restricts the forwarder to its own files in part: it may still truncate others"
        ),
        Ok(RulesetStatus::NotEnforced) => tracing::warn!(
            "Linux does not restrict the forwarder to its own files: use a kernel with Landlock (since 5.13)"
        ),
        Err(error) => {
            tracing::warn!("Linux does not restrict the forwarder to its own files: {error}");
        }
    }
    pinned
}

/// A folder of /proc that Linux must not forget: it would create it anew, and the rule would be for the earlier one.
pub(super) struct Pinned {
    _settings: Option<File>,
}

/// Creates a folder: rules are for folders that exist. Where this user may not, ports that need it say so.
pub(crate) fn create(folder: &Path, mode: u32) {
    if let Err(error) = DirBuilder::new().recursive(true).mode(mode).create(folder) {
        tracing::debug!("{}: {error}", folder.display());
    }
}

fn rules(folders: &Folders) -> Result<RulesetStatus, RulesetError> {
    let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    let write = read | AccessFs::WriteFile;
    let files = write | make_bitflags!(AccessFs::{MakeReg | RemoveFile | Truncate});
    let sockets = write | make_bitflags!(AccessFs::{MakeSock | RemoveFile});
    let locks = [PathBuf::from(DEVICE_LOCKS)];
    let rules: [(Vec<PathBuf>, BitFlags<AccessFs>); 6] = [
        (readable(), read),
        (WRITTEN.iter().map(PathBuf::from).collect(), write),
        (folders.pcap.iter().cloned().collect(), files),
        (folders.memif.iter().cloned().collect(), sockets),
        (locks.into(), files),
        (journal_of_test(), files),
    ];
    enforce(rules)
}

/// Restricts this thread, and all threads that it starts, to these accesses to the files below these paths, as far as
/// this version of Linux can. Paths that do not exist are left out.
pub(crate) fn enforce<P: AsRef<Path>>(
    rules: impl IntoIterator<Item = (Vec<P>, BitFlags<AccessFs>)>,
) -> Result<RulesetStatus, RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V3))?
        .create()?;
    for (paths, access) in rules {
        ruleset = ruleset.add_rules(path_beneath_rules(paths, access))?;
    }
    Ok(ruleset.restrict_self()?.ruleset)
}

fn readable() -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = READ.iter().map(PathBuf::from).collect();
    // For the text of a panic.
    paths.extend(std::env::current_exe());
    // Rules cannot name what does not exist yet; `ip netns add` creates this folder.
    let namespaces = Path::new(NAMESPACES);
    paths.push(if namespaces.exists() { namespaces.into() } else { "/run".into() });
    paths
}

/// The folder of the journal of a test (docs/dev/warm-restart.md).
fn journal_of_test() -> Vec<PathBuf> {
    let journal = std::env::var_os(stoa_warm_restart::probe::ENVIRONMENT).map(PathBuf::from);
    journal.iter().filter_map(|journal| journal.parent()).map(Path::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules hold for the thread that sets them.
    #[test]
    fn a_forwarder_writes_to_its_own_folders_only() {
        let place = tempfile::tempdir().unwrap();
        let [pcap, memif, state] = ["pcap", "memif", "state"].map(|name| place.path().join(name));
        std::fs::create_dir(&state).unwrap();
        let secret = state.join("key.pem");
        std::fs::write(&secret, "key").unwrap();
        let folders = Folders { pcap: Some(pcap.clone()), memif: Some(memif.clone()) };
        let inside = move || {
            let _pinned = restrict(&folders);
            if std::fs::read(&secret).is_ok() {
                // A kernel without Landlock; the log says so.
                println!("SKIPPED: this kernel has no Landlock");
                return;
            }
            assert!(std::fs::write(&secret, "mine").is_err());
            assert!(std::fs::write(state.join("new"), "").is_err());
            assert!(std::fs::remove_file(&secret).is_err());
            assert!(std::os::unix::net::UnixListener::bind(state.join("socket")).is_err());
            assert!(std::fs::rename(pcap.join("x"), state.join("x")).is_err());
            std::fs::write(pcap.join("out.pcap"), "frames").unwrap();
            std::fs::remove_file(pcap.join("out.pcap")).unwrap();
            drop(std::os::unix::net::UnixListener::bind(memif.join("socket")).unwrap());
            std::fs::write("/dev/null", "x").unwrap();
            assert!(std::fs::read_to_string("/proc/self/status").is_ok());
            assert!(std::fs::read_dir("/sys/class/net").is_ok());
            assert!(std::fs::read_dir("/sys/fs/cgroup").is_err());
            assert!(std::process::Command::new("/bin/true").spawn().is_err(), "nothing is run");
        };
        std::thread::spawn(inside).join().unwrap();
        assert_eq!(std::fs::read_to_string(place.path().join("state/key.pem")).unwrap(), "key");
    }
}
