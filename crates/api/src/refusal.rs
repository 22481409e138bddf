//! A refusal of the forwarder: a gRPC status whose details are a [`v1::Refusal`] with all errors.

use prost::Message;
use tonic::{Code, Status};

use crate::v1;

/// The status of a refusal, with all errors in its details. `code` is
/// `FailedPrecondition`, `InvalidArgument` or `ResourceExhausted`.
pub fn refuse(code: Code, errors: Vec<v1::ValidationError>) -> Status {
    let message = match errors.first() {
        Some(first) if errors.len() == 1 => format!("{}: {}", first.path, first.cause),
        Some(first) => {
            format!("{}: {} (and {} more)", first.path, first.cause, errors.len() - 1)
        }
        None => "refused".to_owned(),
    };
    let refusal = v1::Refusal { errors };
    Status::with_details(code, message, refusal.encode_to_vec().into())
}

/// The errors in a status, or `None` when it reports a failure and not a refusal.
pub fn errors(status: &Status) -> Option<Vec<v1::ValidationError>> {
    match status.code() {
        Code::FailedPrecondition | Code::InvalidArgument | Code::ResourceExhausted => {}
        _ => return None,
    }
    let refusal = v1::Refusal::decode(status.details()).ok()?;
    if refusal.errors.is_empty() {
        return Some(vec![v1::ValidationError {
            path: "forwarder".to_owned(),
            cause: status.message().to_owned(),
            fix: "Check the log of the forwarder.".to_owned(),
            names: Vec::new(),
        }]);
    }
    Some(refusal.errors)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(path: &str) -> v1::ValidationError {
        let (cause, fix) = ("no such device".into(), "create it".into());
        v1::ValidationError { path: path.into(), cause, fix, names: Vec::new() }
    }

    #[test]
    fn every_error_comes_back() {
        let sent = vec![error("port \"a\""), error("port \"b\"")];
        let status = refuse(Code::FailedPrecondition, sent.clone());
        assert_eq!(status.message(), "port \"a\": no such device (and 1 more)");
        assert_eq!(errors(&status), Some(sent));
    }

    #[test]
    fn failures_are_not_refusals() {
        assert_eq!(errors(&Status::unavailable("gone")), None);
        let bare = errors(&Status::invalid_argument("bad")).unwrap();
        assert_eq!(bare[0].cause, "bad");
    }
}
