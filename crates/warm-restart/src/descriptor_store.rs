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

    /// A socket pair for a new child: its standard input, in which all descriptors wait, and our end.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn connect(&self) -> std::io::Result<(OwnedFd, OwnedFd)> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let (ours, of_child) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)?;
        for (name, file) in &self.held {
            message::send(ours.as_fd(), &Message::Store(name.clone()), Some(file.as_fd()))?;
        }
        Ok((of_child, ours))
    }

    /// Takes what a child has sent so far, without waiting. Returns whether more may come.
    pub fn receive(&mut self, socket: impl AsFd) -> bool {
        loop {
            match message::receive(socket.as_fd()) {
                Ok(Received::Message(Message::Store(name), Some(file))) => self.store(name, file),
                Ok(Received::Message(Message::Remove(name), _)) => self.remove(&name),
                Ok(Received::Message(..) | Received::Unknown) => {
                    tracing::warn!("the {} sent an unknown message", self.child);
                }
                Ok(Received::Nothing) => return true,
                Ok(Received::End) => return false,
                Err(error) => {
                    tracing::warn!("the socket of the {}: {error}", self.child);
                    return false;
                }
            }
        }
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
