//! Checks of cross-connects: an interface that sends all received frames by another one.

use std::collections::HashMap;

use stoa_yang::error::ValidationErrors;

use crate::capability::{
    Capability, InterfaceChange, Others, Settings, Translated, interface_path,
};
use crate::config::model::Interface;
use crate::config::others::WithPort;

/// The capability.
pub(crate) struct CrossConnects;

impl Capability for CrossConnects {
    fn is_by_interface(&self) -> bool {
        true
    }

    fn translate(
        &self,
        settings: &Settings<'_>,
        translated: &mut Translated,
        errors: &mut ValidationErrors,
    ) {
        let interfaces = &settings.model.interfaces.interface;
        let connected = || interfaces.iter().filter(|it| !it.cross_connect.is_empty());
        if connected().next().is_none() {
            return;
        }
        check(interfaces, errors);
        for (given, desired) in translated.interfaces_of(connected()) {
            desired.cross_connect.clone_from(&given.cross_connect);
        }
    }

    /// Both interfaces must have ports, and the first one neither families nor sub-interfaces.
    fn is_independent(&self, others: &Others<'_>, change: &InterfaceChange<'_>) -> bool {
        let is_end = |name| others.find(|it| it.cross_connect == name).is_some();
        let connects = |(interface, _): WithPort<'_>| !interface.cross_connect.is_empty();
        let connected = change.new.filter(|new| connects(*new) && !change.keeps(connects));
        !change.name_of_another_kind().is_some_and(is_end)
            && !connected.is_some_and(|(interface, _)| others.have_parent(&interface.name))
    }
}

/// Checks that both interfaces have Ethernet ports, and that the first has no settings for packets to this router.
fn check(interfaces: &[Interface], errors: &mut ValidationErrors) {
    let by_name: HashMap<&str, &Interface> =
        interfaces.iter().map(|interface| (interface.name.as_str(), interface)).collect();
    // The first one of each port.
    let sub_interfaces: HashMap<&str, &str> = interfaces
        .iter()
        .rev()
        .filter_map(|sub| Some((sub.sub_interface.as_ref()?.parent.as_str(), sub.name.as_str())))
        .collect();
    for interface in interfaces.iter().filter(|interface| !interface.cross_connect.is_empty()) {
        let (name, across) = (interface.name.as_str(), interface.cross_connect.as_str());
        let path = format!("{}/stoa-interfaces:cross-connect", interface_path(name));
        if name == across {
            let cause = format!("\"{name}\" is cross-connected to itself");
            errors.add(&path, cause, "Use another interface.");
            continue;
        }
        for end in [name, across] {
            let port = by_name.get(end).and_then(|interface| interface.port.as_ref());
            if port.is_none_or(|port| port.tunnel.is_some()) {
                let cause = format!("\"{end}\" has no port with Ethernet frames");
                let fix = "Use interfaces of ports, not of tunnels or VLANs.";
                errors.add_about(&path, cause, fix, &[&end]);
            }
        }
        let settings = [
            ("ietf-ip:ipv4", interface.ip4.is_some()),
            ("ietf-ip:ipv6", interface.ip6.is_some()),
            ("stoa-host-interface:host-interface", interface.host_interface.is_some()),
        ];
        for (what, _) in settings.iter().filter(|(_, is_there)| *is_there) {
            let cause =
                format!("\"{name}\" sends all received frames to \"{across}\", but has {what}");
            let fix = format!("Remove {what}: no packet reaches it.");
            errors.add_about(&path, cause, fix, &[&name, &across]);
        }
        if let Some(sub) = sub_interfaces.get(name) {
            let cause =
                format!("tagged frames of \"{name}\" also go to \"{across}\", not to \"{sub}\"");
            errors.add_about(&path, cause, "Remove its sub-interfaces.", &[&name, &across, sub]);
        }
    }
}
