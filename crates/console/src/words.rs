//! From words to a data path and back.

use stoa_controller::yang::schema;
use yang5::schema::{DataValueType, SchemaNode, SchemaNodeKind};

/// What some words name.
#[derive(Clone, Debug, PartialEq)]
pub struct Place<'a> {
    /// The data path, as libyang has it; "/" for no words.
    pub path: String,
    /// The last node; nothing for no words.
    pub node: Option<SchemaNode<'a>>,
    /// The value that was given, of a leaf or a leaf-list.
    pub value: Option<String>,
    /// Keys of the last list that are not given.
    pub keys_missing: usize,
}

/// Why words name nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A name that is not there.
    #[error("there is no \"{word}\"{}; there are: {known}", behind(above))]
    Unknown {
        /// The word.
        word: String,
        /// The words before it.
        above: String,
        /// The names that are there.
        known: String,
    },
    /// Several modules have that name.
    #[error("\"{word}\" may be {choices}: write one of them")]
    Ambiguous {
        /// The word.
        word: String,
        /// The names with their modules.
        choices: String,
    },
    /// A list wants more keys.
    #[error("\"{list}\" wants {keys} behind it")]
    KeysMissing {
        /// The list.
        list: String,
        /// What its keys are called.
        keys: String,
    },
    /// A leaf wants a value.
    #[error("\"{leaf}\" wants a value behind it")]
    ValueMissing {
        /// The leaf.
        leaf: String,
    },
    /// Words behind a value.
    #[error("\"{word}\" stands behind a value: give one value a line")]
    TooMany {
        /// The first word too many.
        word: String,
    },
    /// A value that no path can hold.
    #[error("{word:?} cannot be part of a path")]
    Unquotable {
        /// The word.
        word: String,
    },
}

fn behind(above: &str) -> String {
    if above.is_empty() { String::new() } else { format!(" behind \"{above}\"") }
}

/// The nodes below a node, or at the top; choices are looked through, facts left out.
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

/// A node's name with its module.
pub fn whole_name(node: &SchemaNode<'_>) -> String {
    format!("{}:{}", node.module().name(), node.name())
}

/// A node's name as people type it: with its module only where another one has the same.
pub fn name(node: &SchemaNode<'_>, like: &[SchemaNode<'_>]) -> String {
    match like.iter().filter(|other| other.name() == node.name()).count() {
        0 | 1 => node.name().to_owned(),
        _ => whole_name(node),
    }
}

/// The node that a word means among those that may stand there.
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
            Err(Error::Unknown {
                word: word.to_owned(),
                above: above.join(" "),
                known: known.join(", "),
            })
        }
        several => {
            let names: Vec<_> = several.iter().map(|node| whole_name(node)).collect();
            Err(Error::Ambiguous { word: word.to_owned(), choices: names.join(" or ") })
        }
    }
}

/// The step of a path to a node: with its module where it changes.
fn step(node: &SchemaNode<'_>, above: Option<&SchemaNode<'_>>) -> String {
    match above {
        Some(above) if above.module().name() == node.module().name() => node.name().to_owned(),
        _ => whole_name(node),
    }
}

/// A value in quotes, as a path wants it.
fn quoted(value: &str) -> Result<String, Error> {
    match (value.contains('\''), value.contains('"')) {
        _ if value.contains('\0') => Err(Error::Unquotable { word: value.to_owned() }),
        (false, _) => Ok(format!("'{value}'")),
        (true, false) => Ok(format!("\"{value}\"")),
        _ => Err(Error::Unquotable { word: value.to_owned() }),
    }
}

/// What the words name; the last of them may be an unfinished list or leaf.
///
/// # Errors
/// Which word is wrong, and what may stand there.
pub fn place(words: &[String]) -> Result<Place<'static>, Error> {
    let mut place = Place { path: String::new(), node: None, value: None, keys_missing: 0 };
    let mut at = 0;
    while at < words.len() {
        if place.value.is_some() {
            return Err(Error::TooMany { word: words[at].clone() });
        }
        let among = below(place.node.as_ref());
        let node = pick(&words[at], &words[..at], among)?;
        at += 1;
        place.path.push('/');
        place.path.push_str(&step(&node, place.node.as_ref()));
        place.keys_missing = 0;
        match node.kind() {
            SchemaNodeKind::List => {
                for key in node.list_keys() {
                    match words.get(at) {
                        Some(word) => {
                            let value = value(&key, word);
                            place.path.push_str(&format!("[{}={}]", key.name(), quoted(&value)?));
                            at += 1;
                        }
                        None => place.keys_missing += 1,
                    }
                }
            }
            SchemaNodeKind::Leaf | SchemaNodeKind::LeafList => {
                if let Some(word) = words.get(at) {
                    place.value = Some(value(&node, word));
                    at += 1;
                }
            }
            _ => {}
        }
        place.node = Some(node);
    }
    if place.path.is_empty() {
        place.path.push('/');
    }
    Ok(place)
}

