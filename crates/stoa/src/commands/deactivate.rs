//! `stoa deactivate`: edits the candidate.

use std::process::ExitCode;

use crate::failure::Outcome;
use crate::operator::{SocketArgument, block_on};

/// Take a node of the candidate configuration out of effect and keep it; `stoa commit` applies it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa deactivate interfaces interface eth0
  stoa compare && stoa commit")]
pub struct Arguments {
    /// Names and keys of the node
    #[arg(value_name = "WORD", required = true)]
    words: Vec<String>,
    #[command(flatten)]
    socket: SocketArgument,
}

/// Edits the candidate.
pub fn execute(arguments: Arguments) -> Outcome {
    block_on(async {
        arguments.socket.session().await?.deactivate(&arguments.words).await?;
        Ok(ExitCode::SUCCESS)
    })
}
