//! Discard and rollback of the candidate.

use std::sync::Arc;

use yang5::data::DataTree;

use super::author::{Author, Store};
use super::candidate::Candidate;
use super::difference::between;
use super::refusal::{self, Refusal};
use super::snapshot::Snapshot;
use super::stores::{Datastore, Event};

impl Datastore {
    /// Resets the candidate to running.
    ///
    /// # Errors
    /// When another session has the lock.
    pub async fn discard(&self, author: &Author) -> Result<(), Refusal> {
        let _one = self.inner.writer.lock().await;
        self.reset_candidate(author)
    }

    fn reset_candidate(&self, author: &Author) -> Result<(), Refusal> {
        let mut stores = self.stores();
        stores.check_lock(author)?;
        stores.reset_candidate();
        drop(stores);
        self.publish(Event::Edited);
        Ok(())
    }

    /// Copies the configuration of `back` commits ago to the candidate; 0 is running.
    ///
    /// # Errors
    /// When the history is shorter, or another session has the lock.
    pub async fn rollback(&self, author: &Author, back: usize) -> Result<Arc<Snapshot>, Refusal> {
        let _one = self.inner.writer.lock().await;
        if back == 0 {
            self.reset_candidate(author)?;
            return Ok(self.tree(Store::Candidate));
        }
        let own = self.clone();
        let read = tokio::task::spawn_blocking(move || own.back(back));
        let tree = read.await.map_err(refusal::panicked)??;
        let mut stores = self.stores();
        stores.check_lock(author)?;
        let revision = stores.next_revision();
        let candidate = Arc::new(Snapshot::new(tree, revision));
        stores.candidate = Candidate::Whole(Arc::clone(&candidate));
        (stores.is_edited, stores.conflict) = (true, None);
        drop(stores);
        self.publish(Event::Edited);
        Ok(candidate)
    }

    /// The configuration `back` entries ago, as the history shows them. Running counts as the last one, even if it is
    /// not in the history.
    fn back(&self, back: usize) -> Result<Arc<DataTree<'static>>, Refusal> {
        let list = self.history();
        let newest = list.first().map(|entry| self.history_tree(entry.number)).transpose()?;
        let running = self.tree(Store::Running);
        let is_newest = match &newest {
            Some(newest) => between(&newest.tree, &running.tree)?.is_empty(),
            None => false,
        };
        let at = if is_newest { back } else { back - 1 };
        let entry = list.get(at).ok_or(Refusal::NotInHistory { back, there: list.len() })?;
        Ok(self.history_tree(entry.number)?.tree)
    }
}
