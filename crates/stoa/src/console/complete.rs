//! Completion at the console, for Tab and `?`.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;

use reedline::{Completer, CompletionResult, Span, Suggestion};
use stoa_api::v1::Store;
use stoa_console::completion::{self, Completion, Tree};
use stoa_console::session::{Session, Which};
use stoa_console::{insert, line, words};

use super::configure::{self, State};
use super::option_values::{open_option, values_of};
use super::{operate, pipe};
use crate::failure::Failure;
use crate::operator::{SocketArgument, block_on};
use crate::option_words::{self, below};

thread_local! {
    /// The mode of the next line. The editor owns the completer and runs on this thread.
    static STATE: RefCell<Option<State>> = const { RefCell::new(None) };
    /// Number of the line that is typed.
    static LINE: Cell<u64> = const { Cell::new(0) };
}

/// Sets the mode of the next line.
pub fn set_state(state: Option<State>) {
    STATE.set(state);
    LINE.set(LINE.get() + 1);
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
    /// The candidate, requested once per line, with the number of the line.
    candidate: Option<(u64, Tree)>,
}

impl ConsoleCompleter {
    pub fn new(socket: PathBuf) -> ConsoleCompleter {
        ConsoleCompleter { socket, candidate: None }
    }

    fn tree(&mut self) -> Option<&Tree> {
        let line = LINE.get();
        if self.candidate.as_ref().is_none_or(|(number, _)| *number != line) {
            let socket = SocketArgument::new(Some(self.socket.clone()));
            let tree = block_on(async {
                let mut session = Session::new(socket.connect().await?, true);
                Ok(session.tree(Which::Store(Store::Candidate)).await?)
            });
            self.candidate = tree.ok().map(|tree| (line, tree));
        }
        self.candidate.as_ref().map(|(_, tree)| tree)
    }

    /// Configuration mode.
    fn configuration_offers(
        &mut self,
        before: &[String],
        state: &State,
        part: &str,
    ) -> Vec<Completion> {
        let Some((command, rest)) = before.split_first() else {
            return listed(&configure::COMMANDS);
        };
        let words: Vec<String> = state.above.iter().chain(rest).cloned().collect();
        match configure::named(command).unwrap_or_default() {
            name @ ("set" | "delete" | "show" | "edit" | "copy" | "rename" | "insert"
            | "activate" | "deactivate" | "annotate") => {
                let tree = self.tree();
                let there = |path: &str| {
                    tree.map(|tree| completion::configured(tree, path)).unwrap_or_default()
                };
                match name {
                    "insert" => insert::next(&words, &there),
                    _ => completion::next(&words, &there),
                }
            }
            "commit" => listed(&[
                ("confirmed", "Roll back unless another commit confirms it"),
                ("comment", "Reason, for the history"),
                ("force", "Commit even if this cuts off your shell"),
                ("overwrite", "Commit even if the startup file was edited by hand"),
                ("cancel", "Roll back an unconfirmed commit"),
                ("check", "Validate the candidate and change nothing"),
            ]),
            "load" => match rest {
                [] => listed(&[
                    ("merge", "Add to the candidate"),
                    ("replace", "Replace the candidate"),
                ]),
                [_] => listed(&[
                    ("terminal", "Read lines until a line with a single . or Ctrl-D"),
                    ("<file>", "A file of JSON, or of lines of `set` and `delete`"),
                ]),
                _ => Vec::new(),
            },
            "user" => listed(&[("add", "Ask for a password and add a user to the candidate")]),
            "rollback" => match rest {
                [] => listed(&[("<number>", "Number of commits to go back: BACK in `history`")]),
                _ => Vec::new(),
            },
            "run" => self.operational_offers(rest, part),
            _ => Vec::new(),
        }
    }

    /// Operational mode: the commands of the shell with their subcommands, options, and names of interfaces.
    fn operational_offers(&mut self, before: &[String], part: &str) -> Vec<Completion> {
        if let Some(argument) = open_option(before) {
            let tree = self.tree();
            let there = |path: &str| {
                tree.map(|tree| completion::configured(tree, path)).unwrap_or_default()
            };
            return values_of(&argument, &there);
        }
        let offers = commands_offers(before, part);
        let is_of = |(word, _): &&(&str, &str)| offers.iter().any(|offer| offer.word == *word);
        let Some((_, path)) = PLACEHOLDERS.iter().find(is_of) else { return offers };
        let names = self.tree().map(|tree| completion::configured(tree, path)).unwrap_or_default();
        let named = names.into_iter().map(|word| Completion { word, help: "configured".into() });
        named.chain(offers).collect()
    }
}

/// The path of the interfaces of a configuration.
pub(super) const INTERFACE_NAMES: &str = "/ietf-interfaces:interfaces/interface";

/// The path of its access lists.
pub(super) const LIST_NAMES: &str = "/ietf-access-control-list:acls/acl";

/// Placeholders of names, and where these are configured.
const PLACEHOLDERS: [(&str, &str); 3] =
    [("<name>", INTERFACE_NAMES), ("<interface>", INTERFACE_NAMES), ("<list>", LIST_NAMES)];

