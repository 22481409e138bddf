//! The transaction: valid, written, taken by the forwarder, in its place; or nothing.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use stoa_api::v1;
use yang5::data::DataTree;

use super::access;
use super::confirm::Unconfirmed;
use super::disk::Fresh;
use super::refusal::{self, Refusal};
use super::snapshot::{self, Snapshot};
use super::{Author, Change, Client, Datastore, Event, Stores, between};
use crate::configuration::Configuration;

/// Pairs of changes that are compared to find a conflict.
const TOUCH_LIMIT: usize = 4_000_000;

/// How a commit is to be done.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// Why, for the history.
    pub comment: String,
    /// Undone by itself when it is not confirmed within this time.
    pub confirm_within: Option<Duration>,
    /// Writes the startup file though somebody else has changed it since it was read.
    pub is_overwriting: bool,
    /// Done though it takes away the way on which its author is connected.
    pub is_forced: bool,
    /// Where it comes from.
    pub origin: Origin,
    /// Only while the candidate has this revision: what was looked at is what is committed.
    pub if_match: Option<u64>,
}

/// Where a configuration comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// From a client: it is written to the startup file.
    #[default]
    Client,
    /// From the startup file, just now.
    Startup,
    /// From another file, for this once: the startup file stays.
    OtherFile,
    /// What was in force before a commit that is not confirmed: the startup file has it still.
    Back,
}

/// What a commit did.
#[derive(Clone, Debug)]
pub struct Committed {
    /// Its number in the history; 0: not there, since nothing changed or it waits for its confirmation.
    pub number: u64,
    /// What is different in the configuration.
    pub changes: Arc<[Change]>,
    /// What the forwarder did.
    pub applied: v1::Applied,
    /// What is odd but no fault.
    pub warnings: Vec<String>,
    /// Until when it has to be confirmed.
    pub confirm_by: Option<SystemTime>,
}

impl Datastore {
    /// Validates a tree, then as [`Self::take`].
    pub(super) async fn bring_into_force(
        &self,
        author: &Author,
        tree: impl Into<Arc<DataTree<'static>>>,
        commit: &Commit,
    ) -> Result<Committed, Refusal> {
        let (tree, startup) = (tree.into(), self.inner.startup.clone());
        let checked = tokio::task::spawn_blocking(move || {
            let text = snapshot::print(&tree)?;
            let found = Configuration::of_data(&startup, &text, &tree)
                .map_err(Refusal::ValidationErrors)?;
            Ok::<_, Refusal>((tree, found))
        });
        let (tree, configuration) = checked.await.map_err(refusal::broken)??;
        self.take(author, tree, configuration, commit).await
    }

    /// Brings a configuration that was found good into force. Who calls holds the writer.
    pub(super) async fn take(
        &self,
        author: &Author,
        tree: Arc<DataTree<'static>>,
        configuration: Configuration,
        commit: &Commit,
    ) -> Result<Committed, Refusal> {
        let running = self.tree(super::Store::Running);
        let changes: Arc<[Change]> = between(&running.tree, &tree)?.into();
        let is_waiting = self.unconfirmed().is_some();
        // To go back from nothing to the same is not worth a wait.
        let waits = commit.confirm_within.is_some() && (is_waiting || !changes.is_empty());
        if !waits && !commit.is_forced && commit.origin == Origin::Client {
            access::check(&self.inner.line, author, &configuration)?;
        }
        let kept = match waits {
            true => None,
            false if commit.origin == Origin::Back => None,
            false => Some(self.prepare(author, &running, &configuration.text, commit)?),
        };
        let earlier = self.unconfirmed();
        if let Some(within) = commit.confirm_within.filter(|_| waits) {
            let before = earlier.as_ref().map(|earlier| Ok(earlier.before.clone()));
            let before = before.unwrap_or_else(|| running.text())?;
            // In its place before the forwarder changes anything: who is cut off by the change, and by a crash on top
            // of it, gets back in all the same.
            self.wait_for(Some(Unconfirmed::new(author, within, before, &commit.comment)))?;
        }
        let (text, mut warnings) = (configuration.text.clone(), configuration.warnings());
        let applied = match self.inner.line.commit(configuration).await {
            Ok(applied) => applied,
            Err(error) => {
                if waits {
                    self.wait_for(earlier)?;
                }
                return Err(error.into());
            }
        };
        // Before the files are in their places: a controller that comes back finds what the forwarder holds, and
        // puts them there (`finish`).
        self.inner.running_file.keep(&self.inner.line);
        let (number, not_saved) = kept.map_or((0, None), Kept::place);
        if !waits {
            self.past().prune();
        }
        // What is not saved is not confirmed either.
        if !waits && not_saved.is_none() {
            self.wait_for(None)?;
        }
        let confirm_by = self.unconfirmed().map(|unconfirmed| unconfirmed.deadline);
        let is_kept = !waits && not_saved.is_none() && commit.origin.is_saved();
        warnings.extend(not_saved);
        self.note(author, tree, is_kept.then_some(text), number > 0 || waits);
        if !changes.is_empty() {
            let changes = Arc::clone(&changes);
            let Author { name, client, .. } = author;
            tracing::info!(author = name, %client, number, changes = changes.len(), "committed");
            self.tell(Event::Changed { author: author.clone(), number, changes });
        }
        for warning in &warnings {
            tracing::warn!("{warning}");
        }
        Ok(Committed { number, changes, applied, warnings, confirm_by })
    }

