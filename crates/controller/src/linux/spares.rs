//! Spare queues of the host interfaces' devices: with one of them open, a device keeps its carrier while the forwarder is started again after it
//! was killed, and routing daemons keep their neighbours.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;

use super::inside;

/// Opens a spare queue of a device: namespace ("" is our own), name and number.
pub type Open = fn(&str, &str, u32) -> io::Result<OwnedFd>;

/// The queues that are held, by namespace.
#[derive(Debug)]
pub struct Spares {
    open: Open,
    held: BTreeMap<String, Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// Which namespace it was: another one of the same name has other devices.
    identity: Option<(u64, u64)>,
    /// The number of each device with its queue; `None`: it could not be opened, and is not tried again.
    queues: BTreeMap<String, (u32, Option<OwnedFd>)>,
}

impl Spares {
    /// None yet.
    pub fn new(open: Open) -> Spares {
        Spares { open, held: BTreeMap::new() }
    }

    /// Lets go what is in namespaces that are gone, or have no host interface any more: an open queue keeps a namespace.
    pub fn keep_only(&mut self, desired: &BTreeSet<&str>) {
        self.held.retain(|netns, _| desired.contains(netns.as_str()));
        self.let_go();
    }

    /// Lets go what is in namespaces that are gone. To be called again and again, whether there is a forwarder or not.
    pub fn let_go(&mut self) {
        self.held.retain(|netns, held| held.identity == inside::identity(netns));
    }

    /// Holds a queue of each of these devices, numbers by name, and no other. `identity` is of the namespace that they were found in.
    pub fn hold(
        &mut self,
        netns: &str,
        identity: Option<(u64, u64)>,
        devices: &BTreeMap<String, u32>,
    ) {
        let held = self.held.entry(netns.to_owned()).or_default();
        if held.identity != identity {
            *held = Held { identity, queues: BTreeMap::new() };
        }
        held.queues.retain(|name, (index, _)| devices.get(name) == Some(index));
        for (name, index) in devices {
            if held.queues.contains_key(name) {
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
            held.queues.insert(name.clone(), (*index, queue.ok()));
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
    fn what_is_gone_is_let_go() {
        let mut spares = Spares::new(open);
        let devices = |list: &[(&str, u32)]| -> BTreeMap<String, u32> {
            list.iter().map(|(name, index)| ((*name).to_owned(), *index)).collect()
        };
        let seen = |spares: &Spares| -> Vec<(String, u32, bool)> {
            let queues = spares.held.values().flat_map(|held| &held.queues);
            queues.map(|(name, (index, queue))| (name.clone(), *index, queue.is_some())).collect()
        };
        let own = inside::identity("");
        spares.hold("", own, &devices(&[("wan0", 3), ("refused", 4)]));
        let all = [("refused".to_owned(), 4, false), ("wan0".to_owned(), 3, true)];
        assert_eq!(seen(&spares), all);
        // Made anew, it has another number.
        spares.hold("", own, &devices(&[("wan0", 7)]));
        assert_eq!(seen(&spares), [("wan0".to_owned(), 7, true)]);
        spares.keep_only(&BTreeSet::from([""]));
        assert_eq!(seen(&spares).len(), 1);
        // What was found in a namespace that is another one now does not count, whatever its number.
        spares.hold("", None, &devices(&[]));
        assert!(seen(&spares).is_empty());
        spares.hold("", None, &devices(&[("wan0", 7)]));
        spares.let_go();
        assert!(seen(&spares).is_empty());
        spares.hold("", own, &devices(&[("wan0", 7)]));
        spares.keep_only(&BTreeSet::new());
        assert!(seen(&spares).is_empty());
    }
}
