//! `stoa set`: a value into the candidate.

use std::process::ExitCode;

use crate::failure::Outcome;
use crate::operator::{SocketArgument, block_on};

/// Change the candidate configuration; `stoa commit` brings it into force
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa set interfaces interface lan ipv4 address 10.0.0.1 prefix-length 24
  stoa set interfaces interface lan description \"to the office\"
  stoa compare && stoa commit

The words are the names of the YANG modules, with keys and values in between. A wrong word is answered with those that
may stand there; the console (`stoa` alone) completes them.")]
pub struct Arguments {
    /// Names, keys and a value
    #[arg(value_name = "WORD", required = true)]
    words: Vec<String>,
    #[command(flatten)]
    socket: SocketArgument,
}

/// Sets it.
pub fn execute(arguments: Arguments) -> Outcome {
    block_on(async {
        arguments.socket.session().await?.set(&arguments.words).await?;
        Ok(ExitCode::SUCCESS)
    })
}
