//! Mirrors: the end in Linux of an interface, as configured.

use std::collections::HashMap;

use stoa_api::v1;

use crate::finding::Findings;
use crate::interfaces::place;
use crate::model::{Interface, KernelDevice};

/// Longest name of a network device, in bytes.
const DEVICE_LIMIT: usize = 15;

/// The wanted mirror of an interface.
pub fn wanted(interface: &Interface) -> Option<v1::Mirror> {
    let mirror = interface.mirror.as_ref()?;
    Some(v1::Mirror { device: device(interface, mirror), netns: mirror.netns.clone() })
}

fn device(interface: &Interface, device: &KernelDevice) -> String {
    device.device.clone().unwrap_or_else(|| interface.name.clone())
}

/// Each mirror has a device of its own, whose name Linux accepts.
pub fn check(interfaces: &[Interface], findings: &mut Findings) {
    let mut taken: HashMap<(String, String), String> = HashMap::new();
    for interface in interfaces {
        let Some(port) = &interface.port else { continue };
        for kernel in [&port.af_packet, &port.tap].into_iter().flatten() {
            let key = (kernel.netns.clone(), device(interface, kernel));
            taken.insert(key, format!("the port of \"{}\"", interface.name));
        }
    }
    for interface in interfaces {
        let Some(mirror) = &interface.mirror else { continue };
        let place = format!("{}/stoa-mirror:mirror", place(&interface.name));
        let name = device(interface, mirror);
        let odd = |letter: char| letter.is_whitespace() || matches!(letter, '/' | ':');
        if name.len() > DEVICE_LIMIT || name.contains(odd) {
            findings.add(
                &place,
                format!("\"{name}\" cannot be the name of a device in Linux"),
                format!("Give device: 1 to {DEVICE_LIMIT} bytes without white space, / and :."),
            );
        }
        let key = (mirror.netns.clone(), name);
        if let Some(other) = taken.get(&key) {
            findings.add(
                &place,
                format!("{other} takes the device \"{}\" of that namespace already", key.1),
                "Give netns or device: the mirror is a device of its own.",
            );
        } else {
            taken.insert(key, format!("the mirror of \"{}\"", interface.name));
        }
    }
}
