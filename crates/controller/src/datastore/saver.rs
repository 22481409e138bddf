//! Writes the startup file after commits of parts, when nothing else is to do, and prepares them.

use std::time::Duration;

use super::commit::file_author;
use super::disk::NewFile;
use super::history::CHAIN_LIMIT;
use super::recovery;
use super::refusal::{self, Refusal};
use super::startup_file::StartupFile;
use super::stores::Datastore;

/// The startup file is written when there was no commit for this time.
const QUIET: Duration = Duration::from_secs(1);

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
            while tokio::time::timeout(QUIET, self.inner.saver.notified()).await.is_ok() {}
            let _one = self.inner.writer.lock().await;
            if let Err(refusal) = self.save_unsaved().await {
                tracing::error!("the startup file is not saved: {refusal}; trying again");
                self.inner.saver.notify_one();
            }
        }
    }

    /// Writes the startup file if it is older than running. The caller holds the writer.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(super) async fn save_unsaved(&self) -> Result<(), Refusal> {
        if !self.stores().is_unsaved {
            return Ok(());
        }
        let own = self.clone();
        tokio::task::spawn_blocking(move || own.save()).await.map_err(refusal::panicked)?
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
            tracing::warn!("{} was edited: commits are not saved there", startup.display());
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
            let is_wanted = stores.core.is_some() && stores.startup.is_none();
            let known = stores.startup_file.clone();
            match known.filter(|_| is_wanted && stores.unconfirmed.is_none()) {
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
