//! What may come next, with a word of help each.

use stoa_controller::fix;
use stoa_controller::yang::{self, schema};
use yang5::data::{Data, DataNodeRef, DataTree};
use yang5::schema::{DataValueType, SchemaNode, SchemaNodeKind};

use crate::words::{self, below, name};

/// A configuration.
pub type Tree = DataTree<'static>;

/// Letters of help that are shown.
const HELP_LIMIT: usize = 80;

/// One thing that may come next.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Offer {
    /// The word; in `<` and `>` when it only says what kind of word is wanted.
    pub word: String,
    /// What it is.
    pub help: String,
}

impl Offer {
    fn new(word: impl Into<String>, help: impl Into<String>) -> Offer {
        Offer { word: word.into(), help: help.into() }
    }

    /// Whether the word can be taken as it is.
    pub fn is_word(&self) -> bool {
        !self.word.starts_with('<')
    }
}

/// Identities of all modules: module and name, as their texts have them.
pub fn identities() -> impl Iterator<Item = (&'static str, &'static str)> {
    yang::sources().flat_map(|(module, text)| {
        let name = |line: &'static str| line.trim().strip_prefix("identity ");
        let names = text.lines().filter_map(name);
        names.map(move |rest| (module, rest.trim_end_matches(['{', ';', ' ']).trim_matches('"')))
    })
}

/// The first sentence of what a node is.
pub fn help(node: &SchemaNode<'_>) -> String {
    let text = node.description().unwrap_or_default();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let description =
        text.split_inclusive(". ").next().unwrap_or(&text).trim().trim_end_matches('.');
    let mut help: String = description.chars().take(HELP_LIMIT).collect();
    if help.len() < description.len() {
        help.push('…');
    }
    match node.units() {
        Some(units) if !help.is_empty() => format!("{help} ({units})"),
        Some(units) => units.to_owned(),
        None => help,
    }
}

/// What may stand behind whole words. `there` gives what is configured: for the data path of a list without its last
/// predicates, the values of its next key; for that of a leaf-list, its values.
pub fn next(before: &[String], there: &dyn Fn(&str) -> Vec<String>) -> Vec<Offer> {
    let Ok(place) = words::place(before) else { return Vec::new() };
    if place.value.is_some() {
        return Vec::new();
    }
    let Some(node) = place.node else { return names(None) };
    if place.keys_missing > 0 {
        let keys: Vec<_> = node.list_keys().collect();
        let key = &keys[keys.len() - place.keys_missing];
        let mut offers: Vec<_> =
            there(&place.path).into_iter().map(|name| Offer::new(name, "configured")).collect();
        let known = stoa_controller::identities::of(key).iter();
        let known =
            known.filter(|(_, word, _)| offers.iter().all(|offer| !offer.word.ends_with(word)));
        let known: Vec<_> = known.map(|(_, word, help)| Offer::new(*word, *help)).collect();
        offers.extend(known);
        let kind = kind(key);
        offers.push(Offer::new(format!("<{}>", key.name()), join(&kind, &help(key))));
        return offers;
    }
    match node.kind() {
        SchemaNodeKind::Leaf | SchemaNodeKind::LeafList => values(&node, &place.path, there),
        _ => names(Some(&node)),
    }
}

fn names(above: Option<&SchemaNode<'_>>) -> Vec<Offer> {
    let among = below(above);
    let is_key = |node: &SchemaNode<'_>| node.is_list_key();
    let among: Vec<_> = among.into_iter().filter(|node| !is_key(node)).collect();
    let mut offers: Vec<_> =
        among.iter().map(|node| Offer::new(name(node, &among), help(node))).collect();
    offers.sort();
    offers
}

fn values(node: &SchemaNode<'_>, path: &str, there: &dyn Fn(&str) -> Vec<String>) -> Vec<Offer> {
    let Some(leaf) = node.leaf_type() else { return Vec::new() };
    let mut offers = Vec::new();
    match leaf.base_type() {
        DataValueType::Bool => {
            offers.extend(["true", "false"].map(|word| Offer::new(word, "")));
            return offers;
        }
        DataValueType::Empty => return offers,
        DataValueType::Enum => {
            if let Some(allowed) = fix::allowed_values(node) {
                offers.extend(allowed.split(", ").map(|word| Offer::new(word, "")));
                return offers;
            }
        }
        DataValueType::IdentityRef => {
            let known = stoa_controller::identities::of(node).iter();
            offers.extend(known.map(|(_, word, help)| Offer::new(*word, *help)));
        }
        DataValueType::LeafRef => {
            let target = target(node);
            offers.extend(there(&target).into_iter().map(|name| Offer::new(name, "configured")));
        }
        _ => {}
    }
    offers.extend(there(path).into_iter().map(|now| Offer::new(now, "configured")));
    let what = node.name();
    offers.push(Offer::new(format!("<{what}>"), join(&kind(node), &help(node))));
    offers
}

