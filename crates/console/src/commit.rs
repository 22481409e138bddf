//! The `commit` command and the report of its result.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use stoa_api::v1;
use stoa_api::v1::earlier_commit::Outcome;

use crate::session::Failure;
use crate::{abbreviation, changes};

/// The arguments of `commit`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    /// Stored in the history.
    pub comment: String,
    /// Rolled back after this time unless it is confirmed (confirmed commit, RFC 6241).
    pub confirm_within: Option<Duration>,
    /// Overwrites a startup file that was edited by hand.
    pub is_overwriting: bool,
    /// Commits even if it cuts off the caller.
    pub is_forced: bool,
    /// Cancels a commit that waits for its confirmation.
    pub is_cancelled: bool,
    /// Validates the candidate and changes nothing.
    pub is_check: bool,
}

/// The words of `commit`.
const WORDS: [&str; 6] = ["confirmed", "comment", "overwrite", "force", "cancel", "check"];

/// Default time for the confirmation.
const CONFIRM_MINUTES: u32 = 10;

impl Commit {
    /// Parses the arguments: `confirmed [MINUTES]`, `comment TEXT`, `overwrite`, `force`, `cancel`, `check`.
    /// Any unique beginning of a word is enough. A comment needs no quotes if it comes last.
    ///
    /// # Errors
    /// For an unknown or incomplete argument.
    pub fn of(words: &[String]) -> Result<Commit, Failure> {
        let whole = |word: &String| {
            abbreviation::resolve(word, WORDS.into_iter()).map_or(word.clone(), str::to_owned)
        };
        Commit::parse(words, &whole)
    }

    /// Parses the arguments, of which `whole` gives the unabbreviated word.
    fn parse(words: &[String], whole: &dyn Fn(&String) -> String) -> Result<Commit, Failure> {
        let mut commit = Commit::default();
        let mut words = words.iter().peekable();
        while let Some(word) = words.next() {
            match whole(word).as_str() {
                "comment" => {
                    let missing = || Failure::Words("\"comment\" needs a text".into());
                    commit.comment = words.next().ok_or_else(missing)?.clone();
                    let rest: Vec<String> = words.clone().cloned().collect();
                    // Words of a text are no abbreviations.
                    if Commit::parse(&rest, &String::clone).is_err() {
                        commit.comment = format!("{} {}", commit.comment, rest.join(" "));
                        break;
                    }
                }
                "confirmed" => {
                    let number = words.peek().and_then(|word| word.parse::<u32>().ok());
                    if number.is_some() {
                        words.next();
                    }
                    let minutes = number.unwrap_or(CONFIRM_MINUTES);
                    if !(1..=1440).contains(&minutes) {
                        return Err(Failure::Words(format!(
                            "\"confirmed {minutes}\": use 1 to 1440 minutes"
                        )));
                    }
                    commit.confirm_within = Some(Duration::from_secs(60 * u64::from(minutes)));
                }
                "overwrite" => commit.is_overwriting = true,
                "force" => commit.is_forced = true,
                "cancel" => commit.is_cancelled = true,
                "check" => commit.is_check = true,
                other => {
                    return Err(Failure::Words(format!(
                        "commit: \"{other}\" is unknown: use confirmed [MINUTES], comment TEXT, overwrite, force, cancel or check"
                    )));
                }
            }
        }
        if commit.is_check && commit != (Commit { is_check: true, ..Commit::default() }) {
            return Err(Failure::Words("`commit check` takes no other argument".into()));
        }
        Ok(commit)
    }
}

/// The warnings of a commit or a reload as lines.
pub fn warned(warnings: &[String]) -> impl Iterator<Item = String> {
    warnings.iter().map(|warning| format!("Warning: {warning}"))
}

/// The result of `commit check` as text.
pub fn checked(reply: &v1::CommitReply) -> Vec<String> {
    let valid = format!(
        "The candidate is valid: {} to commit.",
        counted(changes::lines(&reply.changes).len())
    );
    warned(&reply.warnings).chain([valid]).collect()
}

fn counted(count: usize) -> String {
    format!("{count} change{}", if count == 1 { "" } else { "s" })
}

