//! Words of a line, and their quoting.

/// A word as it must be typed: in quotes unless it is plain.
pub fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_.:/@+,%".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"")),
    }
}

/// Words as they must be typed.
pub fn joined(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// Splits a line into words. Quotes enclose a word; a backslash escapes the next character.
///
/// # Errors
/// The quote that is not closed.
pub fn split(line: &str) -> Result<Vec<String>, char> {
    let (mut words, mut word, mut is_word) = (Vec::new(), String::new(), false);
    let mut quote = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), close) if open == close => quote = None,
            (None, '"' | '\'') => (quote, is_word) = (Some(letter), true),
            (None | Some('"'), '\\') => {
                word.extend(letters.next());
                is_word = true;
            }
            (None, space) if space.is_whitespace() => {
                if is_word {
                    words.push(std::mem::take(&mut word));
                }
                is_word = false;
            }
            (_, letter) => {
                word.push(letter);
                is_word = true;
            }
        }
    }
    if is_word {
        words.push(word);
    }
    quote.map_or(Ok(words), Err)
}

/// The statements of a text, each with the number of its first line, from 1: a line, and those that follow while a
/// quote is open. A line that begins with `#` is one of its own. A quote that nothing closes takes the rest.
pub fn statements(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let (mut rest, mut number) = (text, 1);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (statement, after) = rest.split_at(statement_length(rest));
        let first = number;
        number += statement.matches('\n').count();
        rest = after;
        let line = statement.strip_suffix('\n').unwrap_or(statement);
        Some((first, line.strip_suffix('\r').unwrap_or(line)))
    })
}

/// The length of the first statement of a text with its line end, in bytes.
fn statement_length(text: &str) -> usize {
    let line = text.split_inclusive('\n').next().unwrap_or_default();
    if line.trim_start().starts_with('#') {
        return line.len();
    }
    let (mut quote, mut is_escaped) = (None, false);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (None, '\n') => return at + 1,
            _ if is_escaped => is_escaped = false,
            (None | Some('"'), '\\') => is_escaped = true,
            (Some(open), close) if open == close => quote = None,
            (None, '"' | '\'') => quote = Some(letter),
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_open_quote_is_an_error() {
        assert_eq!(split("a \"b"), Err('"'));
        assert_eq!(split("a 'b \\\" c' \\\"").unwrap(), ["a", "b \\\" c", "\""]);
    }

    #[test]
    fn a_statement_ends_with_the_line_unless_a_quote_is_open() {
        let of = |text| statements(text).collect::<Vec<_>>();
        assert_eq!(
            of("set a\r\n\n # it's\nset b"),
            [(1, "set a"), (2, ""), (3, " # it's"), (4, "set b")]
        );
        assert_eq!(
            of("set a \"b\n# \\\"c\" 'd\ne'\nset f\\\nset g\n"),
            [(1, "set a \"b\n# \\\"c\" 'd\ne'"), (4, "set f\\"), (5, "set g")]
        );
        assert_eq!(of("set a \"b\nset c"), [(1, "set a \"b\nset c")]);
        assert!(of("").is_empty());
    }

    proptest! {
        #[test]
        fn quoted_words_come_back(
            lines in proptest::collection::vec(
                proptest::collection::vec("(\\PC|[\"'#\r\n\t\\\\])*", 1..5),
                0..4,
            )
        ) {
            let line = |words: &Vec<String>| {
                let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
                format!("{}\n", words.join(" "))
            };
            let text: String = lines.iter().map(line).collect();
            let again: Result<Vec<_>, char> = statements(&text).map(|(_, it)| split(it)).collect();
            prop_assert_eq!(again, Ok(lines));
        }
    }
}
