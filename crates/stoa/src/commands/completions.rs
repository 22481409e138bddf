//! `stoa completions`: the shell completes commands and options.

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::Line;
use crate::failure::Outcome;
use crate::show;

/// Print the completions for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa completions bash > /etc/bash_completion.d/stoa
  stoa completions zsh > \"${fpath[1]}/_stoa\"
  stoa completions fish > ~/.config/fish/completions/stoa.fish")]
pub struct Arguments {
    /// bash, zsh or fish
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Prints them.
pub fn execute(arguments: Arguments) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Line::command(), "stoa", &mut script);
    show::print(String::from_utf8_lossy(&script).trim_end())?;
    Ok(ExitCode::SUCCESS)
}
