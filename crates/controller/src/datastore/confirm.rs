//! Confirmed commits: rolled back unless they are confirmed in time (RFC 6241, section 8.4).

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};

use super::commit::{Commit, Committed, Origin, stoa};
use super::disk::{self, NewFile};
use super::{Author, Datastore, Refusal, Store, lock, to_completion};

/// Longest time for a confirmation.
pub const CONFIRM_LIMIT: Duration = Duration::from_secs(24 * 3600);
/// Interval between attempts to roll back.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// A commit that waits for its confirmation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Unconfirmed {
    /// The author of the commit.
    pub author: String,
    /// The deadline by the wall clock.
    pub deadline: SystemTime,
    /// The time from the commit to the deadline.
    within: Duration,
    /// The configuration to roll back to.
    pub(super) before: String,
    /// The comment for the history, unless the confirmation has its own.
    #[serde(default)]
    comment: String,
    /// The deadline by the monotonic clock.
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

    /// The remaining time. Setting the clock back does not extend it.
    pub fn remaining(&self) -> Duration {
        let by_clock = self.deadline.duration_since(SystemTime::now()).unwrap_or_default();
        let now = Instant::now();
        let left = self.until.map_or(self.within, |until| until.saturating_duration_since(now));
        by_clock.min(left).min(self.within)
    }
}

fn file(state: &Path) -> std::path::PathBuf {
    state.join("confirm.json")
}

/// The unconfirmed commit of an earlier controller.
pub(super) fn read(state: &Path) -> Option<Unconfirmed> {
    let mut unconfirmed: Unconfirmed =
        serde_json::from_slice(&std::fs::read(file(state)).ok()?).ok()?;
    unconfirmed.until = Some(Instant::now() + unconfirmed.remaining());
    Some(unconfirmed)
}

/// Removes `confirm.json` at the start of Stoa, which starts with the configuration to roll back to.
pub(super) fn forget(state: &Path) {
    if let Err(error) = disk::remove(&file(state)) {
        tracing::error!("confirm.json cannot be removed: {error}");
    }
}

impl Datastore {
    /// Stores which commit waits for its confirmation, on disk and in memory.
    pub(super) fn set_unconfirmed(&self, unconfirmed: Option<Unconfirmed>) -> Result<(), Refusal> {
        let state = &self.inner.state;
        let refused = |error: String| Refusal::Disk(format!("confirm.json: {error}"));
        match &unconfirmed {
            Some(unconfirmed) => {
                disk::create_folder(state)?;
                let text = serde_json::to_vec(unconfirmed);
                let text = text.map_err(|error| refused(error.to_string()))?;
                let renamed = NewFile::write(&file(state), &text)?.rename();
                renamed.map_err(|error| refused(error.to_string()))?;
            }
            None => forget(state),
        }
        self.stores().unconfirmed = unconfirmed;
        self.inner.clock.notify_one();
        Ok(())
    }

    /// Confirms a commit.
    ///
    /// # Errors
    /// When no commit waits, another session has the lock, or a file cannot be written.
    pub async fn confirm(&self, author: &Author, comment: &str) -> Result<Committed, Refusal> {
        let (own, author, comment) = (self.clone(), author.clone(), comment.to_owned());
        to_completion(async move { own.confirm_now(&author, &comment).await }).await
    }

    async fn confirm_now(&self, author: &Author, comment: &str) -> Result<Committed, Refusal> {
        let _one = self.inner.writer.lock().await;
        lock::check(self.stores().holder.as_ref(), author)?;
        let waits = self.unconfirmed().ok_or(Refusal::NothingUnconfirmed)?;
        let running = self.tree(Store::Running);
        let comment = if comment.is_empty() { waits.comment } else { comment.to_owned() };
        let commit = Commit { comment, ..Commit::default() };
        self.commit_tree(author, Arc::clone(&running.tree), &commit).await
    }

    /// Rolls back an unconfirmed commit now.
    ///
    /// # Errors
    /// When no commit waits, another session has the lock, or the forwarder does not answer.
    pub async fn cancel(&self, author: &Author) -> Result<Committed, Refusal> {
        let (own, author) = (self.clone(), author.clone());
        to_completion(async move {
            let _one = own.inner.writer.lock().await;
            lock::check(own.stores().holder.as_ref(), &author)?;
            own.revert(&author).await
        })
        .await
    }

    async fn revert(&self, author: &Author) -> Result<Committed, Refusal> {
        let unconfirmed = self.unconfirmed().ok_or(Refusal::NothingUnconfirmed)?;
        let tree = stoa_yang::data::parse(&unconfirmed.before)?;
        // Writes no file, so that a full disk does not prevent it. `confirm.json` is removed at the end.
        let commit = Commit { origin: Origin::Revert, ..Commit::default() };
        self.commit_tree(author, tree, &commit).await
    }

    /// Rolls back commits that are not confirmed in time. Never returns.
    pub async fn run_confirm_timer(&self) {
        loop {
            let Some(unconfirmed) = self.unconfirmed() else {
                self.inner.clock.notified().await;
                continue;
            };
            let remaining = unconfirmed.remaining();
            if !remaining.is_zero() {
                // Notified by another commit, a confirmation or a cancellation.
                let _ = tokio::time::timeout(remaining, self.inner.clock.notified()).await;
                continue;
            }
            let _one = self.inner.writer.lock().await;
            if self.unconfirmed().is_none_or(|now| !now.remaining().is_zero()) {
                continue;
            }
            tracing::warn!(
                author = unconfirmed.author,
                "commit not confirmed in time: rolling back"
            );
            if let Err(refusal) = self.revert(&stoa()).await {
                tracing::error!("cannot roll back: {refusal}; trying again");
                drop(_one);
                tokio::time::sleep(RETRY_INTERVAL).await;
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
    fn setting_the_clock_does_not_extend_the_time() {
        let author = Author::new("ann", Client::Console);
        let mut waits = Unconfirmed::new(&author, MINUTE, "{}".into(), "");
        assert!(waits.remaining() <= MINUTE && waits.remaining() > MINUTE / 2);
        // Set back by a day while it waits, and before a restarted controller reads the file.
        waits.deadline += DAY;
        assert!(waits.remaining() <= MINUTE);
        waits.until = None;
        assert_eq!(waits.remaining(), MINUTE);
        // Set forward by a day: the time is over.
        waits.deadline -= DAY + DAY;
        assert_eq!(waits.remaining(), Duration::ZERO);
    }

    #[test]
    fn a_restart_does_not_extend_the_time() {
        let folder = tempfile::tempdir().unwrap();
        let mut waits =
            Unconfirmed::new(&Author::new("ann", Client::Console), MINUTE, "{}".into(), "");
        waits.deadline += DAY;
        std::fs::write(file(folder.path()), serde_json::to_vec(&waits).unwrap()).unwrap();
        let read = read(folder.path()).unwrap();
        assert!(read.remaining() <= MINUTE && read.author == "ann");
    }
}
