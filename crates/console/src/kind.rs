//! The type of an interface, where its port, its parent or its name tells it.

use stoa_api::v1::configuration_edit::Edit;
use stoa_api::v1::{ConfigurationFormat, SetEdit, Store};

use crate::session::{Failure, Session, Which};

/// The list of interfaces as data paths begin with it.
const INTERFACE: &str = "/ietf-interfaces:interfaces/interface[name=";

/// Nodes of an interface and the type that they tell. The first decides.
const NODES: [(&str, &str); 3] = [
    ("/stoa-interfaces:port/tunnel", "tunnel"),
    ("/stoa-interfaces:port", "ethernetCsmacd"),
    ("/stoa-interfaces:sub-interface", "l2vlan"),
];

/// The data path of the interface that a data path leads into, and its name.
fn interface_of(path: &str) -> Option<(&str, &str)> {
    let rest = path.strip_prefix(INTERFACE)?;
    let quote = rest.chars().next()?;
    let name = rest[1..].split(quote).next()?;
    let end = INTERFACE.len() + name.len() + 3;
    Some((path.get(..end)?, name))
}

/// Whether a name is that of a VLAN of another interface: `eth0.100`.
fn is_vlan(name: &str) -> bool {
    let vid = name.rsplit_once('.').and_then(|(_, vid)| vid.parse::<u16>().ok());
    vid.is_some_and(|vid| (1..=4094).contains(&vid))
}

impl Session {
    /// The edits with those of `type` for interfaces that lack it, if a node or the name tells it.
    ///
    /// # Errors
    /// When the router does not answer.
    pub(crate) async fn with_types(&mut self, mut edits: Vec<Edit>) -> Result<Vec<Edit>, Failure> {
        let is_everything = |edit: &Edit| matches!(edit, Edit::Replace(it) if it.path == "/");
        // What the candidate has does not count if it is replaced.
        let is_replaced = edits.iter().any(is_everything);
        let mut known: Vec<String> = Vec::new();
        let mut types = Vec::new();
        for edit in &edits {
            let Edit::Set(SetEdit { path, .. }) = edit else { continue };
            let Some((interface, name)) = interface_of(path) else { continue };
            if known.iter().any(|it| it == interface) {
                continue;
            }
            known.push(interface.to_owned());
            let begins = |end: &str| {
                let whole = format!("{interface}{end}");
                edits.iter().any(|edit| match edit {
                    Edit::Set(it) => {
                        let rest = it.path.strip_prefix(&whole);
                        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                    }
                    _ => false,
                })
            };
            if begins("/type") || !is_replaced && self.has(&format!("{interface}/type")).await? {
                continue;
            }
            let mut found = None;
            for (node, kind) in NODES {
                if begins(node) || !is_replaced && self.has(&format!("{interface}{node}")).await? {
                    found = Some(kind);
                    break;
                }
            }
            if let Some(kind) = found.or_else(|| is_vlan(name).then_some("l2vlan")) {
                let value = Some(format!("iana-if-type:{kind}"));
                types.push(Edit::Set(SetEdit { path: format!("{interface}/type"), value }));
            }
        }
        edits.extend(types);
        Ok(edits)
    }

    /// Whether the candidate has a node.
    async fn has(&mut self, path: &str) -> Result<bool, Failure> {
        match self
            .text(Which::Store(Store::Candidate), ConfigurationFormat::Json, path.to_owned())
            .await
        {
            Ok(_) => Ok(true),
            Err(Failure::Refused(..)) => Ok(false),
            Err(failure) => Err(failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_of_a_path_is_found() {
        let path = format!("{INTERFACE}'eth0.5']/stoa-interfaces:sub-interface/parent");
        let interface = format!("{INTERFACE}'eth0.5']");
        assert_eq!(interface_of(&path), Some((interface.as_str(), "eth0.5")));
        let quoted = format!("{INTERFACE}\"it's\"]");
        assert_eq!(interface_of(&quoted), Some((quoted.as_str(), "it's")));
        assert_eq!(interface_of("/stoa-vrf:vrfs/vrf[name='red']"), None);
    }

    #[test]
    fn a_vlan_has_the_name_of_its_parent_and_a_number() {
        assert!(is_vlan("eth0.100") && is_vlan("lan.1"));
        assert!(!is_vlan("eth0") && !is_vlan("eth0.0") && !is_vlan("eth0.4095") && !is_vlan("a.b"));
    }
}
