//! Conversion of words to a data path and back.

use yang5::schema::{DataValueType, SchemaNode, SchemaNodeKind};

use crate::names::pick;
pub use crate::names::{Error, below, name, whole_name};
use crate::synonyms;
use crate::values::{host_prefix, takes_all, value};

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
    /// Of the last address with a prefix length (`10.0.0.1/24`): the data path of its entry, and the length.
    pub prefix_length: Option<(String, String)>,
    /// The prefixes that addresses without a length stand for.
    pub host_prefixes: Vec<String>,
}

/// The step of a data path to a node: with its module if it differs from that of the parent.
fn step(node: &SchemaNode<'_>, above: Option<&SchemaNode<'_>>) -> String {
    match above {
        Some(above) if above.module().name() == node.module().name() => node.name().to_owned(),
        _ => whole_name(node),
    }
}

/// A value in quotes, for a path.
pub(crate) fn quoted(value: &str) -> Result<String, Error> {
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
    let mut target = Target {
        path: String::new(),
        node: None,
        value: None,
        keys_missing: 0,
        words: Vec::new(),
        prefix_length: None,
        host_prefixes: Vec::new(),
    };
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
                            let (word, length) = without_length(&node, word);
                            let value = value(&key, word);
                            target.host_prefixes.extend(host_prefix(&key, word));
                            target.path.push_str(&format!("[{}={}]", key.name(), quoted(&value)?));
                            target.words.push(word.to_owned());
                            target.prefix_length =
                                length.map(|length| (target.path.clone(), length.to_owned()));
                            at += 1;
                        }
                        None => target.keys_missing += 1,
                    }
                }
            }
            SchemaNodeKind::Leaf | SchemaNodeKind::LeafList => {
                if takes_all(&node) && at < words.len() {
                    let text = words[at..].join(" ");
                    target.words.push(text.clone());
                    target.value = Some(value(&node, &text));
                    at = words.len();
                } else if let Some(word) = words.get(at) {
                    target.value = Some(value(&node, word));
                    target.host_prefixes.extend(host_prefix(&node, word));
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

/// The key of a list whose entries have a prefix length, such as addresses, and the length in it (`10.0.0.1/24`).
fn without_length<'a>(list: &SchemaNode<'_>, word: &'a str) -> (&'a str, Option<&'a str>) {
    let has_length = below(Some(list)).iter().any(|child| child.name() == "prefix-length");
    match word.split_once('/').filter(|_| has_length) {
        Some((address, length)) => (address, Some(length)),
        None => (word, None),
    }
}

/// Parses the arguments of `set`: a path with its value, and that of the prefix length of an address, if it has one.
///
/// # Errors
/// As [`to_set`].
pub fn to_sets(words: &[String]) -> Result<Vec<(String, Option<String>)>, Error> {
    let length = parse(words)?.prefix_length;
    let length = length.map(|(path, length)| (format!("{path}/prefix-length"), Some(length)));
    // An explicit prefix length wins.
    Ok(length.into_iter().chain([to_set(words)?]).collect())
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
        // It would be there without being written, and an empty one matches nothing.
        SchemaNodeKind::Container if node.is_np_container() => Err(bare(&target, node)),
        _ => Ok((target.path, target.value)),
    }
}

