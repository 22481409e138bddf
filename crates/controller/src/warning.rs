//! What a commit warns about.

use std::fmt;

use crate::config::interface_path;

/// The routing protocol instances, of all names.
pub(crate) const PROTOCOL: &str =
    "/ietf-routing:routing/control-plane-protocols/control-plane-protocol";

/// A problem that does not prevent a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// What is wrong, and how to fix it.
    pub text: String,
    /// The data paths of the nodes that the text tells about. A path may leave out keys; then it means all entries.
    /// Without a path, the text tells nothing of the configuration.
    pub nodes: Vec<String>,
}

impl Warning {
    /// A warning about the machine, such as a file that cannot be written.
    pub(crate) fn of_machine(text: String) -> Warning {
        Warning { text, nodes: Vec::new() }
    }

    /// A warning about a part of an interface: the path below its entry, such as `ietf-ip:ipv4`.
    pub(crate) fn of_interface(name: &str, parts: &[&str], text: String) -> Warning {
        let nodes = parts.iter().map(|part| interface_node(name, part)).collect();
        Warning { text, nodes }
    }
}

/// The path of a part of an interface.
pub(crate) fn interface_node(name: &str, part: &str) -> String {
    format!("{}/{part}", interface_path(name))
}

impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}
