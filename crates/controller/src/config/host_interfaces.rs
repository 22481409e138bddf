//! Host interfaces: validation, and the desired state of their devices in Linux.

use std::collections::HashMap;

use stoa_api::v1;
use stoa_yang::error::ValidationErrors;

use crate::config::data_path::interface_path;
use crate::config::model::{Interface, KernelDevice};
use crate::config::ports::is_device_name;

/// Maximum length of a device name, bytes (IFNAMSIZ without NUL).
const DEVICE_LIMIT: usize = 15;

/// The desired host interface of an interface.
pub fn desired(interface: &Interface) -> Option<v1::HostInterface> {
    let host_interface = interface.host_interface.as_ref()?;
    Some(v1::HostInterface {
        device: device(interface, host_interface),
        netns: host_interface.netns.clone(),
    })
}

fn device(interface: &Interface, device: &KernelDevice) -> String {
    device.device.clone().unwrap_or_else(|| interface.name.clone())
}

/// Checks that each host interface has a device of its own with a valid name.
pub fn check(interfaces: &[Interface], errors: &mut ValidationErrors) {
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
                    "Set device: 1 to {DEVICE_LIMIT} letters, digits and _ . + @ -, of which the first is a letter, \
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
