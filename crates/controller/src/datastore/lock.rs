//! Who holds the configuration: one at a time, until the session ends.

use std::time::SystemTime;

use super::{Author, Client, Datastore, Refusal};

/// Who holds the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The user.
    pub name: String,
    /// How the user came.
    pub client: Client,
    /// Since when.
    pub since: SystemTime,
    /// Known to the holder alone.
    session: u64,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = self.since.elapsed().unwrap_or_default().as_secs();
        let Holder { name, client, .. } = self;
        write!(out, "{name} ({client}) holds the configuration since {seconds} s")
    }
}

/// A lock that is held as long as this lives.
#[derive(Debug)]
pub struct Held {
    datastore: Datastore,
    session: u64,
}

impl Held {
    /// What the holder's [`Author::session`] is.
    pub fn session(&self) -> u64 {
        self.session
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut stores = self.datastore.stores();
        if stores.holder.as_ref().is_some_and(|holder| holder.session == self.session) {
            stores.holder = None;
        }
    }
}

impl Datastore {
    /// Keeps all others from changing anything.
    ///
    /// # Errors
    /// When somebody holds it.
    pub fn lock(&self, author: &Author) -> Result<Held, Refusal> {
        let mut stores = self.stores();
        check(stores.holder.as_ref(), author)?;
        // A number that others cannot guess by counting is not needed: the clients keep it to themselves.
        stores.sessions += 1;
        let session = stores.sessions;
        stores.holder = Some(Holder {
            name: author.name.clone(),
            client: author.client,
            since: SystemTime::now(),
            session,
        });
        drop(stores);
        Ok(Held { datastore: self.clone(), session })
    }

    /// Who holds the lock.
    pub fn holder(&self) -> Option<Holder> {
        self.stores().holder.clone()
    }
}

/// Whether the author may change something.
pub(super) fn check(holder: Option<&Holder>, author: &Author) -> Result<(), Refusal> {
    match holder {
        Some(holder) if holder.session != author.session => Err(Refusal::Locked(holder.clone())),
        _ => Ok(()),
    }
}
