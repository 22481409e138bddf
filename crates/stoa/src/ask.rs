//! Questions at the terminal, with or without echo. Prompts go to standard error, so that `HASH=$(stoa user hash)`
//! contains only the answer.

use std::io::{self, BufRead, IsTerminal, Write};

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::terminal;

use crate::failure::Failure;

/// Maximum number of characters of a password.
const PASSWORD_LIMIT: usize = 4_096;

/// Whether standard input is a terminal.
pub fn is_interactive() -> bool {
    io::stdin().is_terminal()
}

fn show_prompt(prompt: &str) -> io::Result<()> {
    let mut out = io::stderr();
    write!(out, "{prompt}: ")?;
    out.flush()
}

/// Reads a line with echo; an empty line means `default`.
pub fn line(prompt: &str, default: &str) -> Result<String, Failure> {
    show_prompt(&format!("{prompt} [{default}]"))?;
    let line = next_line()?;
    let line = line.trim();
    Ok(if line.is_empty() { default.to_owned() } else { line.to_owned() })
}

/// The next line of standard input, without its line ending.
fn next_line() -> Result<String, Failure> {
    let mut line = String::new();
    if io::stdin().lock().read_line(&mut line)? == 0 {
        return Err(Failure::Message(
            "standard input ended before the answer: write one line for each question".into(),
        ));
    }
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// Reads lines up to one with a single `.`, or the end of the input (Ctrl-D).
pub fn lines() -> Result<String, Failure> {
    if is_interactive() {
        writeln!(io::stderr(), "Type or paste lines; a line with a single . or Ctrl-D ends them.")?;
    }
    let mut text = String::new();
    loop {
        let mut line = String::new();
        if io::stdin().read_line(&mut line)? == 0 || line.trim_end() == "." {
            return Ok(text);
        }
        text.push_str(&line);
    }
}

/// Reads a password: twice without echo from a terminal, otherwise the next line of standard input.
pub fn password() -> Result<String, Failure> {
    if !is_interactive() {
        return next_line();
    }
    let password = read_hidden("Password")?;
    if read_hidden("Repeat password")? != password {
        return Err(Failure::Message(
            "the two passwords differ: nothing was changed; run the command again".into(),
        ));
    }
    Ok(password)
}

/// Reads a line from the terminal without echo.
fn read_hidden(prompt: &str) -> Result<String, Failure> {
    // Before the prompt, so that early keys are not echoed either.
    terminal::enable_raw_mode()?;
    let password = show_prompt(prompt).and_then(|()| read_keys());
    terminal::disable_raw_mode()?;
    // Enter was not echoed either.
    writeln!(io::stderr())?;
    password?.ok_or_else(|| {
        Failure::Message("no password: nothing was changed; run the command again".into())
    })
}

/// The characters until Enter; `None` if the input was cancelled.
fn read_keys() -> io::Result<Option<String>> {
    let mut password = String::new();
    loop {
        let Event::Key(KeyEvent { code, modifiers, kind, .. }) = event::read()? else { continue };
        if kind == KeyEventKind::Release {
            continue;
        }
        match code {
            KeyCode::Enter => return Ok(Some(password)),
            KeyCode::Char('c' | 'd') if modifiers.contains(KeyModifiers::CONTROL) => {
                return Ok(None);
            }
            KeyCode::Char('u') if modifiers.contains(KeyModifiers::CONTROL) => password.clear(),
            KeyCode::Char(letter) if password.chars().count() < PASSWORD_LIMIT => {
                password.push(letter)
            }
            KeyCode::Backspace => {
                password.pop();
            }
            KeyCode::Esc => return Ok(None),
            _ => {}
        }
    }
}
