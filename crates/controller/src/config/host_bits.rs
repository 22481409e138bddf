//! Host bits in the destinations of routes. They are likely a mistake, but libyang clears them, since the canonical
//! form of a prefix has none (RFC 6991). So this module checks the text.

use std::path::Path;

use ipnet::IpNet;

use stoa_yang::error::ValidationErrors;

/// The end of the name of a member, which may have a module prefix.
const NAME: &str = "destination-prefix\"";

/// Finds the destinations with host bits in the text of a configuration that is valid.
pub fn check(path: &Path, text: &str, errors: &mut ValidationErrors) {
    let (mut line, mut counted) = (1, 0);
    for (at, _) in text.match_indices(NAME) {
        let Some(prefix) = destination(&text[at + NAME.len()..]) else { continue };
        if !text[..at].ends_with(['"', ':']) || prefix == prefix.trunc() {
            continue;
        }
        line += text[counted..at].matches('\n').count();
        counted = at;
        let column = at - text[..at].rfind('\n').map_or(0, |end| end + 1) + 1;
        add(format!("{}:{line}:{column}", path.display()), prefix, errors);
    }
}

/// Finds the destination with host bits in a data path, as `.../route[destination-prefix='10.0.0.1/8']`.
pub fn check_path(path: &str, errors: &mut ValidationErrors) {
    for (at, name) in path.match_indices("destination-prefix=") {
        let value = &path[at + name.len()..];
        let value = value.get(1..).and_then(|rest| rest.split(['\'', '"']).next());
        let Some(prefix) = value.and_then(|value| value.parse::<IpNet>().ok()) else { continue };
        if prefix != prefix.trunc() {
            add(path.to_owned(), prefix, errors);
        }
    }
}

fn add(path: String, prefix: IpNet, errors: &mut ValidationErrors) {
    let (ip, all, network) = (prefix.addr(), prefix.max_prefix_len(), prefix.trunc());
    errors.add(
        path,
        format!("the destination {prefix} has host bits set"),
        format!("Write {network} for the network, or {ip}/{all} for this address alone."),
    );
}

/// The prefix after the name of a member.
fn destination(text: &str) -> Option<IpNet> {
    let value = text.trim_start().strip_prefix(':')?;
    let mut values = serde_json::Deserializer::from_str(value).into_iter::<String>();
    values.next()?.ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_values_of_destinations_are_checked() {
        let text = r#"{"description": "\"destination-prefix\": \"10.0.0.1/8\"", "a-destination-prefix": "10.0.0.2/8",
            "x": "destination-prefix", "destination-prefix": 7, "destination-prefix": "10.0.0.0/8",
            "destination-prefix" : "10.0.0.3\/8",
  "m:destination-prefix":"fd00::4/64"}"#;
        let mut errors = ValidationErrors::default();
        check(Path::new("file"), text, &mut errors);
        let errors = errors.into_vec();
        let fixes: Vec<_> = errors.iter().map(|error| (&*error.path, &*error.fix)).collect();
        assert_eq!(
            fixes,
            [
                (
                    "file:3:14",
                    "Write 10.0.0.0/8 for the network, or 10.0.0.3/32 for this address alone."
                ),
                (
                    "file:4:6",
                    "Write fd00::/64 for the network, or fd00::4/128 for this address alone."
                ),
            ]
        );
    }
}
