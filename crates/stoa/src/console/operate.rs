//! Operational mode: the commands of the shell, each in its own process.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use clap::ArgMatches;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use stoa_console::{abbreviation, synonyms};

use super::configure;
use super::pipe::{self, Pipe};
use crate::failure::{Failure, to_stderr};
use crate::operator::SocketArgument;
use crate::option_words;

/// Commands of operational mode, with a short help.
pub const COMMANDS: [(&str, &str); 17] = [
    ("show", "Show state and counters"),
    ("monitor", "Like show, repeated every second"),
    ("top", "Show live rates of interfaces, nodes and workers"),
    ("trace", "Trace packets through the packet graph"),
    ("capture", "Capture frames of an interface"),
    ("acl", "Which rule of the access lists decides about a packet"),
    ("nat", "Which inside host has an external address and port"),
    ("clear", "Clear counters, hits of access lists or the trace"),
    ("ping", "Ping a host"),
    ("traceroute", "Show the path to a host"),
    ("status", "Show version, processes and whether the configuration is applied"),
    ("doctor", "Check what this machine offers a router"),
    ("user", "Add, list and set up users"),
    ("reload", "Read the startup file again and apply it"),
    ("compare", "Show what a commit would change"),
    ("configure", "Enter configuration mode"),
    ("exit", "Leave the console"),
];

/// Names of standard output.
const STDOUT: [&str; 4] = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

/// Runs a command; Ctrl-C ends it, not the console.
pub fn run(socket: &SocketArgument, words: &[String], pipes: &[Pipe]) -> Result<(), Failure> {
    let Some((_, rest)) = words.split_first() else {
        return Err(Failure::Message(
            "`run` needs a command, such as `run show interfaces`".into(),
        ));
    };
    let first = named(words)?;
    if first == "user" {
        return user(socket, rest);
    }
    let program = std::env::current_exe()
        .map_err(|error| Failure::context("cannot find the file of this program", error))?;
    let mut command = Command::new(program);
    match first {
        name if option_words::COMMANDS.contains(&name) => {
            command.arg(first).args(option_words::dashed(name, rest))
        }
        "monitor" => command.arg("show").args(option_words::dashed("show", rest)).arg("--watch"),
        _ => command.arg(first).args(rest),
    };
    command.env("STOA_SOCKET", socket.path());
    check(&command)?;
    if pipes.contains(&Pipe::Compare) && is_configuration(&command) {
        let others: Vec<Pipe> = pipes.iter().filter(|it| **it != Pipe::Compare).cloned().collect();
        return run(socket, &["compare".to_owned()], &others);
    }
    command.args(format_options(pipes, is_configuration(&command))?);
    check(&command)?;
    if first == "capture" && !pipes.is_empty() {
        command.args(text_option(rest)?);
    }
    let failed = |error| Failure::context(first, error);
    let ended = |status: ExitStatus| match status.success() {
        true => Ok(()),
        // The command has said why.
        false => Err(Failure::Reported(ExitCode::FAILURE)),
    };
    if pipes.is_empty() {
        // The child is in the same process group, so Ctrl-C reaches both. The console must survive it.
        let _guard = InterruptGuard::new();
        return ended(command.status().map_err(failed)?);
    }
    let output = command.stderr(Stdio::inherit()).output().map_err(failed)?;
    let text = String::from_utf8_lossy(&output.stdout);
    pipe::write(&text, pipes, &mut std::io::stdout().lock())?;
    ended(output.status)
}

/// Checks the words of a command before it runs.
fn check(command: &Command) -> Result<(), Failure> {
    let words: Vec<String> =
        command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
    let line = std::iter::once("stoa").chain(words.iter().map(String::as_str));
    match crate::command_line().try_get_matches_from(line) {
        Err(error)
            if error.use_stderr()
                && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand =>
        {
            Err(wrong(&error, &words))
        }
        _ => Ok(()),
    }
}

