//! Conversion of words to a data path and back.

use stoa_yang::renamed_names;
use stoa_yang::schema;
use yang5::schema::{DataValueType, SchemaNode, SchemaNodeKind};

/// A path of words, parsed.
#[derive(Clone, Debug, PartialEq)]
pub struct Target<'a> {
    /// The data path in the syntax of libyang; "/" for no words.
    pub path: String,
    /// The last node; `None` for no words.
    pub node: Option<SchemaNode<'a>>,
    /// The value of a leaf or a leaf-list.
    pub value: Option<String>,
    /// Number of missing keys of the last list.
    pub keys_missing: usize,
}

/// Why words are no path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An unknown name.
    #[error("there is no \"{word}\"{}: {fix}", after(above))]
    Unknown {
        /// The word.
        word: String,
        /// The words before it.
        above: String,
        /// What to use instead.
        fix: String,
    },
    /// A name of several modules.
    #[error("\"{word}\" is ambiguous: use {choices}")]
    Ambiguous {
        /// The word.
        word: String,
        /// The names with their modules.
        choices: String,
    },
    /// A list without all its keys.
    #[error("\"{list}\" needs {keys}")]
    KeysMissing {
        /// The list.
        list: String,
        /// The names of the missing keys.
        keys: String,
    },
    /// A leaf without a value.
    #[error("\"{leaf}\" needs a value")]
    ValueMissing {
        /// The leaf.
        leaf: String,
    },
    /// Words after a value.
    #[error("\"{word}\" follows a value: use one line for each value")]
    TooMany {
        /// The first word too many.
        word: String,
    },
    /// A value that a path cannot contain.
    #[error("{word:?} cannot be part of a path")]
    Unquotable {
        /// The word.
        word: String,
    },
}

fn after(above: &str) -> String {
    if above.is_empty() { String::new() } else { format!(" after \"{above}\"") }
}

/// The configuration nodes below a node, or at the top, with those of choices.
pub fn below<'a>(node: Option<&SchemaNode<'a>>) -> Vec<SchemaNode<'a>> {
    let mut found = Vec::new();
    match node {
        Some(node) => gather(node.children(), &mut found),
        None => {
            for module in schema().context().modules(true) {
                gather(module.data(), &mut found);
            }
        }
    }
    found
}

fn gather<'a>(nodes: impl Iterator<Item = SchemaNode<'a>>, found: &mut Vec<SchemaNode<'a>>) {
    for node in nodes {
        match node.kind() {
            SchemaNodeKind::Choice | SchemaNodeKind::Case => gather(node.children(), found),
            SchemaNodeKind::Container
            | SchemaNodeKind::List
            | SchemaNodeKind::Leaf
            | SchemaNodeKind::LeafList
                if node.is_config() && !node.is_status_obsolete() =>
            {
                found.push(node);
            }
            _ => {}
        }
    }
}

/// The name of a node with its module.
pub fn whole_name(node: &SchemaNode<'_>) -> String {
    format!("{}:{}", node.module().name(), node.name())
}

/// The name of a node as it is typed: with its module only if a sibling has the same name.
pub fn name(node: &SchemaNode<'_>, like: &[SchemaNode<'_>]) -> String {
    match like.iter().filter(|other| other.name() == node.name()).count() {
        0 | 1 => node.name().to_owned(),
        _ => whole_name(node),
    }
}

/// The node of a word among its siblings.
fn pick<'a>(
    word: &str,
    above: &[String],
    among: Vec<SchemaNode<'a>>,
) -> Result<SchemaNode<'a>, Error> {
    let is_it = |node: &&SchemaNode<'_>| node.name() == word || whole_name(node) == word;
    let found: Vec<_> = among.iter().filter(is_it).collect();
    match found.as_slice() {
        [one] => Ok((*one).clone()),
        [] => {
            let known = among.iter().filter(|node| !node.is_list_key());
            let mut known: Vec<_> = known.map(|node| name(node, &among)).collect();
            known.sort();
            let renamed = renamed_names::node(None, word);
            let fix = renamed.map_or_else(
                || format!("use {}", known.join(", ")),
                |fix| fix.trim_end_matches('.').replacen('U', "u", 1),
            );
            Err(Error::Unknown { word: word.to_owned(), above: above.join(" "), fix })
        }
        several => {
            let names: Vec<_> = several.iter().map(|node| whole_name(node)).collect();
            Err(Error::Ambiguous { word: word.to_owned(), choices: names.join(" or ") })
        }
    }
}

