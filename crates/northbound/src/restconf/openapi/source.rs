//! The statements of the modules' texts. libyang's interface lacks ranges, lengths, patterns, enumerations and
//! identities, which are read from here.

use std::collections::BTreeMap;
use std::sync::OnceLock;

/// A statement of YANG (RFC 7950, section 6.3).
#[derive(Debug, Default)]
pub struct Statement {
    /// The keyword.
    pub keyword: String,
    /// The argument; empty when there is none.
    pub argument: String,
    /// The substatements.
    pub below: Vec<Statement>,
}

impl Statement {
    /// The substatements with this keyword.
    pub fn all(&self, keyword: &str) -> impl Iterator<Item = &Statement> {
        self.below.iter().filter(move |one| one.keyword == keyword)
    }

    /// The argument of the first substatement with this keyword.
    pub fn value(&self, keyword: &str) -> Option<&str> {
        self.all(keyword).next().map(|one| one.argument.as_str())
    }

    /// The first typedef of this name at any depth.
    pub fn typedef(&self, name: &str) -> Option<&Statement> {
        self.below.iter().find_map(|one| match one.keyword == "typedef" && one.argument == name {
            true => Some(one),
            false => one.typedef(name),
        })
    }

    /// The module of a prefix; without one, or with its own, the module itself.
    pub fn imported<'a>(&'a self, prefix: &str) -> Option<&'a str> {
        if self.value("prefix") == Some(prefix) {
            return Some(&self.argument);
        }
        let import = self.all("import").find(|one| one.value("prefix") == Some(prefix));
        if let Some(import) = import {
            return Some(&import.argument);
        }
        // A submodule has the prefix of its module in belongs-to.
        let of = self.all("belongs-to").find(|one| one.value("prefix") == Some(prefix));
        of.map(|of| of.argument.as_str())
    }
}

/// The modules and submodules by name.
pub fn modules() -> &'static BTreeMap<&'static str, Statement> {
    static MODULES: OnceLock<BTreeMap<&'static str, Statement>> = OnceLock::new();
    MODULES.get_or_init(|| {
        let read = |(name, text)| Some((name, parse(text)?));
        stoa_yang::sources().filter_map(read).collect()
    })
}

/// The one statement of a text. `None`: the text is not YANG.
fn parse(text: &str) -> Option<Statement> {
    let mut tokens = tokens(text).into_iter().peekable();
    let mut open = vec![Statement::default()];
    while let Some(token) = tokens.next() {
        match token {
            Token::Mark('}') => {
                let done = open.pop()?;
                open.last_mut()?.below.push(done);
            }
            Token::Mark(_) => return None,
            Token::Text(keyword) => {
                let argument = match tokens.peek() {
                    Some(Token::Text(_)) => match tokens.next() {
                        Some(Token::Text(text)) => text,
                        _ => return None,
                    },
                    _ => String::new(),
                };
                let statement = Statement { keyword, argument, below: Vec::new() };
                match tokens.next()? {
                    Token::Mark('{') => open.push(statement),
                    Token::Mark(';') => open.last_mut()?.below.push(statement),
                    _ => return None,
                }
            }
        }
    }
    let mut all = open.pop().filter(|_| open.is_empty())?;
    all.below.pop()
}

#[derive(Debug)]
enum Token {
    Text(String),
    /// `{`, `}` or `;`.
    Mark(char),
}

/// Words, strings (concatenated at `+`) and punctuation.
fn tokens(text: &str) -> Vec<Token> {
    let mut all = Vec::new();
    let mut rest = text;
    let mut is_joined = false;
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next() else { return all };
        if let Some(comment) = rest.strip_prefix("//") {
            rest = comment.find('\n').map_or("", |end| &comment[end..]);
        } else if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.find("*/").map_or("", |end| &comment[end + 2..]);
        } else if first == '"' || first == '\'' {
            let (string, after) = string(&rest[1..], first);
            rest = after;
            match all.last_mut() {
                Some(Token::Text(before)) if is_joined => before.push_str(&string),
                _ => all.push(Token::Text(string)),
            }
            is_joined = false;
        } else if matches!(first, '{' | '}' | ';') {
            all.push(Token::Mark(first));
            rest = &rest[1..];
        } else if first == '+' && rest[1..].trim_start().starts_with(['"', '\'']) {
            is_joined = true;
            rest = &rest[1..];
        } else {
            let ends = |letter: char| letter.is_whitespace() || matches!(letter, '{' | '}' | ';');
            let end = rest.find(ends).unwrap_or(rest.len());
            all.push(Token::Text(rest[..end].to_owned()));
            rest = &rest[end..];
        }
    }
}

/// A string up to its closing quote, and the rest.
fn string(text: &str, quote: char) -> (String, &str) {
    let mut out = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            _ if letter == quote => return (out, &text[at + 1..]),
            '\\' if quote == '"' => match letters.next() {
                Some((_, 'n')) => out.push('\n'),
                Some((_, 't')) => out.push('\t'),
                Some((_, other)) => out.push(other),
                None => {}
            },
            _ => out.push(letter),
        }
    }
    (out, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_modules_are_read() {
        assert_eq!(modules().len(), stoa_yang::sources().count());
        for (name, module) in modules() {
            assert!(["module", "submodule"].contains(&module.keyword.as_str()), "{name}");
            assert_eq!(module.argument, *name);
        }
        let management = &modules()["stoa-management"];
        assert_eq!(management.imported("nacm"), Some("ietf-netconf-acm"));
        let file = management.typedef("file").unwrap().value("description").unwrap();
        assert!(file.starts_with("The absolute path of a file on the router. "), "{file}");
        assert!(file.ends_with("write."), "the whole text: {file}");
    }

    #[test]
    fn statements_are_those_of_the_rfc() {
        let text =
            "module a { // b {\n prefix 'x;'; pattern \"\\\\d\" /* } */ + '+' ; leaf b{type c;}}";
        let module = parse(text).unwrap();
        assert_eq!((module.value("prefix"), module.value("pattern")), (Some("x;"), Some("\\d+")));
        assert_eq!(module.all("leaf").next().unwrap().value("type"), Some("c"));
        for odd in ["", "a", "a {", "a }", "a b c;", "{", "a; }"] {
            assert!(parse(odd).is_none(), "{odd}");
        }
    }
}
