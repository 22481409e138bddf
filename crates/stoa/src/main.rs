//! The binary: wiring and command line, no logic.
#![forbid(unsafe_code)]
// They panic when nobody reads any more: `show::print` and `failure::say` do not.
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

/// Stoa, a packet router: packets walk through in columns.
#[derive(Debug, Parser)]
#[command(
    version,
    propagate_version = true,
    after_help = "Without a command, at a terminal: the console.

Examples:
  stoa check examples/two-hosts.json        Is it a good configuration?
  sudo stoa run --config examples/two-hosts.json
  sudo stoa show interfaces                 What is there, and what passed?
  sudo stoa reload                          Take the edited file into force

Exit codes: 0 done, 1 failed, 2 wrong usage. With --json, a failure is {\"error\": \"...\"}.
Environment: STOA_SOCKET is the operator's socket, STOA_LOG the log level
(off, error, warn, info, debug, trace; for one crate NAME=LEVEL; info unless set), STOA_LOG_FORMAT
its form (text, json)."
)]
struct Line {
    #[command(subcommand)]
    command: Option<Command>,
}

fn main() -> ExitCode {
    let matches = Line::command().get_matches();
    let line = Line::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let Some(command) = line.command.or_else(at_a_terminal) else {
        let mut whole = Line::command();
        whole.print_help().ok();
        return ExitCode::from(2);
    };
    let begun = stoa_log::start(command.log_name(), command.log_level()).map_err(Failure::Usage);
    let done = begun.and_then(|()| command.execute());
    match done {
        Ok(code) => code,
        Err(failure) => failure.report(wants_json(&matches)),
    }
}

/// What is meant when nothing is said: the console, for who sits at a terminal.
fn at_a_terminal() -> Option<Command> {
    let sits = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    sits.then(Command::console)
}

/// Whether a command, however deep, was asked to answer with JSON.
fn wants_json(matches: &ArgMatches) -> bool {
    let here = matches.try_get_one::<bool>("json").ok().flatten().copied();
    let below = || matches.subcommand().is_some_and(|(_, matches)| wants_json(matches));
    here.unwrap_or_default() || below()
}
