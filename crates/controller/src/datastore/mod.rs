//! The datastores (RFC 8342): candidate, running and startup, with their history.
//!
//! All clients change the configuration here. A change of running is one transaction: it is valid by YANG and by the
//! checks of this crate, written to disk and applied by the forwarder; or it is refused with all errors and changes
//! nothing. Startup is the file that Stoa was started with. A commit writes it, so that a restart keeps the running
//! configuration. A commit that waits for its confirmation is in running alone.
//!
//! With many static routes or interfaces, a commit that changes few of them writes the history alone, as the difference
//! to its newest entry; `saver` writes the startup file later, or `recovery` at the next start.
//!
//! In the state folder, `history/NUMBER.json.gz` is a committed configuration with its author, time and comment, and
//! `confirm.json` the configuration to roll back to. Files are written under a temporary name, synced and renamed.

mod access;
mod author;
mod bulk;
mod candidate;
mod changed_node;
mod check;
mod choice;
mod commit;
mod confirm;
mod device_mtu;
mod difference;
mod disk;
mod earlier;
mod edit;
pub mod hash_seed;
mod history;
mod lock;
mod lock_holder;
mod part;
mod part_commit;
mod recovery;
mod refusal;
mod reported;
mod rollback;
mod saver;
mod snapshot;
mod startup_file;
pub mod stored_text;
mod stores;
mod unconfirmed;

use std::path::PathBuf;
use std::sync::Arc;

use yang5::data::DataTree;

pub use author::{AccessPath, Author, Client, Credential, Store};
pub use commit::{Commit, Committed, Origin};
pub use difference::{Change, Kind, between, change, visit};
pub use earlier::{Earlier, Outcome};
pub use edit::Edit;
pub use history::{Entry, HISTORY_LIMIT};
pub use lock::LockGuard;
pub use lock_holder::LockHolder;
pub(crate) use recovery::past_text;
pub use recovery::{is_unsaved, recover};
pub use refusal::Refusal;
pub use snapshot::Snapshot;
pub use stores::{Datastore, Event};
pub use unconfirmed::Unconfirmed;

use crate::apply::ForwarderConnection;
use crate::configuration::Configuration;
use crate::running::Running;
use crate::warning::Warning;
use candidate::Candidate;
use history::History;
use part::Part;
use refusal::to_completion;
use startup_file::StartupFile;
use stores::Stores;

