//! What Tab and `?` offer.

use std::cell::RefCell;
use std::path::PathBuf;

use clap::CommandFactory;
use reedline::{Completer, CompletionResult, Span, Suggestion};
use stoa_api::v1::Store;
use stoa_console::line;
use stoa_console::offer::{self, Offer, Tree};
use stoa_console::session::{Session, Which};

use super::configure::{self, State};
use super::{operate, pipe};
use crate::Line;
use crate::operator::{SocketArgument, block_on};

thread_local! {
    /// The mode that the next line is typed in. The editor owns what completes, and lives on this thread.
    static STATE: RefCell<Option<State>> = const { RefCell::new(None) };
}

/// The next line is typed in this mode.
pub fn enter(state: Option<State>) {
    STATE.set(state);
}

/// All commands of a mode.
pub fn help(is_configuring: bool) -> String {
    let commands: &[(&str, &str)] = match is_configuring {
        true => &configure::COMMANDS,
        false => &operate::COMMANDS,
    };
    let lines = commands.iter().map(|(name, what)| format!("  {name:<12}{what}"));
    let pipes = pipe::KNOWN.iter().map(|(name, what)| format!("  | {name:<10}{what}"));
    lines.chain(pipes).collect::<Vec<_>>().join("\n")
}

/// The completer of the editor.
pub struct Offers {
    socket: PathBuf,
    /// What is configured, asked for once a line.
    there: Option<(String, Tree)>,
}

impl Offers {
    pub fn new(socket: PathBuf) -> Offers {
        Offers { socket, there: None }
    }

    fn tree(&mut self, line: &str) -> Option<&Tree> {
        // A line that only grows asks about the same configuration.
        let is_known =
            self.there.as_ref().is_some_and(|(before, _)| line.starts_with(before.as_str()));
        if !is_known {
            let socket = SocketArgument::new(Some(self.socket.clone()));
            let tree = block_on(async {
                let mut session = Session::new(socket.connect().await?, true);
                Ok(session.tree(Which::Store(Store::Candidate)).await?)
            });
            self.there = tree.ok().map(|tree| (line.to_owned(), tree));
        }
        self.there.as_ref().map(|(_, tree)| tree)
    }

    fn of_configuration(&mut self, line: &str, before: &[String], state: &State) -> Vec<Offer> {
        let Some((command, rest)) = before.split_first() else {
            return listed(&configure::COMMANDS);
        };
        let whole: Vec<String> = state.above.iter().chain(rest).cloned().collect();
        match command.as_str() {
            "set" | "delete" | "show" | "edit" => {
                let tree = self.tree(line);
                let there =
                    |path: &str| tree.map(|tree| offer::there(tree, path)).unwrap_or_default();
                offer::next(&whole, &there)
            }
            "commit" => listed(&[
                ("confirmed", "Undone by itself unless another commit confirms it"),
                ("comment", "Why, for the history"),
                ("force", "Though it cuts off the shell you type in"),
                ("overwrite", "Though the startup file was edited by hand"),
                ("cancel", "Go back from a commit that waits"),
            ]),
            "run" => of_operation(rest),
            _ => Vec::new(),
        }
    }
}

fn listed(words: &[(&str, &str)]) -> Vec<Offer> {
    words.iter().map(|(word, help)| Offer { word: (*word).into(), help: (*help).into() }).collect()
}

/// Operational mode: the commands of the shell and what they take.
fn of_operation(before: &[String]) -> Vec<Offer> {
    let Some((first, rest)) = before.split_first() else { return listed(&operate::COMMANDS) };
    let first = if first == "monitor" { "show" } else { first.as_str() };
    let whole = Line::command();
    let mut at = whole.find_subcommand(first);
    for word in rest {
        let below = at.and_then(|command| command.find_subcommand(word));
        at = below.or(at);
    }
    let Some(command) = at else { return Vec::new() };
    let about =
        |command: &clap::Command| command.get_about().map(ToString::to_string).unwrap_or_default();
    let named = command.get_subcommands().filter(|command| !command.is_hide_set());
    let mut offers: Vec<_> =
        named.map(|it| Offer { word: it.get_name().to_owned(), help: about(it) }).collect();
    let options = command.get_arguments().filter_map(|argument| {
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        Some(Offer { word: format!("--{}", argument.get_long()?), help })
    });
    offers.extend(options);
    offers
}

impl Completer for Offers {
    fn complete(&mut self, line: &str, pos: usize) -> CompletionResult {
        CompletionResult::fresh(self.suggestions(line, pos))
    }
}

impl Offers {
    fn suggestions(&mut self, line: &str, pos: usize) -> Vec<Suggestion> {
        let line = line.get(..pos).unwrap_or(line);
        let is_new_word = line.is_empty() || line.ends_with(char::is_whitespace);
        let begin = match is_new_word {
            true => pos,
            false => line.rfind(char::is_whitespace).map_or(0, |at| at + 1),
        };
        let part = &line[begin..];
        let offers = match line[..begin].rfind('|') {
            Some(bar) if line[bar + 1..begin].trim().is_empty() => listed(&pipe::KNOWN),
            Some(_) => Vec::new(),
            None => {
                let Ok(before) = line::split(&line[..begin]) else { return Vec::new() };
                match STATE.with_borrow(Clone::clone) {
                    Some(state) => self.of_configuration(&line[..begin], &before, &state),
                    None => of_operation(&before),
                }
            }
        };
        let fits = |offer: &Offer| match offer.is_word() {
            true => offer.word.starts_with(part),
            // It only says what is wanted.
            false => part.is_empty(),
        };
        let suggestion = |offer: Offer| Suggestion {
            value: if offer.is_word() { line::typed(&offer.word) } else { String::new() },
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
        enter(state);
        // Nobody answers there: what is configured is not offered, all else is.
        let mut offers = Offers::new(PathBuf::from("/nowhere/stoa.sock"));
        let said = |it: Suggestion| it.display_override.unwrap_or(it.value);
        offers.suggestions(line, line.len()).into_iter().map(said).collect()
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
