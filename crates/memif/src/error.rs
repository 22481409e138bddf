//! Why an interface could not be opened.

use std::path::PathBuf;

/// Why an interface could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A value of the configuration makes no sense.
    #[error("{field}: {reason}")]
    Config {
        /// The field, as operators write it.
        field: &'static str,
        /// What is wrong, and the valid values.
        reason: String,
    },
    /// Another process uses it.
    #[error("{what} is in use: choose another, or end the process that uses it")]
    Busy {
        /// What is in use.
        what: String,
    },
    /// The socket's file cannot be made.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A system call failed.
    #[error("{doing}: {source}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
}
