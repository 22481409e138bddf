//! Configuration mode: the candidate under a lock.

use std::io::Write;

use stoa_api::v1::{CompareRequest, LockReply, Store};
use stoa_console::commit::{Commit, told};
use stoa_console::session::{Form, Session, Which};
use stoa_console::words;
use tokio::runtime::Runtime;
use tonic::Streaming;

use super::pipe::{self, Pipe};
use crate::failure::{Failure, say};
use crate::operator::SocketArgument;
use crate::show;

/// Commands of configuration mode, and what they do.
pub const COMMANDS: [(&str, &str); 15] = [
    ("set", "Give something a value"),
    ("delete", "Take something out"),
    ("show", "The candidate, or a part of it"),
    ("edit", "Let words begin below here"),
    ("up", "One level up again"),
    ("top", "All levels up again"),
    ("compare", "What a commit would change"),
    ("commit", "Bring it into force, whole or not at all"),
    ("rollback", "Make an earlier configuration the candidate"),
    ("discard", "Forget what was not committed"),
    ("history", "Configurations that were in force"),
    ("load", "Make a file the candidate; `load merge FILE` keeps the rest"),
    ("save", "Write the candidate into a file"),
    ("run", "A command of operational mode"),
    ("exit", "One level up, or leave configuration mode"),
];

/// What the prompt and the offers want to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Where words begin.
    pub above: Vec<String>,
}

/// Somebody who works on the candidate.
pub struct Configuring {
    runtime: Runtime,
    session: Session,
    held: Option<Streaming<LockReply>>,
    state: State,
}

impl Configuring {
    /// Takes the lock.
    pub fn begin(socket: &SocketArgument) -> Result<Configuring, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|error| Failure::because("cannot start", error))?;
        let (session, held) = runtime.block_on(async {
            let mut session = Session::new(socket.connect().await?, true);
            let held = session.lock().await?;
            let history = session.history().await?;
            if history.is_edited {
                say("The candidate has changes that were not committed: `compare` shows them.");
            }
            Ok::<_, Failure>((session, held))
        })?;
        Ok(Configuring { runtime, session, held: Some(held), state: State::default() })
    }

    /// What the prompt and the offers want to know.
    pub fn state(&self) -> State {
        self.state.clone()
    }

    /// One step up. Whether that was the last one.
    pub fn leave(&mut self) -> Result<bool, Failure> {
        if !self.state.above.is_empty() {
            self.state.above.clear();
            return Ok(false);
        }
        let Self { runtime, session, .. } = self;
        let history = runtime.block_on(session.history())?;
        if history.is_edited {
            say(
                "Not committed yet; the changes stay in the candidate until `commit` or `discard`.",
            );
        }
        if let Some(held) = self.held.take() {
            self.session.unlock(held);
        }
        Ok(true)
    }

    fn whole(&self, rest: &[String]) -> Vec<String> {
        self.state.above.iter().chain(rest).cloned().collect()
    }

    /// Does what a line says.
    pub fn obey(&mut self, said: &[String], pipes: &[Pipe]) -> Result<(), Failure> {
        let (command, rest) = said.split_first().expect("the line has a word");
        let whole = self.whole(rest);
        let Self { runtime, session, .. } = self;
        match command.as_str() {
            "set" => runtime.block_on(session.set(&whole))?,
            "delete" => {
                if whole.is_empty() {
                    return Err(Failure::Words("\"delete\" wants words behind it".into()));
                }
                runtime.block_on(session.delete(&whole))?;
            }
            "show" => return self.show(&whole, pipes),
            "compare" => return self.compare(pipes),
            "edit" => {
                words::to_delete(&whole).map_err(|error| Failure::Words(error.to_string()))?;
                self.state.above = whole;
            }
            "up" => {
                // A level is a name with its keys.
                let mut above = std::mem::take(&mut self.state.above);
                above.pop();
                while !above.is_empty() && words::to_delete(&above).is_err() {
                    above.pop();
                }
                self.state.above = above;
            }
            "top" => self.state.above.clear(),
            "commit" => {
                let reply = runtime.block_on(session.commit(Commit::of(rest)?))?;
                show::print(&told(&reply).join("\n"))?;
            }
            "rollback" => {
                let back = rest.first().map_or(Ok(0), |word| word.parse());
                let wrong = |_| Failure::Words("\"rollback\" wants a number behind it".into());
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
            other => {
                let names: Vec<_> = COMMANDS.iter().map(|(name, _)| *name).collect();
                return Err(Failure::Words(format!(
                    "no command \"{other}\" in configuration mode; there are {}; others by `run`",
                    names.join(", ")
                )));
            }
        }
        Ok(())
    }

    fn show(&mut self, words: &[String], pipes: &[Pipe]) -> Result<(), Failure> {
        if pipes.contains(&Pipe::Compare) {
            return self.compare(pipes);
        }
        let form = pipes.iter().rev().find_map(|pipe| match pipe {
            Pipe::Json => Some(Form::Json),
            Pipe::Xml => Some(Form::Xml),
            Pipe::Set => Some(Form::Set),
            _ => None,
        });
        let which = Which::Store(Store::Candidate);
        let shown = self.session.show(which, words, form.unwrap_or_default());
        let text = self.runtime.block_on(shown)?;
        pipe::write(&text, pipes, &mut std::io::stdout().lock())
    }

    fn compare(&mut self, pipes: &[Pipe]) -> Result<(), Failure> {
        let changes = self.runtime.block_on(self.session.compare(CompareRequest::default()))?;
        let lines: Vec<_> = changes.iter().map(stoa_console::show::change).collect();
        pipe::write(&lines.join("\n"), pipes, &mut std::io::stdout().lock())
    }

    fn load(&mut self, rest: &[String]) -> Result<(), Failure> {
        let (is_merged, file) = match rest {
            [word, file] if word == "merge" => (true, file),
            [file] => (false, file),
            _ => return Err(Failure::Words("write `load FILE` or `load merge FILE`".into())),
        };
        let text = std::fs::read_to_string(file).map_err(|error| Failure::because(file, error))?;
        self.runtime.block_on(self.session.load(&text, is_merged))?;
        Ok(())
    }

    fn save(&mut self, rest: &[String]) -> Result<(), Failure> {
        use std::os::unix::fs::OpenOptionsExt;
        let [file] = rest else { return Err(Failure::Words("write `save FILE`".into())) };
        let shown = self.session.show(Which::Store(Store::Candidate), &[], Form::Json);
        let text = self.runtime.block_on(shown)?;
        let mut options = std::fs::OpenOptions::new();
        let opened = options.write(true).create_new(true).mode(0o600).open(file);
        let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| Failure::because(file, error))
    }
}
