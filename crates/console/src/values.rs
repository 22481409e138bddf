//! Values as they are typed, and as the modules have them: identities without a module, well-known names of numbers,
//! addresses that stand for a prefix, and bits.

use std::net::IpAddr;

use stoa_yang::well_known;
use yang5::schema::{DataValueType, SchemaNode};

/// The identities of all modules: module and name.
fn identities() -> impl Iterator<Item = (&'static str, &'static str)> {
    stoa_yang::sources().flat_map(|(module, text)| {
        let name = |line: &'static str| line.trim().strip_prefix("identity ");
        let names = text.lines().filter_map(name);
        names.map(move |rest| (module, rest.trim_end_matches(['{', ';', ' ']).trim_matches('"')))
    })
}

/// A value for libyang.
pub(crate) fn value(node: &SchemaNode<'_>, word: &str) -> String {
    match node.leaf_type().map(|it| it.base_type()) {
        Some(DataValueType::IdentityRef) if !word.contains(':') => {
            let found = identities().find(|(_, name)| *name == word);
            return found
                .map_or_else(|| word.to_owned(), |(module, name)| format!("{module}:{name}"));
        }
        Some(DataValueType::Bits) => return word.replace(',', " "),
        _ => {}
    }
    let number = well_known::number(node, word).map(|number| number.to_string());
    number.or_else(|| host_prefix(node, word)).unwrap_or_else(|| word.to_owned())
}

/// Whether all words that are left are the value.
pub(crate) fn takes_all(node: &SchemaNode<'_>) -> bool {
    let base = node.leaf_type().map(|it| it.base_type());
    base == Some(DataValueType::Bits)
        || base == Some(DataValueType::String) && FREE_TEXT.contains(&node.name())
}

/// Leaves whose value is free text: all remaining words, also without quotes.
const FREE_TEXT: [&str; 3] = ["description", "comment", "text"];

/// The prefix of an address alone, where the value is a prefix.
pub(crate) fn host_prefix(node: &SchemaNode<'_>, word: &str) -> Option<String> {
    let kind = node.leaf_type()?.typedef_name()?;
    let address: IpAddr = word.parse().ok()?;
    let is_it = match kind.rsplit(':').next()? {
        "ip-prefix" => true,
        "ipv4-prefix" => address.is_ipv4(),
        "ipv6-prefix" => address.is_ipv6(),
        _ => false,
    };
    is_it.then(|| format!("{word}/{}", if address.is_ipv4() { 32 } else { 128 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_come_from_the_modules() {
        assert!(identities().any(|it| it == ("iana-if-type", "ethernetCsmacd")));
    }
}
