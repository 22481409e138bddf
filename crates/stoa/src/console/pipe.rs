//! Output filters: `| match TEXT`, `| except TEXT`, `| count`, `| json` and others.

use std::io::Write;

use stoa_console::abbreviation;

use crate::failure::Failure;

/// A filter after a `|`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pipe {
    /// Lines with this text, ignoring case.
    Match(String),
    /// Lines without this text, ignoring case.
    Except(String),
    /// The number of lines.
    Count,
    /// JSON.
    Json,
    /// XML.
    Xml,
    /// Lines of `set`.
    Set,
    /// What a commit would change.
    Compare,
}

/// The filters, with a short help.
pub const PIPES: [(&str, &str); 8] = [
    ("match", "Show only lines with a text"),
    ("except", "Show only lines without a text"),
    ("count", "Count the lines"),
    ("display", "Print json, xml or set"),
    ("json", "Print JSON"),
    ("xml", "Print XML (configurations)"),
    ("set", "Print lines of set (configurations)"),
    ("compare", "Show what a commit would change (configurations)"),
];

/// What other routers and tools call them.
const SYNONYMS: [(&str, &str); 3] =
    [("include", "match"), ("grep", "match"), ("exclude", "except")];

fn names() -> impl Iterator<Item = &'static str> + Clone {
    PIPES.iter().map(|(name, _)| *name)
}

/// Splits a line into its command and its filters.
pub fn split(line: &str) -> Result<(&str, Vec<Pipe>), Failure> {
    let mut parts = unquoted_bars(line).into_iter();
    let command = parts.next().unwrap_or_default();
    Ok((command, parts.map(parse).collect::<Result<_, _>>()?))
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

fn parse(part: &str) -> Result<Pipe, Failure> {
    let unclosed = |quote| Failure::Message(format!("|{part}: a {quote} is not closed"));
    let words = stoa_console::line::split(part).map_err(unclosed)?;
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let mut words = words.as_slice();
    if let [first, rest @ ..] = words
        && !rest.is_empty()
        && abbreviation::resolve(first, names()) == Ok("display")
    {
        words = rest;
    }
    let (first, rest) = words.split_first().unwrap_or((&"", &[]));
    let usual = SYNONYMS
        .iter()
        .find(|(usual, _)| first.len() > 1 && usual.starts_with(first))
        .map(|(_, name)| *name);
    let name = usual.or_else(|| abbreviation::resolve(first, names()).ok()).unwrap_or(first);
    Ok(match [&[name], rest].concat().as_slice() {
        ["match", text] => Pipe::Match(text.to_lowercase()),
        ["except", text] => Pipe::Except(text.to_lowercase()),
        ["count"] => Pipe::Count,
        ["json"] => Pipe::Json,
        ["xml"] => Pipe::Xml,
        ["set"] => Pipe::Set,
        ["compare"] => Pipe::Compare,
        _ => {
            let names: Vec<_> = names().collect();
            return Err(Failure::Message(format!(
                "|{part}: no such filter; use one of {} (match and except need a text)",
                names.join(", ")
            )));
        }
    })
}

/// Writes text through filters.
pub fn write(text: &str, pipes: &[Pipe], out: &mut dyn Write) -> Result<(), Failure> {
    let mut lines: Vec<&str> = text.lines().collect();
    let mut count = None;
    for pipe in pipes {
        match pipe {
            Pipe::Match(word) => lines.retain(|line| line.to_lowercase().contains(word)),
            Pipe::Except(word) => lines.retain(|line| !line.to_lowercase().contains(word)),
            Pipe::Count => count = Some(lines.len()),
            // The source of the text has applied these.
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
    fn text_goes_through_filters() {
        let (command, pipes) =
            split("show interfaces | match \"a|b\" | except no | count").unwrap();
        assert_eq!(command, "show interfaces ");
        let expected = [Pipe::Match("a|b".into()), Pipe::Except("no".into()), Pipe::Count];
        assert_eq!(pipes, expected);
        let mut out = Vec::new();
        write("A|B\nNO a|b\nc\n", &pipes, &mut out).unwrap();
        write("A|B\nc\n", &pipes[..1], &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "1 lines\nA|B\n");
        assert!(matches!(split("show | sort x"), Err(Failure::Message(_))));
    }

    #[test]
    fn filters_have_their_usual_names_too() {
        let of = |line: &str| split(line).unwrap().1;
        assert_eq!(of("show | display set | inc lan"), of("show | set | match lan"));
        assert_eq!(of("show | grep lan | exclude wan"), of("show | match lan | except wan"));
        assert_eq!(of("show | di js"), [Pipe::Json]);
        assert!(split("show | display").is_err(), "it needs a format");
    }
}
