//! Completion of a configuration command, with a short help for each word.

use stoa_api::text::by_number;
use stoa_yang::{instance_path, references, schema, schema_text, well_known};
use yang5::data::{Data, DataNodeRef, DataTree};
use yang5::schema::{DataValueType, SchemaNode, SchemaNodeKind};

use crate::words::{self, below, name};

/// A configuration.
pub type Tree = DataTree<'static>;

/// Length of a help text in characters.
const HELP_LIMIT: usize = 80;

/// A word that may follow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Completion {
    /// The word, or a placeholder such as `<name>`.
    pub word: String,
    /// Short help.
    pub help: String,
}

impl Completion {
    fn new(word: impl Into<String>, help: impl Into<String>) -> Completion {
        Completion { word: word.into(), help: help.into() }
    }

    /// Whether it is a word and not a placeholder.
    pub fn is_word(&self) -> bool {
        !self.word.starts_with('<')
    }
}

/// The first sentence of the description of a node.
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

/// The words that may follow. `configured` returns configured values: for the data path of a list without its last
/// predicates, the values of its next key; for that of a leaf-list, its values.
pub fn next(before: &[String], configured: &dyn Fn(&str) -> Vec<String>) -> Vec<Completion> {
    let Ok(target) = words::parse(before) else { return Vec::new() };
    if target.value.is_some() {
        return Vec::new();
    }
    let Some(node) = target.node else { return names(None) };
    if target.keys_missing > 0 {
        let keys: Vec<_> = node.list_keys().collect();
        let key = &keys[keys.len() - target.keys_missing];
        return choices(key, &target.path, configured);
    }
    match node.kind() {
        SchemaNodeKind::Leaf | SchemaNodeKind::LeafList => values(&node, &target.path, configured),
        _ => names(Some(&node)),
    }
}

fn names(above: Option<&SchemaNode<'_>>) -> Vec<Completion> {
    let among = below(above);
    let is_key = |node: &SchemaNode<'_>| node.is_list_key();
    let among: Vec<_> = among.into_iter().filter(|node| !is_key(node)).collect();
    let mut completions: Vec<_> =
        among.iter().map(|node| Completion::new(name(node, &among), help(node))).collect();
    completions.sort();
    completions
}

fn values(
    node: &SchemaNode<'_>,
    path: &str,
    configured: &dyn Fn(&str) -> Vec<String>,
) -> Vec<Completion> {
    let Some(leaf) = node.leaf_type() else { return Vec::new() };
    match leaf.base_type() {
        DataValueType::Bool => ["true", "false"].map(|word| Completion::new(word, "")).to_vec(),
        DataValueType::Empty => Vec::new(),
        DataValueType::Enum | DataValueType::Bits
            if let Some(allowed) = schema_text::allowed_values(node) =>
        {
            allowed.split(", ").map(|word| Completion::new(word, "")).collect()
        }
        _ => choices(node, path, configured),
    }
}

/// Values of a leaf or a key: those that are configured at the path, those to which it may refer, the names and the
/// identities that it allows, and a placeholder for others.
fn choices(
    node: &SchemaNode<'_>,
    path: &str,
    configured: &dyn Fn(&str) -> Vec<String>,
) -> Vec<Completion> {
    let mut words = configured(path);
    for target in references::targets(node) {
        let more = configured(&target).into_iter().filter(|word| !words.contains(word));
        words.extend(more.collect::<Vec<_>>());
    }
    // An enumeration beside references, such as the zone "router".
    let is_union = node.leaf_type().is_some_and(|it| it.base_type() == DataValueType::Union);
    let names = if is_union { schema_text::enumeration(node) } else { Vec::new() };
    let names: Vec<_> =
        names.into_iter().filter(|name| words.iter().all(|it| it != name)).collect();
    let names = names.into_iter().map(|name| Completion::new(name, ""));
    // A configured identity has its module.
    let known = stoa_yang::identities::of(node).iter();
    let known = known.filter(|(_, word, _)| words.iter().all(|it| !it.ends_with(word)));
    let known: Vec<_> = known.map(|(_, word, help)| Completion::new(*word, *help)).collect();
    let numbers = well_known::names(node).into_iter();
    let numbers = numbers.map(|(name, number)| Completion::new(name, number.to_string()));
    let texts = well_known::texts(node).iter().filter(|text| words.iter().all(|it| it != *text));
    let texts: Vec<_> = texts.map(|text| Completion::new(*text, "")).collect();
    let words = words.into_iter().map(|word| Completion::new(word, "configured"));
    let what = Completion::new(format!("<{}>", node.name()), join(&kind(node), &help(node)));
    words.chain(names).chain(texts).chain(known).chain(numbers).chain([what]).collect()
}

/// The configured values at a path: the next keys of list entries, or the values of a leaf or leaf-list.
pub fn configured(tree: &Tree, path: &str) -> Vec<String> {
    if tree.reference().is_none() || path.contains('\0') {
        return Vec::new();
    }
    let Ok(found) = tree.find_xpath(path) else { return Vec::new() };
    let last = instance_path::steps(path).and_then(|mut steps| steps.pop());
    let given = last.map_or(0, |step| step.predicates.len());
    let value = |node: DataNodeRef<'_>| {
        let key = node.list_keys().nth(given);
        key.map_or_else(|| node.value_canonical(), |key| key.value_canonical())
    };
    let mut values: Vec<_> = found.filter_map(value).collect();
    values.sort_by(|one, other| by_number(one, other));
    values.dedup();
    values
}

