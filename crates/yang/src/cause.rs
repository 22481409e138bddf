//! Causes in our words: the texts of libyang are for programmers and change with its version.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use crate::libyang::LibyangError;
use crate::zones;

/// The cause for an error whose text is none that we know.
const OTHER: &str = "it does not fit the YANG module";

/// How texts of libyang begin, and the cause; `{}` is the first quoted part, `{2}` the second.
const CAUSES: &[(&str, &str)] = &[
    ("Mandatory node", "\"{}\" is missing"),
    ("Mandatory choice", "none of the alternatives of \"{}\" is there"),
    ("Missing mandatory node", "\"{}\" is missing"),
    ("List instance is missing its key", "an entry lacks its key \"{}\""),
    ("Duplicate instance", "\"{}\" is there twice"),
    ("Duplicated instance", "\"{}\" is there twice"),
    ("Data for both cases", "\"{}\" and \"{2}\" exclude each other"),
    ("Invalid enumeration value", "\"{}\" is not one of the allowed values"),
    ("Invalid identityref", "\"{}\" is not an identity that is allowed here"),
    ("Invalid leafref value", "there is no \"{}\" to refer to"),
    ("Invalid instance-identifier", "there is no {} to refer to"),
    ("Invalid non-", "\"{}\" has the wrong type of JSON"),
    ("Invalid union value", "\"{}\" does not have the right form"),
    ("Invalid Base64", "it is not Base64"),
    ("Invalid boolean value", "\"{}\" is neither true nor false"),
    ("Invalid empty value", "\"{}\" has a value, which it must not have"),
    ("Invalid bit", "\"{}\" is not one of the allowed bits"),
    ("Invalid", "\"{}\" does not have the right form"),
    ("Failed to", "\"{}\" does not have the right form"),
    ("Unsatisfied pattern", "\"{}\" does not have the right form"),
    ("Unsatisfied length", "\"{}\" is too short or too long"),
    ("Unsatisfied range", "\"{}\" is out of range"),
    ("Value", "\"{}\" is out of range"),
    ("No module named", "there is no module \"{}\""),
    ("No module with namespace", "there is no module of the namespace \"{}\""),
    ("Unexpected data state node", "\"{}\" is state, which cannot be configured"),
    ("Unexpected data", "\"{}\" is not allowed there"),
    ("When condition", "it is not allowed with the other settings"),
    ("Must condition", "it contradicts the other settings"),
    ("Too few", "there are too few of \"{}\""),
    ("Too many", "there are too many of \"{}\""),
    ("Unique data leaf", "several entries have the same \"{}\""),
];

/// What a reference is to, by a part of the path of its target.
const TARGETS: [(&str, &str); 9] = [
    ("/if:interface/if:name", "interface"),
    ("stoa-vrf:vrf/", "VRF"),
    ("acl:acls/acl:acl/acl:name", "access list"),
    (zones::ZONE, "zone"),
    ("flow-profile/", "flow profile"),
    ("ipv4-prefix-sets/", "set of IPv4 prefixes"),
    ("ipv6-prefix-sets/", "set of IPv6 prefixes"),
    ("port-sets/", "set of ports"),
    ("protocol-sets/", "set of protocols"),
];

/// The `"quoted"` parts of a text.
pub fn quoted(message: &str) -> Vec<&str> {
    message.split('"').skip(1).step_by(2).collect()
}

/// The cause of an error.
pub fn of(error: &LibyangError) -> String {
    let message = error.message.trim_end_matches('.');
    let line = in_one_line(message);
    if own().contains(&line) {
        return line;
    }
    let parts = quoted(message);
    let [first, second] = [0, 1].map(|at| parts.get(at).copied().unwrap_or_default());
    for (target, what) in TARGETS {
        if message.contains("Invalid leafref value") && message.contains(target) {
            return format!("there is no {what} \"{first}\"");
        }
    }
    if message.starts_with("Node") && message.contains("not found") {
        return match second.is_empty() {
            true => format!("there is no \"{first}\""),
            false => format!("there is no \"{first}\" in \"{second}\""),
        };
    }
    let known = CAUSES.iter().find(|(begin, _)| message.starts_with(begin));
    match known {
        Some((_, cause)) if !cause.contains("{}") => (*cause).to_owned(),
        Some((_, cause)) if is_secret(error) => cause.replacen("\"{}\"", "the value", 1),
        Some((_, cause)) if !first.is_empty() => {
            cause.replace("{2}", second).replacen("{}", first, 1)
        }
        _ => OTHER.to_owned(),
    }
}

