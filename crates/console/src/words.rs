//! Conversion of words to a data path and back.

use yang5::schema::{DataValueType, SchemaNode, SchemaNodeKind};

use crate::names::pick;
pub use crate::names::{Error, below, name, whole_name};

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
    /// The words with whole names.
    pub words: Vec<String>,
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
    let mut target =
        Target { path: String::new(), node: None, value: None, keys_missing: 0, words: Vec::new() };
    let mut at = 0;
    while at < words.len() {
        if target.value.is_some() {
            return Err(Error::TooMany { word: words[at].clone() });
        }
        let among = below(target.node.as_ref());
        let node = pick(&words[at], &words[..at], among.clone())?;
        target.words.push(name(&node, &among));
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
                            target.words.push(word.clone());
                            at += 1;
                        }
                        None => target.keys_missing += 1,
                    }
                }
            }
            SchemaNodeKind::Leaf | SchemaNodeKind::LeafList => {
                if let Some(word) = words.get(at) {
                    target.value = Some(value(&node, word));
                    target.words.push(word.clone());
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
    fn any_unique_beginning_of_a_name_is_enough() {
        let target = parse(&words("interf int lan ipv4 addr 10.0.0.1 pre 24")).unwrap();
        assert_eq!(
            target.path,
            "/ietf-interfaces:interfaces/interface[name='lan']/ietf-ip:ipv4/address[ip='10.0.0.1']/prefix-length"
        );
        let whole = "interfaces interface lan ipv4 address 10.0.0.1 prefix-length 24";
        assert_eq!(target.words.join(" "), whole);
        let error = |line: &str| parse(&words(line)).unwrap_err().to_string();
        assert_eq!(error("interfaces interface lan ip"), "\"ip\" is ambiguous: use ipv4 or ipv6");
    }

    #[test]
    fn words_of_other_routers_name_the_node_here() {
        let error = |line: &str| parse(&words(line)).unwrap_err().to_string();
        let shutdown = error("interfaces interface lan shutdown");
        assert!(shutdown.contains("use `enabled false`"), "{shutdown}");
        assert!(error("vlans").contains("use `interfaces interface NAME"), "{}", error("vlans"));
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
