//! The commit: validate, write the new files, apply in the forwarder, rename the files; or change nothing.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use stoa_api::v1;
use yang5::data::DataTree;

use super::access;
use super::author::{Author, Store, file_author, stoa};
use super::bulk::Core;
use super::changed_node::errors_at;
use super::device_mtu;
use super::difference::{Change, between};
use super::disk::NewFile;
use super::earlier::Earlier;
use super::refusal::{self, Refusal};
use super::snapshot::Snapshot;
use super::startup_file::StartupFile;
use super::stores::{Datastore, Event};
use super::unconfirmed::Unconfirmed;
use crate::acl::judged_flows;
use crate::configuration::Configuration;
use crate::warning::Warning;

/// The parameters of a commit.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// For the history.
    pub comment: String,
    /// Rolled back unless it is confirmed within this time.
    pub confirm_within: Option<Duration>,
    /// Writes the startup file even if it was edited since it was read.
    pub is_overwriting: bool,
    /// Commits even if it cuts off its author.
    pub is_forced: bool,
    /// The source of the configuration.
    pub origin: Origin,
    /// Commits only if the candidate has this revision.
    pub if_match: Option<u64>,
}

/// The source of a configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// A client. The commit writes it to the startup file.
    #[default]
    Client,
    /// The startup file.
    Startup,
    /// Another file. The startup file stays unchanged.
    OtherFile,
    /// The configuration before a commit that was not confirmed. The startup file still has it.
    Revert,
}

/// The result of a commit.
#[derive(Clone, Debug)]
pub struct Committed {
    /// Its number in the history; 0: none, since nothing changed or it waits for its confirmation.
    pub number: u64,
    /// The changes of the configuration.
    pub changes: Arc<[Change]>,
    /// The changes of the forwarder.
    pub applied: v1::Applied,
    /// Problems that do not prevent the commit.
    pub warnings: Vec<Warning>,
    /// The deadline of its confirmation.
    pub confirm_by: Option<SystemTime>,
    /// The commit that waited for its confirmation before this one.
    pub earlier: Option<Earlier>,
}

impl Datastore {
    /// Validates and commits a tree.
    pub(super) async fn commit_tree(
        &self,
        author: &Author,
        tree: impl Into<Arc<DataTree<'static>>>,
        commit: &Commit,
    ) -> Result<Committed, Refusal> {
        let (tree, startup) = (tree.into(), self.inner.startup.clone());
        let running = Arc::clone(&self.tree(Store::Running).tree);
        let validated = tokio::task::spawn_blocking(move || {
            let text = stoa_yang::data::print(&tree)?;
            let found = Configuration::of_data(&startup, &text, &tree).map_err(|errors| {
                let changes = between(&running, &tree).unwrap_or_default();
                Refusal::Invalid(errors_at(&changes, errors))
            })?;
            Ok::<_, Refusal>((tree, found))
        });
        let (tree, configuration) = validated.await.map_err(refusal::panicked)??;
        self.commit_valid(author, tree, configuration, commit).await
    }