/// The allowed values or the type of a leaf.
fn kind(node: &SchemaNode<'_>) -> String {
    if let Some(allowed) = schema_text::allowed_values(node) {
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

/// Compiles the schema, so that the first completion does not wait for it.
pub fn compile_schema() {
    schema();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(line: &str) -> Vec<String> {
        let configured = |path: &str| match path {
            "/ietf-interfaces:interfaces/interface"
            | "/ietf-interfaces:interfaces/interface/name" => {
                vec!["lan".to_owned(), "wan".to_owned()]
            }
            "/ietf-access-control-list:acls/acl/name" => vec!["edge".to_owned()],
            path if path.ends_with("/stoa-acl:defined-sets/port-sets/port-set/name") => {
                vec!["web".to_owned()]
            }
            _ => Vec::new(),
        };
        let completions = next(&crate::line::split(line).unwrap(), &configured);
        completions.into_iter().map(|completion| completion.word).collect()
    }

    #[test]
    fn names_keys_and_values_are_completed() {
        let top = completed("");
        assert!(
            top.contains(&"interfaces".to_owned()) && top.contains(&"system".to_owned()),
            "{top:?}"
        );
        assert_eq!(completed("interfaces interface"), ["lan", "wan", "<name>"]);
        let below = completed("interfaces interface lan");
        assert!(below.contains(&"ipv4".to_owned()), "{below:?}");
        assert!(!below.contains(&"name".to_owned()), "a key is part of the path");
        assert!(!below.contains(&"oper-status".to_owned()), "state");
        assert_eq!(completed("interfaces interface lan enabled"), ["true", "false"]);
        assert_eq!(completed("system workers polling"), ["adaptive", "polling", "interrupt"]);
        assert_eq!(completed("system workers count"), ["<count>"]);
        assert!(completed("interfaces interface lan type").contains(&"ethernetCsmacd".to_owned()));
        assert!(completed("interfaces interface lan enabled true").is_empty());
        assert!(completed("nothing").is_empty());
    }

    #[test]
    fn what_a_leaf_refers_to_is_completed() {
        let points = "acls attachment-points interface";
        assert_eq!(completed(points), ["lan", "wan", "<interface-id>"]);
        assert_eq!(
            completed(&format!("{points} lan ingress acl-sets acl-set")),
            ["edge", "<name>"]
        );
        let parent = completed("interfaces interface lan.5 sub-interface parent");
        assert_eq!(parent, ["lan", "wan", "<parent>"]);
        let forwarding = completed("acls acl edge aces ace web actions forwarding");
        assert_eq!(forwarding, ["accept", "drop", "reject", "<forwarding>"]);
        let logging = completed("acls acl edge aces ace web actions logging");
        assert_eq!(logging, ["log-syslog", "log-none", "<logging>"]);
        let protocol = completed("acls acl edge aces ace web matches ipv4 protocol");
        assert!(protocol.contains(&"tcp".to_owned()) && protocol.len() == 9, "{protocol:?}");
        let set = completed("acls acl edge aces ace web matches tcp destination-tcp-port-set");
        assert_eq!(set, ["web", "<destination-tcp-port-set>"]);
        let included = completed("acls defined-sets port-sets port-set all include");
        assert_eq!(included, ["web", "<include>"]);
        let ports = completed("acls defined-sets port-sets port-set web port");
        assert!(ports.contains(&"https".to_owned()), "{ports:?}");
        let policy = "nat instances instance 1 policy 1";
        let gateways = completed(&format!("{policy} algs"));
        assert_eq!(gateways, ["ftp", "pptp", "sip", "tftp", "<name>"]);
        let protocol = completed(&format!("{policy} algs sip transport-protocol"));
        assert!(protocol.contains(&"udp".to_owned()), "{protocol:?}");
        let flags = completed("acls acl edge aces ace web matches tcp tcp-flags set");
        assert_eq!(flags[..2], ["fin", "syn"]);
        let kind = completed("acls acl edge type");
        assert_eq!(kind, ["ipv4-acl-type", "ipv6-acl-type", "<type>"]);
    }

    #[test]
    fn zones_of_pairs_are_completed() {
        let tree = stoa_yang::data::parse(
            r#"{"ietf-access-control-list:acls": {
            "stoa-acl:zones": {"zone": [{"name": "inside"}, {"name": "outside"}]},
            "stoa-acl:zone-pairs": {"zone-pair": [{"from": "inside", "to": "router"}]}}}"#,
        )
        .unwrap();
        let completed = |line: &str| {
            let words = crate::line::split(line).unwrap();
            let completions = next(&words, &|path| configured(&tree, path));
            completions.into_iter().map(|it| it.word).collect::<Vec<_>>()
        };
        let pair = "acls zone-pairs zone-pair";
        assert_eq!(completed(pair), ["inside", "outside", "router", "<from>"]);
        // Of the pairs from there the zones that they lead to, before others.
        let to = completed(&format!("{pair} inside"));
        assert_eq!(to, ["router", "inside", "outside", "<to>"]);
        assert_eq!(completed("acls zones zone"), ["inside", "outside", "<name>"]);
    }

    #[test]
    fn help_is_one_sentence() {
        let top = next(&["system".into(), "workers".into()], &|_| Vec::new());
        let count = top.iter().find(|completion| completion.word == "count").unwrap();
        assert_eq!(count.help, "The number of workers (workers)");
    }

    #[test]
    fn identities_are_those_that_the_leaf_allows() {
        let words = |line: &str| {
            let before: Vec<String> = line.split(' ').map(str::to_owned).collect();
            next(&before, &|_| Vec::new()).into_iter().map(|it| it.word).collect::<Vec<_>>()
        };
        let version = "interfaces interface wan ipv4 vrrp vrrp-instance 51 version";
        assert_eq!(words(version), ["vrrp-v3", "vrrp-v2", "<version>"]);
        let protocol = words("routing control-plane-protocols control-plane-protocol");
        assert_eq!(protocol, ["static", "fpm", "netlink", "bgp", "<type>"]);
    }
}
