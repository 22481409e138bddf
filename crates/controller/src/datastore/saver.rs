//! Writes the startup file after commits of parts, when nothing else is to do, and prepares them.

use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::author::file_author;
use super::disk::NewFile;
use super::history::CHAIN_LIMIT;
use super::recovery;
use super::refusal::{self, Refusal};
use super::startup_file::StartupFile;
use super::stores::Datastore;

/// The startup file is written when there was no commit for this time.
const QUIET: Duration = Duration::from_secs(1);
/// It is written after this time even if the commits do not stop, so that the history stays short.
const LONGEST: Duration = Duration::from_secs(10);

/// What a save has written.
struct Saved {
    /// The revision of running that is in the startup file.
    revision: u64,
    /// Its entry of the history, if it is known.
    entry: Option<u64>,
    /// The file; `None`: it was edited, and stays.
    file: Option<StartupFile>,
}

/// Waits until there was no commit for `quiet`, but no longer than `longest`.
async fn wait_for_quiet(commits: &Notify, quiet: Duration, longest: Duration) {
    let end = Instant::now() + longest;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || timeout(quiet.min(left), commits.notified()).await.is_err() {
            return;
        }
    }
}

impl Datastore {
    /// Saves what is not saved and prepares the commits of parts. Never returns.
    pub async fn run_saver(&self) {
        // The running configuration is stored before its text is given up.
        while !self.inner.running_file.exists() {
            tokio::time::sleep(QUIET).await;
        }
        loop {
            if let Err(refusal) = self.prepare_entry().await {
                tracing::warn!("the history: {refusal}");
            }
            self.inner.saver.notified().await;
            wait_for_quiet(&self.inner.saver, QUIET, LONGEST).await;
            if let Err(refusal) = self.save_beside_commits().await {
                tracing::error!("the startup file is not saved: {refusal}; trying again");
                self.inner.saver.notify_one();
            }
        }
    }

    /// Writes the startup file if it is older than running, or than the history that an earlier Stoa left. The caller
    /// holds the writer.
    ///
    /// # Errors
    /// When a file cannot be written. Until it can, every commit is refused with this error.
    pub(super) async fn save_unsaved(&self) -> Result<(), Refusal> {
        let _saving = self.inner.saving.lock().await;
        self.save_now().await
    }

    /// As [`Self::save_unsaved`]. The caller holds both locks.
    pub(super) async fn save_now(&self) -> Result<(), Refusal> {
        match self.write_startup().await? {
            Some(saved) => self.settle(&saved),
            None => Ok(()),
        }
    }

    /// Writes the startup file while commits of parts go on, which are in the next save then.
    async fn save_beside_commits(&self) -> Result<(), Refusal> {
        let saved = {
            let _saving = self.inner.saving.lock().await;
            self.write_startup().await?
        };
        let Some(saved) = saved else { return Ok(()) };
        let _one = self.inner.writer.lock().await;
        let _saving = self.inner.saving.lock().await;
        self.settle(&saved)
    }

    /// Writes the startup file if that is needed. The caller holds `saving`.
    async fn write_startup(&self) -> Result<Option<Saved>, Refusal> {
        let (is_unsaved, is_failing) = {
            let stores = self.stores();
            (stores.is_unsaved, stores.is_save_failing)
        };
        if !is_unsaved && !is_failing {
            return Ok(None);
        }
        let own = self.clone();
        let saved = tokio::task::spawn_blocking(move || match is_unsaved {
            true => own.save().map(Some),
            false => own.recover_late().map(|()| None),
        });
        let saved = saved.await.map_err(refusal::panicked)?;
        self.stores().is_save_failing = saved.is_err();
        saved
    }

