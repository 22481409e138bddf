//! What libyang complains about, in words that say what to do.

use yang5::schema::{SchemaNode, SchemaPathFormat};

use crate::error::{ValidationError, ValidationErrors};
use crate::identities;
use crate::yang::{Complaint, SOURCES, Schema, source};

/// Turns the complaints of one look into errors, in their order.
pub fn errors(schema: &Schema, complaints: &[Complaint]) -> Vec<ValidationError> {
    let mut errors = ValidationErrors::default();
    for (index, complaint) in complaints.iter().enumerate() {
        if !follows(complaint, &complaints[..index]) {
            errors.add(path(complaint), reason(complaint), fix(schema, complaint));
        }
    }
    errors.into_vec()
}

/// Whether a node is only missing because its value was refused before.
fn follows(complaint: &Complaint, before: &[Complaint]) -> bool {
    let message = &complaint.message;
    if message.starts_with("Mandatory choice") {
        return before.iter().any(|earlier| {
            match earlier.data_path.strip_prefix(&complaint.data_path) {
                Some(rest) => rest.is_empty() || rest.starts_with('/'),
                None => false,
            }
        });
    }
    let missing = message.starts_with("Mandatory node") || message.contains("missing its key");
    let Some(name) = quoted(message).first().copied().filter(|_| missing) else { return false };
    before.iter().any(|earlier| match earlier.data_path.rsplit_once('/') {
        Some((parent, leaf)) => parent == complaint.data_path && leaf == name,
        None => false,
    })
}

fn reason(complaint: &Complaint) -> String {
    let message = complaint.message.trim_end_matches('.');
    let first = quoted(message).first().copied().unwrap_or_default();
    for (target, what) in [("/if:interface/if:name", "interface"), ("stoa-vrf:vrf/", "VRF")] {
        if message.contains("Invalid leafref value") && message.contains(target) {
            return format!("there is no {what} \"{first}\"");
        }
    }
    if message.starts_with("Unsatisfied pattern") {
        return format!("\"{first}\" does not have the right form");
    }
    message.to_owned()
}

fn path(complaint: &Complaint) -> String {
    let place = match (&complaint.data_path, &complaint.schema_path) {
        (data, _) if !data.is_empty() => data.clone(),
        (_, schema) if !schema.is_empty() => schema.clone(),
        _ => "/".to_owned(),
    };
    match complaint.line {
        0 | 1 => place,
        line => format!("{place} (line {line})"),
    }
}

/// The first `"quoted"` words of a message.
fn quoted(message: &str) -> Vec<&str> {
    message.split('"').skip(1).step_by(2).collect()
}

fn fix(schema: &Schema, complaint: &Complaint) -> String {
    let message = complaint.message.as_str();
    let words = quoted(message);
    let first = words.first().copied().unwrap_or_default();
    if message.contains("not found as a child") || message.contains("not found in the") {
        return unknown(schema, first, words.get(1).copied());
    }
    if message.starts_with("No module named") {
        return "Remove it, or write the module's name right.".into();
    }
    if message.starts_with("Mandatory node") {
        return format!("Add \"{first}\" there.{}", describe(schema, complaint, Some(first)));
    }
    if message.starts_with("Mandatory choice") {
        return format!("Give one of the alternatives of \"{first}\": {}.", cases(schema, first));
    }
    if message.starts_with("List instance is missing its key") {
        return format!("Give every entry of the list its \"{first}\".");
    }
    if message.starts_with("Duplicate instance") {
        return "Remove or rename one of the two: entries of a list differ in their keys.".into();
    }
    if message.starts_with("Data for both cases") {
        return format!("Keep one of them: {}.", words.join(" or "));
    }
    if message.contains("Invalid leafref value") {
        return format!("Define \"{first}\", or name one that is defined.");
    }
    if message.contains("Invalid identityref") {
        return identities::to_write(find(schema, &without_keys(&complaint.data_path)).as_ref());
    }
    if let Some(example) = example(schema, complaint) {
        return format!("Write {example}.");
    }
    if message.starts_with("When condition") {
        return identities::misplaced(message).into();
    }
    if message.contains("state") && message.starts_with("Unexpected data") {
        return format!("Remove \"{first}\": it is state, read by `stoa show`, not configuration.");
    }
    if let Some(fix) = must(schema, complaint) {
        return fix;
    }
    let known = describe(schema, complaint, None);
    if let Some(form) = quotes(message) {
        return format!("{form}{known}");
    }
    if known.is_empty() {
        return "Change it so that the statement above holds.".into();
    }
    format!("Give a value that fits.{known}")
}

