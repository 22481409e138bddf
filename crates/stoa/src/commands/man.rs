//! `stoa man`: prints the manual page, for packages.

use std::process::ExitCode;

use crate::failure::{Failure, Outcome};
use crate::show;

/// Print the manual page (roff)
#[derive(Debug, clap::Args)]
pub struct Arguments {}

/// Prints the page.
pub fn execute(_: Arguments) -> Outcome {
    let mut page = Vec::new();
    let command = crate::command_line().name("stoa").propagate_version(true);
    clap_mangen::Man::new(command)
        .render(&mut page)
        .map_err(|error| Failure::context("cannot write the manual page", error))?;
    show::print(String::from_utf8_lossy(&page).trim_end())?;
    Ok(ExitCode::SUCCESS)
}