/// Why a command is wrong, without what only a shell can use.
fn wrong(error: &clap::Error, words: &[String]) -> Failure {
    if let Some(text) = unknown(error, words) {
        return Failure::Message(text);
    }
    let text = error.to_string();
    let cause = text.split("\n\nUsage:").next().unwrap_or_default();
    let cause = cause.split("\n\nFor more information").next().unwrap_or_default();
    let cause = cause.trim_start_matches("error: ").trim_end();
    let cause = cause.replace("\n\n  tip: ", "; ").replace("\n  tip: ", "; ");
    let fix = match (synonyms::command(words), words.first()) {
        (Some(usual), _) => format!("use `{usual}`"),
        (None, first) => format!("`{} ?` lists what can follow", first.map_or("", |it| it)),
    };
    Failure::Message(format!("{cause}; {fix}"))
}

/// The message about an unknown word below a command.
fn unknown(error: &clap::Error, words: &[String]) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let before = &words[..words.iter().position(|it| it == word)?];
    let near = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(near)) => near.as_slice(),
        _ => &[],
    };
    let before = before.join(" ");
    let fix = match (synonyms::command(words), near) {
        (Some(usual), _) => format!("use `{usual}`"),
        (None, []) => format!("`{before} ?` lists what can follow"),
        (None, near) => {
            let near: Vec<String> = near.iter().map(|near| format!("`{before} {near}`")).collect();
            format!("use {}; `{before} ?` lists what can follow", near.join(" or "))
        }
    };
    Some(format!("there is no `{before} {word}`: {fix}"))
}

/// Runs `user` in this process, since it reads a password from the standard input of the console.
fn user(socket: &SocketArgument, words: &[String]) -> Result<(), Failure> {
    let mut line = vec!["stoa".to_owned(), "user".to_owned()];
    line.extend(words.iter().cloned());
    if words.first().is_some_and(|action| !"hash".starts_with(action.as_str())) {
        line.extend(["--socket".to_owned(), socket.path().display().to_string()]);
    }
    match crate::command_of(&line) {
        Ok(command) => command.execute().map(|_| ()),
        // Help is no error.
        Err(error) if !error.use_stderr() => Ok(crate::show::print(error.to_string().trim_end())?),
        Err(error) => Err(wrong(&error, &line[1..])),
    }
}

/// The command that the first word means: whole, or any unique beginning.
pub fn named(words: &[String]) -> Result<&'static str, Failure> {
    let first = words.first().map(String::as_str).unwrap_or_default();
    let names = COMMANDS.iter().map(|(name, _)| *name);
    abbreviation::resolve(first, names.clone()).map_err(|several| {
        let usual = synonyms::command(words).unwrap_or(first);
        let command = usual.split(' ').next().unwrap_or_default();
        let fix = match several.is_empty() {
            false => format!("it is ambiguous: use {}", several.join(" or ")),
            true if names.clone().any(|name| name == command) => format!("use `{usual}`"),
            true if configure::COMMANDS.iter().any(|(name, _)| *name == command) => {
                format!("use `configure` and then `{usual}`")
            }
            true if crate::command_line().find_subcommand(command).is_some() => {
                format!("use `stoa {usual}` in a shell")
            }
            true => format!("use one of {}", names.collect::<Vec<_>>().join(", ")),
        };
        Failure::Message(format!("no command \"{first}\"; {fix}"))
    })
}

/// Whether a command shows a configuration.
fn is_configuration(command: &Command) -> bool {
    let line = std::iter::once(OsStr::new("stoa")).chain(command.get_args());
    let Ok(matches) = crate::command_line().try_get_matches_from(line) else { return false };
    let show = matches.subcommand_matches("show");
    show.and_then(ArgMatches::subcommand_name) == Some("configuration")
}