    /// Notes what a save has reached: all commits, or those up to its entry. The caller holds both locks.
    fn settle(&self, saved: &Saved) -> Result<(), Refusal> {
        let mut stores = self.stores();
        let file = stores.startup_file.as_ref().zip(saved.file.as_ref());
        // Or there was another save since.
        let is_last = saved.file.is_none() || file.is_some_and(|(now, own)| now.is_same_write(own));
        if !stores.is_unsaved || !is_last {
            return Ok(());
        }
        if stores.running.revision == saved.revision {
            recovery::unmark(&self.inner.state);
            stores.is_unsaved = false;
            return Ok(());
        }
        match saved.entry {
            Some(entry) => recovery::mark(&self.inner.state, entry),
            None => Ok(()),
        }
    }

    /// Does what failed at the start: writes the commits of an earlier Stoa, which are not running, to the startup
    /// file. Then that file is as if it was edited: a reload applies it.
    fn recover_late(&self) -> Result<(), Refusal> {
        recovery::recover(&self.inner.startup, &self.inner.state)?;
        self.stores().startup_file = None;
        Ok(())
    }

    /// Saves at the end of the process.
    pub async fn end(&self) {
        let _one = self.inner.writer.lock().await;
        if let Err(refusal) = self.save_unsaved().await {
            // The next start does it.
            tracing::warn!("the startup file is not saved: {refusal}");
        }
    }

    fn save(&self) -> Result<Saved, Refusal> {
        let (running, known, entry) = {
            let stores = self.stores();
            (stores.running.clone(), stores.startup_file.clone(), stores.entry)
        };
        let (startup, state) = (&self.inner.startup, &self.inner.state);
        let mut saved = Saved { revision: running.revision, entry, file: None };
        let is_foreign = !known.is_some_and(|known| {
            known.is_untouched(startup) || std::fs::read(startup).is_ok_and(|now| known.is(&now))
        });
        // The next commit is refused, as after every edit by hand.
        if is_foreign && startup.exists() {
            tracing::warn!(
                "{}: edited since Stoa read it; commits are not saved there. `stoa reload` applies the edits, \
                 `stoa commit overwrite` replaces them.",
                startup.display()
            );
            return Ok(saved);
        }
        let text = running.text()?;
        // From here on, commits change the tree in place again.
        drop(running);
        let (new, file) =
            (NewFile::write(startup, text.as_bytes())?, StartupFile::unwritten(&text));
        if let Some(entry) = entry {
            recovery::mark_next(state, entry)?;
        }
        {
            // A commit between the two would take the file for an edited one.
            let mut stores = self.stores();
            let renamed = new.rename();
            renamed.map_err(|error| Refusal::Disk(format!("{}: {error}", startup.display())))?;
            let file = file.written(startup);
            saved.file = Some(file.clone());
            stores.startup_file = Some(file);
        }
        let past = self.history_files();
        if let Some(entry) = entry.filter(|_| past.chain() >= CHAIN_LIMIT) {
            past.complete(entry, &text)?;
        }
        past.prune();
        drop(text);
        stoa_yang::memory::give_back();
        Ok(saved)
    }