/// The list that references point into: in our modules they name interfaces or VRFs.
fn target(node: &SchemaNode<'_>) -> String {
    match node.name().contains("vrf") {
        true => "/stoa-vrf:vrfs/vrf".into(),
        false => "/ietf-interfaces:interfaces/interface".into(),
    }
}

/// What is configured at a path: entries of a list by their first key, values of a leaf or leaf-list.
pub fn there(tree: &Tree, path: &str) -> Vec<String> {
    if tree.reference().is_none() || path.contains('\0') {
        return Vec::new();
    }
    let Ok(found) = tree.find_xpath(path) else { return Vec::new() };
    let value = |node: DataNodeRef<'_>| {
        let key = node.list_keys().next();
        key.map_or_else(|| node.value_canonical(), |key| key.value_canonical())
    };
    let mut values: Vec<_> = found.filter_map(value).collect();
    values.sort();
    values.dedup();
    values
}

/// What kind of value a leaf takes.
fn kind(node: &SchemaNode<'_>) -> String {
    if let Some(allowed) = fix::allowed_values(node) {
        return allowed;
    }
    let named = node.leaf_type().and_then(|it| it.typedef_name());
    named.map_or_else(String::new, |name| name.rsplit(':').next().unwrap_or_default().to_owned())
}

fn join(kind: &str, help: &str) -> String {
    match (kind.is_empty(), help.is_empty()) {
        (true, _) => help.to_owned(),
        (_, true) => kind.to_owned(),
        _ => format!("{help}: {kind}"),
    }
}

/// The schema is compiled before the first question, not with it.
pub fn warm() {
    schema();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(line: &str) -> Vec<String> {
        let there = |path: &str| match path {
            "/ietf-interfaces:interfaces/interface" => vec!["lan".to_owned(), "wan".to_owned()],
            _ => Vec::new(),
        };
        let offers = next(&crate::line::split(line).unwrap(), &there);
        offers.into_iter().map(|offer| offer.word).collect()
    }

    #[test]
    fn names_keys_and_values_are_offered() {
        let top = offered("");
        assert!(
            top.contains(&"interfaces".to_owned()) && top.contains(&"system".to_owned()),
            "{top:?}"
        );
        assert_eq!(offered("interfaces interface"), ["lan", "wan", "<name>"]);
        let below = offered("interfaces interface lan");
        assert!(below.contains(&"ipv4".to_owned()), "{below:?}");
        assert!(!below.contains(&"name".to_owned()), "the key is said already");
        assert!(!below.contains(&"oper-status".to_owned()), "a fact");
        assert_eq!(offered("interfaces interface lan enabled"), ["true", "false"]);
        assert_eq!(offered("system workers polling"), ["adaptive", "polling", "interrupt"]);
        assert_eq!(offered("system workers count"), ["<count>"]);
        assert!(offered("interfaces interface lan type").contains(&"ethernetCsmacd".to_owned()));
        assert!(offered("interfaces interface lan enabled true").is_empty());
        assert!(offered("nothing").is_empty());
    }

    #[test]
    fn help_is_one_description() {
        let top = next(&["system".into(), "workers".into()], &|_| Vec::new());
        let count = top.iter().find(|offer| offer.word == "count").unwrap();
        assert_eq!(count.help, "Number of workers (workers)");
    }

    #[test]
    fn identities_are_those_that_the_leaf_may_name() {
        let words = |line: &str| {
            let before: Vec<String> = line.split(' ').map(str::to_owned).collect();
            next(&before, &|_| Vec::new()).into_iter().map(|it| it.word).collect::<Vec<_>>()
        };
        let version = "interfaces interface wan ipv4 vrrp vrrp-instance 51 version";
        assert_eq!(words(version), ["vrrp-v3", "vrrp-v2", "<version>"]);
        let protocol = words("routing control-plane-protocols control-plane-protocol");
        assert_eq!(protocol, ["static", "fpm", "netlink", "bgp", "<type>"]);
    }

    #[test]
    fn identities_are_found_in_the_modules() {
        assert!(identities().any(|it| it == ("iana-if-type", "ethernetCsmacd")));
    }
}
