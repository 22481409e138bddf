//! The datastores (RFC 8342): candidate, running and startup, with their history.
//!
//! All clients change the configuration here. A change of running is one transaction: it is valid by YANG and by the
//! checks of this crate, written to disk and applied by the forwarder; or it is refused with all errors and changes
//! nothing. Startup is the file that Stoa was started with. A commit writes it, so that a restart keeps the running
//! configuration. A commit that waits for its confirmation is in running alone.
//!
//! In the state folder, `history/NUMBER.json.gz` is a committed configuration with its author, time and comment, and
//! `confirm.json` the configuration to roll back to. Files are written under a temporary name, synced and renamed.

mod access;
mod author;
mod choice;
mod commit;
mod confirm;
mod difference;
mod disk;
mod edit;
mod history;
mod lock;
mod refusal;
mod rollback;
mod snapshot;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, broadcast};
use yang5::data::DataTree;

pub use access::{AccessPath, Credential};
pub use author::{Author, Client, Store};
pub use commit::{Commit, Committed, Origin};
pub use confirm::Unconfirmed;
pub use difference::{Change, Kind, between, change, visit};
pub use edit::Edit;
pub use history::{Entry, HISTORY_LIMIT};
pub use lock::{LockGuard, LockHolder};
pub use refusal::Refusal;
pub use snapshot::Snapshot;

use crate::apply::ForwarderConnection;
use crate::configuration::Configuration;
use crate::running::Running;
use history::History;

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
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    connection: Arc<ForwarderConnection>,
    /// The file of the startup datastore.
    startup: PathBuf,
    /// The state folder.
    state: PathBuf,
    running_file: Running,
    stores: Mutex<Stores>,
    /// Serializes changes of running.
    writer: tokio::sync::Mutex<()>,
    events: broadcast::Sender<Event>,
    /// Notified when the unconfirmed commit changes.
    clock: Notify,
}

#[derive(Debug)]
struct Stores {
    candidate: Arc<Snapshot>,
    /// The candidate differs from running.
    is_edited: bool,
    /// The author of a change of running that conflicts with the candidate.
    conflict: Option<String>,
    running: Arc<Snapshot>,
    startup: Arc<Snapshot>,
    /// The text of the startup file when it was last read or written; `None`: it was edited meanwhile.
    startup_text: Option<String>,
    /// The last revision.
    revision: u64,
    holder: Option<LockHolder>,
    sessions: u64,
    unconfirmed: Option<Unconfirmed>,
}

impl Stores {
    /// A new revision.
    fn next_revision(&mut self) -> u64 {
        self.revision += 1;
        self.revision
    }
}

impl Datastore {
    /// Opens the datastores. The configuration of `connection` is in effect or about to be; `running` is its data.
    /// `startup` is the file that Stoa was started with, `state` the state folder, which is created when needed.
    /// `is_resumed`: the configuration comes from an earlier controller, not from the file.
    pub fn open(
        connection: Arc<ForwarderConnection>,
        running: DataTree<'static>,
        startup: PathBuf,
        state: PathBuf,
        running_file: Running,
        is_resumed: bool,
    ) -> Datastore {
        let desired = connection.configuration();
        let text = desired.as_ref().map_or("{}", |it| it.text.as_str());
        let running = Arc::new(Snapshot::new(running, 1));
        let startup_text = std::fs::read_to_string(&startup).ok();
        let startup_snapshot = match startup_text.as_deref() {
            Some(same) if same == text => Ok(Arc::clone(&running)),
            other => stoa_yang::data::parse(other.unwrap_or("{}"))
                .map(|tree| Arc::new(Snapshot::new(tree, 2))),
        };
        // The file may have been edited meanwhile: then it is neither running nor the last saved configuration.
        let is_known = |now: &String| now == text || History::new(&state).is_newest(now);
        let startup_text = startup_text.filter(|now| !is_resumed || is_known(now));
        if !is_resumed {
            confirm::forget(&state);
        }
        let unconfirmed = confirm::read(&state);
        let stores = Stores {
            candidate: Arc::clone(&running),
            is_edited: false,
            conflict: None,
            startup: startup_snapshot.unwrap_or_else(|_| Arc::clone(&running)),
            running,
            startup_text,
            revision: 2,
            holder: None,
            sessions: 0,
            unconfirmed,
        };
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
        let datastore = Datastore { inner: Arc::new(inner) };
        if is_resumed && let Err(refusal) = datastore.finish() {
            tracing::error!(
                "the running configuration is not saved in the startup file: {refusal}"
            );
        }
        datastore
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

    fn history_files(&self) -> History {
        History::new(&self.inner.state)
    }

    fn stores(&self) -> MutexGuard<'_, Stores> {
        self.inner.stores.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, event: Event) {
        // Fails without subscribers.
        let _ = self.inner.events.send(event);
    }

    /// Edits a datastore: the candidate without validation, running as one transaction. With `if_match`, only if the
    /// datastore has this revision.
    ///
    /// # Errors
    /// When an edit fails, another session has the lock, or running would be invalid. Then nothing changes.
    pub async fn edit(
        &self,
        author: &Author,
        store: Store,
        edits: Vec<Edit>,
        if_match: Option<u64>,
    ) -> Result<Arc<Snapshot>, Refusal> {
        self.edit_as(author, store, edits, if_match, Commit::default()).await
    }