/// How RFC 7951 section 6 wants a value written that came in another JSON type.
fn quotes(message: &str) -> Option<&'static str> {
    let form = message.strip_prefix("Invalid non-")?.split_once("-encoded").map(|(form, _)| form);
    Some(match form? {
        "boolean" => "Write true or false, without quotes.",
        "number" => "Write the number without quotes.",
        "num64" => "Write the number in quotes: 64-bit numbers are text in JSON.",
        "string" => "Write the value in quotes.",
        _ => return None,
    })
}

/// Types whose values are best told by an example.
const EXAMPLES: &[(&str, &str)] = &[
    ("ipv4-address", "an IPv4 address such as 10.0.0.1"),
    ("ipv4-address-no-zone", "an IPv4 address such as 10.0.0.1"),
    ("ipv6-address", "an IPv6 address such as fd00::1"),
    ("ipv6-address-no-zone", "an IPv6 address such as fd00::1"),
    ("ip-address-no-zone", "an address such as 10.0.0.1 or fd00::1"),
    ("ipv4-prefix", "an IPv4 prefix such as 10.0.0.0/8"),
    ("ipv6-prefix", "an IPv6 prefix such as fd00::/64"),
    ("mac-address", "a MAC address such as 02:00:00:00:00:01"),
    ("phys-address", "a MAC address such as 02:00:00:00:00:01"),
];

/// An example of a value of the node whose value is of the wrong form.
fn example(schema: &Schema, complaint: &Complaint) -> Option<&'static str> {
    let message = &complaint.message;
    if !message.starts_with("Unsatisfied pattern") && !message.starts_with("Failed to") {
        return None;
    }
    let kind = find(schema, &without_keys(&complaint.data_path))?.leaf_type()?.typedef_name()?;
    let kind = kind.rsplit(':').next()?;
    EXAMPLES.iter().find(|(name, _)| *name == kind).map(|(_, example)| *example)
}