/// The step of a data path to a node: with its module if it differs from that of the parent.
fn step(node: &SchemaNode<'_>, above: Option<&SchemaNode<'_>>) -> String {
    match above {
        Some(above) if above.module().name() == node.module().name() => node.name().to_owned(),
        _ => whole_name(node),
    }
}

/// A value in quotes, for a path.
fn quoted(value: &str) -> Result<String, Error> {
    match (value.contains('\''), value.contains('"')) {
        _ if value.contains('\0') => Err(Error::Unquotable { word: value.to_owned() }),
        (false, _) => Ok(format!("'{value}'")),
        (true, false) => Ok(format!("\"{value}\"")),
        _ => Err(Error::Unquotable { word: value.to_owned() }),
    }
}

/// Parses words to a path. The last list or leaf may lack its keys or value.
///
/// # Errors
/// The wrong word and what to use instead.
pub fn parse(words: &[String]) -> Result<Target<'static>, Error> {
    let mut target = Target { path: String::new(), node: None, value: None, keys_missing: 0 };
    let mut at = 0;
    while at < words.len() {
        if target.value.is_some() {
            return Err(Error::TooMany { word: words[at].clone() });
        }
        let among = below(target.node.as_ref());
        let node = pick(&words[at], &words[..at], among)?;
        at += 1;
        target.path.push('/');
        target.path.push_str(&step(&node, target.node.as_ref()));
        target.keys_missing = 0;
        match node.kind() {
            SchemaNodeKind::List => {
                for key in node.list_keys() {
                    match words.get(at) {
                        Some(word) => {
                            let value = value(&key, word);
                            target.path.push_str(&format!("[{}={}]", key.name(), quoted(&value)?));
                            at += 1;
                        }
                        None => target.keys_missing += 1,
                    }
                }
            }
            SchemaNodeKind::Leaf | SchemaNodeKind::LeafList => {
                if let Some(word) = words.get(at) {
                    target.value = Some(value(&node, word));
                    at += 1;
                }
            }
            _ => {}
        }
        target.node = Some(node);
    }
    if target.path.is_empty() {
        target.path.push('/');
    }
    Ok(target)
}

/// A value for libyang: identities have their module.
fn value(node: &SchemaNode<'_>, word: &str) -> String {
    let is_identity =
        node.leaf_type().is_some_and(|it| it.base_type() == DataValueType::IdentityRef);
    if !is_identity || word.contains(':') {
        return word.to_owned();
    }
    let module = super::completion::identities().find(|(_, name)| *name == word);
    module.map_or_else(|| word.to_owned(), |(module, name)| format!("{module}:{name}"))
}

/// Parses the arguments of `set`: a complete path and its value.
///
/// # Errors
/// The word that is wrong or missing.
pub fn to_set(words: &[String]) -> Result<(String, Option<String>), Error> {
    let target = parse(words)?;
    let Some(node) = &target.node else {
        let known: Vec<_> = below(None).iter().map(|node| node.name().to_owned()).collect();
        return Err(Error::KeysMissing { list: "set".into(), keys: known.join(", ") });
    };
    check_keys(&target, node)?;
    match node.kind() {
        SchemaNodeKind::Leaf if target.value.is_none() => {
            let is_empty =
                node.leaf_type().is_some_and(|it| it.base_type() == DataValueType::Empty);
            match is_empty {
                true => Ok((target.path, Some(String::new()))),
                false => Err(Error::ValueMissing { leaf: node.name().to_owned() }),
            }
        }
        SchemaNodeKind::LeafList => Ok((entry(&target, node)?, None)),
        _ => Ok((target.path, target.value)),
    }
}

/// The path of an entry of a leaf-list, whose key is its value.
fn entry(target: &Target<'_>, node: &SchemaNode<'_>) -> Result<String, Error> {
    match &target.value {
        Some(value) => Ok(format!("{}[.={}]", target.path, quoted(value)?)),
        None => Err(Error::ValueMissing { leaf: node.name().to_owned() }),
    }
}

/// Parses the arguments of `delete` or `show`: a path. Entries of a leaf-list need their value; the value of a leaf is
/// ignored.
///
/// # Errors
/// The word that is wrong or missing.
pub fn to_delete(words: &[String]) -> Result<String, Error> {
    let target = parse(words)?;
    let Some(node) = &target.node else { return Ok(target.path) };
    check_keys(&target, node)?;
    match node.kind() {
        SchemaNodeKind::LeafList => entry(&target, node),
        _ => Ok(target.path),
    }
}

