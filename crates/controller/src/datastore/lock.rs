//! The lock of the configuration, which one session holds until it ends.

use std::time::SystemTime;

use super::{Author, Client, Datastore, Refusal};

/// The holder of the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockHolder {
    /// The user.
    pub name: String,
    /// The client of the user.
    pub client: Client,
    /// Start of the lock.
    pub since: SystemTime,
    /// Known to the holder alone.
    session: u64,
}

impl std::fmt::Display for LockHolder {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = self.since.elapsed().unwrap_or_default().as_secs();
        let LockHolder { name, client, .. } = self;
        write!(out, "{name} ({client}) has locked the configuration for {seconds} s")
    }
}

/// The lock, which is released on drop.
#[derive(Debug)]
pub struct LockGuard {
    datastore: Datastore,
    session: u64,
}

impl LockGuard {
    /// The [`Author::session`] of the holder.
    pub fn session(&self) -> u64 {
        self.session
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        let mut stores = self.datastore.stores();
        if stores.holder.as_ref().is_some_and(|holder| holder.session == self.session) {
            stores.holder = None;
        }
    }
}

impl Datastore {
    /// Takes the lock: other sessions cannot change the configuration.
    ///
    /// # Errors
    /// When another session holds it.
    pub fn lock(&self, author: &Author) -> Result<LockGuard, Refusal> {
        let mut stores = self.stores();
        check(stores.holder.as_ref(), author)?;
        // A sequential number suffices: clients send only their own.
        stores.sessions += 1;
        let session = stores.sessions;
        stores.holder = Some(LockHolder {
            name: author.name.clone(),
            client: author.client,
            since: SystemTime::now(),
            session,
        });
        drop(stores);
        Ok(LockGuard { datastore: self.clone(), session })
    }

    /// The holder of the lock.
    pub fn holder(&self) -> Option<LockHolder> {
        self.stores().holder.clone()
    }
}

/// Checks that no other session holds the lock.
pub(super) fn check(holder: Option<&LockHolder>, author: &Author) -> Result<(), Refusal> {
    match holder {
        Some(holder) if holder.session != author.session => Err(Refusal::Locked(holder.clone())),
        _ => Ok(()),
    }
}
