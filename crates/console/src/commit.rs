//! Commits: how they are asked for, and what they did.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use stoa_api::v1;

use crate::session::Failure;

/// How a commit is asked for: the words behind `commit`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    /// Why.
    pub comment: String,
    /// Undone by itself after this time unless it is confirmed.
    pub confirm_within: Option<Duration>,
    /// Overwrites a startup file that another hand has changed.
    pub is_overwriting: bool,
    /// Though it cuts off the one who commits.
    pub is_forced: bool,
    /// Goes back from a commit that waits.
    pub is_cancelled: bool,
}

/// Minutes to confirm in when none are said.
const CONFIRM_MINUTES: u32 = 10;

impl Commit {
    /// From the words behind `commit`: `confirmed [MINUTES]`, `comment TEXT`, `overwrite`, `anyway`,
    /// `cancel`.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn of(words: &[String]) -> Result<Commit, Failure> {
        let mut commit = Commit::default();
        let mut words = words.iter().peekable();
        while let Some(word) = words.next() {
            match word.as_str() {
                "comment" => {
                    let missing = || Failure::Words("\"comment\" wants a text behind it".into());
                    commit.comment = words.next().ok_or_else(missing)?.clone();
                }
                "confirmed" => {
                    let given = words.peek().and_then(|word| word.parse::<u32>().ok());
                    if given.is_some() {
                        words.next();
                    }
                    let minutes = given.unwrap_or(CONFIRM_MINUTES);
                    if !(1..=1440).contains(&minutes) {
                        return Err(Failure::Words("confirm within 1 to 1440 minutes".into()));
                    }
                    commit.confirm_within = Some(Duration::from_secs(60 * u64::from(minutes)));
                }
                "overwrite" => commit.is_overwriting = true,
                "force" => commit.is_forced = true,
                "cancel" => commit.is_cancelled = true,
                other => {
                    return Err(Failure::Words(format!(
                        "\"{other}\" behind \"commit\": there are confirmed [MINUTES], comment TEXT, overwrite, force, cancel"
                    )));
                }
            }
        }
        Ok(commit)
    }
}

/// What a commit did, in lines for people.
pub fn told(reply: &v1::CommitReply) -> Vec<String> {
    let applied = reply.applied.unwrap_or_default();
    let mut lines: Vec<_> =
        reply.warnings.iter().map(|warning| format!("Note: {warning}")).collect();
    let kept = match (reply.number, reply.changes.len()) {
        (0, 0) => "In force already: nothing changed.".to_owned(),
        (0, changes) => format!("In force: {changes} changed."),
        (number, changes) => format!("In force and saved as number {number}: {changes} changed."),
    };
    lines.push(kept);
    if applied.changed {
        lines.push(format!(
            "Ports opened {}, closed {}; routes added {}, removed {}.",
            applied.ports_opened,
            applied.ports_closed,
            applied.routes_added,
            applied.routes_removed
        ));
    }
    if reply.confirm_by_unix_ms > 0 {
        let by = UNIX_EPOCH + Duration::from_millis(reply.confirm_by_unix_ms);
        let left = by.duration_since(SystemTime::now()).unwrap_or_default().as_secs();
        lines.push(format!(
            "Undone in {} min {} s unless it is confirmed by another `commit`; `commit cancel` goes back now.",
            left / 60,
            left % 60
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::split;

    fn of(line: &str) -> Result<Commit, Failure> {
        Commit::of(&split(line).unwrap())
    }

    #[test]
    fn commits_are_read_from_words() {
        assert_eq!(of("").unwrap(), Commit::default());
        let commit = of("confirmed 5 comment \"new uplink\"").unwrap();
        assert_eq!(commit.confirm_within, Some(Duration::from_secs(300)));
        assert_eq!(commit.comment, "new uplink");
        assert_eq!(of("confirmed").unwrap().confirm_within, Some(Duration::from_secs(600)));
        assert!(of("overwrite").unwrap().is_overwriting && of("cancel").unwrap().is_cancelled);
        assert!(of("force").unwrap().is_forced);
        for wrong in ["confirmed 0", "confirmed 1441", "comment", "now"] {
            assert!(matches!(of(wrong), Err(Failure::Words(_))), "{wrong}");
        }
    }
}
