//! `stoa save`: writes the running configuration into a file.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::ExitCode;

use stoa_api::v1::Store;
use stoa_console::session::{Format, Which};

use crate::failure::{Failure, Outcome, to_stderr};
use crate::operator::{SocketArgument, block_on};

/// Write the running configuration into a new file that only its owner can read
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The file; it must not exist yet
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write lines of set instead of JSON
    #[arg(long)]
    set: bool,
    #[command(flatten)]
    socket: SocketArgument,
}

/// Saves.
pub fn execute(arguments: Arguments) -> Outcome {
    let form = if arguments.set { Format::Set } else { Format::Json };
    let text = block_on(async {
        let mut session = arguments.socket.session().await?;
        Ok(session.show(Which::Store(Store::Running), &[], form).await?)
    })?;
    let mut options = OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(0o600).open(&arguments.file);
    let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| Failure::context(arguments.file.display(), error))?;
    to_stderr(format_args!("Saved {} with mode 0600.", arguments.file.display()));
    Ok(ExitCode::SUCCESS)
}
