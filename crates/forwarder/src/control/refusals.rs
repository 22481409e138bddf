//! What the contract answers when a desired state or a change is refused.

use stoa_api::refusal;
use tonic::{Code, Status};

use super::{ApplyError, ChangeError};

/// The status of a refused change of the state with this number.
pub(super) fn status_of(generation: u64, error: ChangeError) -> Status {
    match error {
        ChangeError::Generation { held } => Status::failed_precondition(format!(
            "the change starts from state {generation}, and the forwarder holds {held}: send the whole state"
        )),
        ChangeError::Invalid(errors) => refusal::refuse(Code::InvalidArgument, errors),
        ChangeError::Refused(error) => refused(error),
    }
}

/// The status of a refused state.
pub(super) fn refused(error: ApplyError) -> Status {
    let code = if error.is_full { Code::ResourceExhausted } else { Code::FailedPrecondition };
    refusal::refuse(code, error.errors)
}
