//! The console: `stoa` alone at a terminal, in the habit of network people.
//!
//! Operational mode runs the commands of the shell, as they are. Configuration mode holds the lock and works on the
//! candidate. Lines may also come from a file or a pipe; then nothing is drawn.

mod complete;
mod configure;
mod operate;
mod pipe;
mod prompt;
mod remembered;

use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use reedline::{
    ColumnarMenu, Emacs, KeyCode, KeyModifiers, MenuBuilder, Reedline, ReedlineEvent, ReedlineMenu,
    Signal, default_emacs_keybindings,
};
use stoa_console::line;

use crate::failure::{Failure, Outcome, say};
use crate::operator::SocketArgument;
use crate::show;
use configure::Configuring;
use remembered::Remembered;

/// Lines that are remembered.
const HISTORY_LIMIT: usize = 1_000;
const MENU: &str = "offers";

/// What a line comes to.
pub(crate) enum Next {
    /// Another line.
    Line,
    /// The console ends.
    End,
}

/// Somebody at the console.
pub(crate) struct Console {
    socket: SocketArgument,
    configuring: Option<Configuring>,
}

/// Runs until the input ends or somebody leaves.
pub fn run(socket: SocketArgument) -> Outcome {
    let console = Console { socket, configuring: None };
    match std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
        true => console.sit(),
        false => console.read(),
    }
}

impl Console {
    /// Lines of a file or a pipe; the first that fails ends it.
    fn read(mut self) -> Outcome {
        for line in std::io::stdin().lock().lines() {
            let line = line.map_err(|error| Failure::because("standard input", error))?;
            if let Next::End = self.obey(&line)? {
                break;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// A person at a terminal.
    fn sit(mut self) -> Outcome {
        let mut editor = editor(&self.socket.path())?;
        show::print(
            "Stoa. ? or Tab shows what may come next, `configure` changes, `exit` leaves.",
        )?;
        loop {
            let state = self.configuring.as_ref().map(Configuring::state);
            complete::enter(state.clone());
            let signal = editor.read_line(&prompt::Words::new(state));
            match signal.map_err(|error| Failure::because("the terminal", error))? {
                Signal::Success(line) => match self.obey(&line) {
                    Ok(Next::Line) => {}
                    Ok(Next::End) => return Ok(ExitCode::SUCCESS),
                    Err(Failure::NobodyReads) => return Ok(ExitCode::SUCCESS),
                    Err(failure) => {
                        failure.report(false);
                    }
                },
                Signal::CtrlC => {}
                _ => match self.leave()? {
                    Next::Line => {}
                    Next::End => return Ok(ExitCode::SUCCESS),
                },
            }
        }
    }

    /// Does what a line says.
    fn obey(&mut self, line: &str) -> Result<Next, Failure> {
        let (line, pipes) = pipe::split(line)?;
        let unclosed = |quote| Failure::Words(format!("a {quote} is not closed"));
        let said = line::split(line).map_err(unclosed)?;
        let Some(first) = said.first() else { return Ok(Next::Line) };
        match (first.as_str(), self.configuring.is_some()) {
            (comment, _) if comment.starts_with('#') => Ok(Next::Line),
            ("exit" | "quit", _) => self.leave(),
            ("help" | "?", is_configuring) => {
                show::print(&complete::help(is_configuring))?;
                Ok(Next::Line)
            }
            ("configure", false) => {
                self.configuring = Some(Configuring::begin(&self.socket)?);
                Ok(Next::Line)
            }
            ("run", true) => operate::run(&self.socket, &said[1..], &pipes).map(|()| Next::Line),
            (_, true) => {
                let configuring = self.configuring.as_mut().expect("it was just asked");
                configuring.obey(&said, &pipes).map(|()| Next::Line)
            }
            (_, false) => operate::run(&self.socket, &said, &pipes).map(|()| Next::Line),
        }
    }

    /// One step out.
    fn leave(&mut self) -> Result<Next, Failure> {
        match &mut self.configuring {
            None => Ok(Next::End),
            Some(configuring) => {
                if configuring.leave()? {
                    self.configuring = None;
                }
                Ok(Next::Line)
            }
        }
    }
}

/// The line editor: history in the user's folder, offers on Tab and `?`.
fn editor(socket: &std::path::Path) -> Result<Reedline, Failure> {
    let menu = ColumnarMenu::default().with_name(MENU).with_columns(1).with_column_padding(2);
    let mut keys = default_emacs_keybindings();
    let open = ReedlineEvent::UntilFound(vec![
        ReedlineEvent::Menu(MENU.to_owned()),
        ReedlineEvent::MenuNext,
    ]);
    keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, open.clone());
    keys.add_binding(KeyModifiers::NONE, KeyCode::Char('?'), open.clone());
    keys.add_binding(KeyModifiers::SHIFT, KeyCode::Char('?'), open);
    keys.add_binding(KeyModifiers::SHIFT, KeyCode::BackTab, ReedlineEvent::MenuPrevious);
    let editor = Reedline::create()
        .with_completer(Box::new(complete::Offers::new(socket.to_owned())))
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
        .with_quick_completions(true)
        .with_partial_completions(true)
        .with_edit_mode(Box::new(Emacs::new(keys)));
    let Some(file) = history_file() else { return Ok(editor) };
    match Remembered::open(file, HISTORY_LIMIT) {
        Ok(history) => Ok(editor.with_history(Box::new(history))),
        Err(error) => {
            say(format_args!("stoa: lines are not remembered: {error}"));
            Ok(editor)
        }
    }
}

fn history_file() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let state =
        state.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state")))?;
    Some(state.join("stoa/console-history"))
}
