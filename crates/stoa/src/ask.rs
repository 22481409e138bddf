//! Asks who sits at the terminal: a line, or one that is not shown. Questions go to standard error, so that
//! `HASH=$(stoa user hash)` holds the answer alone.

use std::io::{self, BufRead, IsTerminal, Write};

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::terminal;

use crate::failure::Failure;

/// Letters of a line that is not shown, at most.
const LETTERS: usize = 4_096;

/// Whether somebody can be asked.
pub fn is_there() -> bool {
    io::stdin().is_terminal()
}

fn question(words: &str) -> io::Result<()> {
    let mut out = io::stderr();
    write!(out, "{words}: ")?;
    out.flush()
}

/// A line, shown as it is typed; `usual` when it is left empty.
pub fn line(words: &str, usual: &str) -> Result<String, Failure> {
    question(&format!("{words} [{usual}]"))?;
    let line = next_line()?;
    let line = line.trim();
    Ok(if line.is_empty() { usual.to_owned() } else { line.to_owned() })
}

/// The next line of standard input, without its end.
fn next_line() -> Result<String, Failure> {
    let mut line = String::new();
    if io::stdin().lock().read_line(&mut line)? == 0 {
        return Err(Failure::Words("the input ended before all was said".into()));
    }
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// A password: typed twice without being shown, or the next line of what is not a terminal.
pub fn password() -> Result<String, Failure> {
    if !is_there() {
        return next_line();
    }
    let password = unseen("Password")?;
    if unseen("The same again")? != password {
        return Err(Failure::Words("the two passwords differ: nothing was done, try again".into()));
    }
    Ok(password)
}

/// A line from the terminal that it does not show.
fn unseen(words: &str) -> Result<String, Failure> {
    // Before the question: who types at once is not shown either.
    terminal::enable_raw_mode()?;
    let typed = question(words).and_then(|()| typed());
    terminal::disable_raw_mode()?;
    // The end of the line was not shown either.
    writeln!(io::stderr())?;
    typed?.ok_or_else(|| Failure::Words("no password was given: nothing was done".into()))
}

fn typed() -> io::Result<Option<String>> {
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
            KeyCode::Char(letter) if password.chars().count() < LETTERS => password.push(letter),
            KeyCode::Backspace => {
                password.pop();
            }
            KeyCode::Esc => return Ok(None),
            _ => {}
        }
    }
}
