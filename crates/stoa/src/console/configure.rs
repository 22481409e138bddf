//! Configuration mode: edits the candidate under a lock.

use std::io::Write;

use stoa_api::v1::{CompareRequest, LockReply, Store};
use stoa_console::commit::{Commit, checked, report};
use stoa_console::session::{Format, Session, Which};
use stoa_console::{abbreviation, rename, synonyms, words};
use tokio::runtime::Runtime;
use tonic::Streaming;

use super::operate;
use super::pipe::{self, Pipe};
use crate::ask;
use crate::commands::NewUser;
use crate::failure::{Failure, to_stderr};
use crate::operator::SocketArgument;
use crate::show;

/// Commands of configuration mode, with a short help.
pub const COMMANDS: [(&str, &str); 22] = [
    ("set", "Set a value"),
    ("delete", "Remove a node"),
    ("copy", "Copy a list entry: `copy interfaces interface eth0 to eth1`"),
    ("rename", "Rename a list entry: `rename interfaces interface eth0 to eth1`"),
    (
        "insert",
        "Place a list entry, such as a rule: `insert acls acl edge aces ace web before rest`",
    ),
    ("deactivate", "Take a node out of effect and keep it"),
    ("activate", "Put a deactivated node back"),
    ("annotate", "Write a text about a node; `show` prints it above the node"),
    ("show", "Show the candidate, or a part of it"),
    ("edit", "Enter a node: words are relative to it"),
    ("up", "Go up one level"),
    ("top", "Go up all levels"),
    ("compare", "Show what a commit would change"),
    ("commit", "Apply the candidate, as a whole or not at all"),
    ("rollback", "Copy an earlier configuration into the candidate"),
    ("discard", "Discard the uncommitted changes"),
    ("history", "Show past configurations"),
    (
        "load",
        "Load a file, or lines of the `terminal`: `load merge FILE` adds, `load replace FILE` replaces the candidate",
    ),
    ("save", "Write the candidate into a new file"),
    ("user", "Add a user with a password: `user add NAME [admin] [group GROUP]...`"),
    ("run", "Run a command of operational mode"),
    ("exit", "Go up all levels, or leave configuration mode"),
];

/// The command that a word means: whole, or any unique beginning.
pub fn named(word: &str) -> Result<&'static str, Failure> {
    let names = COMMANDS.iter().map(|(name, _)| *name);
    abbreviation::resolve(word, names.clone()).map_err(|several| {
        let mut operational = operate::COMMANDS.iter().map(|(name, _)| *name);
        let fix = match (synonyms::configuration(word), several.is_empty()) {
            (Some(usual), true) => format!("use `{usual}`"),
            (None, true) if operational.any(|name| name == word) => format!("use `run {word}`"),
            (_, false) => format!("it is ambiguous: use {}", several.join(" or ")),
            _ => {
                let names = names.collect::<Vec<_>>().join(", ");
                format!("use one of {names}; `run COMMAND` runs others")
            }
        };
        Failure::Message(format!("no command \"{word}\" in configuration mode; {fix}"))
    })
}

fn load_usage() -> Failure {
    let text = "use `load merge FILE`, `load replace FILE`, `load merge terminal` or `load replace terminal`";
    Failure::Message(text.into())
}

/// Whether `load` merges, and its file or `terminal`. Without the way to load it is refused: one of them loses all that
/// the candidate has.
fn loaded(rest: &[String]) -> Result<(bool, &str), Failure> {
    let [word, file] = rest else { return Err(load_usage()) };
    let ways = ["merge", "replace", "override"];
    let way = abbreviation::resolve(word, ways.into_iter()).map_err(|_| load_usage())?;
    Ok((way == "merge", file.as_str()))
}

/// The state that the prompt and the completer need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The node that words are relative to (`edit`).
    pub above: Vec<String>,
}

