//! The datastores (RFC 8342): candidate, running and startup, and what became of them.
//!
//! Every client comes here to change what is desired. A change of running is one transaction: valid by YANG, valid
//! by the capabilities, written to disk, taken by the forwarder; or refused with every reason, and nothing is
//! changed. Startup is the file that Stoa was started with: a commit writes it, so that what runs is what comes
//! back. Only a commit that still waits for its confirmation is in running alone.
//!
//! On disk, in the folder of the state:
//! `history/NUMBER.json.gz` holds each configuration that was in force with who, when and why, and `confirm.json`
//! what to go back to when a commit is not confirmed. Files are written beside their place, synced and renamed.

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

pub use access::{Proof, Way};
pub use author::{Author, Client, Store};
pub use commit::{Commit, Committed, Origin};
pub use confirm::Unconfirmed;
pub use difference::{Change, Kind, between, change_of, visit};
pub use edit::Edit;
pub use history::{Entry, HISTORY_LIMIT};
pub use lock::{Held, Holder};
pub use refusal::Refusal;
pub use snapshot::{Snapshot, parse};

use crate::apply::Line;
use crate::configuration::Configuration;
use crate::running::Running;
use history::History;

/// Events that a slow listener may be behind; older ones are lost to it.
const EVENTS: usize = 256;

/// Something that happened to the datastores.
#[derive(Clone, Debug)]
pub enum Event {
    /// Running changed: who did it, and in what.
    Changed {
        /// The author.
        author: Author,
        /// The number in the history; 0: not there yet, the commit waits for its confirmation.
        number: u64,
        /// What is different now.
        changes: Arc<[Change]>,
    },
    /// The candidate changed.
    Edited,
}

/// The datastores of one Stoa. Clones are the same ones.
#[derive(Clone, Debug)]
pub struct Datastore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    line: Arc<Line>,
    /// The file of the startup datastore.
    startup: PathBuf,
    /// The folder of the state.
    state: PathBuf,
    running_file: Running,
    stores: Mutex<Stores>,
    /// One change of running at a time.
    writer: tokio::sync::Mutex<()>,
    events: broadcast::Sender<Event>,
    /// The time to go back has come nearer, or is not to come any more.
    clock: Notify,
}

#[derive(Debug)]
struct Stores {
    candidate: Arc<Snapshot>,
    /// The candidate is something else than running.
    is_edited: bool,
    /// Why the candidate cannot follow a running that changed under it.
    conflict: Option<String>,
    running: Arc<Snapshot>,
    startup: Arc<Snapshot>,
    /// The text of the startup file as it was last read or written; `None`: whatever stands there is a hand's.
    startup_text: Option<String>,
    /// Snapshots made so far.
    made: u64,
    holder: Option<Holder>,
    sessions: u64,
    unconfirmed: Option<Unconfirmed>,
}

impl Stores {
    /// Something else than any snapshot before.
    fn next(&mut self) -> u64 {
        self.made += 1;
        self.made
    }
}

