//! Names of devices; no two ports may have the same one.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

use crate::error::OpenError;

/// Bytes of a device with its settings at most.
const LONGEST: usize = 255;

/// DPDK drivers that cannot use our memory, and their replacement.
const NOT_THESE: [(&str, &str); 3] = [
    ("net_af_xdp", "it requires its own packet memory: use Stoa's af-xdp driver"),
    ("net_virtio_user", "it shares memory that DPDK must allocate: use memif or net_vhost"),
    // Its other name.
    ("virtio_user", "it shares memory that DPDK must allocate: use memif or net_vhost"),
];

static OPEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// A device that one port uses exclusively.
#[derive(Debug)]
pub(super) struct Name {
    name: String,
}

impl Name {
    pub(super) fn as_str(&self) -> &str {
        &self.name
    }

    /// Whether it is an address on a bus.
    pub(super) fn is_card(&self) -> bool {
        is_address(&self.name)
    }

    /// Takes the device that `requested` names.
    ///
    /// # Errors
    /// Not the name of a device, a driver that cannot work here, or a device of another port.
    pub(super) fn lease(requested: &str) -> Result<Self, OpenError> {
        check(requested)?;
        let name = name_of(requested);
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if !open.insert(name.clone()) {
            return Err(OpenError::Busy { what: format!("the DPDK device {name}") });
        }
        Ok(Self { name })
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        OPEN.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name);
    }
}

/// What DPDK calls the device: without its settings, an address on a bus in full.
pub(crate) fn name_of(requested: &str) -> String {
    let name = requested.split(',').next().unwrap_or(requested);
    match name.matches(':').count() {
        1 if is_address(name) => format!("0000:{}", name.to_ascii_lowercase()),
        2 if is_address(name) => name.to_ascii_lowercase(),
        _ => name.to_owned(),
    }
}

/// A PCI address: `0000:3b:00.0`, or without its domain.
fn is_address(name: &str) -> bool {
    name.contains(':')
        && name.contains('.')
        && name.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'))
}

fn check(requested: &str) -> Result<(), OpenError> {
    let wrong = |reason: String| Err(OpenError::Config { field: "device", reason });
    if requested.is_empty()
        || requested.len() > LONGEST
        || !requested.bytes().all(|it| it.is_ascii_graphic())
    {
        return wrong(format!(
            "{requested:?} is not a DPDK device: use a PCI address (0000:3b:00.0) or a driver with a \
             number (net_memif0,role=client), at most {LONGEST} characters without spaces"
        ));
    }
    let name = name_of(requested);
    if name.contains(':') && !is_address(&name) {
        return wrong(format!(
            "{name} is not a PCI address: use the form 0000:3b:00.0, without the name of the bus"
        ));
    }
    if let Some((driver, reason)) = NOT_THESE.iter().find(|(driver, _)| name.starts_with(driver)) {
        return wrong(format!("Stoa does not support the DPDK driver {driver}: {reason}"));
    }
    Ok(())
}

/// As a string of C.
pub(super) fn c_string(text: &str) -> Result<CString, OpenError> {
    let reason = format!("{text:?} contains a NUL character: remove it");
    CString::new(text).map_err(|_| OpenError::Config { field: "device", reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_known_by_name() {
        for (requested, name) in [
            ("net_memif0,role=client", "net_memif0"),
            ("0000:3B:00.0", "0000:3b:00.0"),
            ("3b:00.0,mprq_en=1", "0000:3b:00.0"),
            ("net_ring0", "net_ring0"),
        ] {
            assert_eq!(name_of(requested), name);
        }
        let wrong = [
            "",
            "a b",
            "net_af_xdp0,iface=x",
            "net_virtio_user0",
            "virtio_user0",
            "pci:3b:00.0",
            "vdev:net_null0",
            &"x".repeat(256),
            "x\0",
        ];
        for requested in wrong {
            assert!(
                matches!(Name::lease(requested), Err(OpenError::Config { .. })),
                "{requested:?}"
            );
        }
    }

    #[test]
    fn a_device_has_one_port() {
        let first = Name::lease("net_test0,a=1").unwrap();
        assert!(matches!(Name::lease("net_test0,b=2"), Err(OpenError::Busy { .. })));
        drop(first);
        assert!(!Name::lease("net_test0").unwrap().is_card());
    }
}
