//! `stoa reload`: applies the edited configuration as one transaction.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use stoa_api::v1::ReloadRequest;

use crate::failure::{Failure, Outcome, plural};
use crate::operator::{SocketArgument, block_on};
use crate::show;

/// Read the configuration file again and apply it, as a whole or not at all
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa reload                      Apply the file that the router was started with
  stoa reload /etc/stoa/new.json   Apply another file

If the configuration is refused, the running one stays as it is and the exit code is 1.")]
pub struct Arguments {
    /// Configuration file [default: the file of `stoa run`]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    socket: SocketArgument,
}

/// Sends the request to reload.
pub fn execute(arguments: Arguments) -> Outcome {
    let mut path = String::new();
    if let Some(file) = &arguments.file {
        // The router may have another working directory.
        let absolute =
            std::path::absolute(file).map_err(|error| Failure::context(file.display(), error))?;
        path = absolute.display().to_string();
    }
    let reply = block_on(async {
        let mut client = arguments.socket.connect().await?;
        Ok(client.reload(ReloadRequest { path }).await?.into_inner())
    })?;
    let applied = reply.what.unwrap_or_default();
    if arguments.json {
        let answer = json!({
            "applied": reply.applied,
            "changed": applied.changed,
            "ports_opened": applied.ports_opened,
            "ports_closed": applied.ports_closed,
            "routes_added": applied.routes_added,
            "routes_removed": applied.routes_removed,
            "errors": show::errors(&reply.errors),
        });
        show::print(&answer.to_string())?;
    }
    if !reply.applied {
        if arguments.json {
            return Err(Failure::Reported(ExitCode::FAILURE));
        }
        let headline = format!(
            "refused with {}; the running configuration is unchanged:",
            plural(reply.errors.len(), "error")
        );
        return Err(Failure::ValidationErrors(headline, reply.errors));
    }
    if !arguments.json {
        let text = if applied.changed {
            format!(
                "Reloaded: {} opened, {} closed; {} added, {} removed.",
                plural(applied.ports_opened as usize, "port"),
                applied.ports_closed,
                plural(applied.routes_added as usize, "route"),
                applied.routes_removed
            )
        } else {
            "Nothing changed.".to_owned()
        };
        show::print(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}
