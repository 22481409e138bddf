//! Reads a source file: its words, without comments, strings and tests.

/// The words of a file: identifiers, `::`, and single characters. Comments, strings and what only tests compile are
/// left out.
pub fn words(text: &str) -> Vec<String> {
    without_tests(&split(text))
}

fn split(text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let mut words = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let begin = at;
        at += match rest {
            [b'/', b'/', ..] => until(rest, b"\n"),
            [b'/', b'*', ..] => until(rest, b"*/"),
            [b'"', ..] => string(rest),
            [b'r', b'"' | b'#', ..] if raw(rest).is_some() => raw(rest).unwrap_or(1),
            [b'\'', b'\\', ..] => 2 + until(&rest[2..], b"'").max(1),
            // A character; otherwise a lifetime.
            [b'\'', ..] => character(text, at).unwrap_or(1),
            [b':', b':', ..] => 2,
            [one, ..] if one.is_ascii_alphanumeric() || *one == b'_' => identifier(rest),
            _ => 1,
        };
        let word = &bytes[begin..at.min(bytes.len())];
        let first = word[0];
        let skipped = first.is_ascii_whitespace() || !first.is_ascii();
        let literal = word.len() > 1 && matches!(first, b'/' | b'"' | b'\'')
            || word.len() > 1 && first == b'r' && word.contains(&b'"');
        if !skipped && !literal {
            words.push(String::from_utf8_lossy(word).into_owned());
        }
    }
    words
}

/// Length up to and including the end.
fn until(rest: &[u8], end: &[u8]) -> usize {
    let found = rest.windows(end.len()).position(|window| window == end);
    found.map_or(rest.len(), |position| position + end.len())
}

fn identifier(rest: &[u8]) -> usize {
    let end = rest.iter().position(|one| !one.is_ascii_alphanumeric() && *one != b'_');
    end.unwrap_or(rest.len())
}

fn string(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != b'"' {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// Length of a raw string, if it is one.
fn raw(rest: &[u8]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|one| **one == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return None;
    }
    let mut end = vec![b'"'];
    end.resize(1 + hashes, b'#');
    Some(2 + hashes + until(&rest[2 + hashes..], &end))
}

/// Length of a character literal, if it is one.
fn character(text: &str, at: usize) -> Option<usize> {
    let mut chars = text.get(at + 1..)?.char_indices();
    chars.next()?;
    chars.next().filter(|(_, one)| *one == '\'').map(|(length, _)| length + 2)
}

/// Leaves out each item behind `#[cfg(test)]`.
fn without_tests(words: &[String]) -> Vec<String> {
    const TEST: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut at = 0;
    while at < words.len() {
        if words[at..].iter().take(TEST.len()).eq(TEST.iter()) {
            at = end_of_item(words, at + TEST.len());
        } else {
            kept.push(words[at].clone());
            at += 1;
        }
    }
    kept
}

/// The end of an item with its attributes: a semicolon, or the end of its block.
fn end_of_item(words: &[String], mut at: usize) -> usize {
    let import = words[at..].iter().take_while(|word| *word != "{").any(|word| word == "use");
    let mut depth = 0_usize;
    while let Some(word) = words.get(at) {
        at += 1;
        match word.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && (word == ";" || word == "}" && !import) {
            break;
        }
    }
    at
}

/// An import: the path, the name under which the file knows it (`*` for everything), and whether others may use it.
pub struct Import {
    pub path: Vec<String>,
    pub name: String,
    pub public: bool,
}

/// Takes the imports (`use`) out of the words, and returns them with the rest.
pub fn imports(words: &[String]) -> (Vec<Import>, Vec<String>) {
    let mut imports = Vec::new();
    let mut rest = Vec::new();
    let mut at = 0;
    while at < words.len() {
        // `use<'a>` names lifetimes that a type captures.
        if words[at] == "use" && words.get(at + 1).is_some_and(|next| next != "<") {
            let first = imports.len();
            let public = rest.last().is_some_and(|word| word == "pub" || word == ")");
            at = tree(words, at + 1, &[], &mut imports);
            imports[first..].iter_mut().for_each(|import| import.public = public);
        } else {
            rest.push(words[at].clone());
            at += 1;
        }
    }
    (imports, rest)
}

/// One tree of an import, `a::b::{c, d as e, *}`. Returns where it ends.
fn tree(words: &[String], mut at: usize, above: &[String], into: &mut Vec<Import>) -> usize {
    let mut path = above.to_vec();
    while let Some(word) = words.get(at) {
        match word.as_str() {
            "::" => {}
            "{" => {
                at += 1;
                while words.get(at).is_some_and(|word| word != "}") {
                    at = tree(words, at, &path, into);
                    at += usize::from(words.get(at).is_some_and(|word| word == ","));
                }
                return at + 1;
            }
            "as" => {
                into.push(Import { path, name: words[at + 1].clone(), public: false });
                return at + 2;
            }
            "," | ";" | "}" => break,
            // `a::{self}` is `a`.
            "self" if !path.is_empty() => {}
            _ => path.push(word.clone()),
        }
        at += 1;
    }
    let name = path.last().cloned().unwrap_or_default();
    into.push(Import { path, name, public: false });
    at
}

/// Paths in code, outside imports: words joined by `::`.
pub fn paths(words: &[String]) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    let mut path: Vec<String> = Vec::new();
    for word in words {
        let identifier = word.starts_with(|one: char| one.is_ascii_alphabetic() || one == '_');
        if word == "::" || identifier && path.last().is_some_and(|last| last == "::") {
            path.push(word.clone());
        } else {
            paths.push(std::mem::take(&mut path));
            path.extend(identifier.then(|| word.clone()));
        }
    }
    paths.push(path);
    let joined = paths.into_iter().map(|path| path.into_iter().filter(|word| word != "::"));
    joined.map(Iterator::collect::<Vec<_>>).filter(|path| !path.is_empty()).collect()
}

/// Names that the words define: types, functions, constants, modules.
pub fn definitions(words: &[String]) -> Vec<String> {
    const KINDS: [&str; 9] =
        ["struct", "enum", "union", "trait", "type", "fn", "const", "static", "mod"];
    let pairs = words.windows(2).filter(|pair| KINDS.contains(&pair[0].as_str()));
    pairs.map(|pair| pair[1].clone()).collect()
}

/// Names of the modules in files of their own: `mod name;`.
pub fn modules(words: &[String]) -> Vec<String> {
    let files = words.windows(3).filter(|part| part[0] == "mod" && part[2] == ";");
    files.map(|part| part[1].clone()).collect()
}
