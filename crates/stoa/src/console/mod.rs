//! The console: `stoa` without arguments at a terminal.
//!
//! Operational mode runs the commands of the shell. Configuration mode holds the lock and edits the candidate. Lines
//! may also come from a file or a pipe, without a prompt.

mod complete;
mod configure;
mod history;
mod operate;
mod option_values;
mod pipe;
mod prompt;

use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use reedline::{
    ColumnarMenu, EditCommand, Emacs, KeyCode, KeyModifiers, MenuBuilder, Reedline, ReedlineEvent,
    ReedlineMenu, Signal, default_emacs_keybindings,
};
use stoa_console::line;

use crate::failure::{Failure, Outcome, to_stderr};
use crate::operator::SocketArgument;
use crate::show;
use configure::ConfigurationMode;
use history::ConsoleHistory;

/// Lines in the history.
const HISTORY_LIMIT: usize = 1_000;
const MENU: &str = "completions";

/// What follows a line.
pub(crate) enum Step {
    /// The next line.
    Continue,
    /// The end of the console.
    Exit,
}

/// The console of one user.
pub(crate) struct Console {
    socket: SocketArgument,
    configuration_mode: Option<ConfigurationMode>,
    /// For `?`.
    completer: complete::ConsoleCompleter,
}

/// Runs until the input ends or the user exits.
pub fn run(socket: SocketArgument) -> Outcome {
    let completer = complete::ConsoleCompleter::new(socket.path());
    let console = Console { socket, configuration_mode: None, completer };
    match std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
        true => console.run_interactive(),
        false => console.run_lines(),
    }
}

/// Ends the process when its terminal is gone. The signal for that only reaches those of whom it is the controlling
/// terminal, and the line editor would read without end.
fn end_with_terminal() {
    let input = std::io::stdin();
    let mut gone = [PollFd::new(input.as_fd(), PollFlags::empty())];
    while poll(&mut gone, PollTimeout::NONE) == Err(Errno::EINTR) {}
    std::process::exit(1);
}

