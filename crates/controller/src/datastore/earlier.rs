//! What a commit does to the one before it that waits for its confirmation.

use super::author::Author;
use super::commit::Origin;
use super::unconfirmed::Unconfirmed;
use crate::warning::Warning;

/// The commit that waited for its confirmation when another one was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Earlier {
    /// Its author.
    pub author: String,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a commit that waited for its confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It waits on: both commits are rolled back unless they are confirmed.
    Unchanged,
    /// It is confirmed.
    Confirmed,
    /// It is rolled back.
    RolledBack,
}

impl Earlier {
    /// Of the commit that waited, after a commit by `author` from `origin` that left `now` waiting. Logs a
    /// confirmation, which whoever follows the log would miss otherwise.
    pub(super) fn of(
        waited: Unconfirmed,
        author: &Author,
        now: Option<&Unconfirmed>,
        origin: Origin,
    ) -> Earlier {
        let outcome = match (now, origin) {
            (Some(_), _) => Outcome::Unchanged,
            (None, Origin::Revert) => Outcome::RolledBack,
            (None, _) => Outcome::Confirmed,
        };
        if outcome == Outcome::Confirmed {
            let Author { name, client, .. } = author;
            tracing::info!(author = name, %client, of = waited.author, "confirmed a commit");
        }
        Earlier { author: waited.author, outcome }
    }

    /// Who made the commit that is confirmed.
    pub fn confirmed(&self) -> Option<&str> {
        (self.outcome == Outcome::Confirmed).then_some(self.author.as_str())
    }

    /// For a client that only changed a node of running: the commit of another user is now permanent.
    pub(super) fn warning(&self) -> Option<Warning> {
        let author = self.confirmed()?;
        Some(Warning::of_machine(format!("this change confirmed the commit of {author}")))
    }
}
