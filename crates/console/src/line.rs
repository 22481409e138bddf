//! Words of a line, and their quoting.

/// A word as it must be typed: in quotes unless it is plain.
pub fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_.:/@+,%".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"")),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_open_quote_is_an_error() {
        assert_eq!(split("a \"b"), Err('"'));
        assert_eq!(split("a 'b \\\" c' \\\"").unwrap(), ["a", "b \\\" c", "\""]);
    }

    proptest! {
        #[test]
        fn quoted_words_come_back(words in proptest::collection::vec("\\PC*", 0..5)) {
            let line: Vec<_> = words.iter().map(|word| quoted(word)).collect();
            prop_assert_eq!(split(&line.join(" ")), Ok(words));
        }
    }
}
