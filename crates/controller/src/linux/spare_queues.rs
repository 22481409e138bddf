//! Spare queues of TAP devices: with one of them open, a device keeps its carrier while a killed forwarder
//! restarts, and routing daemons keep their neighbours.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;

use super::netns;

/// Opens a spare queue of a device: namespace ("" is the controller's own), name and index.
pub type OpenQueue = fn(&str, &str, u32) -> io::Result<OwnedFd>;

/// The open queues, by namespace.
#[derive(Debug)]
pub struct SpareQueues {
    open: OpenQueue,
    namespaces: BTreeMap<String, NamespaceQueues>,
}

#[derive(Debug, Default)]
struct NamespaceQueues {
    /// Identity of the namespace: a new one of the same name has other devices.
    identity: Option<(u64, u64)>,
    /// Index of each device with its queue; `None`: opening failed and is not tried again.
    queues: BTreeMap<String, (u32, Option<OwnedFd>)>,
}

impl SpareQueues {
    /// No queues yet.
    pub fn new(open: OpenQueue) -> SpareQueues {
        SpareQueues { open, namespaces: BTreeMap::new() }
    }

    /// Closes queues in namespaces that are gone or have no host interface any more: an open queue keeps a
    /// namespace alive.
    pub fn retain_namespaces(&mut self, desired: &BTreeSet<&str>) {
        self.namespaces.retain(|netns, _| desired.contains(netns.as_str()));
        self.close_stale();
    }

    /// Closes queues in namespaces that are gone. To be called periodically, with or without a forwarder.
    pub fn close_stale(&mut self) {
        self.namespaces.retain(|netns, namespace| namespace.identity == netns::identity(netns));
    }

    /// Opens a queue of each of these devices (index by name) and closes all others. `identity` is that of
    /// the namespace in which they were found.
    pub fn open_for(
        &mut self,
        netns: &str,
        identity: Option<(u64, u64)>,
        devices: &BTreeMap<String, u32>,
    ) {
        let namespace = self.namespaces.entry(netns.to_owned()).or_default();
        if namespace.identity != identity {
            *namespace = NamespaceQueues { identity, queues: BTreeMap::new() };
        }
        namespace.queues.retain(|name, (index, _)| devices.get(name) == Some(index));
        for (name, index) in devices {
            if namespace.queues.contains_key(name) {
                continue;
            }
            let queue = (self.open)(netns, name, *index);
            if let Err(error) = &queue {
                tracing::warn!(
                    namespace = netns,
                    device = name,
                    "the host interface will lose its carrier when the forwarder is killed: {error}"
                );
            }
            namespace.queues.insert(name.clone(), (*index, queue.ok()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(_: &str, name: &str, _: u32) -> io::Result<OwnedFd> {
        match name {
            "refused" => Err(io::ErrorKind::PermissionDenied.into()),
            _ => Ok(std::fs::File::open("/dev/null")?.into()),
        }
    }

    #[test]
    fn queues_of_removed_devices_are_closed() {
        let mut queues = SpareQueues::new(open);
        let devices = |list: &[(&str, u32)]| -> BTreeMap<String, u32> {
            list.iter().map(|(name, index)| ((*name).to_owned(), *index)).collect()
        };
        let entries = |queues: &SpareQueues| -> Vec<(String, u32, bool)> {
            let queues = queues.namespaces.values().flat_map(|namespace| &namespace.queues);
            queues.map(|(name, (index, queue))| (name.clone(), *index, queue.is_some())).collect()
        };
        let own = netns::identity("");
        queues.open_for("", own, &devices(&[("wan0", 3), ("refused", 4)]));
        let all = [("refused".to_owned(), 4, false), ("wan0".to_owned(), 3, true)];
        assert_eq!(entries(&queues), all);
        // A new device has a new index.
        queues.open_for("", own, &devices(&[("wan0", 7)]));
        assert_eq!(entries(&queues), [("wan0".to_owned(), 7, true)]);
        queues.retain_namespaces(&BTreeSet::from([""]));
        assert_eq!(entries(&queues).len(), 1);
        // Devices found in a replaced namespace do not count, whatever their index.
        queues.open_for("", None, &devices(&[]));
        assert!(entries(&queues).is_empty());
        queues.open_for("", None, &devices(&[("wan0", 7)]));
        queues.close_stale();
        assert!(entries(&queues).is_empty());
        queues.open_for("", own, &devices(&[("wan0", 7)]));
        queues.retain_namespaces(&BTreeSet::new());
        assert!(entries(&queues).is_empty());
    }
}