fn listed(words: &[(&str, &str)]) -> Vec<Completion> {
    words
        .iter()
        .map(|(word, help)| Completion { word: (*word).into(), help: (*help).into() })
        .collect()
}

/// The commands of the shell with their subcommands and options.
fn commands_offers(before: &[String], part: &str) -> Vec<Completion> {
    let Some((_, rest)) = before.split_first() else { return listed(&operate::COMMANDS) };
    let (first, rest) = match operate::named(before).unwrap_or_default() {
        "monitor" => ("show", operate::topic(rest)),
        other => (other, rest),
    };
    let command_line = crate::command_line();
    let mut found = command_line.find_subcommand(first);
    let mut above = Vec::new();
    for word in rest {
        if let Some(below) = found.and_then(|command| below(command, word)) {
            above.extend(found);
            found = Some(below);
        }
    }
    let Some(command) = found else { return Vec::new() };
    let about =
        |command: &clap::Command| command.get_about().map(ToString::to_string).unwrap_or_default();
    let subcommands = command.get_subcommands().filter(|command| !command.is_hide_set());
    let mut offers: Vec<_> = subcommands
        .map(|it| Completion { word: it.get_name().to_owned(), help: about(it) })
        .collect();
    let about_argument =
        |argument: &clap::Arg| argument.get_help().map(ToString::to_string).unwrap_or_default();
    offers.extend(command.get_positionals().map(|argument| {
        let name = argument.get_value_names().and_then(|names| names.first());
        let name = name.map_or_else(|| argument.get_id().to_string(), ToString::to_string);
        Completion { word: format!("<{}>", name.to_lowercase()), help: about_argument(argument) }
    }));
    let global = above.iter().flat_map(|command| command.get_arguments());
    let global = global.filter(|argument| argument.is_global_set());
    let has_words = option_words::COMMANDS.contains(&first) && !part.starts_with('-');
    let options = command.get_arguments().chain(global).filter_map(|argument| {
        let is_word = has_words && option_words::is_word(command, argument);
        let dashes = if is_word { "" } else { "--" };
        let help = about_argument(argument);
        Some(Completion { word: format!("{dashes}{}", argument.get_long()?), help })
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
    /// What can come at the end of a line, with a short help; for `?`.
    pub fn help_at(&mut self, line: &str) -> String {
        let (_, offers) = self.offers(line);
        let width = offers.iter().map(|offer| offer.word.chars().count()).max().unwrap_or_default();
        let lines = offers.iter().map(|offer| {
            let text = format!("  {:<width$}  {}", offer.word, offer.help.replace('\n', " "));
            text.trim_end().to_owned()
        });
        let lines: Vec<String> = lines.collect();
        match (lines.is_empty(), unknown(line)) {
            (false, _) => lines.join("\n"),
            (true, Some(cause)) => format!("  {cause}"),
            (true, None) => "  <Enter>  Nothing more can follow".to_owned(),
        }
    }

    fn suggestions(&mut self, line: &str, pos: usize) -> Vec<Suggestion> {
        let line = line.get(..pos).unwrap_or(line);
        let (begin, offers) = self.offers(line);
        let suggestion = |offer: Completion| Suggestion {
            value: if offer.is_word() { line::quoted(&offer.word) } else { String::new() },
            display_override: (!offer.is_word()).then(|| offer.word.clone()),
            append_whitespace: offer.is_word(),
            description: Some(offer.help).filter(|help| !help.is_empty()),
            span: Span::new(begin, pos),
            ..Suggestion::default()
        };
        offers.into_iter().map(suggestion).collect()
    }

    /// The words that can stand at the end of a line, and where the last word begins.
    fn offers(&mut self, line: &str) -> (usize, Vec<Completion>) {
        let is_new_word = line.is_empty() || line.ends_with(char::is_whitespace);
        let begin = match is_new_word {
            true => line.len(),
            false => line.rfind(char::is_whitespace).map_or(0, |at| at + 1),
        };
        let part = &line[begin..];
        let offers = match line[..begin].rfind('|') {
            Some(bar) if line[bar + 1..begin].trim().is_empty() => listed(&pipe::PIPES),
            Some(_) => Vec::new(),
            None => {
                let Ok(before) = line::split(&line[..begin]) else {
                    return (begin, Vec::new());
                };
                match STATE.with_borrow(Clone::clone) {
                    Some(state) => self.configuration_offers(&before, &state, part),
                    None => self.operational_offers(&before, part),
                }
            }
        };
        let fits = |offer: &Completion| match offer.is_word() {
            true => offer.word.starts_with(part),
            // A placeholder, such as <name>.
            false => part.is_empty(),
        };
        (begin, offers.into_iter().filter(fits).collect())
    }
}

/// Why nothing can follow a line: its first wrong word.
fn unknown(line: &str) -> Option<String> {
    let words = line::split(line).ok()?;
    let (first, rest) = words.split_first()?;
    let failure = match STATE.with_borrow(Clone::clone) {
        Some(state) => {
            let whole: Vec<String> = state.above.iter().chain(rest).cloned().collect();
            let is_path = |name: &str| {
                ["set", "delete", "show", "edit", "activate", "deactivate"].contains(&name)
            };
            match configure::named(first) {
                Ok(name) if is_path(name) => return Some(words::parse(&whole).err()?.to_string()),
                named => named.err()?,
            }
        }
        None => operate::named(&words).err()?,
    };
    match failure {
        Failure::Message(text) => Some(text),
        _ => None,
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
        assert_eq!(offered(None, "ping 10.0.0.1 sou"), ["source"]);
        assert_eq!(offered(None, "acl test dir"), ["direction"]);
        assert_eq!(offered(None, "show ip route vr"), ["vrf"]);
        assert_eq!(offered(None, "show interfaces ")[0], "<name>");
        assert_eq!(offered(None, "show acl ")[0], "<list>");
        assert_eq!(offered(None, "clear acl ")[0], "<list>");
        assert!(offered(None, "monitor show z").contains(&"zones".to_owned()));
        let top = || Some(State::default());
        assert_eq!(offered(top(), "se"), ["set"]);
        assert_eq!(offered(top(), "set inter"), ["interfaces"]);
        assert_eq!(offered(top(), "commit conf"), ["confirmed"]);
        assert_eq!(offered(top(), "rollback "), ["<number>"]);
        assert_eq!(offered(top(), "load "), ["merge", "replace"]);
        assert_eq!(offered(top(), "load merge "), ["terminal", "<file>"]);
        assert!(offered(top(), "run show int").contains(&"interfaces".to_owned()));
        let above = Some(State { above: vec!["system".into(), "workers".into()] });
        assert_eq!(offered(above, "set cou"), ["count"]);
        assert_eq!(offered(top(), "set interfaces interface "), ["<name>"]);
        assert_eq!(offered(top(), "set acls zone-pairs zone-pair "), ["router", "<from>"]);
        assert_eq!(offered(top(), "insert acls acl edge aces ace web be"), ["before"]);
    }

    #[test]
    fn values_of_options_are_offered() {
        assert_eq!(offered(None, "acl test direction "), ["in", "out"]);
        assert_eq!(offered(None, "acl test --fragment l"), ["later"]);
        assert_eq!(offered(None, "acl test from-zone "), ["router", "<zone>"]);
        assert_eq!(offered(None, "acl test interface wan destination-port htt"), ["http", "https"]);
        assert_eq!(offered(None, "acl test icmp-type echo-rep"), ["echo-reply"]);
        assert_eq!(offered(None, "show flows state udp"), ["udp-new", "udp-replied"]);
        assert_eq!(offered(None, "clear flows --vrf "), ["default", "<name>"]);
        assert_eq!(offered(None, "show flows protocol tcp st"), ["state"]);
        assert_eq!(offered(Some(State::default()), "run acl test direction o"), ["out"]);
        // The value may be left out.
        assert!(offered(None, "acl test candidate sou").contains(&"source".to_owned()));
        let tree = stoa_yang::data::parse(
            r#"{"ietf-access-control-list:acls": {"stoa-acl:zones": {"zone": [{"name": "dmz"}]}}}"#,
        );
        let tree = tree.unwrap();
        let argument = open_option(&["acl", "test", "to-zone"].map(str::to_owned)).unwrap();
        let words = values_of(&argument, &|path| completion::configured(&tree, path));
        let words: Vec<_> = words.into_iter().map(|it| it.word).collect();
        assert_eq!(words, ["dmz", "router", "<zone>"]);
    }

    #[test]
    fn abbreviated_words_are_completed_and_explained() {
        assert!(offered(None, "sh int --").contains(&"--json".to_owned()));
        let top = || Some(State::default());
        assert_eq!(offered(top(), "se int int lan ipv4 mt"), ["mtu"]);
        let mut completer = ConsoleCompleter::new(PathBuf::from("/nowhere/stoa.sock"));
        set_state(top());
        let help = completer.help_at("set interfaces interface lan en");
        assert!(help.contains("  enabled  ") && !help.contains("description"), "{help}");
        let help = completer.help_at("set interfaces interface ");
        assert!(help.starts_with("  <name>  "), "{help}");
        let help = completer.help_at("set interfaces interface lan enabled true ");
        assert!(help.contains("<Enter>"), "{help}");
        let help = completer.help_at("set interfaces interface lan adress ");
        assert!(help.contains("there is no \"adress\""), "{help}");
        set_state(None);
        let help = completer.help_at("show ro");
        assert!(help.contains("route-sources  ") && help.contains("routes  "), "{help}");
        assert!(!help.contains("interfaces"), "{help}");
        assert!(completer.help_at("show routes ").contains("<address|prefix>"));
        assert!(completer.help_at("sow ").contains("no command \"sow\""));
    }

    #[test]
    fn help_names_every_command() {
        assert!(help(true).contains("rollback") && help(false).contains("monitor"));
    }
}