    /// Commits a valid configuration. The caller holds the writer.
    pub(super) async fn commit_valid(
        &self,
        author: &Author,
        tree: Arc<DataTree<'static>>,
        configuration: Configuration,
        commit: &Commit,
    ) -> Result<Committed, Refusal> {
        let _saving = self.inner.saving.lock().await;
        self.save_now().await?;
        let running = self.tree(Store::Running);
        let changes: Arc<[Change]> = between(&running.tree, &tree)?.into();
        let unconfirmed = self.unconfirmed();
        // Without changes there is nothing to confirm.
        let waits =
            commit.confirm_within.is_some() && (unconfirmed.is_some() || !changes.is_empty());
        if !waits && !commit.is_forced && commit.origin == Origin::Client {
            access::check(&self.inner.connection, author, &configuration)?;
        }
        let text = configuration.text.get().unwrap_or_default();
        let mut files = match waits {
            true => None,
            false if commit.origin == Origin::Revert => None,
            false => Some(self.prepare(author, &running, &text, commit)?),
        };
        if let Some(within) = commit.confirm_within.filter(|_| waits) {
            let before = unconfirmed.as_ref().map(|earlier| Ok(earlier.before.clone()));
            let before = before.unwrap_or_else(|| running.text())?;
            // Written before the forwarder changes anything, so that even after a crash the commit is rolled back.
            self.set_unconfirmed(Some(Unconfirmed::new(author, within, before, &commit.comment)))?;
        }
        let (kept, mut found) = (configuration.text.clone(), configuration.warnings());
        let note = files.as_mut().and_then(NewFiles::take_note).map(Warning::of_machine);
        let core = Core::of(&configuration, &tree)?;
        let mtus = device_mtu::desired(&configuration);
        let applied = match self.inner.connection.commit(configuration).await {
            Ok(applied) => applied,
            Err(error) => {
                if waits {
                    self.set_unconfirmed(unconfirmed)?;
                }
                return Err(error.into());
            }
        };
        found.extend(device_mtu::warnings(&self.inner.connection, &mtus).await);
        let is_of_file = commit.origin != Origin::Client;
        let mut warnings = self.inner.reported.of_commit(found, &changes, is_of_file);
        warnings.extend(note);
        if commit.origin == Origin::Client {
            warnings.extend(judged_flows(&applied));
        }
        // Before the files are renamed: a restarted controller reads the configuration of the forwarder there and
        // renames them (`finish`).
        self.inner.running_file.store(&self.inner.connection);
        let (number, not_saved) = files.map_or((0, None), NewFiles::rename);
        if !waits {
            self.history_files().prune();
        }
        // A commit that is not saved is not confirmed.
        if !waits && not_saved.is_none() {
            self.set_unconfirmed(None)?;
        }
        let left = self.unconfirmed();
        let earlier = unconfirmed.map(|it| Earlier::of(it, author, left.as_ref(), commit.origin));
        let is_saved = !waits && not_saved.is_none() && commit.origin.is_saved();
        warnings.extend(not_saved.map(Warning::of_machine));
        if core.is_some() {
            // Long, and in the files.
            kept.forget();
        }
        let startup = is_saved.then(|| StartupFile::new(&self.inner.startup, &text));
        let entry = (number > 0 && core.is_some()).then_some(number);
        self.update_stores(author, (tree, core), (startup, entry), number > 0 || waits);
        self.inner.saver.notify_one();
        if !changes.is_empty() {
            let changes = Arc::clone(&changes);
            let Author { name, client, .. } = author;
            // A commit that waits for its confirmation has no number.
            let numbered = (number > 0).then_some(number);
            tracing::info!(author = name, %client, number = numbered, changed_nodes = changes.len(), "committed");
            self.publish(Event::Changed { author: author.clone(), number, changes });
        }
        for warning in &warnings {
            tracing::warn!("{warning}");
        }
        let confirm_by = left.map(|unconfirmed| unconfirmed.deadline);
        Ok(Committed { number, changes, applied, warnings, confirm_by, earlier })
    }

    /// Completes a commit after a restart of the controller: writes the running configuration to the startup file,
    /// unless that was edited by hand since the last commit, or the commit was not to be saved.
    pub(super) fn finish(&self) -> Result<(), Refusal> {
        // The original text, not that of libyang: the formatting of an edited file is kept.
        let Some(running) = self.inner.connection.configuration() else { return Ok(()) };
        let Some(running) = running.text.get() else { return Ok(()) };
        let known = self.stores().startup_file.clone();
        let Some(startup) = known.and_then(|known| known.text(&self.inner.startup)) else {
            return Ok(());
        };
        let past = self.history_files();
        if running == startup {
            // The commit was confirmed and saved; only `confirm.json` was left.
            return self.set_unconfirmed(None);
        }
        if self.unconfirmed().is_some() || !past.is_newest(&startup) {
            return Ok(());
        }
        let (number, history) =
            past.write(&stoa(), "completed after a restart of the controller", &running)?;
        let startup = Some(NewFile::write(&self.inner.startup, running.as_bytes())?);
        if let (_, Some(reason)) = (NewFiles { startup, history: Some((number, history)) }).rename()
        {
            return Err(Refusal::Disk(reason));
        }
        let mut stores = self.stores();
        stores.startup = None;
        stores.startup_file = Some(StartupFile::new(&self.inner.startup, &running));
        tracing::warn!(number, "completed an interrupted commit");
        Ok(())
    }

