//! A line and the words in it.

/// A word as it has to be typed: in quotes when it would not be one word.
pub fn typed(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_.:/@+,%".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"")),
    }
}

/// A line as words: quotes hold a word together, a backslash takes the next letter as it is.
///
/// # Errors
/// When a quote is not closed: what was open.
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
    fn an_open_quote_is_told() {
        assert_eq!(split("a \"b"), Err('"'));
        assert_eq!(split("a 'b \\\" c' \\\"").unwrap(), ["a", "b \\\" c", "\""]);
    }

    proptest! {
        #[test]
        fn typed_words_come_back(given in proptest::collection::vec("\\PC*", 0..5)) {
            let line: Vec<_> = given.iter().map(|word| typed(word)).collect();
            prop_assert_eq!(split(&line.join(" ")), Ok(given));
        }
    }
}