    /// Finds or writes the entry of the history that is running, on which differences are based.
    async fn prepare_entry(&self) -> Result<(), Refusal> {
        let _saving = self.inner.saving.lock().await;
        let (own, known) = {
            let stores = self.stores();
            // An unsaved startup file is an older entry. One that an earlier Stoa could not write must not become the
            // newest entry, which the next start writes to the file.
            let is_saved = !stores.is_unsaved && !stores.is_save_failing;
            let is_needed = is_saved && stores.core.is_some() && stores.startup.is_none();
            let known = stores.startup_file.clone();
            match known.filter(|_| is_needed && stores.unconfirmed.is_none()) {
                Some(known) => (self.clone(), known),
                None => return Ok(()),
            }
        };
        let has_entry = self.stores().entry.is_some();
        let found = tokio::task::spawn_blocking(move || {
            if !has_entry && let Some(text) = known.text(&own.inner.startup) {
                let past = own.history_files();
                if !past.is_newest(&text) {
                    let (_, file) = past.write(&file_author(), "", &text)?;
                    file.rename()
                        .map_err(|error| Refusal::Disk(format!("the history: {error}")))?;
                }
                own.stores().entry = past.newest();
            }
            if let Some(configuration) = own.inner.connection.configuration() {
                configuration.text.forget();
            }
            stoa_yang::memory::give_back();
            Ok(())
        });
        found.await.map_err(refusal::panicked)?
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::snapshot::Snapshot;
    use super::*;
    use crate::apply::ForwarderConnection;
    use crate::configuration::Configuration;
    use crate::running::Running;

    #[tokio::test]
    async fn commits_without_pause_do_not_put_off_saving() {
        let commits = Notify::new();
        let busy = async {
            loop {
                commits.notify_one();
                tokio::task::yield_now().await;
            }
        };
        // Only the longest delay can end this wait in time.
        let hour = Duration::from_secs(3600);
        let wait = wait_for_quiet(&commits, hour, Duration::from_millis(50));
        let ended = timeout(Duration::from_secs(20), async {
            tokio::select! {
                () = wait => {}
                () = busy => {}
            }
        });
        assert!(ended.await.is_ok());
        // Without commits, the pause ends it.
        let wait = wait_for_quiet(&commits, Duration::from_millis(1), hour);
        assert!(timeout(Duration::from_secs(20), wait).await.is_ok());
    }

    /// A datastore that has something to save.
    fn unsaved(folder: &std::path::Path) -> Datastore {
        let startup = folder.join("stoa.json");
        std::fs::write(&startup, "{}").unwrap();
        let configuration = Configuration::parse(&startup, "{}".to_owned()).unwrap();
        let channel = tonic::transport::Channel::from_static("http://[::1]:1").connect_lazy();
        let connection = Arc::new(ForwarderConnection::new(channel, configuration));
        let (running, state) = (stoa_yang::data::parse("{}").unwrap(), folder.join("state"));
        let file = Running::beside(&folder.join("stoa.sock"));
        let datastore = Datastore::open(connection, running, startup, state, file, false);
        recovery::mark(&datastore.inner.state, 1).unwrap();
        datastore.stores().is_unsaved = true;
        datastore
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn commits_do_not_wait_for_a_save() {
        let folder = tempfile::tempdir().unwrap();
        let datastore = unsaved(folder.path());
        // Stands in for a slow disk: the save cannot take the place of the file.
        let slow = datastore.stores();
        let own = datastore.clone();
        let save = tokio::spawn(async move { own.save_beside_commits().await });
        while datastore.inner.saving.try_lock().is_ok() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(datastore.inner.writer.try_lock().is_ok(), "a commit waits for the save");
        drop(slow);
        save.await.unwrap().unwrap();
        assert!(!datastore.stores().is_unsaved && !super::recovery::is_unsaved(datastore.state()));
    }

    #[tokio::test]
    async fn a_commit_during_a_save_is_unsaved_still() {
        let folder = tempfile::tempdir().unwrap();
        let datastore = unsaved(folder.path());
        datastore.stores().entry = Some(7);
        let saved = datastore.write_startup().await.unwrap().unwrap();
        {
            let mut stores = datastore.stores();
            let (tree, revision) = (Arc::clone(&stores.running.tree), stores.next_revision());
            stores.running = Arc::new(Snapshot::new(tree, revision));
        }
        datastore.settle(&saved).unwrap();
        assert!(datastore.stores().is_unsaved);
        let mark = std::fs::read_to_string(datastore.state().join("unsaved.json")).unwrap();
        assert_eq!(mark, r#"{"base":7}"#, "the startup file has the entry of the save");
        datastore.save_unsaved().await.unwrap();
        assert!(!datastore.stores().is_unsaved && !super::recovery::is_unsaved(datastore.state()));
        // What was saved before does not count any more.
        recovery::mark(&datastore.inner.state, 9).unwrap();
        datastore.stores().is_unsaved = true;
        std::fs::write(folder.path().join("stoa.json"), "{ }").unwrap();
        datastore.stores().startup_file =
            StartupFile::read(&folder.path().join("stoa.json")).map(|it| it.0);
        datastore.settle(&saved).unwrap();
        let mark = std::fs::read_to_string(datastore.state().join("unsaved.json")).unwrap();
        assert_eq!(mark, r#"{"base":9}"#);
    }
}