/// A part if it suffices, and the trees before and after edits.
type Edited = (Option<Part>, Arc<DataTree<'static>>, DataTree<'static>);

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
        let configuration = connection.configuration();
        let text = configuration.as_ref().and_then(|it| it.text.get());
        let text = text.as_deref().unwrap_or("{}");
        let core = configuration.as_ref().map(|it| bulk::Core::of(it, &running));
        let running = Arc::new(Snapshot::new(running, 1));
        let file = StartupFile::read(&startup);
        if let Some(warning) =
            file.as_ref().and_then(|(_, text)| stoa_yang::secrets::exposed(&startup, text))
        {
            tracing::warn!("{warning}");
        }
        let startup_snapshot = match &file {
            Some((_, same)) if same == text => None,
            other => stoa_yang::data::parse(other.as_ref().map_or("{}", |(_, text)| text))
                .map(|tree| Arc::new(Snapshot::new(tree, 2)))
                .ok(),
        };
        // The file may have been edited meanwhile: then it is neither running nor the last saved configuration.
        let is_known = |now: &str| now == text || History::new(&state).is_newest(now);
        let file = file.filter(|(_, now)| !is_resumed || is_known(now));
        if !is_resumed {
            unconfirmed::end(&state, text);
        }
        let stores = Stores {
            candidate: Candidate::Running,
            is_edited: false,
            conflict: None,
            startup: startup_snapshot,
            running,
            core: core.and_then(Result::ok).flatten(),
            startup_file: file.map(|(file, _)| file),
            entry: None,
            is_unsaved: false,
            is_save_failing: recovery::is_unsaved(&state),
            revision: 2,
            holder: None,
            sessions: 0,
            unconfirmed: unconfirmed::read(&state),
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
    /// datastore has this revision. Returns the new revision.
    ///
    /// # Errors
    /// When an edit fails, another session has the lock, or running would be invalid. Then nothing changes.
    pub async fn edit(
        &self,
        author: &Author,
        store: Store,
        edits: Vec<Edit>,
        if_match: Option<u64>,
    ) -> Result<u64, Refusal> {
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
    ) -> Result<u64, Refusal> {
        let edited = self.edit_with_warnings(author, store, edits, if_match, commit).await;
        edited.map(|(revision, _)| revision)
    }

    /// As [`Self::edit_as`]. Returns the new revision and the warnings of a commit of running.
    ///
    /// # Errors
    /// As [`Self::edit`].
    pub async fn edit_with_warnings(
        &self,
        author: &Author,
        store: Store,
        edits: Vec<Edit>,
        if_match: Option<u64>,
        commit: Commit,
    ) -> Result<(u64, Vec<Warning>), Refusal> {
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
    ) -> Result<(u64, Vec<Warning>), Refusal> {
        let _one = self.inner.writer.lock().await;
        if store == Store::Startup {
            return Err(refusal::startup_is_read_only());
        }
        {
            let stores = self.stores();
            stores.check_lock(author)?;
            if if_match.is_some_and(|revision| revision != stores.revision_of(store)) {
                return Err(Refusal::Stale);
            }
        }
        // Parsing and copying a large tree would block other requests.
        let own = self.clone();
        let edited = tokio::task::spawn_blocking(move || own.edited(store, &edits));
        let (part, before, tree) = edited.await.map_err(refusal::panicked)??;
        if store == Store::Running {
            let mut warnings = Vec::new();
            if !between(&before, &tree)?.is_empty() {
                let after = Arc::new(Snapshot::new(tree, 0));
                let done = match part {
                    Some(part) => self.commit_part(author, part.with_after(after), commit).await?,
                    None => self.commit_tree(author, Arc::clone(&after.tree), commit).await?,
                };
                warnings = done.warnings;
                // First, since only some warnings fit into the headers of an answer.
                warnings.splice(..0, done.earlier.and_then(|earlier| earlier.warning()));
            }
            return Ok((self.revision(Store::Running), warnings));
        }
        let revision = {
            let mut stores = self.stores();
            let after = Arc::new(Snapshot::new(tree, stores.next_revision()));
            let revision = after.revision;
            stores.candidate = match part {
                Some(part) => Candidate::Part(part.with_after(after)),
                None => Candidate::Whole(after),
            };
            stores.is_edited = true;
            revision
        };
        self.publish(Event::Edited);
        Ok((revision, Vec::new()))
    }

    /// A datastore before and after these edits, without validation and without changing it. Both trees may lack what
    /// the edits do not change.
    ///
    /// # Errors
    /// When an edit fails.
    pub fn preview(
        &self,
        store: Store,
        edits: &[Edit],
    ) -> Result<(Arc<DataTree<'static>>, DataTree<'static>), Refusal> {
        let (_, before, after) = self.edited(store, edits)?;
        Ok((before, after))
    }

    /// A datastore, or the part of it that edits need, before and after them.
    fn edited(&self, store: Store, edits: &[Edit]) -> Result<Edited, Refusal> {
        let part = self.part(store, edits)?;
        let before = match &part {
            Some(part) => Arc::clone(&part.after.tree),
            None => Arc::clone(&self.tree(store).tree),
        };
        let after = edit::apply(&before, edits)?;
        Ok((part, before, after))
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
            stores.check_conflict()?;
            let revision = stores.revision_of(Store::Candidate);
            if commit.if_match.is_some_and(|seen| seen != revision) {
                return Err(Refusal::Stale);
            }
            stores.candidate.clone()
        };
        match candidate {
            Candidate::Part(part) => self.commit_part(author, part, &commit).await,
            Candidate::Running | Candidate::Whole(_) => {
                let tree = Arc::clone(&self.tree(Store::Candidate).tree);
                self.commit_tree(author, tree, &commit).await
            }
        }
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
        self.save_unsaved().await?;
        // The file does not contain the unconfirmed commit, which would be lost silently.
        if self.unconfirmed().is_some() {
            return Err(refusal::one(
                &file.display().to_string(),
                "a commit waits for its confirmation and is not in this file",
                "Confirm it with `stoa commit` or roll it back with `stoa commit cancel`, then reload.",
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
