//! `stoa commit`: the candidate into force, and kept.

use std::process::ExitCode;

use serde_json::json;
use stoa_console::commit::{Commit, told};

use crate::failure::Outcome;
use crate::operator::{SocketArgument, block_on};
use crate::show;

/// Bring the candidate configuration into force and keep it, whole or not at all
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa commit
  stoa commit comment \"second uplink\"
  stoa commit confirmed 5             Undone in 5 minutes unless another `stoa commit` confirms it
  stoa commit cancel                  Go back from it now
  stoa commit force                   Though it cuts off the shell it is typed in
  stoa commit overwrite               Though the startup file was edited by hand: that is lost

What is refused leaves what runs untouched (exit code 1).")]
pub struct Arguments {
    /// confirmed [MINUTES], comment TEXT, overwrite, force, cancel
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    /// Answer with one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    socket: SocketArgument,
}

/// Commits.
pub fn execute(arguments: Arguments) -> Outcome {
    let commit = Commit::of(&arguments.words)?;
    let reply = block_on(async { Ok(arguments.socket.session().await?.commit(commit).await?) })?;
    if arguments.json {
        let answer = json!({
            "number": reply.number,
            "changes": reply.changes.iter().map(show::configuration::change).collect::<Vec<_>>(),
            "confirm_by_unix_ms": reply.confirm_by_unix_ms,
            "warnings": reply.warnings,
        });
        show::print(&answer.to_string())?;
    } else {
        show::print(&told(&reply).join("\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}
