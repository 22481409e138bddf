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
mod lock_holder;
mod refusal;
mod rollback;
mod snapshot;
mod stores;
mod unconfirmed;

use std::path::PathBuf;
use std::sync::Arc;

use yang5::data::DataTree;

pub use author::{AccessPath, Author, Client, Credential, Store};
pub use commit::{Commit, Committed, Origin};
pub use difference::{Change, Kind, between, change, visit};
pub use edit::Edit;
pub use history::{Entry, HISTORY_LIMIT};
pub use lock::LockGuard;
pub use lock_holder::LockHolder;
pub use refusal::Refusal;
pub use snapshot::Snapshot;
pub use stores::{Datastore, Event};
pub use unconfirmed::Unconfirmed;

use crate::apply::ForwarderConnection;
use crate::configuration::Configuration;
use crate::running::Running;
use history::History;
use refusal::to_completion;
use stores::Stores;

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
            unconfirmed::forget(&state);
        }
        let unconfirmed = unconfirmed::read(&state);
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
        let datastore = Datastore::new(connection, startup, state, running_file, stores);
        if is_resumed && let Err(refusal) = datastore.finish() {
            tracing::error!(
                "the running configuration is not saved in the startup file: {refusal}"
            );
        }
        datastore
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
        self.stores().check_lock(author)?;
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
            stores.check_lock(author)?;
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
        self.stores().check_lock(author)?;
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
