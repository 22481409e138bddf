//! The errors of libyang as validation errors: path, cause and fix.

use std::net::IpAddr;

use yang5::context::Context;
use yang5::schema::{SchemaNode, SchemaPathFormat};

use crate::cause::{self, quoted};
use crate::error::{ValidationError, ValidationErrors};
use crate::instance_path::without_predicates;
use crate::libyang::LibyangError;
use crate::schema_text::allowed_values;
use crate::zones::{self, Zones};
use crate::{identities, renamed_names, well_known};

/// The errors of libyang as validation errors, in their order. `zones`: those of the configuration.
pub fn errors(
    context: &Context,
    reported: &[LibyangError],
    zones: Zones<'_>,
) -> Vec<ValidationError> {
    let mut errors = ValidationErrors::default();
    for (index, error) in reported.iter().enumerate() {
        if !follows(error, &reported[..index]) {
            let target = target(error);
            let names: Vec<&dyn ToString> = target.iter().map(|it| it as &dyn ToString).collect();
            errors.add_about(path(error), cause::of(error), fix(context, error, zones), &names);
        }
        errors.add_more(error.more);
    }
    errors.into_vec()
}

/// The errors of a call that failed: those that libyang reported, else that of the call.
pub fn of_call(
    context: &Context,
    error: &yang5::Error,
    reported: &[LibyangError],
    zones: Zones<'_>,
) -> Vec<ValidationError> {
    let own = [LibyangError {
        message: error.msg.clone().unwrap_or_else(|| error.to_string()),
        data_path: error.path.clone().unwrap_or_default(),
        ..LibyangError::default()
    }];
    errors(context, if reported.is_empty() { &own } else { reported }, zones)
}

/// The value of a reference that has no target.
fn target(error: &LibyangError) -> Option<&str> {
    let is_reference = error.message.contains("Invalid leafref value");
    quoted(&error.message).first().copied().filter(|_| is_reference)
}

/// Whether a node is missing only because an earlier error refused its value.
fn follows(error: &LibyangError, before: &[LibyangError]) -> bool {
    let message = &error.message;
    if message.starts_with("Mandatory choice") {
        return before.iter().any(|earlier| {
            match earlier.data_path.strip_prefix(&error.data_path) {
                Some(rest) => rest.is_empty() || rest.starts_with('/'),
                None => false,
            }
        });
    }
    let is_key = message.contains("missing its key");
    let missing = message.starts_with("Mandatory node") || is_key;
    let Some(name) = quoted(message).first().copied().filter(|_| missing) else { return false };
    let is_refused = |earlier: &LibyangError| match earlier.data_path.rsplit_once('/') {
        Some((parent, leaf)) => parent == error.data_path && leaf == name,
        None => false,
    };
    // libyang reports a missing key right after the value that it refused. The paths may differ in other keys, and
    // that of the list entry lacks its ancestors.
    let is_refused_key = before.last().filter(|_| is_key).is_some_and(|earlier| {
        let (list, key) =
            (without_predicates(&error.data_path), without_predicates(&earlier.data_path));
        let mut steps = key.rsplit(['/', ':']);
        steps.next() == Some(name) && steps.next() == list.rsplit(['/', ':']).next()
    });
    is_refused_key || before.iter().any(is_refused)
}

fn path(error: &LibyangError) -> String {
    let path = match (&error.data_path, &error.schema_path) {
        (data, _) if !data.is_empty() => data.clone(),
        (_, schema) if !schema.is_empty() => schema.clone(),
        _ => "/".to_owned(),
    };
    match error.line {
        0 | 1 => path,
        line => format!("{path} (line {line})"),
    }
}

fn fix(context: &Context, error: &LibyangError, zones: Zones<'_>) -> String {
    let message = error.message.as_str();
    let words = quoted(message);
    let first = words.first().copied().unwrap_or_default();
    let known = renamed(error, first, words.get(1).copied());
    if let Some(fix) = known.or_else(|| zones::fix(error, first, zones)) {
        return fix;
    }
    if message.contains("not found as a child") || message.contains("not found in the") {
        return unknown(context, first, words.get(1).copied());
    }
    if message.starts_with("No module named") {
        return "Remove it, or correct the name of the module.".into();
    }
    if message.starts_with("Mandatory node") {
        return format!("Add \"{first}\" there.{}", describe(context, error, Some(first)));
    }
    if message.starts_with("Mandatory choice") {
        return format!("Add one of the alternatives of \"{first}\": {}.", cases(context, first));
    }
    if message.starts_with("List instance is missing its key") {
        return format!("Add \"{first}\" to each entry of the list.");
    }
    if message.starts_with("Duplicate instance") {
        return "Remove or rename one of the two: each entry of a list has its own key.".into();
    }
    if message.starts_with("Data for both cases") {
        return format!("Keep one of them: {}.", words.join(" or "));
    }
    if message.contains("Invalid leafref value") {
        return format!("Define \"{first}\", or use one that is defined.");
    }
    if message.contains("Invalid identityref") {
        return identities::fix(find(context, &without_predicates(&error.data_path)).as_ref());
    }
    if let Some(fix) = known_value(context, error, first) {
        return fix;
    }
    if let Some(example) = example(context, error) {
        return format!("Write {example}.");
    }
    if message.starts_with("Invalid boolean value") {
        return "Write true or false.".into();
    }
    if message.starts_with("When condition") {
        return identities::when_fix(message, &error.data_path);
    }
    if message.contains("state") && message.starts_with("Unexpected data") {
        return format!("Remove \"{first}\": it is state, which `stoa show` prints.");
    }
    if let Some(fix) = must(context, error) {
        return fix;
    }
    let known = describe(context, error, None);
    if let Some(form) = quotes(message) {
        return format!("{form}{known}");
    }
    if known.is_empty() {
        return "Change it so that the condition above holds.".into();
    }
    format!("Use a valid value.{known}")
}

