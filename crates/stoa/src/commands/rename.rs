//! `stoa rename`: edits the candidate.

use std::process::ExitCode;

use stoa_console::rename;

use crate::failure::Outcome;
use crate::operator::{SocketArgument, block_on};
use crate::show;

/// Rename a list entry of the candidate configuration, also where others refer to it; `stoa commit` applies it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa rename interfaces interface eth0 to eth1
  stoa compare && stoa commit")]
pub struct Arguments {
    /// Names and keys of the node, then `to` and the new key
    #[arg(value_name = "WORD", required = true)]
    words: Vec<String>,
    #[command(flatten)]
    socket: SocketArgument,
}

/// Edits the candidate.
pub fn execute(arguments: Arguments) -> Outcome {
    block_on(async {
        let mut session = arguments.socket.session().await?;
        // The edits are made of what is read.
        let lock = session.lock().await?;
        let references = session.rename(&arguments.words).await?;
        session.unlock(lock);
        show::print(&rename::report(references))?;
        Ok(ExitCode::SUCCESS)
    })
}
