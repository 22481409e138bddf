//! Errors in gRPC form.

use http::StatusCode;
use stoa_controller::datastore::Refusal;
use tonic::{Code, Status};

use crate::auth::Denied;
use crate::restconf::fault::{Fault, Faults};
use crate::server::app_state::BodyError;

/// Maximum length of a message in bytes: it is in a header field.
const MESSAGE_BYTES: usize = 4_000;

fn code(status: StatusCode) -> Code {
    match status {
        StatusCode::BAD_REQUEST | StatusCode::METHOD_NOT_ALLOWED => Code::InvalidArgument,
        StatusCode::UNAUTHORIZED => Code::Unauthenticated,
        StatusCode::FORBIDDEN => Code::PermissionDenied,
        StatusCode::NOT_FOUND => Code::NotFound,
        StatusCode::REQUEST_TIMEOUT => Code::DeadlineExceeded,
        StatusCode::CONFLICT => Code::FailedPrecondition,
        StatusCode::PRECONDITION_FAILED => Code::Aborted,
        StatusCode::PAYLOAD_TOO_LARGE | StatusCode::TOO_MANY_REQUESTS => Code::ResourceExhausted,
        StatusCode::SERVICE_UNAVAILABLE => Code::Unavailable,
        _ => Code::Internal,
    }
}

fn short(mut words: String) -> String {
    if words.len() > MESSAGE_BYTES {
        let end = (0..=MESSAGE_BYTES).rev().find(|at| words.is_char_boundary(*at)).unwrap_or(0);
        words.truncate(end);
        words.push_str(" ...");
    }
    words
}

/// All errors, each with its path.
pub fn of_faults(faults: &Faults) -> Status {
    Status::new(code(faults.status()), short(faults.messages().join("; ")))
}

/// One error.
pub fn of_fault(fault: Fault) -> Status {
    of_faults(&fault.into())
}

/// A refused change of a datastore.
pub fn of_refusal(refusal: Refusal) -> Status {
    of_faults(&refusal.into())
}

/// A failed authentication.
pub fn of_denied(denied: &Denied) -> Status {
    Status::new(code(denied.status()), denied.words())
}

/// A body that was not read.
pub fn of_unread(unread: BodyError) -> Status {
    Status::new(code(unread.status()), unread.words())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_a_path_and_a_maximum_length() {
        let fault = Fault::value("too small").at("/ietf-interfaces:interfaces");
        let status = of_fault(fault);
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(status.message(), "/ietf-interfaces:interfaces: too small");
        let long = of_fault(Fault::nowhere("ä".repeat(MESSAGE_BYTES)));
        assert!(long.message().len() <= MESSAGE_BYTES + 4 && long.code() == Code::NotFound);
    }
}