/// A session in configuration mode.
pub struct ConfigurationMode {
    runtime: Runtime,
    session: Session,
    /// The stream that holds the lock.
    lock: Option<Streaming<LockReply>>,
    state: State,
}

impl ConfigurationMode {
    /// Takes the lock.
    pub fn begin(socket: &SocketArgument) -> Result<ConfigurationMode, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|error| Failure::context("cannot start the async runtime", error))?;
        let (session, lock) = runtime.block_on(async {
            let mut session = Session::new(socket.connect().await?, true);
            let lock = session.lock().await?;
            let history = session.history().await?;
            if history.is_edited {
                to_stderr("The candidate has uncommitted changes: `compare` shows them.");
            }
            Ok::<_, Failure>((session, lock))
        })?;
        Ok(ConfigurationMode { runtime, session, lock: Some(lock), state: State::default() })
    }

    /// The state for the prompt and the completer.
    pub fn state(&self) -> State {
        self.state.clone()
    }

    /// Goes up all levels, or leaves configuration mode. Whether it was left.
    pub fn exit(&mut self) -> Result<bool, Failure> {
        if !self.state.above.is_empty() {
            self.state.above.clear();
            return Ok(false);
        }
        let Self { runtime, session, .. } = self;
        let history = runtime.block_on(session.history())?;
        if history.is_edited {
            to_stderr("The candidate keeps the uncommitted changes until `commit` or `discard`.");
        }
        if let Some(lock) = self.lock.take() {
            self.session.unlock(lock);
        }
        Ok(true)
    }

    /// Words relative to the root.
    fn absolute(&self, rest: &[String]) -> Vec<String> {
        self.state.above.iter().chain(rest).cloned().collect()
    }

    /// Runs a command line.
    pub fn execute(&mut self, line: &[String], pipes: &[Pipe]) -> Result<(), Failure> {
        let (word, rest) = line.split_first().expect("the line has a word");
        let command = named(word)?;
        let words = self.absolute(rest);
        let Self { runtime, session, .. } = self;
        match command {
            "set" => {
                let prefixes = runtime.block_on(session.set(&words))?;
                show::configuration::host_prefixes(&prefixes);
            }
            "delete" => {
                if words.is_empty() {
                    let text = "`delete` needs the words of a node, such as `delete interfaces interface lan`";
                    return Err(Failure::Message(text.into()));
                }
                runtime.block_on(session.delete(&words))?;
            }
            "copy" => runtime.block_on(session.copy(&words))?,
            "rename" => {
                let references = runtime.block_on(session.rename(&words))?;
                show::print(&rename::report(references))?;
            }
            "insert" => runtime.block_on(session.insert(&words))?,
            "deactivate" => runtime.block_on(session.deactivate(&words))?,
            "activate" => runtime.block_on(session.activate(&words))?,
            "annotate" => runtime.block_on(session.annotate(&words))?,
            "user" => {
                let user = NewUser::of(rest)?.asked()?;
                runtime.block_on(session.load(&user.body(), true))?;
            }
            "show" => return self.show(&words, pipes),
            "compare" => return self.compare(pipes),
            "edit" => {
                let wrong = |error: words::Error| Failure::Message(error.to_string());
                words::to_delete(&words).map_err(wrong)?;
                self.state.above = words::parse(&words).map_err(wrong)?.words;
            }
            "up" => {
                // A level is a node name with its keys.
                let mut above = std::mem::take(&mut self.state.above);
                above.pop();
                while !above.is_empty() && words::to_delete(&above).is_err() {
                    above.pop();
                }
                self.state.above = above;
            }
            "top" => self.state.above.clear(),
            "commit" => {
                let commit = Commit::of(rest)?;
                let is_check = commit.is_check;
                let reply = runtime.block_on(session.commit(commit))?;
                let lines = if is_check { checked(&reply) } else { report(&reply) };
                show::print(&lines.join("\n"))?;
            }
            "rollback" => {
                let back = rest.first().map_or(Ok(0), |word| word.parse());
                let wrong = |_| {
                    Failure::Message(
                        "`rollback` needs a number of commits, such as `rollback 1`".into(),
                    )
                };
                runtime.block_on(session.rollback(back.map_err(wrong)?))?;
            }
            "discard" => runtime.block_on(session.discard())?,
            "history" => {
                let history = runtime.block_on(session.history())?;
                let mut text = Vec::new();
                show::configuration::history(&history, &mut text)?;
                pipe::write(&String::from_utf8_lossy(&text), pipes, &mut std::io::stdout().lock())?;
            }
            "load" => self.load(rest)?,
            "save" => self.save(rest)?,
            // The console itself runs them.
            "run" | "exit" => {}
            other => {
                return Err(Failure::Message(format!("no command \"{other}\" here; use `help`")));
            }
        }
        Ok(())
    }

    fn show(&mut self, words: &[String], pipes: &[Pipe]) -> Result<(), Failure> {
        if pipes.contains(&Pipe::Compare) {
            return self.compare(pipes);
        }
        let form = pipes.iter().rev().find_map(|pipe| match pipe {
            Pipe::Json => Some(Format::Json),
            Pipe::Xml => Some(Format::Xml),
            Pipe::Set => Some(Format::Set),
            _ => None,
        });
        let which = Which::Store(Store::Candidate);
        let shown = self.session.show(which, words, form.unwrap_or_default());
        let text = self.runtime.block_on(shown)?;
        pipe::write(&text, pipes, &mut std::io::stdout().lock())
    }

    fn compare(&mut self, pipes: &[Pipe]) -> Result<(), Failure> {
        let changes = self.runtime.block_on(self.session.compare(CompareRequest::default()))?;
        let lines = stoa_console::changes::lines(&changes);
        pipe::write(&lines.join("\n"), pipes, &mut std::io::stdout().lock())
    }

    fn load(&mut self, rest: &[String]) -> Result<(), Failure> {
        let (is_merged, file) = loaded(rest)?;
        let text = match file {
            "terminal" => ask::lines()?,
            file => std::fs::read_to_string(file).map_err(|error| Failure::context(file, error))?,
        };
        self.runtime.block_on(self.session.load(&text, is_merged))?;
        Ok(())
    }

    fn save(&mut self, rest: &[String]) -> Result<(), Failure> {
        use std::os::unix::fs::OpenOptionsExt;
        let [file] = rest else {
            return Err(Failure::Message("`save` needs one file: `save FILE`".into()));
        };
        let shown = self.session.show(Which::Store(Store::Candidate), &[], Format::Json);
        let text = self.runtime.block_on(shown)?;
        let mut options = std::fs::OpenOptions::new();
        let opened = options.write(true).create_new(true).mode(0o600).open(file);
        let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| Failure::context(file, error))?;
        to_stderr(format_args!("Saved {file} with mode 0600."));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_operational_mode_are_run() {
        let refused = |word: &str| match named(word) {
            Err(Failure::Message(text)) => text,
            other => panic!("{word}: {other:?}"),
        };
        assert!(refused("status").ends_with("use `run status`"));
        assert!(refused("no").ends_with("use `delete`"));
    }

    #[test]
    fn load_needs_the_way_to_load() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(loaded(&words("merge terminal")).unwrap(), (true, "terminal"));
        assert_eq!(loaded(&words("rep a.json")).unwrap(), (false, "a.json"));
        assert_eq!(loaded(&words("override a.json")).unwrap(), (false, "a.json"));
        for wrong in ["terminal", "a.json", "merge", "add a.json", "merge a b"] {
            let given = words(wrong);
            let refused = loaded(&given);
            let is_usage = |text: &String| text.starts_with("use `load merge FILE`");
            assert!(
                matches!(&refused, Err(Failure::Message(text)) if is_usage(text)),
                "{wrong}: {refused:?}"
            );
        }
    }
}
