//! Host interfaces: their devices in Linux, and the state of what Linux's tools set on them.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use stoa_api::v1;
use stoa_api::v1::port::Driver;
use stoa_yang::error::ValidationErrors;

use crate::capability::{
    Capability, Facts, InterfaceChange, Others, Settings, Translated, interface_path,
};
use crate::config::model::{Interface, KernelDevice};
use crate::config::others::WithPort;
use crate::config::ports::{DEVICE_NAME_LIMIT, is_device_name};
use crate::json::{list, object, text};
use crate::kernel_configuration::InterfaceSettings;

/// The capability.
pub(crate) struct HostInterfaces;

impl Capability for HostInterfaces {
    /// The devices of others are compared with those of the part by `is_independent`.
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
        let with_host = || interfaces.iter().filter(|it| it.host_interface.is_some());
        if with_host().next().is_none() {
            return;
        }
        check(interfaces, errors);
        for (given, desired) in translated.interfaces_of(with_host()) {
            desired.host_interface = given.host_interface.as_ref().map(|host_interface| {
                let device = device(given, host_interface);
                v1::HostInterface { device, netns: host_interface.netns.clone() }
            });
        }
    }

    /// A device is that of one host interface, or of one port.
    fn is_independent(&self, others: &Others<'_>, change: &InterfaceChange<'_>) -> bool {
        if change.keeps(devices_of) {
            return true;
        }
        let (host, device) = change.new.map(devices_of).unwrap_or_default();
        if host.is_none() && device.is_none() {
            return true;
        }
        let is_taken = |by: Device<'_>| Some(by) == host || Some(by) == device;
        let mut devices = others.ports().filter_map(device_of);
        others.find(|it| host_of(it).is_some_and(is_taken)).is_none()
            && (host.is_none() || devices.all(|by| Some(by) != host))
    }

    fn interface_state(&self, state: &v1::InterfaceState) -> Option<(&'static str, Value)> {
        let state = text(&state.host_interface);
        (!state.is_null()).then_some(("stoa-host-interface:host-interface-state", state))
    }

    /// `stoa-host-interface:kernel-configuration` of the interfaces that have one.
    fn state(&self, facts: &Facts<'_>, state: &mut Map<String, Value>) {
        let known = facts.kernel_configuration.filter(|it| !it.interfaces.is_empty());
        let entries =
            state.get_mut("ietf-interfaces:interfaces").and_then(|it| it.get_mut("interface"));
        let (Some(known), Some(Value::Array(entries))) = (known, entries) else { return };
        for entry in entries {
            let settings = entry["name"].as_str().and_then(|name| known.interfaces.get(name));
            if let Some(settings) = settings {
                entry["stoa-host-interface:kernel-configuration"] = kernel_configuration(settings);
            }
        }
    }
}

fn kernel_configuration(settings: &InterfaceSettings) -> Value {
    object([
        ("address", list(settings.addresses.iter().map(|net| json!(net.to_string())))),
        ("down", json!(settings.is_down)),
        ("neighbor", list(settings.neighbors.keys().map(|ip| json!(ip.to_string())))),
    ])
}

/// A device of Linux: its namespace and its name.
type Device<'a> = (&'a str, &'a str);

/// The device of a host interface.
fn host_of(interface: &v1::Interface) -> Option<Device<'_>> {
    interface.host_interface.as_ref().map(|host| (host.netns.as_str(), host.device.as_str()))
}

/// The devices of a host interface and of a port.
fn devices_of<'a>((interface, port): WithPort<'a>) -> (Option<Device<'a>>, Option<Device<'a>>) {
    (host_of(interface), port.and_then(device_of))
}

/// The device of a port that has one that host interfaces could have.
fn device_of(port: &v1::Port) -> Option<Device<'_>> {
    match &port.driver {
        Some(
            Driver::AfPacket(v1::AfPacket { device, netns })
            | Driver::Tap(v1::Tap { device, netns }),
        ) => Some((netns, device)),
        _ => None,
    }
}

fn device(interface: &Interface, device: &KernelDevice) -> String {
    device.device.clone().unwrap_or_else(|| interface.name.clone())
}

/// Checks that each host interface has a device of its own with a valid name.
fn check(interfaces: &[Interface], errors: &mut ValidationErrors) {
    let mut taken: HashMap<(String, String), (String, &str)> = HashMap::new();
    for interface in interfaces {
        let Some(port) = &interface.port else { continue };
        for kernel in [&port.af_packet, &port.tap].into_iter().flatten() {
            let key = (kernel.netns.clone(), device(interface, kernel));
            taken.insert(key, (format!("the port of \"{}\"", interface.name), &interface.name));
        }
    }
    for interface in interfaces {
        let Some(host_interface) = &interface.host_interface else { continue };
        let place =
            format!("{}/stoa-host-interface:host-interface", interface_path(&interface.name));
        let name = device(interface, host_interface);
        if !is_device_name(&name) {
            errors.add(
                &place,
                format!("\"{name}\" is not a valid device name in Linux"),
                format!(
                    "Set device: 1 to {DEVICE_NAME_LIMIT} letters, digits and _ . + @ -, of which the first is a letter, \
                     a digit or _."
                ),
            );
        }
        let key = (host_interface.netns.clone(), name);
        if let Some((other, owner)) = taken.get(&key) {
            errors.add_about(
                &place,
                format!("{other} already uses the device \"{}\" of that namespace", key.1),
                "Set netns or device: the host interface needs a device of its own.",
                &[owner, &key.1],
            );
        } else {
            let what = format!("the host interface of \"{}\"", interface.name);
            taken.insert(key, (what, &interface.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn with_host(name: &str, device: &str) -> v1::Interface {
        let host = v1::HostInterface { device: device.into(), netns: "space".into() };
        v1::Interface { name: name.into(), host_interface: Some(host), ..Default::default() }
    }

    fn tap(device: &str) -> v1::Port {
        let tap = v1::Tap { device: device.into(), netns: "space".into() };
        v1::Port { driver: Some(Driver::Tap(tap)), ..Default::default() }
    }

    #[test]
    fn devices_depend_on_those_of_others() {
        let (other, port) = (with_host("a", "h0"), tap("t0"));
        let (interfaces, part) = (vec![other].into(), HashSet::new());
        let others = Others::of(&interfaces, std::slice::from_ref(&port), &part);
        let is_free = |interface: &v1::Interface, port: Option<&v1::Port>| {
            let change = InterfaceChange { old: None, new: Some((interface, port)) };
            HostInterfaces.is_independent(&others, &change)
        };
        assert!(is_free(&with_host("b", "h1"), None));
        assert!(!is_free(&with_host("b", "h0"), None) && !is_free(&with_host("b", "t0"), None));
        let bare = v1::Interface::default();
        // Two ports of one device are refused by its lock.
        assert!(is_free(&bare, Some(&tap("t1"))) && is_free(&bare, Some(&tap("t0"))));
        assert!(!is_free(&bare, Some(&tap("h0"))));
    }
}