/// The fix for a value of the wrong JSON type (RFC 7951, section 6).
fn quotes(message: &str) -> Option<&'static str> {
    let form = message.strip_prefix("Invalid non-")?.split_once("-encoded").map(|(form, _)| form);
    Some(match form? {
        "boolean" => "Write true or false, without quotes.",
        "number" => "Write the number without quotes.",
        "num64" => "Write the number in quotes: 64-bit numbers are strings in JSON.",
        "string" => "Write the value in quotes.",
        _ => return None,
    })
}

/// Types for which an example explains more than a pattern.
const EXAMPLES: &[(&str, &str)] = &[
    ("ipv4-address", "an IPv4 address such as 10.0.0.1"),
    ("ipv4-address-no-zone", "an IPv4 address such as 10.0.0.1"),
    ("ipv6-address", "an IPv6 address such as fd00::1"),
    ("ipv6-address-no-zone", "an IPv6 address such as fd00::1"),
    ("ip-address-no-zone", "an address such as 10.0.0.1 or fd00::1"),
    ("ipv4-prefix", "an IPv4 prefix such as 10.0.0.0/8"),
    ("ipv6-prefix", "an IPv6 prefix such as fd00::/64"),
    (
        "file-path",
        "the name of a file in the folder of capture files (--pcap-folder), such as lan.pcap, and no path outside of it",
    ),
    (
        "socket-path",
        "the name of a socket in the folder of memif sockets (--memif-folder), such as lan.sock",
    ),
    ("port-or-range", "a port such as 443, or a range such as \"8000-8080\""),
    ("mac-address", "a MAC address such as 02:00:00:00:00:01"),
    ("phys-address", "a MAC address such as 02:00:00:00:00:01"),
];

/// An example for a value that does not match the pattern of its type.
fn example(context: &Context, error: &LibyangError) -> Option<&'static str> {
    let message = &error.message;
    let forms = ["Unsatisfied pattern", "Failed to", "Invalid union value"];
    if !forms.iter().any(|form| message.starts_with(form)) {
        return None;
    }
    // The value of a key is refused before its entry has a data path.
    let place = if error.data_path.is_empty() { &error.schema_path } else { &error.data_path };
    let kind = find(context, &without_predicates(place))?.leaf_type()?.typedef_name()?;
    let kind = kind.rsplit(':').next()?;
    EXAMPLES.iter().find(|(name, _)| *name == kind).map(|(_, example)| *example)
}

/// The fix for a well-known name where its number is expected, and for an address where a prefix is.
fn known_value(context: &Context, error: &LibyangError, value: &str) -> Option<String> {
    if value.is_empty() {
        return None;
    }
    let place = if error.data_path.is_empty() { &error.schema_path } else { &error.data_path };
    let leaf = find(context, &without_predicates(place))?;
    if let Some(number) = well_known::number(&leaf, value) {
        return Some(format!("Write {number} for {value}."));
    }
    let is_prefix = leaf.leaf_type()?.typedef_name()?.ends_with("-prefix");
    let address: IpAddr = value.parse().ok().filter(|_| is_prefix)?;
    let length = if address.is_ipv4() { 32 } else { 128 };
    Some(format!("Write the length, too: {value}/{length} is this address alone."))
}

/// The fix for a name of an earlier version: the new name.
fn renamed(error: &LibyangError, first: &str, second: Option<&str>) -> Option<String> {
    let message = &error.message;
    if message.starts_with("No module") {
        // XML has the namespace, which ends with the name of the module.
        renamed_names::module(first.rsplit(':').next()?)
    } else if message.contains("not found") && message.starts_with("Node") {
        renamed_names::node(second, first)
    } else if message.contains("Invalid identityref") {
        renamed_names::identity(first)
    } else if message.starts_with("Invalid enumeration value") {
        let leaf = without_predicates(&error.data_path);
        renamed_names::value(leaf.rsplit(['/', ':']).next()?, first)
    } else {
        None
    }
}

