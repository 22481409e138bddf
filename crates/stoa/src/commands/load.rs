//! `stoa load`: a file as the candidate.

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::failure::{Failure, Outcome};
use crate::operator::{SocketArgument, block_on};

/// Make a file the candidate configuration; `stoa commit` brings it into force
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa load new.json                  In place of all that is configured
  stoa load --merge more.txt          Beside it; the file has lines of set and delete, or JSON
  stoa show configuration --set | ssh other stoa load -")]
pub struct Arguments {
    /// JSON (RFC 7951), or lines of set and delete; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Keep what is configured beside it
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
    read.map_err(|error| Failure::because(file, error))?;
    block_on(async {
        arguments.socket.session().await?.load(&text, arguments.merge).await?;
        Ok(ExitCode::SUCCESS)
    })
}