    /// Writes the new files under temporary names, so that a disk error occurs before anything changes.
    fn prepare(
        &self,
        author: &Author,
        running: &Snapshot,
        text: &str,
        commit: &Commit,
    ) -> Result<NewFiles, Refusal> {
        let now = startup_now(&self.inner.startup)?;
        let known = self.stores().startup_file.clone();
        let is_foreign = now.as_deref().is_some_and(|now| match (commit.origin, &known) {
            (Origin::Startup, _) => now != text.as_bytes(),
            (_, Some(known)) => !known.is(now),
            (_, None) => true,
        });
        let may_overwrite = commit.is_overwriting || commit.origin == Origin::OtherFile;
        if is_foreign && !may_overwrite {
            let file = self.inner.startup.display();
            return Err(refusal::one(
                &file.to_string(),
                "the startup file was edited since it was read",
                "`stoa reload` applies it; `stoa commit overwrite` replaces it.",
            ));
        }
        let past = self.history_files();
        // The configuration before the first commit, or of a file that was edited before the start.
        let before = match self.unconfirmed() {
            Some(unconfirmed) => unconfirmed.before,
            None => match known.and_then(|known| known.text(&self.inner.startup)) {
                Some(known) => known.as_ref().to_owned(),
                None => running.text()?,
            },
        };
        if !past.is_newest(&before) {
            let (_, file) = past.write(&file_author(), "", &before)?;
            file.rename().map_err(|error| Refusal::Disk(format!("the history: {error}")))?;
        }
        let history = match past.is_newest(text) {
            true => None,
            false => Some(past.write(author, &commit.comment, text)?),
        };
        let stays = !commit.origin.is_saved() || now.as_deref() == Some(text.as_bytes());
        let startup = match stays {
            true => None,
            false => Some(NewFile::write(&self.inner.startup, text.as_bytes())?),
        };
        Ok(NewFiles { startup, history })
    }

    /// Sets the running datastore, a tree with its core, and updates the others.
    fn update_stores(
        &self,
        author: &Author,
        (tree, core): (Arc<DataTree<'static>>, Option<Core>),
        (startup, entry): (Option<StartupFile>, Option<u64>),
        is_new: bool,
    ) {
        let mut stores = self.stores();
        let revision = stores.next_revision();
        let before = Arc::clone(&stores.running);
        let running = Arc::new(Snapshot::new(tree, revision));
        stores.rebase_candidate(author, &before, &running);
        if let Some(file) = startup {
            (stores.startup, stores.startup_file) = (None, Some(file));
        } else if stores.startup.is_none() {
            stores.startup = Some(before);
        }
        (stores.running, stores.core, stores.entry) = (running, core, entry);
        drop(stores);
        if is_new {
            self.publish(Event::Edited);
        }
    }
}

impl Origin {
    /// Whether the startup file has the configuration after the commit.
    fn is_saved(self) -> bool {
        !matches!(self, Origin::OtherFile | Origin::Revert)
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

/// The new files of a commit under temporary names.
struct NewFiles {
    startup: Option<NewFile>,
    history: Option<(u64, NewFile)>,
}

impl NewFiles {
    /// What to say about the mode of the startup file.
    fn take_note(&mut self) -> Option<String> {
        self.startup.as_mut().and_then(NewFile::take_note)
    }

    /// Renames them. Returns the number in the history, and why the configuration is not saved.
    fn rename(self) -> (u64, Option<String>) {
        if let Some(Err(error)) = self.startup.map(NewFile::rename) {
            let reason =
                format!("in effect, but not saved: the startup file cannot be replaced: {error}");
            return (0, Some(reason));
        }
        match self.history.map(|(number, file)| (number, file.rename())) {
            Some((number, Ok(()))) => (number, None),
            Some((_, Err(error))) => {
                tracing::error!("the history: {error}");
                (0, None)
            }
            None => (0, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_startup_file_that_cannot_be_replaced_is_reported_without_a_number() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("stoa.json");
        let startup = NewFile::write(&target, b"{}").unwrap();
        std::fs::create_dir_all(target.join("full")).unwrap();
        let past = folder.path().join("7.json.gz");
        let history = NewFile::write(&past, b"{}").unwrap();
        let files = NewFiles { startup: Some(startup), history: Some((7, history)) };
        let (number, reason) = files.rename();
        assert_eq!(number, 0);
        assert!(reason.unwrap().starts_with("in effect, but not saved: the startup file"));
        assert!(!past.exists(), "the history has only saved configurations");
    }
}
