//! What the datastores hold: their contents, their files, and who listens to them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, broadcast};
use yang5::data::DataTree;

use super::author::{Author, Store};
use super::bulk::{self, Core};
use super::candidate::Candidate;
use super::difference::{Change, between};
use super::disk;
use super::edit::Edit;
use super::history::{Entry, History};
use super::lock_holder::LockHolder;
use super::part::{Part, with_changes};
use super::refusal::Refusal;
use super::reported::Reported;
use super::snapshot::Snapshot;
use super::startup_file::StartupFile;
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
    /// Serializes writes of the startup file, and of whole configurations to the history. Who takes both takes this one
    /// last.
    pub(super) saving: tokio::sync::Mutex<()>,
    pub(super) events: broadcast::Sender<Event>,
    /// Notified when the unconfirmed commit changes.
    pub(super) clock: Notify,
    /// Notified when the startup file is older than running.
    pub(super) saver: Notify,
    pub(super) reported: Reported,
    /// Why HTTPS is not served as configured, for `stoa status`.
    https_problems: Mutex<Vec<String>>,
}

#[derive(Debug)]
pub(super) struct Stores {
    pub(super) candidate: Candidate,
    /// The candidate differs from running.
    pub(super) is_edited: bool,
    /// The author of a change of running that conflicts with the candidate.
    pub(super) conflict: Option<String>,
    pub(super) running: Arc<Snapshot>,
    /// Running without its bulk, if it has any.
    pub(super) core: Option<Core>,
    /// `None`: as running.
    pub(super) startup: Option<Arc<Snapshot>>,
    /// The startup file when it was last read or written; `None`: it was edited meanwhile.
    pub(super) startup_file: Option<StartupFile>,
    /// The entry of the history that is running, if it is known.
    pub(super) entry: Option<u64>,
    /// The startup file is older than running: commits of parts are in the history alone.
    pub(super) is_unsaved: bool,
    /// The last attempt to write it failed, in this Stoa or at the start.
    pub(super) is_save_failing: bool,
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

    /// The contents of a datastore, but of a candidate that is a part of running.
    fn snapshot(&self, store: Store) -> Option<&Arc<Snapshot>> {
        match (store, &self.candidate) {
            (Store::Startup, _) => Some(self.startup.as_ref().unwrap_or(&self.running)),
            (Store::Candidate, Candidate::Whole(own)) => Some(own),
            (Store::Candidate, Candidate::Part(_)) => None,
            (Store::Running, _) | (Store::Candidate, Candidate::Running) => Some(&self.running),
        }
    }

    /// Running or the candidate as a part of running; `None`: there is no bulk, or the candidate has its own.
    pub(super) fn part(&self, store: Store) -> Option<Part> {
        let core = self.core.as_ref()?;
        match (store, &self.candidate) {
            (Store::Startup, _) | (Store::Candidate, Candidate::Whole(_)) => None,
            (Store::Candidate, Candidate::Part(part)) => Some(part.clone()),
            (Store::Running, _) | (Store::Candidate, Candidate::Running) => Some(Part {
                before: Arc::clone(&core.tree),
                entries: Vec::new(),
                after: Arc::new(Snapshot { tree: Arc::clone(&core.tree), ..*self.running }),
            }),
        }
    }

    /// The revision of a datastore.
    pub(super) fn revision_of(&self, store: Store) -> u64 {
        match (self.snapshot(store), &self.candidate) {
            (Some(snapshot), _) => snapshot.revision,
            (None, Candidate::Part(part)) => part.after.revision,
            (None, _) => self.running.revision,
        }
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

    /// Checks that no change of running conflicts with the candidate.
    pub(super) fn check_conflict(&self) -> Result<(), Refusal> {
        self.conflict.clone().map_or(Ok(()), |author| Err(Refusal::Conflict(author)))
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
            saving: tokio::sync::Mutex::new(()),
            events,
            clock: Notify::new(),
            saver: Notify::new(),
            reported: Reported::default(),
            https_problems: Mutex::default(),
        };
        Datastore { inner: Arc::new(inner) }
    }

