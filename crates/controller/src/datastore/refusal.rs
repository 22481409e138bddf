//! Errors of changes of a datastore.

use stoa_yang::error::{self, ValidationError};
use stoa_yang::{LibyangError, data};

use crate::apply;

use super::lock_holder::LockHolder;

/// Why a change was refused.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The configuration is invalid, or the forwarder refused it.
    #[error("the configuration is refused")]
    Invalid(Vec<ValidationError>),
    /// It would cut off its author.
    #[error("it would cut off your own access")]
    AccessLost(Vec<ValidationError>),
    /// Another session holds the lock.
    #[error("{0}")]
    Locked(LockHolder),
    /// The node to create exists.
    #[error("{0} exists")]
    Exists(String),
    /// The node to change or remove does not exist.
    #[error("{0} does not exist")]
    Missing(String),
    /// The datastore changed since the client read it.
    #[error("the datastore changed since it was read")]
    Stale,
    /// The candidate conflicts with a change of running.
    #[error("a change of running by {0} conflicts with the candidate")]
    Conflict(String),
    /// The history has no such configuration.
    #[error("the history has {there} configurations, none of {back} commits ago")]
    NotInHistory {
        /// The requested number of commits.
        back: usize,
        /// The length of the history.
        there: usize,
    },
    /// No commit waits for its confirmation.
    #[error("no commit waits for its confirmation")]
    NothingUnconfirmed,
    /// The forwarder did not answer.
    #[error("{0}")]
    Unreachable(String),
    /// A file cannot be read or written.
    #[error("{0}")]
    Disk(String),
}

impl Refusal {
    /// The errors: path, cause and fix.
    pub fn errors(self) -> Vec<ValidationError> {
        let cause = self.to_string();
        let (path, fix) = match self {
            Refusal::Invalid(errors) | Refusal::AccessLost(errors) => return errors,
            Refusal::Locked(_) => (
                "/".into(),
                "Wait until the lock is released: by a console when it leaves configuration mode or ends.",
            ),
            Refusal::Exists(path) => (path, "Change it instead, or delete it first."),
            Refusal::Missing(path) => (path, "Check the path with `stoa show configuration`."),
            Refusal::Stale => ("/".into(), "Read the datastore again and repeat the change."),
            Refusal::Conflict(_) => ("/".into(), "Discard the candidate and repeat its edits."),
            Refusal::NotInHistory { .. } => {
                ("/".into(), "`stoa show history` lists the configurations.")
            }
            Refusal::NothingUnconfirmed => {
                ("/".into(), "There is nothing to confirm or to cancel.")
            }
            Refusal::Unreachable(_) => ("/".into(), "Check the log, then try again."),
            Refusal::Disk(_) => ("/".into(), "Check free space and permissions, then try again."),
        };
        error::one(path, cause, fix)
    }
}

pub(super) fn one(path: &str, cause: impl Into<String>, fix: &str) -> Refusal {
    Refusal::Invalid(error::one(path, cause, fix))
}

pub(super) fn startup_is_read_only() -> Refusal {
    one(
        "/",
        "the startup datastore is read-only",
        "Change running or the candidate; a commit writes startup.",
    )
}

/// An internal error of libyang.
pub(super) fn yang(error: yang5::Error) -> Refusal {
    Refusal::Invalid(data::internal(&error))
}

/// The errors that libyang reported for data of a client.
pub(super) fn invalid(error: &yang5::Error, reported: &[LibyangError]) -> Refusal {
    Refusal::Invalid(data::invalid(error, reported))
}

/// A panic of a task.
pub(super) fn panicked(error: tokio::task::JoinError) -> Refusal {
    one("/", format!("the change was not made: {error}"), "Report this: it is a bug of Stoa.")
}

/// Runs `work` to completion even if the caller is cancelled.
pub(super) async fn to_completion<T: Send + 'static>(
    work: impl Future<Output = Result<T, Refusal>> + Send + 'static,
) -> Result<T, Refusal> {
    tokio::spawn(work).await.map_err(panicked)?
}

impl From<Vec<ValidationError>> for Refusal {
    fn from(errors: Vec<ValidationError>) -> Refusal {
        Refusal::Invalid(errors)
    }
}

impl From<apply::Error> for Refusal {
    fn from(error: apply::Error) -> Refusal {
        match error {
            apply::Error::Refused(errors) => Refusal::Invalid(errors),
            other => Refusal::Unreachable(other.to_string()),
        }
    }
}
