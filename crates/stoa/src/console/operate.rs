//! Operational mode: the commands of the shell, each as a process of its own.

use std::process::{Command, Stdio};

use super::pipe::{self, Pipe};
use crate::failure::{Failure, say};
use crate::operator::SocketArgument;

/// Commands of this program that make sense at a console, and what they do.
pub const COMMANDS: [(&str, &str); 14] = [
    ("show", "What the router holds and what passed"),
    ("monitor", "As show, again every second"),
    ("top", "Live view of ports, nodes and workers"),
    ("trace", "Follow single packets through the graph"),
    ("capture", "Frames as they pass"),
    ("clear", "Forget traced packets"),
    ("ping", "Ask a host whether it is there"),
    ("traceroute", "The way to a host"),
    ("status", "Versions, processes, whether all is in force"),
    ("doctor", "What this machine can do"),
    ("reload", "Read the startup file again"),
    ("compare", "What a commit would change"),
    ("configure", "Change the configuration"),
    ("exit", "Leave"),
];

/// Programs of the system that are called as they are.
const SYSTEM: [&str; 2] = ["ping", "traceroute"];

/// Runs a command; Ctrl-C ends it, not the console.
pub fn run(socket: &SocketArgument, said: &[String], pipes: &[Pipe]) -> Result<(), Failure> {
    let Some((first, rest)) = said.split_first() else {
        return Err(Failure::Words("\"run\" wants a command behind it".into()));
    };
    if !COMMANDS.iter().any(|(name, _)| name == first) {
        let names: Vec<_> = COMMANDS.iter().map(|(name, _)| *name).collect();
        return Err(Failure::Words(format!(
            "no command \"{first}\"; there are {}",
            names.join(", ")
        )));
    }
    let mut command = match SYSTEM.contains(&first.as_str()) {
        true => Command::new(first),
        false => {
            let program = std::env::current_exe();
            Command::new(
                program.map_err(|error| Failure::because("cannot find the program", error))?,
            )
        }
    };
    match first.as_str() {
        name if SYSTEM.contains(&name) => command.args(rest),
        "monitor" => command.arg("show").args(rest).arg("--watch"),
        "clear" => command.args(["trace", "clear"]).args(rest),
        _ => command.arg(first).args(rest),
    };
    if !SYSTEM.contains(&first.as_str()) {
        command.env("STOA_SOCKET", socket.path());
        if pipes.contains(&Pipe::Json) {
            command.arg("--json");
        }
    }
    let failed = |error| Failure::because(first, error);
    if pipes.is_empty() {
        // Of one process group: the terminal's Ctrl-C reaches both, and this one stays.
        let _ignored = Ignoring::interrupts();
        command.status().map_err(failed)?;
        return Ok(());
    }
    let done = command.stderr(Stdio::inherit()).output().map_err(failed)?;
    pipe::write(&String::from_utf8_lossy(&done.stdout), pipes, &mut std::io::stdout().lock())
}

/// Ctrl-C does nothing here while this lives.
struct Ignoring(Option<tokio::runtime::Runtime>);

impl Ignoring {
    fn interrupts() -> Ignoring {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        match runtime {
            Ok(runtime) => {
                let inside = runtime.enter();
                // From the first call on, tokio's handler takes the signal in place of the default, which ends.
                let taken =
                    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt());
                drop(inside);
                if let Err(error) = taken {
                    say(format_args!("stoa: Ctrl-C ends the console, too: {error}"));
                }
                Ignoring(Some(runtime))
            }
            Err(_) => Ignoring(None),
        }
    }
}

impl Drop for Ignoring {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
