//! `stoa console`: an interactive command line with completion.

use crate::console;
use crate::failure::Outcome;
use crate::operator::SocketArgument;

/// Start the console: show and configure, with completion; `stoa` without a command does the same
#[derive(Debug, Default, clap::Args)]
#[command(after_help = "Examples:
  stoa                            Start the console at a terminal
  stoa console < lines.txt        Run the lines of a file; stop at the first one that fails

In the console, `configure` enters configuration mode. There you use `set`, `delete`,
`show | compare`, `commit` and `exit`.")]
pub struct Arguments {
    #[command(flatten)]
    socket: SocketArgument,
}

/// Runs until the user exits.
pub fn execute(arguments: Arguments) -> Outcome {
    console::run(arguments.socket)
}
