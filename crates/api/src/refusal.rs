//! How a refusal of the forwarder travels: a gRPC status whose details are a
//! [`v1::Refusal`], so that every reason reaches the operator.

use prost::Message;
use tonic::{Code, Status};

use crate::v1;

/// The status of a refusal, with all reasons in its details. `code` is
/// `FailedPrecondition`, `InvalidArgument` or `ResourceExhausted`.
pub fn refuse(code: Code, reasons: Vec<v1::Reason>) -> Status {
    let reason = match reasons.first() {
        Some(first) if reasons.len() == 1 => format!("{}: {}", first.place, first.reason),
        Some(first) => {
            format!("{}: {} (and {} more)", first.place, first.reason, reasons.len() - 1)
        }
        None => "refused".to_owned(),
    };
    let refusal = v1::Refusal { reasons };
    Status::with_details(code, reason, refusal.encode_to_vec().into())
}

/// The reasons in a status, or `None` when it is not a refusal but a failure.
pub fn reasons(status: &Status) -> Option<Vec<v1::Reason>> {
    match status.code() {
        Code::FailedPrecondition | Code::InvalidArgument | Code::ResourceExhausted => {}
        _ => return None,
    }
    let refusal = v1::Refusal::decode(status.details()).ok()?;
    if refusal.reasons.is_empty() {
        return Some(vec![v1::Reason {
            place: "forwarder".to_owned(),
            reason: status.message().to_owned(),
            fix: "Look at the log of the forwarder.".to_owned(),
        }]);
    }
    Some(refusal.reasons)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(place: &str) -> v1::Reason {
        v1::Reason { place: place.into(), reason: "no such device".into(), fix: "make it".into() }
    }

    #[test]
    fn every_reason_comes_back() {
        let sent = vec![reason("port \"a\""), reason("port \"b\"")];
        let status = refuse(Code::FailedPrecondition, sent.clone());
        assert_eq!(status.message(), "port \"a\": no such device (and 1 more)");
        assert_eq!(reasons(&status), Some(sent));
    }

    #[test]
    fn failures_are_not_refusals() {
        assert_eq!(reasons(&Status::unavailable("gone")), None);
        let bare = reasons(&Status::invalid_argument("bad")).unwrap();
        assert_eq!(bare[0].reason, "bad");
    }
}
