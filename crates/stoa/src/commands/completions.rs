//! `stoa completions`: completion scripts for shells.

use std::process::ExitCode;

use clap_complete::Shell;

use crate::failure::Outcome;
use crate::show;

/// Print the completion script of a shell
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

/// The command line without hidden commands, which completions would offer otherwise.
fn visible() -> clap::Command {
    let command_line = crate::command_line();
    let shown: Vec<clap::Command> =
        command_line.get_subcommands().filter(|command| !command.is_hide_set()).cloned().collect();
    clap::Command::new("stoa")
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .args(command_line.get_arguments().cloned())
        .subcommands(shown)
}

/// Prints the script.
pub fn execute(arguments: Arguments) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut visible(), "stoa", &mut script);
    show::print(String::from_utf8_lossy(&script).trim_end())?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_commands_are_not_offered() {
        let mut script = Vec::new();
        clap_complete::generate(Shell::Bash, &mut visible(), "stoa", &mut script);
        let script = String::from_utf8(script).unwrap();
        assert!(script.contains("doctor") && script.contains("--longest-match"));
        assert!(!script.contains("--forwarder-socket"), "the controller is offered");
        assert!(!script.contains("stoa__forwarder"), "the forwarder is offered");
    }
}
