//! Data paths in the configuration, as validation errors name them.

/// The data path of an interface.
pub fn interface_path(name: &str) -> String {
    let quote = if name.contains('\'') { '"' } else { '\'' };
    format!("/ietf-interfaces:interfaces/interface[name={quote}{name}{quote}]")
}