/// What to do about a name that does not exist: the same name in another
/// module, else the nearest name among the siblings, else the list of them.
fn unknown(schema: &Schema, name: &str, parent: Option<&str>) -> String {
    let bare = name.rsplit(':').next().unwrap_or(name);
    let mut near: Vec<(usize, String)> = Vec::new();
    let mut children: Vec<String> = Vec::new();
    for node in schema.context().traverse().filter(SchemaNode::is_config) {
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
fn cases(schema: &Schema, choice: &str) -> String {
    let mut names: Vec<String> = Vec::new();
    for node in schema.context().traverse().filter(SchemaNode::is_config) {
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

/// The fix of a `must` that failed: our modules state it as its description.
fn must(schema: &Schema, complaint: &Complaint) -> Option<String> {
    let node = find(schema, &without_keys(&complaint.data_path))?;
    let musts = node.musts()?;
    let failed = musts.into_iter().find(|must| must.error_msg() == Some(&complaint.message))?;
    failed.description().map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The node at a path without keys. A list entry that lacks its key is not in
/// the tree yet: its path is "/module:list/leaf", and the end must do.
fn find<'a>(schema: &'a Schema, path: &str) -> Option<SchemaNode<'a>> {
    let formats = [SchemaPathFormat::DATA, SchemaPathFormat::LOG];
    let is_it = |node: &SchemaNode<'_>| formats.iter().any(|format| node.path(*format) == path);
    let whole = schema.context().traverse().find(is_it);
    whole.or_else(|| {
        let (module, end) = path.strip_prefix('/')?.split_once(':')?;
        let ends = [format!("/{end}"), format!(":{end}")];
        schema.context().traverse().find(|node| {
            let there = node.path(SchemaPathFormat::DATA);
            node.module().name() == module && ends.iter().any(|end| there.ends_with(end))
        })
    })
}

/// What the schema says about a node: the values it takes and what it is.
fn describe(schema: &Schema, complaint: &Complaint, child: Option<&str>) -> String {
    let steps = if complaint.schema_path.is_empty() {
        without_keys(&complaint.data_path)
    } else {
        complaint.schema_path.clone()
    };
    let path = match child {
        Some(child) if !steps.ends_with(&format!("/{child}")) => format!("{steps}/{child}"),
        _ => steps,
    };
    let Some(node) = find(schema, &path) else {
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

/// A data path without the `[key='value']` of its lists.
fn without_keys(path: &str) -> String {
    let mut text = String::new();
    let mut depth = 0_usize;
    let mut quote = None;
    for letter in path.chars() {
        match (quote, letter) {
            (Some(open), close) if open == close => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') if depth > 0 => quote = Some(letter),
            (None, '[') => depth += 1,
            (None, ']') => depth = depth.saturating_sub(1),
            (None, _) if depth == 0 => text.push(letter),
            (None, _) => {}
        }
    }
    text
}

/// The range or the words that a leaf takes, read from its module's text
/// (the binding of libyang keeps them to itself).
pub fn allowed_values(node: &SchemaNode<'_>) -> Option<String> {
    let text = source(node.module().name())?;
    let mut around: Vec<_> = node.ancestors().map(|node| node.name().to_owned()).collect();
    around.reverse();
    // The same name may stand in several containers: look into the right one.
    let text_around = around.iter().fold(text, |text, name| {
        let inside = ["container", "list"].iter().find_map(|kind| block(text, kind, name));
        inside.unwrap_or(text)
    });
    let own = ["leaf", "leaf-list"].iter().find_map(|kind| block(text_around, kind, node.name()));
    if let Some(values) = own.and_then(values) {
        return Some(values);
    }
    // A grouping of another module may have brought the leaf.
    let mut texts = SOURCES.iter().map(|(_, text)| *text);
    if own.is_none()
        && let Some(values) = texts.find_map(|text| values(block(text, "leaf", node.name())?))
    {
        return Some(values);
    }
    let named = node.leaf_type()?.typedef_name()?;
    let named = named.rsplit(':').next()?;
    values(block(text, "typedef", named)?)
}

/// The statement `kind name { ... }`.
fn block<'a>(text: &'a str, kind: &str, name: &str) -> Option<&'a str> {
    let start = text.find(&format!("{kind} {name} {{"))?;
    let mut depth = 0_i32;
    for (offset, letter) in text[start..].char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 1 => return Some(&text[start..=start + offset]),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn values(block: &str) -> Option<String> {
    let mut enums = Vec::new();
    for line in block.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("enum ") {
            enums.push(rest.trim_end_matches(['{', ';']).trim().trim_matches('"'));
        }
    }
    if !enums.is_empty() {
        return Some(enums.join(", "));
    }
    for keyword in ["range", "length"] {
        let Some(start) = block.find(&format!("{keyword} \"")) else { continue };
        let rest = &block[start + keyword.len() + 2..];
        let range: Vec<&str> = rest[..rest.find('"')?].split_whitespace().collect();
        let range = range.join(" ").replace("..", " to ").replace('|', "or");
        let what = if keyword == "length" { " characters" } else { "" };
        return Some(format!("{range}{what}"));
    }
    None
}

/// Letters to change, add or drop to get from one name to another.
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
    fn names_are_compared_by_letters() {
        assert_eq!(distance("adress", "address"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
    }

    #[test]
    fn a_value_of_another_json_type_is_told_by_its_quotes() {
        let told = |message| quotes(message).unwrap_or_default();
        assert!(told("Invalid non-boolean-encoded boolean value").contains("without quotes"));
        assert!(told("Invalid non-number-encoded uint16 value").contains("without quotes"));
        assert!(told("Invalid non-num64-encoded uint64 value").contains("in quotes"));
        assert_eq!(quotes("Invalid enumeration value \"x\""), None);
    }

    #[test]
    fn values_come_from_the_text_of_the_module() {
        let text = source("stoa-system").unwrap();
        let count = block(text, "leaf", "count").unwrap();
        assert_eq!(values(count).as_deref(), Some("1 to 64"));
        let polling = block(text, "leaf", "polling").unwrap();
        assert_eq!(values(polling).as_deref(), Some("adaptive, polling, interrupt"));
        assert!(block(text, "leaf", "nothing").is_none());
    }

    #[test]
    fn keys_leave_a_path() {
        assert_eq!(without_keys("/a:b/c[name='x]/y']/d"), "/a:b/c/d");
    }
}
