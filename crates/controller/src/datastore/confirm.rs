//! Commits that are undone by themselves unless they are confirmed.

use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::commit::{Commit, Committed, stoa};
use super::disk::{self, Fresh};
use super::snapshot;
use super::{Author, Datastore, Refusal, Store, lock};

/// Longest time to confirm in.
pub const CONFIRM_LIMIT: Duration = Duration::from_secs(24 * 3600);
/// How long to wait before going back is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// A commit that waits for its confirmation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Unconfirmed {
    /// Who has to confirm it.
    pub author: String,
    /// Until when.
    pub deadline: SystemTime,
    /// The time from the commit to then.
    within: Duration,
    /// What is in force again when it is not confirmed.
    pub(super) before: String,
}

impl Unconfirmed {
    pub(super) fn new(author: &Author, within: Duration, before: String) -> Unconfirmed {
        let within = within.min(CONFIRM_LIMIT);
        let deadline = SystemTime::now() + within;
        Unconfirmed { author: author.name.clone(), deadline, within, before }
    }

    /// Time that is left. A clock that was set back does not make it longer than it was.
    pub fn left(&self) -> Duration {
        self.deadline.duration_since(SystemTime::now()).unwrap_or_default().min(self.within)
    }
}

fn file(state: &Path) -> std::path::PathBuf {
    state.join("confirm.json")
}

/// What an earlier controller left.
pub(super) fn read(state: &Path) -> Option<Unconfirmed> {
    serde_json::from_slice(&std::fs::read(file(state)).ok()?).ok()
}

/// Stoa begins: what it begins with is what would have been gone back to.
pub(super) fn forget(state: &Path) {
    if let Err(error) = disk::remove(&file(state)) {
        tracing::error!("confirm.json cannot be removed: {error}");
    }
}

impl Datastore {
    /// Notes on disk and here which commit waits, if any.
    pub(super) fn wait_for(&self, unconfirmed: Option<Unconfirmed>) -> Result<(), Refusal> {
        let state = &self.inner.state;
        let refused = |error: String| Refusal::Disk(format!("confirm.json: {error}"));
        match &unconfirmed {
            Some(unconfirmed) => {
                disk::make(state)?;
                let text = serde_json::to_vec(unconfirmed);
                let text = text.map_err(|error| refused(error.to_string()))?;
                let placed = Fresh::write(&file(state), &text)?.place();
                placed.map_err(|error| refused(error.to_string()))?;
            }
            None => forget(state),
        }
        self.stores().unconfirmed = unconfirmed;
        self.inner.clock.notify_one();
        Ok(())
    }

    /// Lets a commit that waits stay.
    ///
    /// # Errors
    /// When none waits, somebody else has the lock, or it cannot be written.
    pub async fn confirm(&self, author: &Author, comment: &str) -> Result<Committed, Refusal> {
        let _one = self.inner.writer.lock().await;
        lock::check(self.stores().holder.as_ref(), author)?;
        self.unconfirmed().ok_or(Refusal::NothingToConfirm)?;
        let running = self.tree(Store::Running);
        let tree = running.tree.duplicate().map_err(super::refusal::yang)?;
        let commit = Commit { comment: comment.to_owned(), ..Commit::default() };
        self.bring_into_force(author, tree, &commit).await
    }

    /// Goes back at once from a commit that waits.
    ///
    /// # Errors
    /// When none waits, somebody else has the lock, or the forwarder does not answer.
    pub async fn cancel(&self, author: &Author) -> Result<Committed, Refusal> {
        let _one = self.inner.writer.lock().await;
        lock::check(self.stores().holder.as_ref(), author)?;
        self.go_back(author).await
    }

    async fn go_back(&self, author: &Author) -> Result<Committed, Refusal> {
        let unconfirmed = self.unconfirmed().ok_or(Refusal::NothingToConfirm)?;
        let tree = snapshot::parse(&unconfirmed.before)?;
        // What is gone back to is the startup file, if nobody has edited it: it is not to be written.
        let commit = Commit { confirm_within: Some(CONFIRM_LIMIT), ..Commit::default() };
        let back = self.bring_into_force(author, tree, &commit).await?;
        self.wait_for(None)?;
        Ok(Committed { confirm_by: None, ..back })
    }

    /// Goes back from commits whose time is over, for ever.
    pub async fn keep_time(&self) {
        loop {
            let Some(unconfirmed) = self.unconfirmed() else {
                self.inner.clock.notified().await;
                continue;
            };
            let left = unconfirmed.left();
            if !left.is_zero() {
                // Another commit, a confirmation or its cancellation.
                let _ = tokio::time::timeout(left, self.inner.clock.notified()).await;
                continue;
            }
            let _one = self.inner.writer.lock().await;
            if self.unconfirmed().is_none_or(|now| !now.left().is_zero()) {
                continue;
            }
            tracing::warn!(author = unconfirmed.author, "not confirmed in time: going back");
            if let Err(refusal) = self.go_back(&stoa()).await {
                tracing::error!("cannot go back: {refusal}; trying again");
                drop(_one);
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}
