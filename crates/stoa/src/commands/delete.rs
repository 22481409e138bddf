//! `stoa delete`: something out of the candidate.

use std::process::ExitCode;

use crate::failure::Outcome;
use crate::operator::{SocketArgument, block_on};

/// Delete from the candidate configuration; `stoa commit` brings it into force
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa delete interfaces interface lan ipv4 address 10.0.0.1
  stoa delete interfaces interface lan
  stoa discard                        Forget all that was not committed")]
pub struct Arguments {
    /// Names and keys
    #[arg(value_name = "WORD", required = true)]
    words: Vec<String>,
    #[command(flatten)]
    socket: SocketArgument,
}

/// Deletes it.
pub fn execute(arguments: Arguments) -> Outcome {
    block_on(async {
        arguments.socket.session().await?.delete(&arguments.words).await?;
        Ok(ExitCode::SUCCESS)
    })
}
