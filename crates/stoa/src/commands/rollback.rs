//! `stoa rollback`: copies an earlier configuration into the candidate.

use std::process::ExitCode;

use crate::failure::Outcome;
use crate::operator::{SocketArgument, block_on};

/// Copy an earlier configuration into the candidate; `stoa commit` applies it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa show history
  stoa rollback 1 && stoa compare && stoa commit comment \"previous configuration\"")]
pub struct Arguments {
    /// Number of commits to go back; 0 is the running configuration
    #[arg(value_name = "N")]
    back: u32,
    #[command(flatten)]
    socket: SocketArgument,
}

/// Rolls back.
pub fn execute(arguments: Arguments) -> Outcome {
    block_on(async {
        arguments.socket.session().await?.rollback(arguments.back).await?;
        Ok(ExitCode::SUCCESS)
    })
}
