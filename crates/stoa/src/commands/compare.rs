//! `stoa compare`: shows what a commit would change.

use std::process::ExitCode;

use serde_json::json;
use stoa_api::v1::CompareRequest;
use stoa_api::v1::compare_request::{New, Old};

use crate::failure::Outcome;
use crate::operator::{SocketArgument, block_on};
use crate::show;

/// Show what a commit would change, or the difference between two configurations of the history
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa compare            From the running configuration to the candidate
  stoa compare 7          From number 7 of the history to the candidate
  stoa compare 7 9        From number 7 to number 9

+ marks an added node, - a removed one, ~ a changed value, ! a deactivated or activated node.")]
pub struct Arguments {
    /// Number in the history, see `stoa show history` [default: the running configuration]
    #[arg(value_name = "OLD")]
    old: Option<u64>,
    /// Number in the history [default: the candidate]
    #[arg(value_name = "NEW")]
    new: Option<u64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    socket: SocketArgument,
}

/// Compares.
pub fn execute(arguments: Arguments) -> Outcome {
    let old = arguments.old.map(Old::OldNumber);
    let new = arguments.new.map(New::NewNumber);
    let changes = block_on(async {
        Ok(arguments.socket.session().await?.compare(CompareRequest { old, new }).await?)
    })?;
    if arguments.json {
        let changes: Vec<_> = changes.iter().map(show::configuration::change).collect();
        show::print(&json!({ "changes": changes }).to_string())?;
    } else if !changes.is_empty() {
        let lines = stoa_console::changes::lines(&changes);
        show::print(&lines.join("\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}
