//! `stoa compare`: what a commit would change.

use std::process::ExitCode;

use serde_json::json;
use stoa_api::v1::CompareRequest;
use stoa_api::v1::compare_request::{New, Old};

use crate::failure::Outcome;
use crate::operator::{SocketArgument, block_on};
use crate::show;

/// Show what a commit would change, or what differs between two configurations of the history
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa compare            The candidate beside what runs
  stoa compare 7          The candidate beside number 7 of the history
  stoa compare 7 9        Number 9 beside number 7

+ is new, - is gone, ~ has another value.")]
pub struct Arguments {
    /// Number in the history, see `stoa show history` [default: what runs]
    #[arg(value_name = "OLD")]
    old: Option<u64>,
    /// Number in the history [default: the candidate]
    #[arg(value_name = "NEW")]
    new: Option<u64>,
    /// Answer with one JSON object
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
        let lines: Vec<_> = changes.iter().map(stoa_console::show::change).collect();
        show::print(&lines.join("\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}
