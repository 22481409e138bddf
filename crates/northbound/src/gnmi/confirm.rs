//! The gNMI extension for commit-confirmed: a commit that is rolled back unless it is confirmed.

use std::sync::PoisonError;
use std::time::Duration;

use stoa_api::gnmi_ext::commit::Action;
use stoa_api::gnmi_ext::{Extension, extension::Ext};
use stoa_controller::datastore::{Author, Datastore};
use tonic::Status;

use super::service::{Caller, Service, unserved};
use super::status;
use crate::nacm::Rights;
use crate::restconf::fault::Fault;
use crate::restconf::operation::MODULE;
use crate::restconf::refusals;

/// Default confirmation timeout.
const WITHIN: Duration = Duration::from_secs(600);
/// Maximum confirmation timeout.
const WITHIN_LIMIT: Duration = Duration::from_secs(24 * 3_600);
/// Maximum length of a commit id in bytes.
const ID_BYTES: usize = 256;

/// What a Set does with a pending commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitAction {
    /// Nothing: a plain change.
    Nothing,
    /// Begins a commit with this id and timeout.
    Wait(String, Duration),
    /// Confirms it.
    Confirm(String),
    /// Rolls it back.
    Cancel(String),
}

/// Parses the extensions of a Set.
///
/// # Errors
/// When one is unsupported or incomplete.
pub fn read(extensions: &[Extension]) -> Result<CommitAction, Status> {
    let mut action = CommitAction::Nothing;
    for extension in extensions {
        let commit = match &extension.ext {
            None | Some(Ext::RegisteredExt(_)) => continue,
            Some(Ext::Commit(commit)) => commit,
            Some(other) => return Err(unserved(other)),
        };
        if action != CommitAction::Nothing {
            return Err(Status::invalid_argument("the extension Commit occurs twice"));
        }
        let id = commit.id.clone();
        if id.is_empty() || id.len() > ID_BYTES {
            let words = format!("the id of a Commit must have 1 to {ID_BYTES} bytes");
            return Err(Status::invalid_argument(words));
        }
        action = match &commit.action {
            Some(Action::Commit(commit)) => {
                CommitAction::Wait(id, within(commit.rollback_duration)?)
            }
            Some(Action::Confirm(_)) => CommitAction::Confirm(id),
            Some(Action::Cancel(_)) => CommitAction::Cancel(id),
            Some(Action::SetRollbackDuration(_)) => {
                let words =
                    "the rollback duration of a pending commit cannot change: cancel or confirm it";
                return Err(Status::unimplemented(words));
            }
            None => return Err(Status::invalid_argument("the extension Commit has no action")),
        };
    }
    Ok(action)
}

fn within(given: Option<prost_types::Duration>) -> Result<Duration, Status> {
    let Some(given) = given else { return Ok(WITHIN) };
    let within = Duration::try_from(given).unwrap_or_default();
    match within < Duration::from_secs(1) || within > WITHIN_LIMIT {
        true => {
            let words =
                format!("rollback_duration must be 1 to {} seconds", WITHIN_LIMIT.as_secs());
            Err(Status::invalid_argument(words))
        }
        false => Ok(within),
    }
}

/// Refuses a change while a commit is pending, which it would confirm.
///
/// # Errors
/// When a commit is pending.
pub fn none_waits(datastore: &Datastore) -> Result<(), Status> {
    match datastore.unconfirmed() {
        None => Ok(()),
        Some(waiting) => Err(Status::failed_precondition(format!(
            "a commit of {} is pending for another {} s: confirm or cancel it first",
            waiting.author,
            waiting.remaining().as_secs()
        ))),
    }
}

impl Service {
    /// Stores the id of the pending commit that a user has just made.
    pub fn waits(&self, id: String, author: &Author) {
        let made = self.app.datastore.unconfirmed().filter(|made| made.author == author.name);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        *waiting = made.map(|made| (id, made));
    }

    /// Confirms or cancels the pending commit.
    ///
    /// # Errors
    /// When no commit with this id is pending, or the client may not.
    pub async fn settle(
        &self,
        caller: &Caller,
        author: &Author,
        id: &str,
        is_confirm: bool,
    ) -> Result<(), Status> {
        let datastore = &self.app.datastore;
        let known = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // A later pending commit of another interface does not have this id.
        let waits = datastore.unconfirmed();
        if !known.is_some_and(|(name, made)| name == id && waits.as_ref() == Some(&made)) {
            let words = format!("no commit with the id {id:?} is pending");
            return Err(Status::failed_precondition(words));
        }
        let name = if is_confirm { "confirm" } else { "cancel" };
        let management = self.app.management();
        if !Rights::of(&caller.identity, &management).may_call(MODULE, name) {
            return Err(status::of_fault(Fault::forbidden(format!("/{MODULE}:{name}"))));
        }
        let done = match is_confirm {
            true => datastore.confirm(author, "").await,
            false => datastore.cancel(author).await,
        };
        let done = refusals::readable(&self.app, &caller.identity, done.map(drop)).await;
        done.map_err(status::of_refusal)
    }
}
