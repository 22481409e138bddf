//! `stoa check`: validates a configuration file without a router.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use stoa_controller::configuration::Configuration;
use stoa_controller::workers;
use stoa_controller::{privileges, route_sources, supervise};

use crate::failure::{Failure, Outcome, plural};
use crate::folders::FoldersArgument;
use crate::show;

/// Check a configuration file: report each error with its path, cause and fix
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa check /etc/stoa/stoa.json
  stoa check --json examples/two-hosts.json

Needs no privilege and no running router, and opens no device. `stoa run` refuses what this command
refuses; it may also lack a device, a CPU or a privilege.

Give it the folders of ports that `stoa run` has; the service's --memif-folder is /run/stoa/memif.

The exit code is 1 if the configuration has errors.")]
pub struct Arguments {
    /// Configuration file, JSON in RFC 7951 encoding
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    folders: FoldersArgument,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Checks the file and prints the result.
pub fn execute(arguments: Arguments) -> Outcome {
    let file = arguments.file.display().to_string();
    let state = supervise::state_folder(&arguments.file);
    let state = std::path::absolute(&state).map_err(|error| Failure::context(&file, error))?;
    let [pcap, memif] = arguments.folders.or_below(&state)?.map(Some);
    let folders = stoa_forwarder::Folders { pcap, memif };
    let checked = Configuration::read(&arguments.file).and_then(|configuration| {
        configuration.check_by(|desired| stoa_forwarder::check(desired, folders.clone()))?;
        Ok(configuration)
    });
    match checked {
        Ok(configuration) => {
            let needs: Vec<String> = privileges::needed(&configuration.without_routes())
                .iter()
                .map(ToString::to_string)
                .collect();
            let summary = configuration.summary();
            let mut warnings: Vec<String> =
                configuration.warnings().iter().map(ToString::to_string).collect();
            warnings.extend(configuration.exposed_secrets());
            warnings.extend(workers::missing_cpus(&configuration.desired));
            warnings.extend(route_sources::missing_namespaces(
                &configuration.route_sources,
                &configuration.interfaces,
                &configuration.desired.ports,
            ));
            if arguments.json {
                let answer =
                    json!({ "ok": true, "summary": summary, "needs": needs, "warnings": warnings });
                show::print(&answer.to_string())?;
            } else {
                show::print(&format!("{file} is good: {summary}."))?;
                for warning in warnings {
                    show::print(&format!("Warning: {warning}."))?;
                }
                if !needs.is_empty() {
                    show::print(&format!("To run it: {}.", needs.join(", ")))?;
                }
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(errors) if arguments.json => {
            let answer = json!({ "ok": false, "errors": show::errors(&errors) });
            show::print(&answer.to_string())?;
            Err(Failure::Reported(ExitCode::FAILURE))
        }
        Err(errors) => Err(Failure::ValidationErrors(
            format!("{file} has {}:", plural(errors.len(), "error")),
            errors,
        )),
    }
}