/// A value as libyang wants it: identities come with their module.
fn value(node: &SchemaNode<'_>, word: &str) -> String {
    let is_identity =
        node.leaf_type().is_some_and(|it| it.base_type() == DataValueType::IdentityRef);
    if !is_identity || word.contains(':') {
        return word.to_owned();
    }
    let module = super::offer::identities().find(|(_, name)| *name == word);
    module.map_or_else(|| word.to_owned(), |(module, name)| format!("{module}:{name}"))
}

/// The words as the target of `set`: nothing is missing.
///
/// # Errors
/// Which word is wrong or missing.
pub fn to_set(words: &[String]) -> Result<(String, Option<String>), Error> {
    let place = place(words)?;
    let Some(node) = &place.node else {
        let known: Vec<_> = below(None).iter().map(|node| node.name().to_owned()).collect();
        return Err(Error::KeysMissing { list: "set".into(), keys: known.join(", ") });
    };
    keys_are_there(&place, node)?;
    match node.kind() {
        SchemaNodeKind::Leaf if place.value.is_none() => {
            let is_empty =
                node.leaf_type().is_some_and(|it| it.base_type() == DataValueType::Empty);
            match is_empty {
                true => Ok((place.path, Some(String::new()))),
                false => Err(Error::ValueMissing { leaf: node.name().to_owned() }),
            }
        }
        SchemaNodeKind::LeafList => Ok((entry(&place, node)?, None)),
        _ => Ok((place.path, place.value)),
    }
}

/// The path of an entry of a leaf-list, which its value tells apart from the others.
fn entry(place: &Place<'_>, node: &SchemaNode<'_>) -> Result<String, Error> {
    match &place.value {
        Some(value) => Ok(format!("{}[.={}]", place.path, quoted(value)?)),
        None => Err(Error::ValueMissing { leaf: node.name().to_owned() }),
    }
}

/// The words as the target of `delete` or `show`: an entry of a leaf-list by its value; a value behind a leaf is
/// taken for what it is now.
///
/// # Errors
/// Which word is wrong or missing.
pub fn to_delete(words: &[String]) -> Result<String, Error> {
    let place = place(words)?;
    let Some(node) = &place.node else { return Ok(place.path) };
    keys_are_there(&place, node)?;
    match node.kind() {
        SchemaNodeKind::LeafList => entry(&place, node),
        _ => Ok(place.path),
    }
}

fn keys_are_there(place: &Place<'_>, node: &SchemaNode<'_>) -> Result<(), Error> {
    if place.keys_missing == 0 {
        return Ok(());
    }
    let keys: Vec<_> = node.list_keys().map(|key| key.name().to_owned()).collect();
    let missing = &keys[keys.len() - place.keys_missing..];
    Err(Error::KeysMissing { list: node.name().to_owned(), keys: missing.join(" and ") })
}

/// A data path as words.
pub fn of_path(path: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut letters = path.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '/' => end(&mut word, &mut words),
            '[' => {
                end(&mut word, &mut words);
                // The name of the key is known from the list.
                while letters.peek().is_some_and(|letter| !matches!(letter, '\'' | '"')) {
                    letters.next();
                }
                let Some(quote) = letters.next() else { continue };
                let value: String =
                    letters.by_ref().take_while(|letter| *letter != quote).collect();
                words.push(value);
                // The bracket at its end.
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
    fn wrong_words_are_told_with_what_may_stand_there() {
        let told = |line: &str| to_set(&words(line)).unwrap_err().to_string();
        let unknown = told("interfaces interface lan adress");
        assert!(unknown.starts_with("there is no \"adress\" behind \"interfaces interface lan\""));
        assert!(unknown.contains("description") && unknown.contains("ipv4"), "{unknown}");
        assert_eq!(told("interfaces interface"), "\"interface\" wants name behind it");
        assert_eq!(
            told("interfaces interface lan description"),
            "\"description\" wants a value behind it"
        );
        assert!(
            told("interfaces interface lan enabled true false").contains("\"false\" stands behind")
        );
        assert!(told("interfaces interface lan oper-status up").contains("there is no"), "a fact");
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
        fn no_line_is_too_odd(line in "\\PC*") {
            if let Ok(words) = split(&line) {
                let _ = place(&words);
            }
            let _ = of_path(&line);
        }
    }
}