    /// As a controller that comes back: what was in force is in the startup file as well, unless a hand has edited
    /// that since the last commit, or it is not meant to be there.
    pub(super) fn finish(&self) -> Result<(), Refusal> {
        // As it was written, not as libyang prints it: a file that was edited by hand stays as it is.
        let Some(running) = self.inner.line.configuration() else { return Ok(()) };
        let running = running.text.as_str();
        let Some(startup) = self.stores().startup_text.clone() else { return Ok(()) };
        let past = self.past();
        if running == startup {
            // What waited was confirmed, and that was all that was left to do.
            return self.wait_for(None);
        }
        if self.unconfirmed().is_some() || !past.is_newest(&startup) {
            return Ok(());
        }
        let (number, history) =
            past.write(&stoa(), "finished after the controller had died", running)?;
        let startup = Some(Fresh::write(&self.inner.startup, running.as_bytes())?);
        if let (_, Some(reason)) = (Kept { startup, history: Some((number, history)) }).place() {
            return Err(Refusal::Disk(reason));
        }
        let mut stores = self.stores();
        stores.startup = Arc::clone(&stores.running);
        stores.startup_text = Some(running.to_owned());
        tracing::warn!(number, "finished a commit that was cut off");
        Ok(())
    }

    /// Writes what will be kept, not in its place yet: what fails by the disk fails before anything is changed.
    fn prepare(
        &self,
        author: &Author,
        running: &Snapshot,
        text: &str,
        commit: &Commit,
    ) -> Result<Kept, Refusal> {
        let now = startup_now(&self.inner.startup)?;
        let known = self.stores().startup_text.clone();
        let known = if commit.origin == Origin::Startup { Some(text.to_owned()) } else { known };
        let is_foreign = now.is_some() && now != known.clone().map(String::into_bytes);
        let may_overwrite = commit.is_overwriting || commit.origin == Origin::OtherFile;
        if is_foreign && !may_overwrite {
            let file = self.inner.startup.display();
            return Err(refusal::one(
                &file.to_string(),
                "the startup file was changed by another hand since it was read",
                "`stoa reload` brings its content into force; a commit that overwrites loses it.",
            ));
        }
        let past = self.past();
        // What was in force before the first commit of all, or came with an edited file at the start.
        let before = match self.unconfirmed() {
            Some(unconfirmed) => unconfirmed.before,
            None => match self.stores().startup_text.clone() {
                Some(known) => known,
                None => running.text()?,
            },
        };
        if !past.is_newest(&before) {
            let (_, file) = past.write(&file(), "", &before)?;
            file.place().map_err(|error| Refusal::Disk(format!("the history: {error}")))?;
        }
        let history = match past.is_newest(text) {
            true => None,
            false => Some(past.write(author, &commit.comment, text)?),
        };
        let stays = !commit.origin.is_saved() || now.as_deref() == Some(text.as_bytes());
        let startup = match stays {
            true => None,
            false => Some(Fresh::write(&self.inner.startup, text.as_bytes())?),
        };
        Ok(Kept { startup, history })
    }

    /// What is in force now, and what follows from it for the other datastores.
    fn note(
        &self,
        author: &Author,
        tree: Arc<DataTree<'static>>,
        startup: Option<String>,
        is_new: bool,
    ) {
        let mut stores = self.stores();
        let revision = stores.next();
        let before = Arc::clone(&stores.running);
        let running = Arc::new(Snapshot::new(tree, revision));
        follow(&mut stores, author, &before, &running);
        stores.running = Arc::clone(&running);
        if let Some(text) = startup {
            stores.startup = running;
            stores.startup_text = Some(text);
        }
        drop(stores);
        if is_new {
            self.tell(Event::Edited);
        }
    }
}

