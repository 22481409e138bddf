//! Confirmed commits: rolled back unless they are confirmed in time (RFC 6241, section 8.4).

use std::sync::Arc;
use std::time::Duration;

use super::author::{Author, Store, stoa};
use super::commit::{Commit, Committed, Origin};
use super::refusal::{Refusal, panicked, to_completion};
use super::stores::Datastore;

/// Interval between attempts to roll back.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

impl Datastore {
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
        self.stores().check_lock(author)?;
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
            own.stores().check_lock(&author)?;
            own.revert(&author, "cancelled").await
        })
        .await
    }

    async fn revert(&self, author: &Author, reason: &str) -> Result<Committed, Refusal> {
        let unconfirmed = self.unconfirmed().ok_or(Refusal::NothingUnconfirmed)?;
        let tree = stoa_yang::data::parse(&unconfirmed.before)?;
        // Writes no file, so that a full disk does not prevent it. `confirm.json` is removed at the end.
        let commit = Commit { origin: Origin::Revert, ..Commit::default() };
        let committed = self.commit_tree(author, tree, &commit).await?;
        let (past, author) = (self.history_files(), author.clone());
        let _saving = self.inner.saving.lock().await;
        let comment = unconfirmed.rollback_comment(reason);
        let add = move || past.add_rollback(&author, &comment, &unconfirmed.before);
        // The rollback is done in any case.
        if let Err(refusal) = tokio::task::spawn_blocking(add).await.map_err(panicked).flatten() {
            tracing::error!("the rollback is not in the history: {refusal}");
        }
        Ok(committed)
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
            if let Err(refusal) = self.revert(&stoa(), "not confirmed in time").await {
                tracing::error!("cannot roll back: {refusal}; trying again");
                drop(_one);
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
        }
    }
}
