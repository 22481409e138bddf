//! `stoa user`: what users of the management server need of the command line.

use std::io::{self, BufRead, IsTerminal};
use std::process::ExitCode;

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::terminal;
use stoa_northbound::auth::password;

use crate::failure::{Failure, Outcome};
use crate::show;

/// Users of the management server
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa user hash                        Asks for the password, and shows its hash
  pass router | stoa user hash          Reads it from another program

The hash goes into the configuration, as stoa-management:management/user=NAME/password-hash.")]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Hash a password by argon2
    Hash,
}

/// Does what is asked.
pub fn execute(arguments: Arguments) -> Outcome {
    let What::Hash = arguments.what;
    let password = match io::stdin().is_terminal() {
        true => unseen()?,
        false => {
            let mut line = String::new();
            io::stdin().lock().read_line(&mut line)?;
            line.trim_end_matches(['\r', '\n']).to_owned()
        }
    };
    let hash = password::hash(&password).map_err(Failure::Words)?;
    show::print(&hash)?;
    Ok(ExitCode::SUCCESS)
}

/// A line from the terminal that it does not show.
fn unseen() -> Result<String, Failure> {
    show::print("Password:")?;
    terminal::enable_raw_mode()?;
    let typed = typed();
    terminal::disable_raw_mode()?;
    typed?.ok_or_else(|| Failure::Words("no password was given".into()))
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
            KeyCode::Char(letter) => password.push(letter),
            KeyCode::Backspace => {
                password.pop();
            }
            KeyCode::Esc => return Ok(None),
            _ => {}
        }
    }
}
