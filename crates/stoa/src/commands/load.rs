//! `stoa load`: loads a file into the candidate.

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::failure::{Failure, Outcome};
use crate::operator::{SocketArgument, block_on};

/// Load a file into the candidate configuration; `stoa commit` applies it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa load new.json                  Replace the candidate
  stoa load --merge more.txt          Add to the candidate, from JSON or lines of set and delete
  stoa show configuration --set | ssh other stoa load -")]
pub struct Arguments {
    /// JSON (RFC 7951), or lines of set and delete; "-" is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Add to the candidate instead of replacing it
    #[arg(long)]
    merge: bool,
    #[command(flatten)]
    socket: SocketArgument,
}

/// Loads.
pub fn execute(arguments: Arguments) -> Outcome {
    let file = arguments.file.display();
    let mut text = String::new();
    let read = match arguments.file.as_os_str() == "-" {
        true => std::io::stdin().read_to_string(&mut text).map(|_| ()),
        false => std::fs::read_to_string(&arguments.file).map(|read| text = read),
    };
    read.map_err(|error| Failure::context(file, error))?;
    block_on(async {
        arguments.socket.session().await?.load(&text, arguments.merge).await?;
        Ok(ExitCode::SUCCESS)
    })
}
