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
            let _one = self.inner.writer.lock().await;
            if let Err(refusal) = self.save_unsaved().await {
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
        let (is_unsaved, is_failing) = {
            let stores = self.stores();
            (stores.is_unsaved, stores.is_save_failing)
        };
        if !is_unsaved && !is_failing {
            return Ok(());
        }
        let own = self.clone();
        let saved = tokio::task::spawn_blocking(move || match is_unsaved {
            true => own.save(),
            false => own.recover_late(),
        });
        let saved = saved.await.map_err(refusal::panicked)?;
        self.stores().is_save_failing = saved.is_err();
        saved
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

    fn save(&self) -> Result<(), Refusal> {
        let (running, known, entry) = {
            let stores = self.stores();
            (stores.running.clone(), stores.startup_file.clone(), stores.entry)
        };
        let startup = &self.inner.startup;
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
        } else {
            let text = running.text()?;
            let renamed = NewFile::write(startup, text.as_bytes())?.rename();
            renamed.map_err(|error| Refusal::Disk(format!("{}: {error}", startup.display())))?;
            self.stores().startup_file = Some(StartupFile::new(startup, &text));
            let past = self.history_files();
            if let Some(entry) = entry.filter(|_| past.chain() >= CHAIN_LIMIT) {
                past.complete(entry, &text)?;
            }
            past.prune();
        }
        recovery::unmark(&self.inner.state);
        self.stores().is_unsaved = false;
        drop(running);
        stoa_yang::memory::give_back();
        Ok(())
    }

    /// Finds or writes the entry of the history that is running, on which differences are based.
    async fn prepare_entry(&self) -> Result<(), Refusal> {
        let _one = self.inner.writer.lock().await;
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
    use super::*;

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
}
