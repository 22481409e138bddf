//! Ranges, enumerations and bits of leafs, read from the text of their modules: the libyang binding does not expose
//! them.

use yang5::schema::SchemaNode;

use crate::sources::{source, sources};

/// The range, the enumeration or the bits of a leaf.
pub fn allowed_values(node: &SchemaNode<'_>) -> Option<String> {
    defined(node, &values)
}

/// The names of the enumeration or the bits of a leaf, or of members of its union.
pub fn enumeration(node: &SchemaNode<'_>) -> Vec<&'static str> {
    let names = |block| Some(names(block)).filter(|names| !names.is_empty());
    defined(node, &names).unwrap_or_default()
}

/// What the definition of a leaf or of its type has.
fn defined<T>(node: &SchemaNode<'_>, values: &dyn Fn(&'static str) -> Option<T>) -> Option<T> {
    let text = source(node.module().name())?;
    let mut around: Vec<_> = node.ancestors().map(|node| node.name().to_owned()).collect();
    around.reverse();
    // The same name may occur in several containers, and in augments of several nodes.
    let texts_around = around.iter().fold(vec![text], |texts, name| {
        let inside: Vec<&str> = texts.iter().flat_map(|text| insides(text, name)).collect();
        if inside.is_empty() { texts } else { inside }
    });
    let leaf = |text: &&'static str| {
        ["leaf", "leaf-list"].iter().find_map(|kind| block(text, kind, node.name()))
    };
    // It may also come from a grouping of its module.
    let own = texts_around.iter().chain([&text]).find_map(leaf);
    if let Some(values) = own.and_then(values) {
        return Some(values);
    }
    // The leaf may come from a grouping of another module.
    let mut texts = sources().map(|(_, text)| text);
    if own.is_none()
        && let Some(values) = texts.find_map(|text| values(block(text, "leaf", node.name())?))
    {
        return Some(values);
    }
    let named = node.leaf_type()?.typedef_name()?;
    let named = named.rsplit(':').next()?;
    values(block(text, "typedef", named)?)
}

/// The statements of the node `name` and of all augments of it.
fn insides<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    if let Some(own) = ["container", "list"].iter().find_map(|kind| block(text, kind, name)) {
        return vec![own];
    }
    let augments = text.match_indices("augment \"").filter_map(|(start, _)| {
        let path = text[start..].split_once('{')?.0.trim_end().trim_end_matches('"');
        let last = path.rsplit(['/', ':', '"']).next()?;
        if last == name { statement(&text[start..]) } else { None }
    });
    augments.collect()
}

/// The statement `kind name { ... }`.
fn block<'a>(text: &'a str, kind: &str, name: &str) -> Option<&'a str> {
    statement(&text[text.find(&format!("{kind} {name} {{"))?..])
}

/// The statement at the beginning of a text, to its last brace.
fn statement(text: &str) -> Option<&str> {
    let mut depth = 0_i32;
    for (offset, letter) in text.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 1 => return Some(&text[..=offset]),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The names of the enumeration or the bits of a block.
fn names(block: &str) -> Vec<&str> {
    let lines = block.lines().map(str::trim).filter(|line| line.ends_with(['{', ';']));
    let names =
        lines.filter_map(|line| line.strip_prefix("enum ").or_else(|| line.strip_prefix("bit ")));
    names.map(|rest| rest.trim_end_matches(['{', ';']).trim().trim_matches('"')).collect()
}

fn values(block: &str) -> Option<String> {
    let enums = names(block);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_from_the_text_of_the_module() {
        let text = source("stoa-system").unwrap();
        let count = block(text, "leaf", "count").unwrap();
        assert_eq!(values(count).as_deref(), Some("1 to 64"));
        let polling = block(text, "leaf", "polling").unwrap();
        assert_eq!(values(polling).as_deref(), Some("adaptive, polling, interrupt"));
        assert!(block(text, "leaf", "nothing").is_none());
        let flags = block(source("stoa-acl").unwrap(), "typedef", "tcp-flags").unwrap();
        assert_eq!(values(flags).as_deref(), Some("fin, syn, rst, psh, ack, urg, ece, cwr"));
    }

    #[test]
    fn leafs_of_augments_are_told_apart_by_their_nodes() {
        let text = r#"
            augment "/if:interfaces/if:interface/ip:ipv4" {
              leaf mtu { type uint16 { range "68..max"; } }
            }
            augment "/if:interfaces/if:interface/" +
                    "ip:ipv6" {
              leaf other { type uint8; }
            }
            augment "/if:interfaces/if:interface/ip:ipv6" {
              leaf mtu { type uint16 { range "1280..max"; } }
            }"#;
        let of = |name| {
            let found = insides(text, name);
            (found.len(), found.iter().find_map(|one| values(block(one, "leaf", "mtu")?)))
        };
        assert_eq!(of("ipv4"), (1, Some("68 to max".into())));
        assert_eq!(of("ipv6"), (2, Some("1280 to max".into())));
        assert_eq!(of("interface"), (0, None));
    }
}
