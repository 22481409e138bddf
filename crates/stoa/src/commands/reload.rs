//! `stoa reload`: applies the edited configuration as one transaction.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};
use stoa_api::v1::{ReloadReply, ReloadRequest};
use stoa_console::commit::warned;

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
    if arguments.json {
        show::print(&as_json(&reply).to_string())?;
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
        show::print(&report(&reply).join("\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn as_json(reply: &ReloadReply) -> Value {
    let applied = reply.what.unwrap_or_default();
    json!({
        "applied": reply.applied,
        "changed": applied.changed,
        "ports_opened": applied.ports_opened,
        "ports_closed": applied.ports_closed,
        "routes_added": applied.routes_added,
        "routes_removed": applied.routes_removed,
        "warnings": reply.warnings,
        "errors": show::errors(&reply.errors),
    })
}

/// The result as text: the warnings as those of a commit, then what changed.
fn report(reply: &ReloadReply) -> Vec<String> {
    let applied = reply.what.unwrap_or_default();
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
    warned(&reply.warnings).chain([text]).collect()
}

#[cfg(test)]
mod tests {
    use stoa_api::v1::Applied;

    use super::*;

    #[test]
    fn warnings_are_printed_as_those_of_a_commit() {
        let what = Applied { changed: true, routes_added: 2, ..Applied::default() };
        let warnings = vec!["route 10.0.0.0/8 is inactive: it has no path".to_owned()];
        let reply =
            ReloadReply { applied: true, what: Some(what), warnings, ..ReloadReply::default() };
        let lines = [
            "Warning: route 10.0.0.0/8 is inactive: it has no path",
            "Reloaded: 0 ports opened, 0 closed; 2 routes added, 0 removed.",
        ];
        assert_eq!(report(&reply), lines);
        assert_eq!(as_json(&reply)["warnings"], json!(reply.warnings));
        assert_eq!(report(&ReloadReply::default()), ["Nothing changed."]);
    }
}