/// The error about a container that is nothing without what is in it.
fn bare(target: &Target<'_>, node: &SchemaNode<'_>) -> Error {
    let among = below(Some(node));
    let names: Vec<String> = among.iter().map(|node| name(node, &among)).collect();
    let usual = synonyms::alone(&target.path).map(|fix| format!("{fix}, or ")).unwrap_or_default();
    let fix = format!("{usual}one of {} after it", names.join(", "));
    Error::Bare { container: node.name().to_owned(), fix }
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
    fn an_address_may_have_its_prefix_length() {
        let entry =
            "/ietf-interfaces:interfaces/interface[name='lan']/ietf-ip:ipv6/address[ip='fd00::1']";
        let sets = to_sets(&words("interfaces interface lan ipv6 address fd00::1/64")).unwrap();
        let length = (format!("{entry}/prefix-length"), Some("64".to_owned()));
        assert_eq!(sets, [length, (entry.to_owned(), None)]);
        let sets = to_sets(&words("interfaces interface lan ipv4 address 10.0.0.1/24")).unwrap();
        assert_eq!(sets[0].1.as_deref(), Some("24"));
        let delete = to_delete(&words("interfaces interface lan ipv6 address fd00::1/64")).unwrap();
        assert_eq!(delete, entry);
        let route = "routing control-plane-protocols control-plane-protocol static s static-routes ipv4 route 10.0.0.0/8";
        assert!(to_delete(&words(route)).unwrap().ends_with("[destination-prefix='10.0.0.0/8']"));
        let neighbor = "interfaces interface lan ipv4 neighbor 10.0.0.1";
        assert!(parse(&words(neighbor)).unwrap().prefix_length.is_none());
    }

    #[test]
    fn well_known_names_and_addresses_stand_for_values() {
        let matches = "acls acl edge aces ace web matches";
        let of = |line: &str| to_set(&words(&format!("{matches} {line}"))).unwrap().1.unwrap();
        assert_eq!((of("ipv4 protocol tcp"), of("ipv6 protocol icmp")), ("6".into(), "58".into()));
        assert_eq!((of("ipv4 protocol 47"), of("ipv4 dscp EF")), ("47".into(), "46".into()));
        assert_eq!(of("tcp destination-port port ssh"), "22");
        assert_eq!(of("tcp tcp-flags set syn,ack"), "syn ack");
        assert_eq!(of("tcp tcp-flags clear fin rst"), "fin rst");
        assert_eq!(of("ipv4 source-ipv4-network 10.0.0.1"), "10.0.0.1/32");
        assert_eq!(of("ipv6 destination-ipv6-network fd00::1"), "fd00::1/128");
        assert_eq!(of("ipv4 source-ipv4-network 10.0.0.0/8"), "10.0.0.0/8");
        assert_eq!(of("ipv4 source-ipv4-network fd00::1"), "fd00::1", "it is refused later");
        let web = to_set(&words("acls defined-sets port-sets port-set web port https")).unwrap();
        assert!(web.0.ends_with("/port-set[name='web']/port[.='443']"), "{}", web.0);
        let route = "routing control-plane-protocols control-plane-protocol static s static-routes ipv4 route 10.0.0.1";
        let target = parse(&words(route)).unwrap();
        assert!(target.path.ends_with("[destination-prefix='10.0.0.1/32']"), "{}", target.path);
        assert_eq!(target.host_prefixes, ["10.0.0.1/32"]);
        let error =
            |line: &str| parse(&words(&format!("{matches} {line}"))).unwrap_err().to_string();
        assert!(error("tcp tcp-flags syn,ack").contains("use `set syn ack`, or one of"));
        assert!(error("tcp destination-port ssh").contains("use `port ssh`, or one of"));
        assert!(error("udp source-port 53").contains("use `port 53`, or one of"));
    }

    #[test]
    fn free_text_needs_no_quotes() {
        let (_, value) =
            to_set(&words("interfaces interface lan description to the core")).unwrap();
        assert_eq!(value.as_deref(), Some("to the core"));
        assert!(to_set(&words("interfaces interface lan enabled true or false")).is_err());
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
        assert_eq!(
            error("acls acl edge aces ace dns matches udp"),
            "\"udp\" alone sets nothing: use `matches ipv4 protocol 17` or `matches ipv6 protocol 17` for all of UDP, \
             or one of length, source-port, destination-port, source-udp-port-set, destination-udp-port-set after it"
        );
        assert!(error("system workers").starts_with("\"workers\" alone sets nothing: use one of "));
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
