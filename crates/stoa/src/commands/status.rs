//! `stoa status`: whether the router runs and has applied its configuration.

use std::process::ExitCode;

use stoa_api::v1::StatusRequest;

use crate::failure::Outcome;
use crate::operator::{SocketArgument, block_on};
use crate::show;

/// Show whether the router runs and has applied its configuration
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa status
  stoa status --json | jq .in_sync")]
pub struct Arguments {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    socket: SocketArgument,
}

/// Requests the status and prints it.
pub fn execute(arguments: Arguments) -> Outcome {
    let status = block_on(async {
        let mut client = arguments.socket.connect().await?;
        Ok(client.status(StatusRequest {}).await?.into_inner())
    })?;
    show::print(&if arguments.json {
        show::status::json(&status).to_string()
    } else {
        show::status::text(&status)
    })?;
    Ok(ExitCode::SUCCESS)
}
