//! `stoa annotate`: edits the candidate.

use std::process::ExitCode;

use crate::failure::Outcome;
use crate::operator::{SocketArgument, block_on};

/// Write a text about a node of the candidate configuration; `stoa commit` applies it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa annotate interfaces interface eth0 \"to the core, ticket 4711\"
  stoa compare && stoa commit")]
pub struct Arguments {
    /// Names and keys of the node, then the text
    #[arg(value_name = "WORD", required = true)]
    words: Vec<String>,
    #[command(flatten)]
    socket: SocketArgument,
}

/// Edits the candidate.
pub fn execute(arguments: Arguments) -> Outcome {
    block_on(async {
        arguments.socket.session().await?.annotate(&arguments.words).await?;
        Ok(ExitCode::SUCCESS)
    })
}
