//! Data paths in the configuration, as validation errors and warnings name them.

/// The data path of an interface.
pub fn interface_path(name: &str) -> String {
    format!("/ietf-interfaces:interfaces/interface{}", predicate("name", name))
}

/// The predicate of a key; none for a value that no path can have.
pub(crate) fn predicate(key: &str, value: &str) -> String {
    match (value.contains('\''), value.contains('"')) {
        (false, _) => format!("[{key}='{value}']"),
        (true, false) => format!("[{key}=\"{value}\"]"),
        (true, true) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_as_they_can_be() {
        assert_eq!(interface_path("wan"), "/ietf-interfaces:interfaces/interface[name='wan']");
        let quote = "/ietf-interfaces:interfaces/interface[name=\"it's\"]";
        assert_eq!(interface_path("it's"), quote);
        assert_eq!(predicate("name", "'\""), "");
    }
}
