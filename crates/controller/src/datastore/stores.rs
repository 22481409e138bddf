//! What the datastores hold: their contents, their files, and who listens to them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, broadcast};

use super::author::{Author, Store};
use super::difference::{Change, between};
use super::disk;
use super::history::{Entry, History};
use super::lock_holder::LockHolder;
use super::refusal::Refusal;
use super::snapshot::Snapshot;
use super::unconfirmed::{self, Unconfirmed};
use crate::apply::ForwarderConnection;
use crate::running::Running;

/// Length of the event queue of a subscriber, which loses older events.
const EVENT_QUEUE_LENGTH: usize = 256;

/// An event of the datastores.
#[derive(Clone, Debug)]
pub enum Event {
    /// Running changed.
    Changed {
        /// The author.
        author: Author,
        /// The number in the history; 0: none yet, the commit waits for its confirmation.
        number: u64,
        /// The changes.
        changes: Arc<[Change]>,
    },
    /// The candidate changed.
    Edited,
}

/// The datastores. Clones share their state.
#[derive(Clone, Debug)]
pub struct Datastore {
    pub(super) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) connection: Arc<ForwarderConnection>,
    /// The file of the startup datastore.
    pub(super) startup: PathBuf,
    /// The state folder.
    pub(super) state: PathBuf,
    pub(super) running_file: Running,
    pub(super) stores: Mutex<Stores>,
    /// Serializes changes of running.
    pub(super) writer: tokio::sync::Mutex<()>,
    pub(super) events: broadcast::Sender<Event>,
    /// Notified when the unconfirmed commit changes.
    pub(super) clock: Notify,
}

#[derive(Debug)]
pub(super) struct Stores {
    pub(super) candidate: Arc<Snapshot>,
    /// The candidate differs from running.
    pub(super) is_edited: bool,
    /// The author of a change of running that conflicts with the candidate.
    pub(super) conflict: Option<String>,
    pub(super) running: Arc<Snapshot>,
    pub(super) startup: Arc<Snapshot>,
    /// The text of the startup file when it was last read or written; `None`: it was edited meanwhile.
    pub(super) startup_text: Option<String>,
    /// The last revision.
    pub(super) revision: u64,
    pub(super) holder: Option<LockHolder>,
    pub(super) sessions: u64,
    pub(super) unconfirmed: Option<Unconfirmed>,
}

impl Stores {
    /// A new revision.
    pub(super) fn next_revision(&mut self) -> u64 {
        self.revision += 1;
        self.revision
    }

    /// Checks that no other session holds the lock.
    pub(super) fn check_lock(&self, author: &Author) -> Result<(), Refusal> {
        match &self.holder {
            Some(holder) if holder.session != author.session => {
                Err(Refusal::Locked(holder.clone()))
            }
            _ => Ok(()),
        }
    }
}

impl Datastore {
    /// Datastores with these contents.
    pub(super) fn new(
        connection: Arc<ForwarderConnection>,
        startup: PathBuf,
        state: PathBuf,
        running_file: Running,
        stores: Stores,
    ) -> Datastore {
        let (events, _) = broadcast::channel(EVENT_QUEUE_LENGTH);
        let inner = Inner {
            connection,
            startup,
            state,
            running_file,
            stores: Mutex::new(stores),
            writer: tokio::sync::Mutex::new(()),
            events,
            clock: Notify::new(),
        };
        Datastore { inner: Arc::new(inner) }
    }

    /// The line to the forwarder.
    pub fn connection(&self) -> &Arc<ForwarderConnection> {
        &self.inner.connection
    }

    /// The state folder: history, keys and tokens.
    pub fn state(&self) -> &std::path::Path {
        &self.inner.state
    }

    /// Creates the state folder with mode 0700.
    ///
    /// # Errors
    /// When a system call fails.
    pub fn create_state_folder(&self) -> Result<(), Refusal> {
        disk::create_folder(&self.inner.state)
    }

    /// Future events.
    pub fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.inner.events.subscribe()
    }

    /// The current contents of a datastore.
    pub fn tree(&self, store: Store) -> Arc<Snapshot> {
        let stores = self.stores();
        Arc::clone(match store {
            Store::Candidate => &stores.candidate,
            Store::Running => &stores.running,
            Store::Startup => &stores.startup,
        })
    }

    /// Whether the candidate differs from running.
    pub fn is_edited(&self) -> bool {
        self.stores().is_edited
    }

    /// The commit that waits for its confirmation.
    pub fn unconfirmed(&self) -> Option<Unconfirmed> {
        self.stores().unconfirmed.clone()
    }

    /// The changes from `old` to `new`.
    ///
    /// # Errors
    /// When libyang cannot compare them.
    pub fn difference(&self, old: Store, new: Store) -> Result<Vec<Change>, Refusal> {
        between(&self.tree(old).tree, &self.tree(new).tree)
    }

    /// The entries of the history, newest first.
    pub fn history(&self) -> Vec<Entry> {
        self.history_files().list()
    }

    /// A configuration of the history.
    ///
    /// # Errors
    /// When it does not exist or cannot be read.
    pub fn history_tree(&self, number: u64) -> Result<Snapshot, Refusal> {
        Ok(Snapshot::new(stoa_yang::data::parse(&self.history_files().text(number)?)?, 0))
    }

    pub(super) fn history_files(&self) -> History {
        History::new(&self.inner.state)
    }

    pub(super) fn stores(&self) -> MutexGuard<'_, Stores> {
        self.inner.stores.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn publish(&self, event: Event) {
        // Fails without subscribers.
        let _ = self.inner.events.send(event);
    }

    /// Stores which commit waits for its confirmation, on disk and in memory.
    pub(super) fn set_unconfirmed(&self, unconfirmed: Option<Unconfirmed>) -> Result<(), Refusal> {
        unconfirmed::save(&self.inner.state, unconfirmed.as_ref())?;
        self.stores().unconfirmed = unconfirmed;
        self.inner.clock.notify_one();
        Ok(())
    }
}
