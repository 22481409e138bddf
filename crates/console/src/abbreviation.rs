//! Abbreviated words: any beginning that only one name has.

/// The name that `word` means: itself, or the only name that begins with it.
///
/// # Errors
/// The names that begin with it: none, or several.
pub fn resolve<'a>(
    word: &str,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Result<&'a str, Vec<&'a str>> {
    if let Some(name) = names.clone().find(|name| *name == word) {
        return Ok(name);
    }
    let mut beginning: Vec<&str> =
        names.filter(|name| !word.is_empty() && name.starts_with(word)).collect();
    match beginning.as_slice() {
        [one] => Ok(one),
        _ => {
            beginning.sort_unstable();
            Err(beginning)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_means_its_own_name_or_one_that_begins_with_it() {
        let of =
            |word| resolve(word, ["show", "set", "commit", "compare", "up", "update"].into_iter());
        assert_eq!(of("sh"), Ok("show"));
        assert_eq!(of("up"), Ok("up"), "a whole name wins");
        assert_eq!(of("com"), Err(vec!["commit", "compare"]));
        assert_eq!(of("x"), Err(vec![]));
        assert_eq!(of(""), Err(vec![]));
    }
}
