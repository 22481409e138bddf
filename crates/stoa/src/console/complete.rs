//! Completion at the console, for Tab and `?`.

use std::cell::RefCell;
use std::path::PathBuf;

use reedline::{Completer, CompletionResult, Span, Suggestion};
use stoa_api::v1::Store;
use stoa_console::completion::{self, Completion, Tree};
use stoa_console::line;
use stoa_console::session::{Session, Which};

use super::configure::{self, State};
use super::{operate, pipe};
use crate::operator::{SocketArgument, block_on};

thread_local! {
    /// The mode of the next line. The editor owns the completer and runs on this thread.
    static STATE: RefCell<Option<State>> = const { RefCell::new(None) };
}

/// Sets the mode of the next line.
pub fn set_state(state: Option<State>) {
    STATE.set(state);
}

/// The commands of a mode, with a short help.
pub fn help(is_configuring: bool) -> String {
    let commands: &[(&str, &str)] = match is_configuring {
        true => &configure::COMMANDS,
        false => &operate::COMMANDS,
    };
    let lines = commands.iter().map(|(name, help)| format!("  {name:<12}{help}"));
    let pipes = pipe::PIPES.iter().map(|(name, help)| format!("  | {name:<10}{help}"));
    lines.chain(pipes).collect::<Vec<_>>().join("\n")
}

/// The completer of the line editor.
pub struct ConsoleCompleter {
    socket: PathBuf,
    /// The candidate, requested once per line, with the line that it was requested for.
    candidate: Option<(String, Tree)>,
}

impl ConsoleCompleter {
    pub fn new(socket: PathBuf) -> ConsoleCompleter {
        ConsoleCompleter { socket, candidate: None }
    }

    fn tree(&mut self, line: &str) -> Option<&Tree> {
        // A line that only grows needs the same configuration.
        let is_cached =
            self.candidate.as_ref().is_some_and(|(before, _)| line.starts_with(before.as_str()));
        if !is_cached {
            let socket = SocketArgument::new(Some(self.socket.clone()));
            let tree = block_on(async {
                let mut session = Session::new(socket.connect().await?, true);
                Ok(session.tree(Which::Store(Store::Candidate)).await?)
            });
            self.candidate = tree.ok().map(|tree| (line.to_owned(), tree));
        }
        self.candidate.as_ref().map(|(_, tree)| tree)
    }

    /// Configuration mode.
    fn configuration_offers(
        &mut self,
        line: &str,
        before: &[String],
        state: &State,
    ) -> Vec<Completion> {
        let Some((command, rest)) = before.split_first() else {
            return listed(&configure::COMMANDS);
        };
        let words: Vec<String> = state.above.iter().chain(rest).cloned().collect();
        match command.as_str() {
            "set" | "delete" | "show" | "edit" => {
                let tree = self.tree(line);
                let there = |path: &str| {
                    tree.map(|tree| completion::configured(tree, path)).unwrap_or_default()
                };
                completion::next(&words, &there)
            }
            "commit" => listed(&[
                ("confirmed", "Roll back unless another commit confirms it"),
                ("comment", "Reason, for the history"),
                ("force", "Commit even if this cuts off your shell"),
                ("overwrite", "Commit even if the startup file was edited by hand"),
                ("cancel", "Roll back an unconfirmed commit"),
            ]),
            "run" => operational_offers(rest),
            _ => Vec::new(),
        }
    }
}

fn listed(words: &[(&str, &str)]) -> Vec<Completion> {
    words
        .iter()
        .map(|(word, help)| Completion { word: (*word).into(), help: (*help).into() })
        .collect()
}

