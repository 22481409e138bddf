//! `stoa discard`: forget what was not committed.

use std::process::ExitCode;

use crate::failure::Outcome;
use crate::operator::{SocketArgument, block_on};

/// Forget all changes that were not committed
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    socket: SocketArgument,
}

/// Discards.
pub fn execute(arguments: Arguments) -> Outcome {
    block_on(async {
        arguments.socket.session().await?.discard().await?;
        Ok(ExitCode::SUCCESS)
    })
}
