//! The supervisor's part: descriptors that it holds for a child process, and passes to the next one.
//!
//! A child gets one end of a socket pair as its standard input. The descriptors wait there when the child starts, and
//! the child sends new ones through it, with the messages of systemd's file descriptor store. What the supervisor
//! holds, systemd holds as well where it started the supervisor, so that state also survives an upgrade of both.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

use crate::holder::{Holder, from_systemd};
use crate::message::{self, Message, Received};

/// The environment variable of a child whose standard input is the socket of its supervisor.
pub const CHILD_ENVIRONMENT: &str = "STOA_DESCRIPTOR_STORE";

/// Most descriptors of a child. All of them wait in the socket when it starts.
const DESCRIPTORS_MAX: usize = 64;
/// Most messages that are taken at a time: a child that sends without pause does not hold its supervisor.
const MESSAGES_MAX: usize = 64;

/// What is left in the socket of a child after [`DescriptorStore::receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Everything that waited is taken.
    All,
    /// A part is taken: more may wait.
    Part,
    /// The socket is closed: nothing comes any more.
    Last,
}

/// The descriptors of one child.
#[derive(Debug)]
pub struct DescriptorStore {
    child: &'static str,
    held: BTreeMap<String, OwnedFd>,
    systemd: Holder,
}

impl DescriptorStore {
    /// The stores of these children, with what systemd held since the last run of this supervisor.
    #[must_use]
    pub fn inherited<const CHILDREN: usize>(
        children: [&'static str; CHILDREN],
    ) -> [Self; CHILDREN] {
        let is_ours =
            |name: &str| children.iter().any(|child| name_of_child(name, child).is_some());
        let mut inherited = from_systemd(is_ours);
        children.map(|child| {
            let ours = inherited.extract_if(.., |(name, _)| name_of_child(name, child).is_some());
            let named = |(name, file): (String, OwnedFd)| {
                (name_of_child(&name, child).unwrap_or_default().to_owned(), file)
            };
            let held = ours.map(named).collect();
            Self { child, held, systemd: Holder::systemd() }
        })
    }

    /// A store that ends with this process.
    #[must_use]
    pub fn of(child: &'static str) -> Self {
        Self { child, held: BTreeMap::new(), systemd: Holder::nobody() }
    }

    /// A socket pair for a new child: its standard input, in which all descriptors wait, and our end. What cannot be
    /// passed on is released: the child starts without it.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn connect(&mut self) -> std::io::Result<(OwnedFd, OwnedFd)> {
        loop {
            let (kind, flags) = (SockType::SeqPacket, SockFlag::SOCK_CLOEXEC);
            let (ours, of_child) = socketpair(AddressFamily::Unix, kind, None, flags)?;
            let mut sent = self.held.iter().map(|(name, file)| {
                let message = Message::Store(name.clone());
                (name, message::send(ours.as_fd(), &message, Some(file.as_fd())))
            });
            let failed = sent.find_map(|(name, result)| Some((name.clone(), result.err()?)));
            let Some((name, error)) = failed else { return Ok((of_child, ours)) };
            tracing::warn!(
                "the state of {name} is lost: the {} cannot get it: {error}",
                self.child
            );
            // Its older regions as well: the child must not go on with one of them. They may be in the socket already,
            // so that it needs a new one.
            let region = region_of(&name);
            let lost: Vec<String> =
                self.held.keys().filter(|held| region_of(held) == region).cloned().collect();
            lost.iter().for_each(|name| self.remove(name));
        }
    }

    /// Takes what a child has sent so far, without waiting, up to a number of messages.
    pub fn receive(&mut self, socket: impl AsFd) -> Taken {
        for _ in 0..MESSAGES_MAX {
            match message::receive(socket.as_fd()) {
                Ok(Received::Message(Message::Store(name), Some(file))) => self.store(name, file),
                Ok(Received::Message(Message::Remove(name), _)) => self.remove(&name),
                Ok(Received::Message(..) | Received::Unknown) => {
                    tracing::warn!("the {} sent an unknown message", self.child);
                }
                Ok(Received::Nothing) => return Taken::All,
                Ok(Received::End) => return Taken::Last,
                Err(error) => {
                    tracing::warn!("the socket of the {}: {error}", self.child);
                    return Taken::Last;
                }
            }
        }
        Taken::Part
    }

    /// What is held, by name.
    pub fn held(&self) -> impl Iterator<Item = (&str, BorrowedFd<'_>)> {
        self.held.iter().map(|(name, file)| (name.as_str(), file.as_fd()))
    }

    fn store(&mut self, name: String, file: OwnedFd) {
        if self.held.len() >= DESCRIPTORS_MAX && !self.held.contains_key(&name) {
            tracing::warn!(
                "state of {name} does not survive a restart: the {} has {DESCRIPTORS_MAX} already",
                self.child
            );
            return;
        }
        let full = format!("{}/{name}", self.child);
        if let Err(error) = self.systemd.store(&full, file.as_fd()) {
            tracing::warn!("systemd does not hold {full}: {error}");
        }
        self.held.insert(name, file);
    }

    fn remove(&mut self, name: &str) {
        self.held.remove(name);
        let _ = self.systemd.remove(&format!("{}/{name}", self.child));
    }
}

/// The child's own name of a descriptor that systemd holds for its supervisor.
fn name_of_child<'a>(name: &'a str, child: &str) -> Option<&'a str> {
    name.strip_prefix(child)?.strip_prefix('/')
}

/// The name of a region, without its serial number.
fn region_of(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(region, _)| region)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> OwnedFd {
        tempfile::tempfile().unwrap().into()
    }

    #[test]
    fn a_child_that_sends_without_pause_does_not_hold_the_supervisor() {
        let mut store = DescriptorStore::of("test");
        let (of_child, ours) = store.connect().unwrap();
        let remove = Message::Remove("esp.1".to_owned());
        (0..=MESSAGES_MAX).for_each(|_| message::send(of_child.as_fd(), &remove, None).unwrap());
        assert_eq!(store.receive(&ours), Taken::Part);
        assert_eq!(store.receive(&ours), Taken::All);
        drop(of_child);
        assert_eq!(store.receive(&ours), Taken::Last);
    }

    #[test]
    fn a_child_starts_without_the_descriptors_that_cannot_be_passed_on() {
        let mut store = DescriptorStore::of("test");
        // The system refuses a message that is larger than the buffer of the socket.
        let long = "x".repeat(16 << 20);
        for name in ["esp.1", "vrrp.10", "vrrp.9"] {
            store.store(name.to_owned(), file());
        }
        store.held.insert(format!("nat.{long}"), file());
        store.held.insert("nat.1".to_owned(), file());
        let (of_child, _ours) = store.connect().unwrap();
        let (_, inherited) = Holder::child(of_child);
        let names: Vec<&str> = inherited.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["esp.1", "vrrp.10", "vrrp.9"]);
        assert!(store.held().all(|(name, _)| !name.starts_with("nat")), "not held any more");
    }
}
