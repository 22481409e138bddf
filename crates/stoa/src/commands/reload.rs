//! `stoa reload`: the edited configuration into force, as one transaction.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use stoa_api::v1::ReloadRequest;

use crate::failure::{Failure, Outcome, counted};
use crate::operator::{SocketArgument, block_on};
use crate::show;

/// Read the configuration again and bring it into force, whole or not at all
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa reload                      The file that the router was started with
  stoa reload /etc/stoa/new.json   Another file

A configuration that is refused leaves what runs untouched (exit code 1).")]
pub struct Arguments {
    /// Configuration file [default: the one the router was started with]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Answer with one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    socket: SocketArgument,
}

/// Asks the router to reload.
pub fn execute(arguments: Arguments) -> Outcome {
    let mut path = String::new();
    if let Some(file) = &arguments.file {
        // The router may have been started in another folder.
        let whole =
            std::path::absolute(file).map_err(|error| Failure::because(file.display(), error))?;
        path = whole.display().to_string();
    }
    let reply = block_on(async {
        let mut client = arguments.socket.connect().await?;
        Ok(client.reload(ReloadRequest { path }).await?.into_inner())
    })?;
    let what = reply.what.unwrap_or_default();
    if arguments.json {
        let answer = json!({
            "applied": reply.applied,
            "changed": what.changed,
            "ports_opened": what.ports_opened,
            "ports_closed": what.ports_closed,
            "routes_added": what.routes_added,
            "routes_removed": what.routes_removed,
            "errors": show::errors(&reply.errors),
        });
        show::print(&answer.to_string())?;
    }
    if !reply.applied {
        if arguments.json {
            return Err(Failure::Said(ExitCode::FAILURE));
        }
        let headline = format!(
            "refused with {}; what runs is untouched:",
            counted(reply.errors.len(), "error")
        );
        return Err(Failure::ValidationErrors(headline, reply.errors));
    }
    if !arguments.json {
        let words = if what.changed {
            format!(
                "In force: {} opened, {} closed; {} added, {} removed.",
                counted(what.ports_opened as usize, "port"),
                what.ports_closed,
                counted(what.routes_added as usize, "route"),
                what.routes_removed
            )
        } else {
            "In force already: nothing changed.".to_owned()
        };
        show::print(&words)?;
    }
    Ok(ExitCode::SUCCESS)
}
