//! How a command fails: words that name the next step, and the exit code.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use stoa_controller::finding::Finding;

/// A command that failed.
#[derive(Debug)]
pub enum Failure {
    /// Words for standard error.
    Words(String),
    /// Findings for standard error, under a headline.
    Findings(String, Vec<Finding>),
    /// All is said; only the exit code is left.
    Said(ExitCode),
    /// Nobody reads the output any more, as with `stoa show routes | head`.
    NobodyReads,
}

/// What a command comes to.
pub type Outcome = Result<ExitCode, Failure>;

impl Failure {
    /// Says it, and gives the exit code.
    pub fn report(self) -> ExitCode {
        match self {
            Failure::Words(words) => eprintln!("stoa: {words}"),
            Failure::Findings(headline, findings) => {
                eprintln!("stoa: {headline}\n");
                for finding in findings {
                    eprintln!("{finding}\n");
                }
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
        Failure::Words(status.message().to_owned())
    }
}

/// "1 finding", "2 findings".
pub fn counted(findings: &[Finding]) -> String {
    let number = findings.len();
    format!("{number} finding{}", if number == 1 { "" } else { "s" })
}