/// The fix for an unknown name: the same name in another module, else the most similar sibling, else all siblings.
fn unknown(context: &Context, name: &str, parent: Option<&str>) -> String {
    let bare = name.rsplit(':').next().unwrap_or(name);
    let mut near: Vec<(usize, String)> = Vec::new();
    let mut children: Vec<String> = Vec::new();
    for node in context.traverse().filter(SchemaNode::is_config) {
        let Some(above) = node.ancestors().find(|node| !node.is_schema_only()) else {
            if parent.is_none() {
                children.push(format!("{}:{}", node.module().name(), node.name()));
            }
            continue;
        };
        if parent.is_some_and(|parent| above.name() == parent) && !node.is_schema_only() {
            let text = if node.module().name() == above.module().name() {
                node.name().to_owned()
            } else {
                format!("{}:{}", node.module().name(), node.name())
            };
            near.push((distance(bare, node.name()), text.clone()));
            children.push(text);
        }
    }
    near.sort();
    children.sort();
    children.dedup();
    match near.first() {
        Some((steps, best)) if *steps <= 2 && *steps < bare.len() => {
            format!("Did you mean \"{best}\"?")
        }
        _ if children.is_empty() => format!("Remove \"{name}\"."),
        _ => format!("Remove it. Known there: {}.", children.join(", ")),
    }
}

/// The alternatives of a choice, by name.
fn cases(context: &Context, choice: &str) -> String {
    let mut names: Vec<String> = Vec::new();
    for node in context.traverse().filter(SchemaNode::is_config) {
        let mut above = node.ancestors();
        let Some(case) = above.next() else { continue };
        let holder = above.next().map(|node| node.name().to_owned());
        if !node.is_schema_only()
            && (case.name() == choice || holder.as_deref() == Some(choice))
            && case.is_schema_only()
        {
            names.push(node.name().to_owned());
        }
    }
    names.sort();
    names.dedup();
    names.join(", ")
}

/// The fix for a `must` that failed: its description in our modules.
fn must(context: &Context, error: &LibyangError) -> Option<String> {
    let node = find(context, &without_predicates(&error.data_path))?;
    let musts = node.musts()?;
    let failed = musts.into_iter().find(|must| must.error_msg() == Some(&error.message))?;
    failed.description().map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The schema node at a path without keys. libyang names a list entry that has no key yet "/module:list/leaf":
/// then the node whose path ends so.
fn find<'a>(context: &'a Context, path: &str) -> Option<SchemaNode<'a>> {
    let formats = [SchemaPathFormat::DATA, SchemaPathFormat::LOG];
    let is_it = |node: &SchemaNode<'_>| formats.iter().any(|format| node.path(*format) == path);
    let whole = context.traverse().find(is_it);
    whole.or_else(|| {
        let (module, end) = path.strip_prefix('/')?.split_once(':')?;
        let ends = [format!("/{end}"), format!(":{end}")];
        context.traverse().find(|node| {
            let there = node.path(SchemaPathFormat::DATA);
            node.module().name() == module && ends.iter().any(|end| there.ends_with(end))
        })
    })
}

/// The allowed values, the units and the description of a node.
fn describe(context: &Context, error: &LibyangError, child: Option<&str>) -> String {
    let steps = if error.schema_path.is_empty() {
        without_predicates(&error.data_path)
    } else {
        error.schema_path.clone()
    };
    let path = match child {
        Some(child) if !steps.ends_with(&format!("/{child}")) => format!("{steps}/{child}"),
        _ => steps,
    };
    let Some(node) = find(context, &path) else {
        return String::new();
    };
    let mut text = String::new();
    if let Some(allowed) = allowed_values(&node) {
        text.push_str(&format!(" Allowed: {allowed}."));
    }
    if let Some(units) = node.units() {
        text.push_str(&format!(" Units: {units}."));
    }
    if let Some(description) = node.description() {
        let words: Vec<&str> = description.split_whitespace().collect();
        let words = words.join(" ");
        let description = words.split_inclusive(". ").next().unwrap_or(&words).trim();
        text.push_str(&format!(" {description}"));
    }
    text
}

/// The Levenshtein distance of two names.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, letter) in from.chars().enumerate() {
        let mut corner = row[0];
        row[0] = line + 1;
        for (column, other) in to.iter().enumerate() {
            let change = corner + usize::from(letter != *other);
            corner = row[column + 1];
            row[column + 1] = change.min(row[column] + 1).min(corner + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_letters() {
        assert_eq!(distance("adress", "address"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
    }

    #[test]
    fn a_value_of_another_json_type_has_a_fix() {
        let fix = |message| quotes(message).unwrap_or_default();
        assert!(fix("Invalid non-boolean-encoded boolean value").contains("without quotes"));
        assert!(fix("Invalid non-number-encoded uint16 value").contains("without quotes"));
        assert!(fix("Invalid non-num64-encoded uint64 value").contains("in quotes"));
        assert_eq!(quotes("Invalid enumeration value \"x\""), None);
    }

    #[test]
    fn keys_leave_a_path() {
        assert_eq!(without_predicates("/a:b/c[name='x]/y']/d"), "/a:b/c/d");
    }
}
