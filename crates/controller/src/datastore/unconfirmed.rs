//! The commit that waits for its confirmation, in memory and in `confirm.json`.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};

use super::author::{Author, stoa};
use super::disk::{self, NewFile};
use super::history::History;
use super::refusal::Refusal;

/// Longest time for a confirmation.
pub const CONFIRM_LIMIT: Duration = Duration::from_secs(24 * 3600);
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
    pub(super) comment: String,
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

    /// The comment of its rollback in the history.
    pub(super) fn rollback_comment(&self, reason: &str) -> String {
        let colon = if self.comment.is_empty() { "" } else { ": " };
        format!("rolls back the commit of {}, {reason}{colon}{}", self.author, self.comment)
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

/// Adds the rollback of an unconfirmed commit to the history and removes `confirm.json`, at the start of Stoa, which
/// starts with the configuration to roll back to.
pub(super) fn end(state: &Path, startup: &str) {
    if let Some(lost) = read(state) {
        let comment = lost.rollback_comment("which Stoa ended before");
        if let Err(refusal) = History::new(state).add_rollback(&stoa(), &comment, startup) {
            tracing::error!("the rollback is not in the history: {refusal}");
        }
    }
    forget(state);
}

/// Removes `confirm.json`.
fn forget(state: &Path) {
    if let Err(error) = disk::remove(&file(state)) {
        tracing::error!("confirm.json cannot be removed: {error}");
    }
}

/// Writes which commit waits for its confirmation; none removes the file.
pub(super) fn save(state: &Path, unconfirmed: Option<&Unconfirmed>) -> Result<(), Refusal> {
    let refused = |error: String| Refusal::Disk(format!("confirm.json: {error}"));
    match unconfirmed {
        Some(unconfirmed) => {
            disk::create_folder(state)?;
            let text = serde_json::to_vec(unconfirmed);
            let text = text.map_err(|error| refused(error.to_string()))?;
            let renamed = NewFile::write(&file(state), &text)?.rename();
            renamed.map_err(|error| refused(error.to_string()))?;
        }
        None => forget(state),
    }
    Ok(())
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