    /// The line to the forwarder.
    pub fn connection(&self) -> &Arc<ForwarderConnection> {
        &self.inner.connection
    }

    /// Why HTTPS is not served as configured; empty: it is.
    pub fn https_problems(&self) -> Vec<String> {
        self.inner.https_problems.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets why HTTPS is not served as configured.
    pub fn set_https_problems(&self, problems: Vec<String>) {
        *self.inner.https_problems.lock().unwrap_or_else(PoisonError::into_inner) = problems;
    }

    /// The state folder: history, keys and tokens.
    pub fn state(&self) -> &std::path::Path {
        &self.inner.state
    }

    /// Creates the state folder with mode 0700. A wider mode of a folder that exists is reported in the log.
    ///
    /// # Errors
    /// When a system call fails.
    pub fn create_state_folder(&self) -> Result<(), Refusal> {
        let state = &self.inner.state;
        disk::create_folder(state)?;
        if let Some(mode) = disk::open_to_others(state) {
            let state = state.display();
            tracing::warn!(
                "others may write to the state folder {state} (mode {mode:04o}): run `chmod 700 {state}`"
            );
        }
        Ok(())
    }

    /// Future events.
    pub fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.inner.events.subscribe()
    }

    /// The current contents of a datastore. Those of an edited candidate may be a copy.
    pub fn tree(&self, store: Store) -> Arc<Snapshot> {
        let (running, part) = {
            let stores = self.stores();
            match (stores.snapshot(store), &stores.candidate) {
                (Some(snapshot), _) => return Arc::clone(snapshot),
                (None, Candidate::Part(part)) => (Arc::clone(&stores.running), part.clone()),
                (None, _) => return Arc::clone(&stores.running),
            }
        };
        match with_changes(&running.tree, &part.before, &part.after.tree) {
            Ok(tree) => Arc::new(Snapshot { tree: Arc::new(tree), ..*part.after }),
            Err(refusal) => {
                tracing::error!("the candidate cannot be copied: {refusal}");
                part.after
            }
        }
    }

    /// The revision of a datastore, without its contents.
    pub fn revision(&self, store: Store) -> u64 {
        self.stores().revision_of(store)
    }

    /// Two trees with the changes from `old` to `new`: the whole of both, or without what both share.
    pub fn compared(
        &self,
        old: Store,
        new: Store,
    ) -> (Arc<DataTree<'static>>, Arc<DataTree<'static>>) {
        {
            let stores = self.stores();
            if let Candidate::Part(part) = &stores.candidate {
                let (before, after) = (Arc::clone(&part.before), Arc::clone(&part.after.tree));
                match (old, new) {
                    (Store::Running, Store::Candidate) => return (before, after),
                    (Store::Candidate, Store::Running) => return (after, before),
                    _ => {}
                }
            }
        }
        let (old, new) = (Arc::clone(&self.tree(old).tree), Arc::clone(&self.tree(new).tree));
        match &self.stores().core {
            Some(core) if Arc::ptr_eq(&old, &new) => {
                (Arc::clone(&core.tree), Arc::clone(&core.tree))
            }
            _ => (old, new),
        }
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
        let (old, new) = self.compared(old, new);
        between(&old, &new)
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

impl Datastore {
    /// The part of a datastore that these edits need; `None`: they need the whole.
    pub(super) fn part(&self, store: Store, edits: &[Edit]) -> Result<Option<Part>, Refusal> {
        let (part, bulk, running) = {
            let stores = self.stores();
            let bulk = stores.core.as_ref().map(|core| core.bulk);
            match stores.part(store).zip(bulk) {
                Some((part, bulk)) => (part, bulk, Arc::clone(&stores.running)),
                None => return Ok(None),
            }
        };
        match bulk::entries(edits, bulk) {
            Some(entries) => part.pull(&running.tree, entries).map(Some),
            None => Ok(None),
        }
    }
}
