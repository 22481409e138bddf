//! What a commit warns about: keys that end with the forwarder, and tunnels that send nothing.

use std::collections::HashSet;

use stoa_api::v1;
use stoa_crypto::Algorithm;

use super::entry_path;
use crate::config::others::tunnel_of;
use crate::warning::Warning;

/// Warnings of each kind, at most.
const LIMIT: usize = 16;

/// The warnings about associations.
pub(crate) fn warnings(desired: &v1::Desired) -> impl Iterator<Item = Warning> {
    let all = || desired.ipsec.iter().flat_map(|it| &it.associations);
    let is_outbound =
        |it: &&v1::SecurityAssociation| it.direction() == v1::IpsecDirection::IpsecOutbound;
    let ends = |it: &&v1::SecurityAssociation| {
        Algorithm::from_name(&it.algorithm).is_some_and(Algorithm::needs_unique_nonces)
    };
    let ending = all().filter(is_outbound).filter(ends).take(LIMIT).map(|it| Warning {
        text: format!(
            "security association {}: a key of {} is used by one process of the forwarder only; after a restart the \
             tunnel is down until the key is replaced at both ends: use AES-CBC (12) if it must come up by itself",
            it.name, it.algorithm
        ),
        nodes: vec![entry_path(&it.name)],
    });
    let senders: HashSet<&str> =
        all().filter(is_outbound).map(|it| it.interface.as_str()).collect();
    let is_silent = move |it: &&v1::Port| {
        tunnel_of(it).is_some_and(|it| it.encapsulation() == v1::Encapsulation::Esp)
            && !senders.contains(it.interface.as_str())
    };
    let silent = desired.ports.iter().filter(is_silent).take(LIMIT).map(|it| {
        let text = format!(
            "tunnel {}: packets to it are dropped, as it has no outbound security association: add an ipsec sad sad-entry",
            it.interface
        );
        Warning::of_interface(&it.interface, &["stoa-interfaces:port/tunnel"], text)
    });
    ending.chain(silent)
}
