//! The nodes of the modules by the names that are typed: whole, or any unique beginning.

use stoa_api::acl::{flags_of, flags_text};
use stoa_yang::{renamed_names, schema, well_known};
use yang5::schema::{SchemaNode, SchemaNodeKind};

use crate::{abbreviation, synonyms};

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
    /// A container that is nothing by itself.
    #[error("\"{container}\" alone sets nothing: use {fix}")]
    Bare {
        /// The container.
        container: String,
        /// What to write instead.
        fix: String,
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

/// What a word usually means among these nodes: a node of another name, or a value whose leaf is left out.
fn usual(word: &str, known: &[(String, &SchemaNode<'_>)]) -> Option<String> {
    let has = |name: &str| known.iter().any(|(it, _)| it == name);
    let is_port = word.parse::<u16>().is_ok() || well_known::port(word).is_some();
    if has("port") && is_port {
        return Some(format!("port {word}"));
    }
    let flags = flags_of(word).filter(|flags| *flags > 0 && has("set") && has("clear"));
    let flags = flags.map(|flags| format!("set {}", flags_text(flags)));
    flags.or_else(|| synonyms::node(word).map(str::to_owned))
}

/// The node of a word among its siblings: its name, with or without its module, or the beginning of one name alone.
pub(crate) fn pick<'a>(
    word: &str,
    above: &[String],
    among: Vec<SchemaNode<'a>>,
) -> Result<SchemaNode<'a>, Error> {
    let is_it = |node: &&SchemaNode<'_>| node.name() == word || whole_name(node) == word;
    let found: Vec<_> = among.iter().filter(is_it).collect();
    match found.as_slice() {
        [one] => return Ok((*one).clone()),
        [] => {}
        several => {
            let names: Vec<_> = several.iter().map(|node| whole_name(node)).collect();
            return Err(Error::Ambiguous { word: word.to_owned(), choices: names.join(" or ") });
        }
    }
    let mut known: Vec<_> = among
        .iter()
        .filter(|node| !node.is_list_key())
        .map(|node| (name(node, &among), node))
        .collect();
    known.sort_by(|one, other| one.0.cmp(&other.0));
    let names = known.iter().map(|(name, _)| name.as_str());
    match abbreviation::resolve(word, names.clone()) {
        Ok(full) => {
            let found = known.iter().find(|(name, _)| name == full);
            Ok(found.expect("it is one of them").1.clone())
        }
        Err(choices) if !choices.is_empty() => {
            Err(Error::Ambiguous { word: word.to_owned(), choices: choices.join(" or ") })
        }
        Err(_) => {
            let all = names.collect::<Vec<_>>().join(", ");
            let renamed = renamed_names::node(None, word);
            let fix = renamed
                .map(|fix| fix.trim_end_matches('.').replacen('U', "u", 1))
                .or_else(|| Some(format!("use `{}`, or one of {all}", usual(word, &known)?)))
                .unwrap_or_else(|| format!("use {all}"));
            Err(Error::Unknown { word: word.to_owned(), above: above.join(" "), fix })
        }
    }
}
