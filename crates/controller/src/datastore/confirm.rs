//! Commits that are undone by themselves unless they are confirmed.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};

use super::commit::{Commit, Committed, Origin, stoa};
use super::disk::{self, Fresh};
use super::snapshot;
use super::{Author, Datastore, Refusal, Store, lock, whole};

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
    /// Why it was made, for the history when who confirms it says nothing.
    #[serde(default)]
    comment: String,
    /// The deadline by a clock that nobody sets.
    #[serde(skip)]
    until: Option<Instant>,
}

impl Unconfirmed {
    pub(super) fn new(
        author: &Author,
        within: Duration,
        before: String,
        comment: &str,
    ) -> Unconfirmed {
        let within = within.min(CONFIRM_LIMIT);
        let deadline = SystemTime::now() + within;
        let until = Some(Instant::now() + within);
        let (author, comment) = (author.name.clone(), comment.to_owned());
        Unconfirmed { author, deadline, within, before, comment, until }
    }

    /// Time that is left. A clock that is set back does not make it longer.
    pub fn left(&self) -> Duration {
        let by_day = self.deadline.duration_since(SystemTime::now()).unwrap_or_default();
        let now = Instant::now();
        let left = self.until.map_or(self.within, |until| until.saturating_duration_since(now));
        by_day.min(left).min(self.within)
    }
}

fn file(state: &Path) -> std::path::PathBuf {
    state.join("confirm.json")
}

/// What an earlier controller left.
pub(super) fn read(state: &Path) -> Option<Unconfirmed> {
    let mut left: Unconfirmed = serde_json::from_slice(&std::fs::read(file(state)).ok()?).ok()?;
    left.until = Some(Instant::now() + left.left());
    Some(left)
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
        let (own, author, comment) = (self.clone(), author.clone(), comment.to_owned());
        whole(async move { own.confirm_now(&author, &comment).await }).await
    }

    async fn confirm_now(&self, author: &Author, comment: &str) -> Result<Committed, Refusal> {
        let _one = self.inner.writer.lock().await;
        lock::check(self.stores().holder.as_ref(), author)?;
        let waits = self.unconfirmed().ok_or(Refusal::NothingToConfirm)?;
        let running = self.tree(Store::Running);
        let comment = if comment.is_empty() { waits.comment } else { comment.to_owned() };
        let commit = Commit { comment, ..Commit::default() };
        self.bring_into_force(author, Arc::clone(&running.tree), &commit).await
    }

    /// Goes back at once from a commit that waits.
    ///
    /// # Errors
    /// When none waits, somebody else has the lock, or the forwarder does not answer.
    pub async fn cancel(&self, author: &Author) -> Result<Committed, Refusal> {
        let (own, author) = (self.clone(), author.clone());
        whole(async move {
            let _one = own.inner.writer.lock().await;
            lock::check(own.stores().holder.as_ref(), &author)?;
            own.go_back(&author).await
        })
        .await
    }

    async fn go_back(&self, author: &Author) -> Result<Committed, Refusal> {
        let unconfirmed = self.unconfirmed().ok_or(Refusal::NothingToConfirm)?;
        let tree = snapshot::parse(&unconfirmed.before)?;
        // Nothing is to be written before, so that no full disk is in the way; `confirm.json` goes when it is done.
        let commit = Commit { origin: Origin::Back, ..Commit::default() };
        self.bring_into_force(author, tree, &commit).await
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datastore::Client;

    const MINUTE: Duration = Duration::from_secs(60);
    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn a_clock_that_is_set_makes_no_time_longer() {
        let author = Author::new("ann", Client::Console);
        let mut waits = Unconfirmed::new(&author, MINUTE, "{}".into(), "");
        assert!(waits.left() <= MINUTE && waits.left() > MINUTE / 2);
        // Set back by a day while it waits, and before another controller reads the file.
        waits.deadline += DAY;
        assert!(waits.left() <= MINUTE);
        waits.until = None;
        assert_eq!(waits.left(), MINUTE);
        // Set forward by a day: the time is over.
        waits.deadline -= DAY + DAY;
        assert_eq!(waits.left(), Duration::ZERO);
    }

    #[test]
    fn what_an_earlier_controller_left_has_no_more_time_than_it_had() {
        let folder = tempfile::tempdir().unwrap();
        let mut waits =
            Unconfirmed::new(&Author::new("ann", Client::Console), MINUTE, "{}".into(), "");
        waits.deadline += DAY;
        std::fs::write(file(folder.path()), serde_json::to_vec(&waits).unwrap()).unwrap();
        let left = read(folder.path()).unwrap();
        assert!(left.left() <= MINUTE && left.author == "ann");
    }
}
