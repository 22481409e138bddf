//! `stoa commit`: applies the candidate and saves it.

use std::process::ExitCode;

use serde_json::json;
use stoa_console::commit::{Commit, checked, report};

use crate::failure::Outcome;
use crate::operator::{SocketArgument, block_on};
use crate::show;

/// Apply the candidate configuration as a whole or not at all, and save it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa commit
  stoa commit check                   Validate the candidate and change nothing
  stoa commit comment \"second uplink\"
  stoa commit confirmed 5             Roll back in 5 minutes unless a `stoa commit` confirms it
  stoa commit cancel                  Roll back an unconfirmed commit now
  stoa commit force                   Commit even if this cuts off the shell that you type in
  stoa commit overwrite               Commit, and discard edits of the startup file by hand

If the commit is refused, the running configuration stays as it is and the exit code is 1.")]
pub struct Arguments {
    /// check, confirmed [MINUTES], comment TEXT, overwrite, force, cancel
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    socket: SocketArgument,
}

/// Commits.
pub fn execute(arguments: Arguments) -> Outcome {
    let commit = Commit::of(&arguments.words)?;
    let is_check = commit.is_check;
    let reply = block_on(async { Ok(arguments.socket.session().await?.commit(commit).await?) })?;
    if arguments.json {
        let answer = json!({
            "number": reply.number,
            "changes": reply.changes.iter().map(show::configuration::change).collect::<Vec<_>>(),
            "confirm_by_unix_ms": reply.confirm_by_unix_ms,
            "earlier": reply.earlier.as_ref().map(show::configuration::earlier),
            "warnings": reply.warnings,
        });
        show::print(&answer.to_string())?;
    } else {
        let lines = if is_check { checked(&reply) } else { report(&reply) };
        show::print(&lines.join("\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}
