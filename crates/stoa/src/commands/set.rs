//! `stoa set`: sets a value in the candidate.

use std::process::ExitCode;

use crate::failure::Outcome;
use crate::operator::{SocketArgument, block_on};

/// Set a value in the candidate configuration; `stoa commit` applies it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa set interfaces interface lan ipv4 address 10.0.0.1/24
  stoa set interfaces interface lan description to the office
  stoa compare && stoa commit

The words are the names of the YANG nodes without module prefixes, with keys and values in between.
For a wrong word, the error lists the words that are possible. The console (`stoa` without
arguments) completes words.")]
pub struct Arguments {
    /// Names and keys of the node, and the value
    #[arg(value_name = "WORD", required = true)]
    words: Vec<String>,
    #[command(flatten)]
    socket: SocketArgument,
}

/// Sets the value.
pub fn execute(arguments: Arguments) -> Outcome {
    block_on(async {
        let prefixes = arguments.socket.session().await?.set(&arguments.words).await?;
        crate::show::configuration::host_prefixes(&prefixes);
        Ok(ExitCode::SUCCESS)
    })
}
