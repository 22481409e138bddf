//! Wrong usage of the command line: the usual name of a command, if another router or tool has it.

use std::ffi::OsString;

use clap::error::ErrorKind;
use stoa_console::synonyms;

use crate::failure::to_stderr;

/// Says what a command is called here, before clap reports the error.
pub fn explain(error: &clap::Error, words: &[OsString]) {
    let may_be_unknown = [ErrorKind::InvalidSubcommand, ErrorKind::UnknownArgument];
    if !may_be_unknown.contains(&error.kind()) {
        return;
    }
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some(usual) = synonyms::command(&words) {
        to_stderr(format_args!("stoa: there is no `{}`: use `stoa {usual}`\n", words.join(" ")));
    }
}
