//! Warnings that were reported: a commit reports those that it brings in, and those about nodes that it changes.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use super::difference::Change;
use crate::warning::Warning;

/// The warnings of the configuration in force that commits have reported; none after a start.
#[derive(Debug, Default)]
pub(super) struct Reported(Mutex<HashSet<String>>);

impl Reported {
    /// Those of all warnings of a configuration in force that its commit reports; one of a file reports all (`is_all`).
    pub(super) fn of_commit(
        &self,
        mut all: Vec<Warning>,
        changes: &[Change],
        is_all: bool,
    ) -> Vec<Warning> {
        let texts = all.iter().map(|it| it.text.clone()).collect();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = std::mem::replace(&mut *known, texts);
        if !is_all {
            all.retain(|it| !known.contains(&it.text) || is_about(it, changes));
        }
        all
    }
}

/// Whether a warning is about a changed node, one in it, or one around it. A node without keys stands for many.
fn is_about(warning: &Warning, changes: &[Change]) -> bool {
    let is_in = |path: &str, above: &str| {
        path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let nodes = warning.nodes.iter().filter(|node| node.contains('['));
    nodes.into_iter().any(|node| {
        changes.iter().any(|change| is_in(&change.path, node) || is_in(node, &change.path))
    })
}

#[cfg(test)]
mod tests {
    use super::super::difference::Kind;
    use super::*;

    const LAN: &str = "/ietf-interfaces:interfaces/interface[name='lan']";

    fn warning(text: &str, node: &str) -> Warning {
        Warning { text: text.into(), nodes: vec![node.into()] }
    }

    #[test]
    fn a_warning_is_repeated_only_about_what_changes() {
        let reported = Reported::default();
        let of = |all: &[Warning], path: &str, is_all| {
            let path = path.to_owned();
            let changes = [Change { kind: Kind::Create, path, old: None, new: None }];
            let found = reported.of_commit(all.to_vec(), &changes, is_all);
            found.into_iter().map(|it| it.text).collect::<Vec<_>>()
        };
        let mtu = warning("mtu", &format!("{LAN}/ietf-ip:ipv4"));
        let route = warning("route", "/ietf-routing:routing");
        let other = "/stoa-system:system/workers/count";
        let all = [mtu.clone(), route.clone()];
        assert_eq!(of(&all, other, false), ["mtu", "route"], "they are new");
        assert_eq!(of(&all, other, false), [""; 0]);
        assert_eq!(of(&all, &format!("{LAN}/ietf-ip:ipv4/mtu"), false), ["mtu"]);
        assert_eq!(of(&all, LAN, false), ["mtu"]);
        let similar = format!("{LAN}/ietf-ip:ipv4x");
        assert_eq!(of(&all, &similar, false), [""; 0]);
        assert_eq!(of(&all, other, true), ["mtu", "route"], "a file reports all");
        assert_eq!(of(&[], other, false), [""; 0]);
        assert_eq!(of(&all[1..], other, false), ["route"], "it came back");
    }
}