    /// As [`Self::edit`], with the parameters of the commit of running.
    ///
    /// # Errors
    /// As [`Self::edit`].
    pub async fn edit_as(
        &self,
        author: &Author,
        store: Store,
        edits: Vec<Edit>,
        if_match: Option<u64>,
        commit: Commit,
    ) -> Result<Arc<Snapshot>, Refusal> {
        let (own, author) = (self.clone(), author.clone());
        to_completion(async move { own.edit_now(&author, store, edits, if_match, &commit).await })
            .await
    }

    async fn edit_now(
        &self,
        author: &Author,
        store: Store,
        edits: Vec<Edit>,
        if_match: Option<u64>,
        commit: &Commit,
    ) -> Result<Arc<Snapshot>, Refusal> {
        let _one = self.inner.writer.lock().await;
        lock::check(self.stores().holder.as_ref(), author)?;
        let before = match store {
            Store::Startup => return Err(refusal::startup_is_read_only()),
            store => self.tree(store),
        };
        if if_match.is_some_and(|revision| revision != before.revision) {
            return Err(Refusal::Stale);
        }
        // Parsing and copying a large tree would block other requests.
        let edited = tokio::task::spawn_blocking(move || edit::apply(&before.tree, &edits));
        let tree = edited.await.map_err(refusal::panicked)??;
        if store == Store::Running {
            if between(&self.tree(store).tree, &tree)?.is_empty() {
                return Ok(self.tree(store));
            }
            self.commit_tree(author, tree, commit).await?;
            return Ok(self.tree(Store::Running));
        }
        let edited = {
            let mut stores = self.stores();
            let revision = stores.next_revision();
            stores.candidate = Arc::new(Snapshot::new(tree, revision));
            stores.is_edited = true;
            Arc::clone(&stores.candidate)
        };
        self.publish(Event::Edited);
        Ok(edited)
    }

    /// A datastore with these edits, without validation and without changing it.
    ///
    /// # Errors
    /// When an edit fails.
    pub fn preview(&self, store: Store, edits: &[Edit]) -> Result<DataTree<'static>, Refusal> {
        edit::apply(&self.tree(store).tree, edits)
    }

    /// Commits the candidate.
    ///
    /// # Errors
    /// All errors of the candidate. Then nothing changes.
    pub async fn commit(&self, author: &Author, commit: Commit) -> Result<Committed, Refusal> {
        let (own, author) = (self.clone(), author.clone());
        to_completion(async move { own.commit_now(&author, commit).await }).await
    }

    async fn commit_now(&self, author: &Author, commit: Commit) -> Result<Committed, Refusal> {
        let _one = self.inner.writer.lock().await;
        let candidate = {
            let stores = self.stores();
            lock::check(stores.holder.as_ref(), author)?;
            if let Some(conflict) = &stores.conflict {
                return Err(Refusal::Conflict(conflict.clone()));
            }
            Arc::clone(&stores.candidate)
        };
        if commit.if_match.is_some_and(|revision| revision != candidate.revision) {
            return Err(Refusal::Stale);
        }
        self.commit_tree(author, Arc::clone(&candidate.tree), &commit).await
    }

    /// Reads and commits a file: `stoa reload`. A file other than the startup file applies until Stoa ends, unless a
    /// commit saves it.
    ///
    /// # Errors
    /// All errors of the file, and as [`Self::commit`].
    pub async fn load(&self, author: &Author, file: PathBuf) -> Result<Committed, Refusal> {
        let (own, author) = (self.clone(), author.clone());
        to_completion(async move { own.load_now(&author, file).await }).await
    }

    async fn load_now(&self, author: &Author, file: PathBuf) -> Result<Committed, Refusal> {
        // The writer is held while the file is read, so that no commit intervenes.
        let _one = self.inner.writer.lock().await;
        lock::check(self.stores().holder.as_ref(), author)?;
        // The file does not contain the unconfirmed commit, which would be lost silently.
        if self.unconfirmed().is_some() {
            return Err(refusal::one(
                &file.display().to_string(),
                "a commit waits for its confirmation and is not in this file",
                "Confirm it with `stoa commit` or roll it back with `stoa commit --cancel`, then reload.",
            ));
        }
        let origin = match file == self.inner.startup {
            true => Origin::Startup,
            false => Origin::OtherFile,
        };
        let read = tokio::task::spawn_blocking(move || {
            Configuration::read_as_data(&file).map_err(Refusal::Invalid)
        });
        let (configuration, tree) = read.await.map_err(refusal::panicked)??;
        let commit = Commit { origin, ..Commit::default() };
        self.commit_valid(author, tree.into(), configuration, &commit).await
    }
}

/// Runs `work` to completion even if the caller is cancelled.
async fn to_completion<T: Send + 'static>(
    work: impl Future<Output = Result<T, Refusal>> + Send + 'static,
) -> Result<T, Refusal> {
    tokio::spawn(work).await.map_err(refusal::panicked)?
}