/// The result of a commit as text.
pub fn report(reply: &v1::CommitReply) -> Vec<String> {
    let applied = reply.applied.unwrap_or_default();
    let mut lines: Vec<_> = warned(&reply.warnings).collect();
    let count = changes::lines(&reply.changes).len();
    let (author, outcome) = match &reply.earlier {
        Some(earlier) => (earlier.author.as_str(), Some(earlier.outcome())),
        None => ("", None),
    };
    lines.push(match (outcome, reply.number, count) {
        (Some(Outcome::RolledBack), ..) => {
            format!("Rolled back the commit of {author}: {}.", counted(count))
        }
        (Some(Outcome::Confirmed), 0, 0) => format!("Confirmed the commit of {author}."),
        (Some(Outcome::Confirmed), number, 0) => {
            format!("Confirmed the commit of {author}, saved as number {number}.")
        }
        (_, 0, 0) => "Nothing changed.".to_owned(),
        (_, 0, count) => format!("Committed: {}.", counted(count)),
        (_, number, count) => {
            format!("Committed and saved as number {number}: {}.", counted(count))
        }
    });
    if outcome == Some(Outcome::Confirmed) && count > 0 {
        lines.push(format!("This confirmed the commit of {author}, too."));
    }
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
        let with = match outcome {
            Some(_) => format!(" together with the earlier commit of {author},"),
            None => String::new(),
        };
        lines.push(format!(
            "Will be rolled back in {} min {} s{with} unless another `commit` confirms it; `commit cancel` rolls back now.",
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
    fn a_report_names_the_commit_that_waited() {
        let of = |number, count, outcome: Outcome, confirm_by_unix_ms| {
            let change = |at| v1::ConfigurationChange {
                path: format!("/stoa-vrf:vrfs/vrf[name='{at}']"),
                ..v1::ConfigurationChange::default()
            };
            let earlier = v1::EarlierCommit { author: "ann".into(), outcome: outcome.into() };
            report(&v1::CommitReply {
                number,
                changes: (0..count).map(change).collect(),
                confirm_by_unix_ms,
                earlier: Some(earlier),
                ..v1::CommitReply::default()
            })
        };
        let alone = of(3, 0, Outcome::Confirmed, 0);
        assert_eq!(alone, ["Confirmed the commit of ann, saved as number 3."]);
        assert_eq!(of(0, 0, Outcome::Confirmed, 0), ["Confirmed the commit of ann."]);
        let with_own = of(4, 2, Outcome::Confirmed, 0);
        let saved = "Committed and saved as number 4: 2 changes.";
        assert_eq!(with_own, [saved, "This confirmed the commit of ann, too."]);
        assert_eq!(of(0, 1, Outcome::RolledBack, 0), ["Rolled back the commit of ann: 1 change."]);
        let [committed, deadline] = &of(0, 1, Outcome::Unchanged, 1)[..] else { panic!() };
        assert_eq!(committed, "Committed: 1 change.");
        assert!(deadline.contains("together with the earlier commit of ann,"), "{deadline}");
        assert_eq!(report(&v1::CommitReply::default()), ["Nothing changed."]);
    }

    #[test]
    fn arguments_are_parsed() {
        assert_eq!(of("").unwrap(), Commit::default());
        let commit = of("confirmed 5 comment \"new uplink\"").unwrap();
        assert_eq!(commit.confirm_within, Some(Duration::from_secs(300)));
        assert_eq!(commit.comment, "new uplink");
        assert_eq!(of("confirmed").unwrap().confirm_within, Some(Duration::from_secs(600)));
        assert!(of("overwrite").unwrap().is_overwriting && of("cancel").unwrap().is_cancelled);
        assert!(of("force").unwrap().is_forced);
        assert!(of("check").unwrap().is_check);
        assert_eq!(of("comment new uplink to the core").unwrap().comment, "new uplink to the core");
        assert!(of("comment uplink force").unwrap().is_forced);
        assert_eq!(of("confirm 5 comm a").unwrap(), of("confirmed 5 comment a").unwrap());
        assert_eq!(of("comment add a check for c").unwrap().comment, "add a check for c");
        assert_eq!(of("comment uplink f").unwrap().comment, "uplink f");
        for wrong in ["confirmed 0", "confirmed 1441", "comment", "now", "co 5", "check force"] {
            assert!(matches!(of(wrong), Err(Failure::Words(_))), "{wrong}");
        }
    }
}
