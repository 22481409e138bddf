//! What becomes of an answer: `| match WORD`, `| except WORD`, `| count`, `| json` and their like.

use std::io::Write;

use crate::failure::Failure;

/// One step behind a `|`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pipe {
    /// Only lines with this text, whatever the case.
    Match(String),
    /// Only lines without it.
    Except(String),
    /// How many lines.
    Count,
    /// As JSON.
    Json,
    /// As XML.
    Xml,
    /// As lines of `set`.
    Set,
    /// What a commit would change.
    Compare,
}

/// The steps and what they do.
pub const KNOWN: [(&str, &str); 7] = [
    ("match", "Only lines with a text"),
    ("except", "Only lines without a text"),
    ("count", "How many lines"),
    ("json", "As JSON"),
    ("xml", "As XML (configurations)"),
    ("set", "As lines of set (configurations)"),
    ("compare", "What a commit would change (configurations)"),
];

/// The command of a line and what stands behind it.
pub fn split(line: &str) -> Result<(&str, Vec<Pipe>), Failure> {
    let mut parts = unquoted_bars(line).into_iter();
    let command = parts.next().unwrap_or_default();
    Ok((command, parts.map(one).collect::<Result<_, _>>()?))
}

fn unquoted_bars(line: &str) -> Vec<&str> {
    let (mut parts, mut begin, mut quote) = (Vec::new(), 0, None);
    for (at, letter) in line.char_indices() {
        match (quote, letter) {
            (Some(open), close) if open == close => quote = None,
            (None, '"' | '\'') => quote = Some(letter),
            (None, '|') => {
                parts.push(&line[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&line[begin..]);
    parts
}

fn one(part: &str) -> Result<Pipe, Failure> {
    let unclosed = |quote| Failure::Words(format!("a {quote} is not closed"));
    let words = stoa_console::line::split(part).map_err(unclosed)?;
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    Ok(match words.as_slice() {
        ["match", text] => Pipe::Match(text.to_lowercase()),
        ["except", text] => Pipe::Except(text.to_lowercase()),
        ["count"] => Pipe::Count,
        ["json"] => Pipe::Json,
        ["xml"] => Pipe::Xml,
        ["set"] => Pipe::Set,
        ["compare"] => Pipe::Compare,
        _ => {
            let known: Vec<_> = KNOWN.iter().map(|(word, _)| *word).collect();
            return Err(Failure::Words(format!(
                "behind | there are: {} (match and except want a text)",
                known.join(", ")
            )));
        }
    })
}

/// Writes an answer as the steps leave it.
pub fn write(answer: &str, pipes: &[Pipe], out: &mut dyn Write) -> Result<(), Failure> {
    let mut lines: Vec<&str> = answer.lines().collect();
    let mut count = None;
    for pipe in pipes {
        match pipe {
            Pipe::Match(text) => lines.retain(|line| line.to_lowercase().contains(text)),
            Pipe::Except(text) => lines.retain(|line| !line.to_lowercase().contains(text)),
            Pipe::Count => count = Some(lines.len()),
            // What makes the answer has seen to it.
            Pipe::Json | Pipe::Xml | Pipe::Set | Pipe::Compare => {}
        }
    }
    match count {
        Some(count) => writeln!(out, "{count} lines")?,
        None => lines.iter().try_for_each(|line| writeln!(out, "{line}"))?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_go_through_pipes() {
        let (command, pipes) =
            split("show interfaces | match \"a|b\" | except no | count").unwrap();
        assert_eq!(command, "show interfaces ");
        let wanted = [Pipe::Match("a|b".into()), Pipe::Except("no".into()), Pipe::Count];
        assert_eq!(pipes, wanted);
        let mut out = Vec::new();
        write("A|B\nNO a|b\nc\n", &pipes, &mut out).unwrap();
        write("A|B\nc\n", &pipes[..1], &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "1 lines\nA|B\n");
        assert!(matches!(split("show | grep x"), Err(Failure::Words(_))));
    }
}