impl Datastore {
    /// The datastores over `line`, whose configuration is in force or about to be, and as data is `running`. `startup`
    /// is the file that Stoa was started with; `state` the folder for the rest, which is made when it is first needed.
    /// `is_resumed`: the configuration was in force when another controller ended, not read from the file.
    pub fn open(
        line: Arc<Line>,
        running: DataTree<'static>,
        startup: PathBuf,
        state: PathBuf,
        running_file: Running,
        is_resumed: bool,
    ) -> Datastore {
        let desired = line.configuration();
        let text = desired.as_ref().map_or("{}", |it| it.text.as_str());
        let running = Arc::new(Snapshot::new(running, 1));
        let startup_text = std::fs::read_to_string(&startup).ok();
        let held = match startup_text.as_deref() {
            Some(same) if same == text => Ok(Arc::clone(&running)),
            other => {
                snapshot::parse(other.unwrap_or("{}")).map(|tree| Arc::new(Snapshot::new(tree, 2)))
            }
        };
        // While nobody looked it may have been edited: then it is neither what runs nor what was saved last.
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
            startup: held.unwrap_or_else(|_| Arc::clone(&running)),
            running,
            startup_text,
            made: 2,
            holder: None,
            sessions: 0,
            unconfirmed,
        };
        let (events, _) = broadcast::channel(EVENTS);
        let inner = Inner {
            line,
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
            tracing::error!("what is in force is not in the startup file: {refusal}");
        }
        datastore
    }

    /// The line to the forwarder.
    pub fn line(&self) -> &Arc<Line> {
        &self.inner.line
    }

    /// The folder of the state: keys, users' tokens, logs of who did what.
    pub fn state(&self) -> &std::path::Path {
        &self.inner.state
    }

    /// Makes that folder, for the owner alone.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn make_state(&self) -> Result<(), Refusal> {
        disk::make(&self.inner.state)
    }

    /// What happens from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.inner.events.subscribe()
    }

    /// A datastore as it is now.
    pub fn tree(&self, store: Store) -> Arc<Snapshot> {
        let stores = self.stores();
        Arc::clone(match store {
            Store::Candidate => &stores.candidate,
            Store::Running => &stores.running,
            Store::Startup => &stores.startup,
        })
    }

    /// Whether the candidate is something else than running.
    pub fn is_edited(&self) -> bool {
        self.stores().is_edited
    }

    /// A commit that waits for its confirmation.
    pub fn unconfirmed(&self) -> Option<Unconfirmed> {
        self.stores().unconfirmed.clone()
    }

    /// What `new` has that `old` has not, and the other way round.
    ///
    /// # Errors
    /// When libyang cannot compare them.
    pub fn difference(&self, old: Store, new: Store) -> Result<Vec<Change>, Refusal> {
        between(&self.tree(old).tree, &self.tree(new).tree)
    }

    /// The configurations that were in force, newest first.
    pub fn history(&self) -> Vec<Entry> {
        self.past().list()
    }

    /// A configuration that was in force, by its number in the history.
    ///
    /// # Errors
    /// When there is none of that number, or it cannot be read.
    pub fn past_tree(&self, number: u64) -> Result<Snapshot, Refusal> {
        Ok(Snapshot::new(snapshot::parse(&self.past().text(number)?)?, 0))
    }

    fn past(&self) -> History {
        History::new(&self.inner.state)
    }

    fn stores(&self) -> MutexGuard<'_, Stores> {
        self.inner.stores.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, event: Event) {
        // Nobody has to listen.
        let _ = self.inner.events.send(event);
    }

    /// Changes a datastore: the candidate as it is, without looking at the whole; running as one transaction.
    /// With `if_match`, only when its revision is still that.
    ///
    /// # Errors
    /// When an edit cannot be made, somebody else has the lock, or running would not be valid. Then nothing is
    /// changed.
    pub async fn edit(
        &self,
        author: &Author,
        store: Store,
        edits: Vec<Edit>,
        if_match: Option<u64>,
    ) -> Result<Arc<Snapshot>, Refusal> {
        self.edit_as(author, store, edits, if_match, Commit::default()).await
    }

    /// As [`Self::edit`]; a change of running is committed as `commit` says.
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
        whole(async move { own.edit_now(&author, store, edits, if_match, &commit).await }).await
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
            Store::Startup => return Err(refusal::startup_follows()),
            store => self.tree(store),
        };
        if if_match.is_some_and(|revision| revision != before.revision) {
            return Err(Refusal::Stale);
        }
        // Parsing and copying of a large tree is not for the thread that answers others.
        let made = tokio::task::spawn_blocking(move || edit::apply(&before.tree, &edits));
        let tree = made.await.map_err(refusal::broken)??;
        if store == Store::Running {
            if between(&self.tree(store).tree, &tree)?.is_empty() {
                return Ok(self.tree(store));
            }
            self.bring_into_force(author, tree, commit).await?;
            return Ok(self.tree(Store::Running));
        }
        let edited = {
            let mut stores = self.stores();
            let revision = stores.next();
            stores.candidate = Arc::new(Snapshot::new(tree, revision));
            stores.is_edited = true;
            Arc::clone(&stores.candidate)
        };
        self.tell(Event::Edited);
        Ok(edited)
    }

    /// What a datastore would be with these edits, not looked at as a whole; nothing is changed.
    ///
    /// # Errors
    /// When an edit cannot be made.
    pub fn preview(&self, store: Store, edits: &[Edit]) -> Result<DataTree<'static>, Refusal> {
        edit::apply(&self.tree(store).tree, edits)
    }

    /// Brings the candidate into force: all of it or none of it.
    ///
    /// # Errors
    /// Every reason why it cannot be; running and the candidate stay as they are.
    pub async fn commit(&self, author: &Author, commit: Commit) -> Result<Committed, Refusal> {
        let (own, author) = (self.clone(), author.clone());
        whole(async move { own.commit_now(&author, commit).await }).await
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
        self.bring_into_force(author, Arc::clone(&candidate.tree), &commit).await
    }

    /// Reads a file and brings it into force: `stoa reload`. Another file than the startup one is in force until Stoa
    /// ends or a commit keeps it.
    ///
    /// # Errors
    /// What is wrong with the file, and as [`Self::commit`].
    pub async fn load(&self, author: &Author, file: PathBuf) -> Result<Committed, Refusal> {
        let (own, author) = (self.clone(), author.clone());
        whole(async move { own.load_now(&author, file).await }).await
    }

    async fn load_now(&self, author: &Author, file: PathBuf) -> Result<Committed, Refusal> {
        // Read with the writer held: no commit comes between.
        let _one = self.inner.writer.lock().await;
        lock::check(self.stores().holder.as_ref(), author)?;
        // The file knows nothing of a commit that waits: it would be gone without a word.
        if self.unconfirmed().is_some() {
            return Err(refusal::one(
                &file.display().to_string(),
                "a commit waits for its confirmation, and is not in this file",
                "`stoa commit` confirms it, `stoa commit cancel` goes back; then reload.",
            ));
        }
        let origin = match file == self.inner.startup {
            true => Origin::Startup,
            false => Origin::OtherFile,
        };
        let read = tokio::task::spawn_blocking(move || {
            Configuration::read_as_data(&file).map_err(Refusal::ValidationErrors)
        });
        let (configuration, tree) = read.await.map_err(refusal::broken)??;
        let commit = Commit { origin, ..Commit::default() };
        self.take(author, tree.into(), configuration, &commit).await
    }
}

/// Does it to its end, even when who asked does not wait any more.
async fn whole<T: Send + 'static>(
    work: impl Future<Output = Result<T, Refusal>> + Send + 'static,
) -> Result<T, Refusal> {
    tokio::spawn(work).await.map_err(refusal::broken)?
}
