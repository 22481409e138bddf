//! `stoa discard`: discards uncommitted changes.

use std::process::ExitCode;

use crate::failure::Outcome;
use crate::operator::{SocketArgument, block_on};

/// Discard the uncommitted changes of the candidate configuration
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
