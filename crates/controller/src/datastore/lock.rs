//! The lock of the configuration, which one session holds until it ends.

use std::time::SystemTime;

use super::author::Author;
use super::lock_holder::LockHolder;
use super::refusal::Refusal;
use super::stores::Datastore;

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
        stores.check_lock(author)?;
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
