//! `stoa delete`: removes a node from the candidate.

use std::process::ExitCode;

use crate::failure::Outcome;
use crate::operator::{SocketArgument, block_on};

/// Remove a node from the candidate configuration; `stoa commit` applies it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa delete interfaces interface lan ipv4 address 10.0.0.1
  stoa delete interfaces interface lan
  stoa discard                        Discard the uncommitted changes")]
pub struct Arguments {
    /// Names and keys of the node
    #[arg(value_name = "WORD", required = true)]
    words: Vec<String>,
    #[command(flatten)]
    socket: SocketArgument,
}

/// Removes the node.
pub fn execute(arguments: Arguments) -> Outcome {
    block_on(async {
        arguments.socket.session().await?.delete(&arguments.words).await?;
        Ok(ExitCode::SUCCESS)
    })
}
