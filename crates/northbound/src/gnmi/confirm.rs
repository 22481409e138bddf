//! The extension of gNMI for commits that are undone by themselves unless they are confirmed.

use std::sync::PoisonError;
use std::time::Duration;

use stoa_api::gnmi_ext::commit::Action;
use stoa_api::gnmi_ext::{Extension, extension::Ext};
use stoa_controller::datastore::{Author, Datastore};
use tonic::Status;

use super::{Caller, Service, status, unserved};
use crate::nacm::Rights;
use crate::restconf::fault::Fault;
use crate::restconf::rpc::MODULE;

/// Time to confirm in when the client does not say.
const WITHIN: Duration = Duration::from_secs(600);
/// Longest time to confirm in.
const WITHIN_LIMIT: Duration = Duration::from_secs(24 * 3_600);
/// Bytes of a name of a commit.
const ID_BYTES: usize = 256;

/// What a Set does with a commit that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Nothing: it is a plain change.
    Nothing,
    /// The change waits, by this name and for this time.
    Wait(String, Duration),
    /// What waits stays.
    Confirm(String),
    /// What waits is undone.
    Cancel(String),
}

/// What the extensions of a Set ask for.
///
/// # Errors
/// When one is not served, or lacks something.
pub fn read(extensions: &[Extension]) -> Result<Asked, Status> {
    let mut asked = Asked::Nothing;
    for extension in extensions {
        let commit = match &extension.ext {
            None | Some(Ext::RegisteredExt(_)) => continue,
            Some(Ext::Commit(commit)) => commit,
            Some(other) => return Err(unserved(other)),
        };
        if asked != Asked::Nothing {
            return Err(Status::invalid_argument("the extension Commit is given twice"));
        }
        let id = commit.id.clone();
        if id.is_empty() || id.len() > ID_BYTES {
            let words = format!("a Commit has an id of 1 to {ID_BYTES} bytes");
            return Err(Status::invalid_argument(words));
        }
        asked = match &commit.action {
            Some(Action::Commit(commit)) => Asked::Wait(id, within(commit.rollback_duration)?),
            Some(Action::Confirm(_)) => Asked::Confirm(id),
            Some(Action::Cancel(_)) => Asked::Cancel(id),
            Some(Action::SetRollbackDuration(_)) => {
                let words =
                    "the time of a commit that waits cannot be changed: cancel it, or confirm it";
                return Err(Status::unimplemented(words));
            }
            None => return Err(Status::invalid_argument("the extension Commit says no action")),
        };
    }
    Ok(asked)
}

fn within(given: Option<prost_types::Duration>) -> Result<Duration, Status> {
    let Some(given) = given else { return Ok(WITHIN) };
    let within = Duration::try_from(given).unwrap_or_default();
    match within < Duration::from_secs(1) || within > WITHIN_LIMIT {
        true => {
            let words = format!("rollback_duration is 1 to {} seconds", WITHIN_LIMIT.as_secs());
            Err(Status::invalid_argument(words))
        }
        false => Ok(within),
    }
}

/// Nothing waits, else nothing else is changed: it would confirm what waits.
///
/// # Errors
/// When a commit waits.
pub fn none_waits(datastore: &Datastore) -> Result<(), Status> {
    match datastore.unconfirmed() {
        None => Ok(()),
        Some(waiting) => Err(Status::failed_precondition(format!(
            "a commit of {} waits for its confirmation for {} s: confirm it or cancel it first",
            waiting.author,
            waiting.remaining().as_secs()
        ))),
    }
}

impl Service {
    /// Remembers by which name the commit waits that a user has just made.
    pub fn waits(&self, id: String, author: &Author) {
        let made = self.front.datastore.unconfirmed().filter(|made| made.author == author.name);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        *waiting = made.map(|made| (id, made));
    }

    /// Confirms or cancels what waits.
    ///
    /// # Errors
    /// When nothing waits by this name, or the client may not.
    pub async fn settle(
        &self,
        caller: &Caller,
        author: &Author,
        id: &str,
        is_confirm: bool,
    ) -> Result<(), Status> {
        let datastore = &self.front.datastore;
        let known = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // A commit that another gNMI service made since is none of this name.
        let waits = datastore.unconfirmed();
        if !known.is_some_and(|(name, made)| name == id && waits.as_ref() == Some(&made)) {
            let words = format!("no commit by the id {id:?} waits to be confirmed");
            return Err(Status::failed_precondition(words));
        }
        let name = if is_confirm { "confirm" } else { "cancel" };
        let management = self.front.management();
        if !Rights::of(&caller.identity, &management).may_call(MODULE, name) {
            return Err(status::of_fault(Fault::forbidden(format!("/{MODULE}:{name}"))));
        }
        let done = match is_confirm {
            true => datastore.confirm(author, "").await,
            false => datastore.cancel(author).await,
        };
        done.map(|_| ()).map_err(status::of_refusal)
    }
}
