//! Failures of commands: a message with the next step, and the exit code.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::json;
use stoa_api::v1::ValidationError;
use stoa_console::session;

use crate::show;

/// A command that failed.
#[derive(Debug)]
pub enum Failure {
    /// A message for standard error.
    Message(String),
    /// Wrong usage, found after the command line was read.
    Usage(String),
    /// Validation errors for standard error, below a headline.
    ValidationErrors(String, Vec<ValidationError>),
    /// The failure has been reported already; only the exit code is left.
    Reported(ExitCode),
    /// The reader has closed the output, as in `stoa show routes | head`.
    OutputClosed,
}

/// The result of a command.
pub type Outcome = Result<ExitCode, Failure>;

impl Failure {
    /// The failure as JSON; `None` if nothing is left to report.
    fn json(&self) -> Option<serde_json::Value> {
        match self {
            Failure::Message(text) | Failure::Usage(text) => Some(json!({ "error": text })),
            Failure::ValidationErrors(headline, errors) => {
                let error = headline.trim_end_matches(':');
                Some(json!({ "error": error, "errors": show::errors(errors) }))
            }
            Failure::Reported(_) | Failure::OutputClosed => None,
        }
    }

    /// Reports the failure on standard error, with `as_json` also on standard output, and returns the exit code.
    pub fn report(self, as_json: bool) -> ExitCode {
        if let Some(json) = self.json().filter(|_| as_json) {
            // A closed output is no further failure; the exit code reports this one.
            let _ = show::print(&json.to_string());
        }
        match self {
            Failure::Message(text) => to_stderr(format_args!("stoa: {text}")),
            Failure::ValidationErrors(headline, errors) => {
                to_stderr(format_args!("stoa: {headline}\n"));
                for error in errors {
                    to_stderr(format_args!("{error}\n"));
                }
            }
            Failure::Usage(text) => {
                to_stderr(format_args!("stoa: {text}"));
                return ExitCode::from(2);
            }
            Failure::Reported(code) => return code,
            Failure::OutputClosed => return ExitCode::SUCCESS,
        }
        ExitCode::FAILURE
    }

    /// The message `context: error`.
    pub fn context(context: impl Display, error: impl Display) -> Failure {
        Failure::Message(format!("{context}: {error}"))
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::context("cannot write the output", error),
        }
    }
}

impl From<tonic::Status> for Failure {
    fn from(status: tonic::Status) -> Failure {
        // A status with a source was made on this side: the connection is gone.
        if status.source().is_some() {
            return Failure::Message(
                "the controller does not answer: Stoa restarts it; try again in a few seconds"
                    .to_owned(),
            );
        }
        Failure::Message(status.message().to_owned())
    }
}

impl From<session::Failure> for Failure {
    fn from(failure: session::Failure) -> Failure {
        match failure {
            session::Failure::Words(text) => Failure::Message(text),
            session::Failure::Refused(headline, errors) => {
                Failure::ValidationErrors(format!("{headline}:"), errors)
            }
            session::Failure::Status(status) => Failure::from(*status),
        }
    }
}

/// Writes a line to standard error. `eprintln!` would panic if the reader has closed it, as in `2>&1 | head`.
pub fn to_stderr(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// "1 error", "2 errors".
pub fn plural(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_connection_asks_to_try_again() {
        let broken = tonic::Status::from_error(Box::new(io::Error::other("transport error")));
        let Failure::Message(text) = Failure::from(broken) else { panic!("no message") };
        assert!(text.contains("restarts it; try again"), "{text}");
        let Failure::Message(text) = Failure::from(tonic::Status::not_found("no port x")) else {
            panic!("no message")
        };
        assert_eq!(text, "no port x");
    }
}