/// The options for the filters that choose a format. Only configurations have XML and lines of `set`.
fn format_options(pipes: &[Pipe], is_configuration: bool) -> Result<Vec<&'static str>, Failure> {
    let option = |pipe: &Pipe| {
        let (name, option) = match pipe {
            Pipe::Json => return Some(Ok("--json")),
            Pipe::Xml => ("xml", "--xml"),
            Pipe::Set => ("set", "--set"),
            Pipe::Compare => ("compare", ""),
            Pipe::Match(_) | Pipe::Except(_) | Pipe::Count => return None,
        };
        Some(match is_configuration {
            true => Ok(option),
            false => Err(Failure::Message(format!(
                "`| {name}` is for configurations, such as `show configuration | {name}`"
            ))),
        })
    };
    pipes.iter().filter_map(option).collect()
}

/// The option that makes `capture` print text. With filters, its standard output is a pipe, so that it would write
/// pcapng, which the console would pass on to the terminal.
fn text_option(arguments: &[String]) -> Result<Option<&'static str>, Failure> {
    let line = ["stoa", "capture"].into_iter().chain(arguments.iter().map(String::as_str));
    // The command itself reports wrong usage.
    let Ok(matches) = crate::command_line().try_get_matches_from(line) else { return Ok(None) };
    let Some(matches) = matches.subcommand_matches("capture") else { return Ok(None) };
    match matches.get_one::<PathBuf>("write") {
        Some(file) if STDOUT.iter().any(|name| file == Path::new(name)) => {
            Err(Failure::Message(format!(
                "--write {}: pcapng is binary, and filters need text: name a file, or leave --write out for text",
                file.display()
            )))
        }
        Some(_) => Ok(None),
        None => Ok((!matches.get_flag("lines")).then_some("--lines")),
    }
}

/// Ignores Ctrl-C in this process until it is dropped.
struct InterruptGuard(Option<tokio::runtime::Runtime>);

impl InterruptGuard {
    fn new() -> InterruptGuard {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        match runtime {
            Ok(runtime) => {
                let context = runtime.enter();
                // From the first call on, tokio handles the signal, instead of the default, which ends the process.
                let installed =
                    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt());
                drop(context);
                if let Err(error) = installed {
                    to_stderr(format_args!("stoa: Ctrl-C will end the console, too: {error}"));
                }
                InterruptGuard(Some(runtime))
            }
            Err(_) => InterruptGuard(None),
        }
    }
}

impl Drop for InterruptGuard {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn formats_are_those_of_configurations() {
        let pipes = [Pipe::Set, Pipe::Count];
        assert_eq!(format_options(&pipes, true).ok(), Some(vec!["--set"]));
        assert!(matches!(format_options(&pipes, false), Err(Failure::Message(_))));
        assert_eq!(format_options(&[Pipe::Json], false).ok(), Some(vec!["--json"]));
        let shows = |line: &str| is_configuration(Command::new("stoa").args(words(line)));
        assert!(shows("show configuration interfaces") && shows("sh run"));
        assert!(!shows("show interfaces") && !shows("reload"));
    }

    #[test]
    fn an_unknown_word_is_named_with_what_is_before_it() {
        let of = |line: &str| {
            let mut command = Command::new("stoa");
            match check(command.args(words(line))) {
                Err(Failure::Message(text)) => text,
                other => panic!("{line}: {other:?}"),
            }
        };
        assert_eq!(of("show vlans"), "there is no `show vlans`: use `show interfaces`");
        assert_eq!(of("show ip qq"), "there is no `show ip qq`: `show ip ?` lists what can follow");
        let near = "there is no `show droops`: use `show drops`; `show ?` lists what can follow";
        assert_eq!(of("show droops"), near);
    }

    #[test]
    fn filters_get_text_of_a_capture() {
        let option = |line: &str| text_option(&words(line));
        assert_eq!(option("eth0 -c 2").ok(), Some(Some("--lines")));
        assert_eq!(option("eth0 --lines").ok(), Some(None));
        assert_eq!(option("eth0 --write a.pcapng").ok(), Some(None));
        assert_eq!(option("--nonsense").ok(), Some(None));
        for line in ["eth0 --write -", "eth0 -ew-", "eth0 --write=/dev/stdout"] {
            assert!(matches!(option(line), Err(Failure::Message(_))), "{line}");
        }
    }
}
