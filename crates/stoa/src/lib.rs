//! The router as a library: wiring and command line, no logic. The program `stoa` is [`Router::main`] without plugins;
//! another program adds [plugins](plugin::Plugin).
#![forbid(unsafe_code)]
// `println!` and `eprintln!` panic on a closed pipe; `show::print` and `failure::to_stderr` do not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod ask;
mod capture;
mod commands;
mod console;
mod failure;
mod folders;
mod named;
mod operator;
mod option_words;
pub mod plugin;
mod probe;
mod show;
mod top;
mod usage;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};

use crate::commands::Command;
use crate::failure::Failure;
use crate::plugin::Plugin;

/// Stoa, a vector packet router
#[derive(Debug, Parser)]
#[command(
    version,
    propagate_version = true,
    infer_subcommands = true,
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

/// The command line, with the topics of plugins.
fn command_line() -> clap::Command {
    let topics = plugin::topics().map(plugin::Topic::command);
    CommandLine::command().mut_subcommand("show", |show| show.subcommands(topics))
}

/// The command of these words, of which the first is the name of the program.
fn command_of(words: &[String]) -> Result<Command, clap::Error> {
    let line = CommandLine::from_arg_matches(&command_line().try_get_matches_from(words)?)?;
    line.command.ok_or_else(|| clap::Error::new(clap::error::ErrorKind::MissingSubcommand))
}

/// A router, to which plugins can be added.
#[derive(Default)]
pub struct Router {
    plugins: Vec<Plugin>,
}

impl Router {
    /// With one more plugin.
    #[must_use]
    pub fn with(mut self, plugin: Plugin) -> Router {
        self.plugins.push(plugin);
        self
    }

    /// Runs the command that the command line names, and returns the exit code. It is called once in a process,
    /// before anything else of Stoa.
    ///
    /// # Panics
    /// If a plugin is wrong.
    #[must_use]
    pub fn main(self) -> ExitCode {
        plugin::install(self.plugins);
        let words: Vec<std::ffi::OsString> = std::env::args_os().collect();
        let line = option_words::of_shell(words.clone());
        let matches = command_line().try_get_matches_from(line).unwrap_or_else(|error| {
            usage::explain(&error, &words[1..]);
            error.exit()
        });
        let done = match plugin::topic_of(&matches) {
            Some(topic) => start_log("stoa", "info").and_then(|()| commands::show_topic(topic)),
            None => {
                let line =
                    CommandLine::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
                let Some(command) = line.command.or_else(default_command) else {
                    command_line().print_help().ok();
                    return ExitCode::from(2);
                };
                let log = start_log(command.log_name(), command.log_level());
                log.and_then(|()| command.execute())
            }
        };
        done.unwrap_or_else(|failure| failure.report(wants_json(&matches)))
    }
}

fn start_log(name: &'static str, level: &'static str) -> Result<(), Failure> {
    stoa_log::start(name, level).map_err(Failure::Usage)
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
