//! `stoa insert`: edits the candidate.

use std::process::ExitCode;

use crate::failure::Outcome;
use crate::operator::{SocketArgument, block_on};

/// Place an entry in its list in the candidate configuration, such as a rule; `stoa commit` applies it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa insert acls acl edge aces ace web before rest
  stoa insert acls acl edge aces ace web first
  stoa compare && stoa commit")]
pub struct Arguments {
    /// Names and keys of the entry, then `before` or `after` and the key of another one, or `first` or `last`
    #[arg(value_name = "WORD", required = true)]
    words: Vec<String>,
    #[command(flatten)]
    socket: SocketArgument,
}

/// Edits the candidate.
pub fn execute(arguments: Arguments) -> Outcome {
    block_on(async {
        arguments.socket.session().await?.insert(&arguments.words).await?;
        Ok(ExitCode::SUCCESS)
    })
}
