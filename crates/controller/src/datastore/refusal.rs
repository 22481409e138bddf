//! Why a datastore was not changed.

use crate::error::{self, ValidationError};
use crate::yang::{Complaint, schema};
use crate::{apply, fix};

use super::lock::Holder;

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// It would not be valid, or the forwarder has no room for it.
    #[error("it is refused")]
    ValidationErrors(Vec<ValidationError>),
    /// It would take away the way on which the one who asks is connected.
    #[error("it would cut off your own access")]
    CutsOff(Vec<ValidationError>),
    /// Somebody else is at work.
    #[error("{0}")]
    Locked(Holder),
    /// What was to be made is there.
    #[error("{0} exists")]
    Exists(String),
    /// What was to be changed or removed is not there.
    #[error("{0} does not exist")]
    Missing(String),
    /// It was changed since it was read.
    #[error("it was changed since it was read")]
    Stale,
    /// The candidate does not fit to what is in force by now.
    #[error(
        "what is in force was changed by {0} in a way that this candidate does not fit to any more"
    )]
    Conflict(String),
    /// There is no configuration that old.
    #[error("there are {there} configurations in the history, and none {back} commits back")]
    NoSuchPast {
        /// How far was asked.
        back: usize,
        /// How many there are.
        there: usize,
    },
    /// No commit waits for a confirmation.
    #[error("no commit waits to be confirmed")]
    NothingToConfirm,
    /// The forwarder did not answer.
    #[error("{0}")]
    Unreachable(String),
    /// The configuration cannot be kept.
    #[error("{0}")]
    Disk(String),
}

impl Refusal {
    /// In the form that operators read: where, why, how to fix.
    pub fn errors(self) -> Vec<ValidationError> {
        let reason = self.to_string();
        let (path, fix) = match self {
            Refusal::ValidationErrors(errors) | Refusal::CutsOff(errors) => return errors,
            Refusal::Locked(_) => ("/".into(), "Wait, or ask who holds it to leave."),
            Refusal::Exists(path) => (path, "Change it instead, or delete it first."),
            Refusal::Missing(path) => (path, "Look at what is configured."),
            Refusal::Stale => ("/".into(), "Read it again, then repeat the change."),
            Refusal::Conflict(_) => {
                ("/".into(), "Discard the candidate and make the change again.")
            }
            Refusal::NoSuchPast { .. } => ("/".into(), "`stoa show history` lists them."),
            Refusal::NothingToConfirm => ("/".into(), "Nothing is to be done."),
            Refusal::Unreachable(_) => ("/".into(), "Look at the log, then try again."),
            Refusal::Disk(_) => {
                ("/".into(), "Make room or give the right to write, then try again.")
            }
        };
        error::one(path, reason, fix)
    }
}

pub(super) fn one(path: &str, reason: impl Into<String>, fix: &str) -> Refusal {
    Refusal::ValidationErrors(error::one(path, reason, fix))
}

pub(super) fn startup_follows() -> Refusal {
    one("/", "the startup datastore is written by commits", "Change running or the candidate.")
}

/// A failure of libyang that no operator has caused.
pub(super) fn yang(error: yang5::Error) -> Refusal {
    let reason = format!("libyang: {}", error.msg.as_deref().unwrap_or("it gave no reason"));
    one("/", reason, "Report this with the configuration: it is a fault of the program.")
}

/// What libyang said about data that somebody gave.
pub(super) fn said(error: &yang5::Error, complaints: &[Complaint]) -> Refusal {
    let own = [Complaint {
        message: error.msg.clone().unwrap_or_else(|| error.to_string()),
        data_path: error.path.clone().unwrap_or_default(),
        ..Complaint::default()
    }];
    let complaints = if complaints.is_empty() { &own } else { complaints };
    Refusal::ValidationErrors(fix::errors(schema(), complaints))
}

pub(super) fn broken(error: tokio::task::JoinError) -> Refusal {
    one(
        "/",
        format!("the change was not made: {error}"),
        "Report this: it is a fault of the program.",
    )
}

impl From<apply::Error> for Refusal {
    fn from(error: apply::Error) -> Refusal {
        match error {
            apply::Error::Refused(errors) => Refusal::ValidationErrors(errors),
            other => Refusal::Unreachable(other.to_string()),
        }
    }
}
