//! `stoa man`: the manual page, for packages.

use std::process::ExitCode;

use clap::CommandFactory;

use crate::Line;
use crate::failure::{Failure, Outcome};
use crate::show;

/// Print the manual page (roff)
#[derive(Debug, clap::Args)]
pub struct Arguments {}

/// Prints it.
pub fn execute(_: Arguments) -> Outcome {
    let mut page = Vec::new();
    let line = Line::command().name("stoa").propagate_version(true);
    clap_mangen::Man::new(line)
        .render(&mut page)
        .map_err(|error| Failure::because("cannot write the page", error))?;
    show::print(String::from_utf8_lossy(&page).trim_end())?;
    Ok(ExitCode::SUCCESS)
}
