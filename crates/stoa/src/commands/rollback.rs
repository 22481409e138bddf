//! `stoa rollback`: an earlier configuration as the candidate.

use std::process::ExitCode;

use crate::failure::Outcome;
use crate::operator::{SocketArgument, block_on};

/// Make an earlier configuration the candidate; `stoa commit` brings it into force
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa show history
  stoa rollback 1 && stoa compare && stoa commit comment \"back to before\"")]
pub struct Arguments {
    /// How many commits back; 0 is what runs
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