/// Operational mode: the commands of the shell with their subcommands and options.
fn operational_offers(before: &[String]) -> Vec<Completion> {
    let Some((first, rest)) = before.split_first() else { return listed(&operate::COMMANDS) };
    let first = if first == "monitor" { "show" } else { first.as_str() };
    let command_line = crate::command_line();
    let mut found = command_line.find_subcommand(first);
    for word in rest {
        let below = found.and_then(|command| command.find_subcommand(word));
        found = below.or(found);
    }
    let Some(command) = found else { return Vec::new() };
    let about =
        |command: &clap::Command| command.get_about().map(ToString::to_string).unwrap_or_default();
    let subcommands = command.get_subcommands().filter(|command| !command.is_hide_set());
    let mut offers: Vec<_> = subcommands
        .map(|it| Completion { word: it.get_name().to_owned(), help: about(it) })
        .collect();
    let options = command.get_arguments().filter_map(|argument| {
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        Some(Completion { word: format!("--{}", argument.get_long()?), help })
    });
    offers.extend(options);
    offers
}

impl Completer for ConsoleCompleter {
    fn complete(&mut self, line: &str, pos: usize) -> CompletionResult {
        CompletionResult::fresh(self.suggestions(line, pos))
    }
}

impl ConsoleCompleter {
    fn suggestions(&mut self, line: &str, pos: usize) -> Vec<Suggestion> {
        let line = line.get(..pos).unwrap_or(line);
        let is_new_word = line.is_empty() || line.ends_with(char::is_whitespace);
        let begin = match is_new_word {
            true => pos,
            false => line.rfind(char::is_whitespace).map_or(0, |at| at + 1),
        };
        let part = &line[begin..];
        let offers = match line[..begin].rfind('|') {
            Some(bar) if line[bar + 1..begin].trim().is_empty() => listed(&pipe::PIPES),
            Some(_) => Vec::new(),
            None => {
                let Ok(before) = line::split(&line[..begin]) else { return Vec::new() };
                match STATE.with_borrow(Clone::clone) {
                    Some(state) => self.configuration_offers(&line[..begin], &before, &state),
                    None => operational_offers(&before),
                }
            }
        };
        let fits = |offer: &Completion| match offer.is_word() {
            true => offer.word.starts_with(part),
            // A placeholder, such as <name>.
            false => part.is_empty(),
        };
        let suggestion = |offer: Completion| Suggestion {
            value: if offer.is_word() { line::quoted(&offer.word) } else { String::new() },
            display_override: (!offer.is_word()).then(|| offer.word.clone()),
            append_whitespace: offer.is_word(),
            description: Some(offer.help).filter(|help| !help.is_empty()),
            span: Span::new(begin, pos),
            ..Suggestion::default()
        };
        offers.into_iter().filter(fits).map(suggestion).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(state: Option<State>, line: &str) -> Vec<String> {
        set_state(state);
        // No router answers on this socket: everything is offered except configured values.
        let mut completer = ConsoleCompleter::new(PathBuf::from("/nowhere/stoa.sock"));
        let shown = |it: Suggestion| it.display_override.unwrap_or(it.value);
        completer.suggestions(line, line.len()).into_iter().map(shown).collect()
    }

    #[test]
    fn each_mode_offers_its_own() {
        assert!(offered(None, "").contains(&"configure".to_owned()));
        assert_eq!(offered(None, "sh"), ["show"]);
        assert!(offered(None, "show ").contains(&"interfaces".to_owned()));
        assert_eq!(offered(None, "show b"), ["bfd"]);
        assert!(offered(None, "show routes --l").contains(&"--longest-match".to_owned()));
        assert_eq!(offered(None, "show interfaces | m"), ["match"]);
        let top = || Some(State::default());
        assert_eq!(offered(top(), "se"), ["set"]);
        assert_eq!(offered(top(), "set inter"), ["interfaces"]);
        assert_eq!(offered(top(), "commit conf"), ["confirmed"]);
        assert!(offered(top(), "run show int").contains(&"interfaces".to_owned()));
        let above = Some(State { above: vec!["system".into(), "workers".into()] });
        assert_eq!(offered(above, "set cou"), ["count"]);
        assert_eq!(offered(top(), "set interfaces interface "), ["<name>"]);
    }

    #[test]
    fn help_names_every_command() {
        assert!(help(true).contains("rollback") && help(false).contains("monitor"));
    }
}