/// Whether an error is about the value of a secret, which no log and no terminal may have.
fn is_secret(error: &LibyangError) -> bool {
    let paths = [&error.data_path, &error.schema_path];
    let leaves = paths.into_iter().filter_map(|path| path.rsplit(['/', ':']).next());
    leaves.into_iter().any(|leaf| crate::secrets::names().contains(&leaf))
}

/// The error messages that the modules themselves have, without the full stop.
fn own() -> &'static BTreeSet<String> {
    static OWN: OnceLock<BTreeSet<String>> = OnceLock::new();
    OWN.get_or_init(|| {
        let texts = crate::sources().flat_map(|(_, text)| text.split("error-message").skip(1));
        let texts = texts.map(|text| in_one_line(string(text).trim_end_matches('.')));
        texts.filter(|text| !text.is_empty()).collect()
    })
}

/// A text without the line breaks and the indentation that it has in its module.
fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The string at the beginning of a text of YANG: parts in quotes, joined by `+`.
fn string(text: &str) -> String {
    let mut whole = String::new();
    let mut rest = text.trim_start();
    while let Some(quote) = rest.chars().next().filter(|quote| matches!(quote, '"' | '\'')) {
        let Some((part, after)) = rest[1..].split_once(quote) else { break };
        whole.push_str(part);
        match after.trim_start().strip_prefix('+') {
            Some(next) => rest = next.trim_start(),
            None => break,
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(message: &str) -> String {
        of(&LibyangError { message: message.into(), ..LibyangError::default() })
    }

    #[test]
    fn texts_of_libyang_are_translated() {
        assert_eq!(
            cause("Mandatory node \"type\" instance does not exist."),
            "\"type\" is missing"
        );
        let unknown = "Node \"adress\" not found as a child of \"ipv4\" node.";
        assert_eq!(cause(unknown), "there is no \"adress\" in \"ipv4\"");
        let both = "Data for both cases \"a\" and \"b\" exist.";
        assert_eq!(cause(both), "\"a\" and \"b\" exclude each other");
        let union = "Invalid union value \"x\" - no matching subtype found:\n    ly2 y: Failed.\n";
        assert_eq!(cause(union), "\"x\" does not have the right form");
        for raw in ["Unparsed characters \"x\" left", "Internal error (/build/src/x.c:1)", ""] {
            assert_eq!(cause(raw), OTHER, "{raw}");
        }
    }

    #[test]
    fn values_of_secrets_are_not_repeated() {
        let of = |data_path: &str| {
            let message = "Unsatisfied length - string \"short\" length is not allowed.".to_owned();
            of(&LibyangError {
                message,
                data_path: data_path.to_owned(),
                ..LibyangError::default()
            })
        };
        assert_eq!(of("/stoa-flow-sync:flow-sync/secret"), "the value is too short or too long");
        assert_eq!(of("/a:b/device"), "\"short\" is too short or too long");
    }

    #[test]
    fn messages_of_the_modules_stay() {
        assert_eq!(string(" \"one, \"\n   + \"two.\"; x"), "one, two.");
        let own = "A pcap port needs an input file, an output file or both.";
        assert_eq!(cause(own), own.trim_end_matches('.'));
        assert_eq!(
            cause("A pcap port needs an input file,\n  an output file\nor both."),
            cause(own)
        );
        assert_eq!(
            cause("the names default and all are taken"),
            "the names default and all are taken"
        );
    }
}
