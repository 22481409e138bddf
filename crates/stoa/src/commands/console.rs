//! `stoa console`: words with completion, in the habit of network people.

use crate::console;
use crate::failure::Outcome;
use crate::operator::SocketArgument;

/// Look and configure by words with completion; also `stoa` alone at a terminal
#[derive(Debug, Default, clap::Args)]
#[command(after_help = "Examples:
  stoa                            At a terminal
  stoa console < lines.txt        Lines of a file; the first that fails ends it

In it: `configure` begins to change, `set`, `delete`, `show | compare`, `commit`, `exit`.")]
pub struct Arguments {
    #[command(flatten)]
    socket: SocketArgument,
}

/// Runs until somebody leaves.
pub fn execute(arguments: Arguments) -> Outcome {
    console::run(arguments.socket)
}
