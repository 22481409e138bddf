//! How a command fails: words that name the next step, and the exit code.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::json;
use stoa_console::session;
use stoa_controller::error::ValidationError;

use crate::show;

/// A command that failed.
#[derive(Debug)]
pub enum Failure {
    /// Words for standard error.
    Words(String),
    /// Wrong usage, found after the command line was read.
    Usage(String),
    /// ValidationErrors for standard error, under a headline.
    ValidationErrors(String, Vec<ValidationError>),
    /// All is said; only the exit code is left.
    Said(ExitCode),
    /// Nobody reads the output any more, as with `stoa show routes | head`.
    NobodyReads,
}

/// What a command comes to.
pub type Outcome = Result<ExitCode, Failure>;

impl Failure {
    /// What is said with `--json`, for programs; `None`: all is said.
    fn json(&self) -> Option<serde_json::Value> {
        match self {
            Failure::Words(words) | Failure::Usage(words) => Some(json!({ "error": words })),
            Failure::ValidationErrors(headline, errors) => {
                let error = headline.trim_end_matches(':');
                Some(json!({ "error": error, "errors": show::errors(errors) }))
            }
            Failure::Said(_) | Failure::NobodyReads => None,
        }
    }

    /// Says it, with `as_json` on standard output as well, and gives the exit code.
    pub fn report(self, as_json: bool) -> ExitCode {
        if let Some(json) = self.json().filter(|_| as_json) {
            // Who does not read any more need not know; the exit code says it too.
            let _ = show::print(&json.to_string());
        }
        match self {
            Failure::Words(words) => say(format_args!("stoa: {words}")),
            Failure::ValidationErrors(headline, errors) => {
                say(format_args!("stoa: {headline}\n"));
                for error in errors {
                    say(format_args!("{error}\n"));
                }
            }
            Failure::Usage(words) => {
                say(format_args!("stoa: {words}"));
                return ExitCode::from(2);
            }
            Failure::Said(code) => return code,
            Failure::NobodyReads => return ExitCode::SUCCESS,
        }
        ExitCode::FAILURE
    }

    /// A failure that `words` and `error` explain together.
    pub fn because(words: impl Display, error: impl Display) -> Failure {
        Failure::Words(format!("{words}: {error}"))
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::NobodyReads,
            _ => Failure::because("cannot write the answer", error),
        }
    }
}

impl From<tonic::Status> for Failure {
    fn from(status: tonic::Status) -> Failure {
        // A status with a source was made on this side: the line broke.
        if status.source().is_some() {
            return Failure::Words(
                "the controller does not answer; it is being started again: try again in a moment"
                    .to_owned(),
            );
        }
        Failure::Words(status.message().to_owned())
    }
}

impl From<session::Failure> for Failure {
    fn from(failure: session::Failure) -> Failure {
        match failure {
            session::Failure::Words(words) => Failure::Words(words),
            session::Failure::Refused(headline, errors) => {
                Failure::ValidationErrors(format!("{headline}:"), errors)
            }
            session::Failure::Status(status) => Failure::from(*status),
        }
    }
}

/// A line for people, on standard error. Who does not read it any more, as with `2>&1 | head`, is
/// no reason to end in any other way: `eprintln!` would panic.
pub fn say(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// "1 error", "2 errors".
pub fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_line_says_what_to_do() {
        let broken = tonic::Status::from_error(Box::new(io::Error::other("transport error")));
        let Failure::Words(words) = Failure::from(broken) else { panic!("no words") };
        assert!(words.contains("being started again: try again"), "{words}");
        let Failure::Words(words) = Failure::from(tonic::Status::not_found("no port x")) else {
            panic!("no words")
        };
        assert_eq!(words, "no port x");
    }
}
