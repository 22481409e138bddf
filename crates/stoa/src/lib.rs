//! The binary: wiring and command line, no logic.
#![forbid(unsafe_code)]
// `println!` and `eprintln!` panic on a closed pipe; `show::print` and `failure::to_stderr` do not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod ask;
mod capture;
mod commands;
mod console;
mod failure;
mod operator;
mod show;
mod top;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};

use crate::commands::Command;
use crate::failure::Failure;

/// Stoa, a vector packet router
#[derive(Debug, Parser)]
#[command(
    version,
    propagate_version = true,
    after_help = "Without a command, `stoa` starts the console if standard input and output are a terminal.

Examples:
  stoa check examples/two-hosts.json        Is the configuration valid?
  sudo stoa run --config examples/two-hosts.json
  sudo stoa show interfaces                 Show state, addresses and counters
  sudo stoa reload                          Apply the edited file

Exit codes: 0 success, 1 failure, 2 wrong usage. With --json, a failure prints {\"error\": \"...\"}.

Environment:
  STOA_SOCKET      Socket of the running router [default: /run/stoa/stoa.sock]
  STOA_LOG         Log level: off, error, warn, info, debug or trace [default: info];
                   NAME=LEVEL sets it for one crate
  STOA_LOG_FORMAT  Log format: text or json"
)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,
}

fn main() -> ExitCode {
    let matches = CommandLine::command().get_matches();
    let line = CommandLine::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let Some(command) = line.command.or_else(default_command) else {
        CommandLine::command().print_help().ok();
        return ExitCode::from(2);
    };
    let logging = stoa_log::start(command.log_name(), command.log_level()).map_err(Failure::Usage);
    match logging.and_then(|()| command.execute()) {
        Ok(code) => code,
        Err(failure) => failure.report(wants_json(&matches)),
    }
}

/// The command without arguments: the console, if a person is at the terminal.
fn default_command() -> Option<Command> {
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    is_terminal.then(Command::console)
}

/// Whether the command, or one of its subcommands, has `--json`.
fn wants_json(matches: &ArgMatches) -> bool {
    let here = matches.try_get_one::<bool>("json").ok().flatten().copied();
    let below = || matches.subcommand().is_some_and(|(_, matches)| wants_json(matches));
    here.unwrap_or_default() || below()
}
