//! The terminal of `stoa top`: alternate screen and raw mode, restored at the end.

use std::io::{self, Write, stdout};
use std::time::{Duration, Instant};

use crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers, poll, read};
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode, size,
};
use crossterm::{cursor, queue};

/// The alternate screen in raw mode; dropping it restores the terminal.
pub struct Screen;

impl Screen {
    /// Opens the alternate screen.
    pub fn open() -> io::Result<Self> {
        enable_raw_mode()?;
        let screen = Self;
        queue!(stdout(), EnterAlternateScreen, cursor::Hide)?;
        stdout().flush()?;
        Ok(screen)
    }

    /// Shows lines, cut to the size of the terminal, and a line at the bottom.
    pub fn show(&self, lines: &[String], bottom: &str) -> io::Result<()> {
        let (width, height) = size()?;
        let (width, height) = (usize::from(width), usize::from(height));
        let mut out = stdout().lock();
        for (at, line) in lines.iter().take(height.saturating_sub(1)).enumerate() {
            queue!(out, cursor::MoveTo(0, at as u16))?;
            write!(out, "{}", cut(line, width))?;
            queue!(out, Clear(ClearType::UntilNewLine))?;
        }
        queue!(out, Clear(ClearType::FromCursorDown))?;
        queue!(out, cursor::MoveTo(0, height.saturating_sub(1) as u16))?;
        write!(out, "{}", cut(bottom, width))?;
        queue!(out, Clear(ClearType::UntilNewLine))?;
        out.flush()
    }

    /// The next key before `until`; Ctrl-C and Esc are `q`.
    pub fn key(&self, until: Instant) -> io::Result<Option<char>> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if !poll(left.min(Duration::from_secs(1)))? {
                if Instant::now() >= until {
                    return Ok(None);
                }
                continue;
            }
            let Event::Key(key) = read()? else { return Ok(None) };
            if key.kind != KeyEventKind::Press {
                continue;
            }
            match key.code {
                KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                    return Ok(Some('q'));
                }
                KeyCode::Char(letter) => return Ok(Some(letter)),
                KeyCode::Esc => return Ok(Some('q')),
                _ => {}
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Errors are ignored: the terminal is gone.
        let _ = queue!(stdout(), LeaveAlternateScreen, cursor::Show);
        let _ = stdout().flush();
        let _ = disable_raw_mode();
    }
}

/// The first `width` characters.
fn cut(line: &str, width: usize) -> &str {
    line.char_indices().nth(width).map_or(line, |(end, _)| &line[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_between_characters() {
        assert_eq!(cut("──abc", 3), "──a");
        assert_eq!(cut("ab", 3), "ab");
        assert_eq!(cut("", 0), "");
    }
}
