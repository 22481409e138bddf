//! Back: to what runs, or to what was in force before.

use std::sync::Arc;

use yang5::data::DataTree;

use super::snapshot::Snapshot;
use super::{Author, Datastore, Event, Refusal, Store, between, lock, refusal};

impl Datastore {
    /// Lets the candidate be running again.
    ///
    /// # Errors
    /// When somebody else has the lock.
    pub async fn discard(&self, author: &Author) -> Result<(), Refusal> {
        let _one = self.inner.writer.lock().await;
        self.forget_edits(author)
    }

    fn forget_edits(&self, author: &Author) -> Result<(), Refusal> {
        let mut stores = self.stores();
        lock::check(stores.holder.as_ref(), author)?;
        stores.candidate = Arc::clone(&stores.running);
        stores.is_edited = false;
        stores.conflict = None;
        drop(stores);
        self.tell(Event::Edited);
        Ok(())
    }

    /// Makes an earlier configuration the candidate: `back` commits ago, 0 is what runs.
    ///
    /// # Errors
    /// When there is none that old, or somebody else has the lock.
    pub async fn rollback(&self, author: &Author, back: usize) -> Result<Arc<Snapshot>, Refusal> {
        let _one = self.inner.writer.lock().await;
        if back == 0 {
            self.forget_edits(author)?;
            return Ok(self.tree(Store::Candidate));
        }
        let own = self.clone();
        let read = tokio::task::spawn_blocking(move || own.back(back));
        let tree = read.await.map_err(refusal::broken)??;
        let mut stores = self.stores();
        lock::check(stores.holder.as_ref(), author)?;
        let revision = stores.next();
        stores.candidate = Arc::new(Snapshot::new(tree, revision));
        (stores.is_edited, stores.conflict) = (true, None);
        let candidate = Arc::clone(&stores.candidate);
        drop(stores);
        self.tell(Event::Edited);
        Ok(candidate)
    }

    /// The configuration of so many commits ago. What runs counts as the last one, in the history or not.
    fn back(&self, back: usize) -> Result<Arc<DataTree<'static>>, Refusal> {
        let list = self.history();
        let newest = list.first().map(|entry| self.past_tree(entry.number)).transpose()?;
        let running = self.tree(Store::Running);
        let is_newest = match &newest {
            Some(newest) => between(&newest.tree, &running.tree)?.is_empty(),
            None => false,
        };
        let at = if is_newest { back } else { back - 1 };
        let entry = list.get(at).ok_or(Refusal::NoSuchPast { back, there: list.len() })?;
        Ok(self.past_tree(entry.number)?.tree)
    }
}
