//! Cross-connects: interfaces whose frames leave by another one as they came.

use std::collections::HashMap;

use crate::error::ValidationErrors;
use crate::interfaces::place;
use crate::model::Interface;

/// Both ends have ports that carry frames, and nothing of the one would have to stay here.
pub fn check(interfaces: &[Interface], errors: &mut ValidationErrors) {
    let by_name: HashMap<&str, &Interface> =
        interfaces.iter().map(|interface| (interface.name.as_str(), interface)).collect();
    for interface in interfaces.iter().filter(|interface| !interface.cross_connect.is_empty()) {
        let (name, across) = (interface.name.as_str(), interface.cross_connect.as_str());
        let place = format!("{}/stoa-interfaces:cross-connect", place(name));
        if name == across {
            let reason = format!("\"{name}\" is cross-connected to itself");
            errors.add(&place, reason, "Name the interface at the other end.");
            continue;
        }
        for end in [name, across] {
            let port = by_name.get(end).and_then(|interface| interface.port.as_ref());
            if port.is_none_or(|port| port.tunnel.is_some()) {
                let reason = format!("\"{end}\" has no port that carries frames");
                errors.add(
                    &place,
                    reason,
                    "Cross-connect interfaces of ports, not of tunnels or VLANs.",
                );
            }
        }
        let stays = [
            ("ietf-ip:ipv4", interface.ip4.is_some()),
            ("ietf-ip:ipv6", interface.ip6.is_some()),
            ("stoa-host-interface:host-interface", interface.host_interface.is_some()),
        ];
        for (what, _) in stays.iter().filter(|(_, is_there)| *is_there) {
            let reason =
                format!("\"{name}\" gives all that it receives to \"{across}\", but has {what}");
            errors.add(&place, reason, format!("Take {what} away: nothing reaches it."));
        }
        let is_below =
            |sub: &&Interface| sub.sub_interface.as_ref().is_some_and(|sub| sub.parent == name);
        if let Some(sub) = interfaces.iter().find(is_below) {
            let reason = format!(
                "tagged frames of \"{name}\" go to \"{across}\", too, not to \"{}\"",
                sub.name
            );
            errors.add(&place, reason, "Take its sub-interfaces away.");
        }
    }
}
