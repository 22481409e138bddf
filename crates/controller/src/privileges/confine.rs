//! Gives up what a process of the router does not need, however it was started: capabilities, new privileges by
//! programs, and system calls (`system_calls`). A process calls it before it starts a thread, since capabilities belong
//! to threads.

use std::collections::HashSet;
use std::io;

use caps::{CapSet, Capability};

use super::system_calls;

/// A process of the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// The forwarder.
    Forwarder,
    /// The controller.
    Controller,
    /// The process that opens devices in other network namespaces for the forwarder.
    DeviceOpener,
}

/// Files of other users: configurations, sockets and captures in the folder of whoever started Stoa with sudo. The
/// systemd units grant none of these.
const OF_FILES: [Capability; 4] = [
    Capability::CAP_DAC_OVERRIDE,
    Capability::CAP_DAC_READ_SEARCH,
    Capability::CAP_CHOWN,
    Capability::CAP_FOWNER,
];

impl Process {
    /// The capabilities that the process keeps, if it was started with them.
    fn kept(self) -> HashSet<Capability> {
        let (own, files): (&[Capability], &[Capability]) = match self {
            // Devices and packet sockets, XDP programs, urgent workers, memory of AF_XDP. It enters no other namespace.
            Process::Forwarder => (
                &[
                    Capability::CAP_NET_ADMIN,
                    Capability::CAP_NET_RAW,
                    Capability::CAP_BPF,
                    Capability::CAP_SYS_NICE,
                    Capability::CAP_IPC_LOCK,
                ],
                &OF_FILES,
            ),
            // Addresses and routes of Linux, other namespaces, an HTTPS port below 1024.
            Process::Controller => (
                &[
                    Capability::CAP_NET_ADMIN,
                    Capability::CAP_SYS_ADMIN,
                    Capability::CAP_NET_BIND_SERVICE,
                ],
                &OF_FILES,
            ),
            // Other namespaces, and what is opened there.
            Process::DeviceOpener => (
                &[
                    Capability::CAP_SYS_ADMIN,
                    Capability::CAP_NET_ADMIN,
                    Capability::CAP_NET_RAW,
                    Capability::CAP_BPF,
                ],
                &[],
            ),
        };
        own.iter().chain(files).copied().collect()
    }
}

/// Gives up for ever what `process` does not need.
///
/// # Errors
/// When the system refuses to take something away.
pub fn confine(process: Process) -> io::Result<()> {
    keep(&process.kept()).map_err(|error| io::Error::other(format!("capabilities: {error}")))?;
    nix::sys::prctl::set_no_new_privs()?;
    system_calls::forbid(process)
        .map_err(|error| io::Error::other(format!("the filter of system calls: {error}")))
}

/// Keeps these capabilities of the calling thread, and drops all others from every set.
fn keep(kept: &HashSet<Capability>) -> Result<(), caps::errors::CapsError> {
    // Without CAP_SETPCAP the bounding set stays: no program that is executed gets anything from it, since new
    // privileges are off.
    if caps::has_cap(None, CapSet::Effective, Capability::CAP_SETPCAP)? {
        for dropped in caps::all().difference(kept) {
            // An older kernel does not know all of them.
            let _ = caps::drop(None, CapSet::Bounding, *dropped);
        }
    }
    // Absent before Linux 4.3.
    let _ = caps::clear(None, CapSet::Ambient);
    caps::clear(None, CapSet::Inheritable)?;
    for set in [CapSet::Effective, CapSet::Permitted] {
        let held = caps::read(None, set)?;
        caps::set(None, set, &held.intersection(kept).copied().collect())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Capabilities belong to a thread: the other tests keep theirs.
    #[test]
    fn a_thread_keeps_what_it_needs() {
        let thread = std::thread::spawn(|| {
            let kept = HashSet::from([Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW]);
            let before = caps::read(None, CapSet::Permitted).unwrap();
            keep(&kept).unwrap();
            let mut sets = vec![CapSet::Effective, CapSet::Permitted];
            // Only with this one can the bounding set be changed.
            if before.contains(&Capability::CAP_SETPCAP) {
                sets.push(CapSet::Bounding);
            }
            for set in sets {
                let held = caps::read(None, set).unwrap();
                assert!(held.is_subset(&kept), "{set:?}: {held:?}");
            }
            assert!(caps::read(None, CapSet::Inheritable).unwrap().is_empty());
            assert_eq!(
                caps::read(None, CapSet::Permitted).unwrap(),
                before.intersection(&kept).copied().collect()
            );
        });
        thread.join().unwrap();
    }
}