impl Origin {
    /// Whether the startup file has it afterwards.
    fn is_saved(self) -> bool {
        !matches!(self, Origin::OtherFile | Origin::Back)
    }
}

/// The bytes of the startup file; `None`: there is none.
fn startup_now(file: &std::path::Path) -> Result<Option<Vec<u8>>, Refusal> {
    match std::fs::read(file) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Refusal::Disk(format!("{} cannot be read: {error}", file.display()))),
    }
}

/// Whether two differences are about the same: one changes what the other changes, or what is below.
fn touch(mine: &[Change], theirs: &[Change]) -> bool {
    let is_below = |above: &str, path: &str| {
        path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    // Beyond that, comparing takes longer than to do the work again.
    mine.len() * theirs.len() > TOUCH_LIMIT
        || mine.iter().any(|one| {
            theirs.iter().any(|other| {
                let is_gone = |it: &Change| it.kind == super::Kind::Delete;
                one.path == other.path
                    || is_gone(other) && is_below(&other.path, &one.path)
                    || is_gone(one) && is_below(&one.path, &other.path)
            })
        })
}

/// The candidate is running again when it was committed or never edited; else what was edited stays edited.
fn follow(stores: &mut Stores, author: &Author, before: &Snapshot, running: &Arc<Snapshot>) {
    let is_same = |one: &Arc<DataTree<'static>>, other: &Arc<DataTree<'static>>| {
        Arc::ptr_eq(one, other) || between(one, other).is_ok_and(|changes| changes.is_empty())
    };
    if !stores.is_edited || is_same(&stores.candidate.tree, &running.tree) {
        stores.candidate = Arc::clone(running);
        (stores.is_edited, stores.conflict) = (false, None);
        return;
    }
    let mine = between(&before.tree, &stores.candidate.tree).unwrap_or_default();
    let theirs = between(&before.tree, &running.tree).unwrap_or_default();
    let conflict = Some(format!("{} ({})", author.name, author.client));
    if touch(&mine, &theirs) {
        stores.conflict = conflict;
        return;
    }
    let moved = || {
        let flags = yang5::data::DataDiffFlags::empty();
        let diff = before.tree.diff(&stores.candidate.tree, flags)?;
        let mut tree = running.tree.duplicate()?;
        tree.diff_apply(&diff).map(|()| tree)
    };
    let (moved, _) = crate::yang::listen(moved);
    match moved {
        Ok(tree) => {
            let revision = stores.next();
            stores.candidate = Arc::new(Snapshot::new(tree, revision));
        }
        Err(_) => stores.conflict = conflict,
    }
}

/// Files that wait to be put into their places.
struct Kept {
    startup: Option<Fresh>,
    history: Option<(u64, Fresh)>,
}

impl Kept {
    /// The number in the history, and why it is not saved.
    fn place(self) -> (u64, Option<String>) {
        if let Some(Err(error)) = self.startup.map(Fresh::place) {
            let reason =
                format!("in force, but not saved: the startup file cannot be replaced: {error}");
            return (0, Some(reason));
        }
        match self.history.map(|(number, file)| (number, file.place())) {
            Some((number, Ok(()))) => (number, None),
            Some((_, Err(error))) => {
                tracing::error!("the history: {error}");
                (0, None)
            }
            None => (0, None),
        }
    }
}

/// The file that Stoa was started with.
fn file() -> Author {
    Author::new("startup file", Client::File)
}

/// Stoa itself, when a time is over.
pub(super) fn stoa() -> Author {
    Author::new("stoa", Client::Stoa)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_startup_file_that_cannot_be_replaced_is_told_and_has_no_number() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("stoa.json");
        let startup = Fresh::write(&place, b"{}").unwrap();
        std::fs::create_dir_all(place.join("full")).unwrap();
        let past = folder.path().join("7.json.gz");
        let history = Fresh::write(&past, b"{}").unwrap();
        let kept = Kept { startup: Some(startup), history: Some((7, history)) };
        let (number, reason) = kept.place();
        assert_eq!(number, 0);
        assert!(reason.unwrap().starts_with("in force, but not saved: the startup file"));
        assert!(!past.exists(), "the history has only what is saved");
    }
}