fn check_keys(target: &Target<'_>, node: &SchemaNode<'_>) -> Result<(), Error> {
    if target.keys_missing == 0 {
        return Ok(());
    }
    let keys: Vec<_> = node.list_keys().map(|key| key.name().to_owned()).collect();
    let missing = &keys[keys.len() - target.keys_missing..];
    Err(Error::KeysMissing { list: node.name().to_owned(), keys: missing.join(" and ") })
}

/// Converts a data path to words.
pub fn of_path(path: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut letters = path.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '/' => end(&mut word, &mut words),
            '[' => {
                end(&mut word, &mut words);
                // Skip the name of the key.
                while letters.peek().is_some_and(|letter| !matches!(letter, '\'' | '"')) {
                    letters.next();
                }
                let Some(quote) = letters.next() else { continue };
                let value: String =
                    letters.by_ref().take_while(|letter| *letter != quote).collect();
                words.push(value);
                // Skip the closing bracket.
                letters.next();
            }
            ':' => word.clear(),
            _ => word.push(letter),
        }
    }
    end(&mut word, &mut words);
    words
}

fn end(word: &mut String, words: &mut Vec<String>) {
    if !word.is_empty() {
        words.push(std::mem::take(word));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::split;
    use proptest::prelude::*;

    fn words(line: &str) -> Vec<String> {
        split(line).unwrap()
    }

    #[test]
    fn words_become_paths() {
        let (path, value) =
            to_set(&words("interfaces interface lan ipv4 address 10.0.0.1 prefix-length 24"))
                .unwrap();
        assert_eq!(
            path,
            "/ietf-interfaces:interfaces/interface[name='lan']/ietf-ip:ipv4/address[ip='10.0.0.1']/prefix-length"
        );
        assert_eq!(value.as_deref(), Some("24"));
        let (path, value) = to_set(&words("interfaces interface lan type ethernetCsmacd")).unwrap();
        assert_eq!(path, "/ietf-interfaces:interfaces/interface[name='lan']/type");
        assert_eq!(value.as_deref(), Some("iana-if-type:ethernetCsmacd"));
        let (path, _) = to_set(&words("interfaces interface \"it's\" enabled false")).unwrap();
        assert_eq!(path, "/ietf-interfaces:interfaces/interface[name=\"it's\"]/enabled");
        let (path, value) = to_set(&words("system workers cpus 1")).unwrap();
        assert_eq!(
            (path.as_str(), value.as_deref()),
            ("/stoa-system:system/workers/cpus[.='1']", None)
        );
        assert_eq!(
            to_delete(&words("system workers cpus 1")).unwrap(),
            "/stoa-system:system/workers/cpus[.='1']"
        );
        assert_eq!(to_delete(&[]).unwrap(), "/");
    }

    #[test]
    fn wrong_words_are_errors_with_a_fix() {
        let error = |line: &str| to_set(&words(line)).unwrap_err().to_string();
        let unknown = error("interfaces interface lan adress");
        assert!(unknown.starts_with("there is no \"adress\" after \"interfaces interface lan\""));
        assert!(unknown.contains("description") && unknown.contains("ipv4"), "{unknown}");
        assert_eq!(error("interfaces interface"), "\"interface\" needs name");
        assert_eq!(error("interfaces interface lan description"), "\"description\" needs a value");
        assert!(
            error("interfaces interface lan enabled true false")
                .contains("\"false\" follows a value")
        );
        assert!(error("interfaces interface lan oper-status up").contains("there is no"), "state");
        assert_eq!(
            error("interfaces interface lan mirror"),
            "there is no \"mirror\" after \"interfaces interface lan\": use \
             \"stoa-host-interface:host-interface\" (it was \"mirror\")"
        );
    }

    #[test]
    fn paths_become_words() {
        let path = "/ietf-interfaces:interfaces/interface[name='a b']/ietf-ip:ipv6/address[ip='fd00::1']/prefix-length";
        assert_eq!(
            of_path(path),
            ["interfaces", "interface", "a b", "ipv6", "address", "fd00::1", "prefix-length"]
        );
        assert_eq!(
            of_path("/stoa-system:system/workers/cpus[.='1']"),
            ["system", "workers", "cpus", "1"]
        );
        assert!(of_path("/").is_empty());
    }

    proptest! {
        #[test]
        fn any_line_is_parsed_without_a_panic(line in "\\PC*") {
            if let Ok(words) = split(&line) {
                let _ = parse(&words);
            }
            let _ = of_path(&line);
        }
    }
}
