//! Errors of calls to the forwarder, as operators see them.

use std::error::Error as _;

use tonic::Status;

/// An error of a call to the forwarder as an error for the operator.
pub(crate) fn failed(status: Status) -> Status {
    match status.code() {
        // A status with a source is local: the connection broke, for example because the forwarder was killed.
        code if code == tonic::Code::Unavailable || status.source().is_some() => {
            Status::unavailable(
                "the forwarder does not answer, it is restarting: try again in a moment",
            )
        }
        _ => status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_connection_means_that_the_forwarder_restarts() {
        let broken = Status::from_error(Box::new(std::io::Error::other("transport error")));
        let status = failed(broken);
        assert_eq!(status.code(), tonic::Code::Unavailable);
        assert!(status.message().contains("it is restarting: try again"), "{status}");
        let status = failed(Status::invalid_argument("no such family"));
        assert_eq!(status.message(), "no such family", "errors of the forwarder stay");
    }
}