impl Console {
    /// Runs the lines of a file or a pipe, up to the first that fails.
    fn run_lines(mut self) -> Outcome {
        loop {
            let mut line = String::new();
            // Without a lock that outlives the line, because commands read from standard input, too.
            let read = std::io::stdin().read_line(&mut line);
            if read.map_err(|error| Failure::context("standard input", error))? == 0 {
                break;
            }
            self.set_state();
            if let Step::Exit = self.execute(line.trim_end_matches(['\r', '\n']))? {
                break;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Runs at a terminal.
    fn run_interactive(mut self) -> Outcome {
        std::thread::spawn(end_with_terminal);
        let mut editor = editor(&self.socket.path())?;
        show::print(
            "Stoa. Tab or ? lists what can come next, `configure` enters configuration mode, `exit` leaves.",
        )?;
        loop {
            let state = self.set_state();
            let signal = editor.read_line(&prompt::ConsolePrompt::new(state));
            match signal.map_err(|error| Failure::context("the terminal", error))? {
                Signal::Success(line) => match self.execute(&line) {
                    Ok(Step::Continue) => {}
                    Ok(Step::Exit) => return Ok(ExitCode::SUCCESS),
                    Err(Failure::OutputClosed) => return Ok(ExitCode::SUCCESS),
                    Err(failure) => {
                        failure.report(false);
                    }
                },
                Signal::CtrlC => {}
                // The line stays in the editor.
                Signal::HostCommand(_) => self.help_at_cursor(&mut editor)?,
                _ => match self.exit()? {
                    Step::Continue => {}
                    Step::Exit => return Ok(ExitCode::SUCCESS),
                },
            }
        }
    }

    /// Runs a line.
    fn execute(&mut self, line: &str) -> Result<Step, Failure> {
        if let Some(before) = asks(line) {
            show::print(&self.completer.help_at(before))?;
            return Ok(Step::Continue);
        }
        let (line, pipes) = pipe::split(line)?;
        let unclosed = |quote| Failure::Message(format!("{line}: a {quote} is not closed"));
        let words = line::split(line).map_err(unclosed)?;
        let Some(first) = words.first() else { return Ok(Step::Continue) };
        let is_configuring = self.configuration_mode.is_some();
        let command = match first.as_str() {
            comment if comment.starts_with('#') => return Ok(Step::Continue),
            "help" => {
                show::print(&complete::help(is_configuring))?;
                return Ok(Step::Continue);
            }
            "quit" | "end" | "logout" => "exit",
            word if is_configuring => configure::named(word)?,
            _ => operate::named(&words)?,
        };
        match (command, &mut self.configuration_mode) {
            ("exit", _) => return self.exit(),
            ("configure", None) => {
                self.configuration_mode = Some(ConfigurationMode::begin(&self.socket)?);
            }
            ("run", Some(_)) => operate::run(&self.socket, &words[1..], &pipes)?,
            (_, Some(mode)) => mode.execute(&words, &pipes)?,
            (_, None) => operate::run(&self.socket, &words, &pipes)?,
        }
        Ok(Step::Continue)
    }

    /// Tells the completers the mode of the next line.
    fn set_state(&self) -> Option<configure::State> {
        let state = self.configuration_mode.as_ref().map(ConfigurationMode::state);
        complete::set_state(state.clone());
        state
    }

    /// Prints what can come at the cursor. Inside quotes, `?` is a character like any other.
    fn help_at_cursor(&mut self, editor: &mut Reedline) -> Result<(), Failure> {
        let line = editor.current_buffer_contents();
        let line = line.get(..editor.current_insertion_point()).unwrap_or(line).to_owned();
        if line::split(&line).is_err() {
            editor.run_edit_commands(&[EditCommand::InsertChar('?')]);
            return Ok(());
        }
        Ok(show::print(&format!("?\n{}", self.completer.help_at(&line)))?)
    }

    /// Leaves configuration mode one step, or the console.
    fn exit(&mut self) -> Result<Step, Failure> {
        match &mut self.configuration_mode {
            None => Ok(Step::Exit),
            Some(mode) => {
                if mode.exit()? {
                    self.configuration_mode = None;
                }
                Ok(Step::Continue)
            }
        }
    }
}

/// The line before a `?` that stands as its last word.
fn asks(line: &str) -> Option<&str> {
    let before = line.trim_end().strip_suffix('?')?;
    let is_word = before.is_empty() || before.ends_with(char::is_whitespace);
    (is_word && line::split(before).is_ok()).then_some(before)
}

/// The line editor: history in the user's folder, completion on Tab, help on `?`.
fn editor(socket: &std::path::Path) -> Result<Reedline, Failure> {
    let menu = ColumnarMenu::default().with_name(MENU).with_columns(1).with_column_padding(2);
    let mut keys = default_emacs_keybindings();
    let open = ReedlineEvent::UntilFound(vec![
        ReedlineEvent::Menu(MENU.to_owned()),
        ReedlineEvent::MenuNext,
    ]);
    keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, open);
    let help = ReedlineEvent::ExecuteHostCommand("?".to_owned());
    keys.add_binding(KeyModifiers::NONE, KeyCode::Char('?'), help.clone());
    keys.add_binding(KeyModifiers::SHIFT, KeyCode::Char('?'), help);
    keys.add_binding(KeyModifiers::SHIFT, KeyCode::BackTab, ReedlineEvent::MenuPrevious);
    let editor = Reedline::create()
        .with_completer(Box::new(complete::ConsoleCompleter::new(socket.to_owned())))
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
        .with_quick_completions(true)
        .with_partial_completions(true)
        .with_edit_mode(Box::new(Emacs::new(keys)));
    let Some(file) = history_file() else { return Ok(editor) };
    match ConsoleHistory::open(file, HISTORY_LIMIT) {
        Ok(history) => Ok(editor.with_history(Box::new(history))),
        Err(error) => {
            to_stderr(format_args!("stoa: the console has no history: {error}"));
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
