//! Ports and their drivers. Each device has one port.

use std::collections::HashMap;
use std::net::IpAddr;

use stoa_api::text::ip;
use stoa_api::v1;
use stoa_api::v1::port::Driver;
use stoa_yang::error::ValidationErrors;

use crate::config::mac;
use crate::config::model::{AfXdp, Generator, KernelDevice, Memif, Port, Role};

/// Longest name of a network device of Linux, in bytes.
pub(crate) const DEVICE_NAME_LIMIT: usize = 15;

/// An output that discards packets, for any number of ports.
const NULL_DEVICE: &str = "/dev/null";

/// Buffers of a memif port are multiples of a cache line.
const MEMIF_BUFFER_STEP: u32 = 64;

/// The devices and files in use, each with its interface.
#[derive(Debug, Default)]
pub struct DeviceLocks {
    owners: HashMap<String, String>,
}

impl DeviceLocks {
    /// The locks of ports that are checked already.
    pub fn of<'a>(ports: impl Iterator<Item = &'a v1::Port>) -> DeviceLocks {
        let lock = |port: &v1::Port| Some((lock_of(port)?, port.interface.clone()));
        DeviceLocks { owners: ports.filter_map(lock).collect() }
    }

    /// Locks a device or file for `interface`; the error is the interface that has locked it.
    fn lock(&mut self, what: String, interface: &str) -> Result<(), String> {
        match self.owners.get(&what) {
            Some(owner) => Err(owner.clone()),
            None => {
                self.owners.insert(what, interface.to_owned());
                Ok(())
            }
        }
    }
}

/// What the device or file of a port is locked as.
fn lock_of(port: &v1::Port) -> Option<String> {
    match port.driver.as_ref()? {
        Driver::AfPacket(v1::AfPacket { device, netns })
        | Driver::AfXdp(v1::AfXdp { device, netns, .. })
        | Driver::Tap(v1::Tap { device, netns }) => Some(format!("device {device} netns {netns}")),
        Driver::Memif(memif) => {
            let role = if memif.master { Role::Master } else { Role::Slave };
            Some(format!("memif {} {} {role:?}", file_name(&memif.socket), memif.id))
        }
        Driver::Dpdk(dpdk) => Some(format!("dpdk {}", dpdk_name(&dpdk.device))),
        Driver::Pcap(pcap) if is_file(&pcap.output) => {
            Some(format!("pcap output {}", file_name(&pcap.output)))
        }
        _ => None,
    }
}

/// The name of a DPDK device, which precedes its arguments.
fn dpdk_name(device: &str) -> &str {
    device.split(',').next().unwrap_or(device)
}

/// Whether an output is a file, which one port writes to.
fn is_file(output: &str) -> bool {
    !output.is_empty() && output != NULL_DEVICE
}

/// The desired port of `interface`, whose data path is `path`.
pub fn desired(
    interface: &str,
    path: &str,
    port: &Port,
    device_locks: &mut DeviceLocks,
    errors: &mut ValidationErrors,
) -> v1::Port {
    let mut port_of = PortChecker {
        interface,
        path: format!("{path}/stoa-interfaces:port"),
        device_locks,
        errors,
    };
    let driver = if let Some(device) = &port.af_packet {
        let (device, netns) = port_of.device("af-packet", device);
        Some(Driver::AfPacket(v1::AfPacket { device, netns }))
    } else if let Some(given) = &port.af_xdp {
        Some(Driver::AfXdp(port_of.af_xdp(given)))
    } else if let Some(device) = &port.auto {
        let (device, netns) = port_of.device("auto", device);
        Some(Driver::AfXdp(v1::AfXdp { device, netns, auto: true, ..v1::AfXdp::default() }))
    } else if let Some(device) = &port.tap {
        let (device, netns) = port_of.device("tap", device);
        Some(Driver::Tap(v1::Tap { device, netns }))
    } else if let Some(memif) = &port.memif {
        Some(Driver::Memif(port_of.memif(memif)))
    } else if let Some(dpdk) = &port.dpdk {
        Some(Driver::Dpdk(port_of.dpdk(dpdk)))
    } else if let Some(pcap) = &port.pcap {
        Some(Driver::Pcap(port_of.pcap(pcap)))
    } else if let Some(generator) = &port.generator {
        port_of.generator(generator).map(Driver::Generator)
    } else if let Some(given) = &port.tunnel {
        Some(Driver::Tunnel(port_of.tunnel(given)))
    } else {
        port.null.as_ref().map(|_| Driver::Null(v1::Null {}))
    };
    let rx_queues = match driver {
        Some(Driver::AfXdp(_)) => port.of.rx_queues,
        _ => port.of.rx_queues.max(1),
    };
    v1::Port { interface: interface.to_owned(), rx_queues, driver, ..port.of.clone() }
}

struct PortChecker<'a> {
    interface: &'a str,
    path: String,
    device_locks: &'a mut DeviceLocks,
    errors: &'a mut ValidationErrors,
}

impl PortChecker<'_> {
    fn device(&mut self, driver: &str, given: &KernelDevice) -> (String, String) {
        let path = format!("{}/{driver}", self.path);
        let name = given.device.clone().unwrap_or_else(|| self.interface.to_owned());
        if given.device.is_none() && !is_device_name(&name) {
            self.errors.add(
                &path,
                format!("\"{name}\" is not a valid name of a network device"),
                format!(
                    "Set device: at most {DEVICE_NAME_LIMIT} letters, digits and _ . + @ -, of which the first \
                     is a letter, a digit or _."
                ),
            );
        }
        let what = format!("device {name} netns {}", given.netns);
        if let Err(owner) = self.device_locks.lock(what, self.interface) {
            self.errors.add_about(
                path,
                format!("the device \"{name}\" is the port of interface \"{owner}\" already"),
                "Use one port for each device; for several networks on one device use sub-interfaces.",
                &[&name, &owner],
            );
        }
        (name, given.netns.clone())
    }

    fn af_xdp(&mut self, given: &AfXdp) -> v1::AfXdp {
        let (device, netns) = self.device("af-xdp", &given.device);
        v1::AfXdp { device, netns, always_call: !given.need_wakeup, ..given.of.clone() }
    }

    fn memif(&mut self, given: &Memif) -> v1::Memif {
        let v1::Memif { socket, id, buffer_size, .. } = &given.of;
        if !buffer_size.is_multiple_of(MEMIF_BUFFER_STEP) {
            self.errors.add(
                format!("{}/memif/buffer-size", self.path),
                format!("{buffer_size} is not a multiple of {MEMIF_BUFFER_STEP}"),
                format!("Use {}.", buffer_size.next_multiple_of(MEMIF_BUFFER_STEP)),
            );
        }
        let what = format!("memif {} {id} {:?}", file_name(socket), given.role);
        if let Err(owner) = self.device_locks.lock(what, self.interface) {
            self.errors.add_about(
                format!("{}/memif", self.path),
                format!(
                    "socket \"{socket}\" with id {id} is the port of interface \"{owner}\" already"
                ),
                "Use another id or another socket.",
                &[socket, &owner],
            );
        }
        v1::Memif { master: given.role == Role::Master, ..given.of.clone() }
    }

    fn dpdk(&mut self, given: &v1::Dpdk) -> v1::Dpdk {
        let name = dpdk_name(&given.device);
        if let Err(owner) = self.device_locks.lock(format!("dpdk {name}"), self.interface) {
            self.errors.add_about(
                format!("{}/dpdk/device", self.path),
                format!("the device \"{name}\" is the port of interface \"{owner}\" already"),
                "Use one port for each device; virtual devices differ in the number at the end of their name.",
                &[&name, &owner],
            );
        }
        given.clone()
    }

    fn pcap(&mut self, given: &v1::Pcap) -> v1::Pcap {
        let path = format!("{}/pcap/output", self.path);
        if is_file(&given.output) {
            if file_name(&given.input) == file_name(&given.output) {
                self.errors.add(
                    &path,
                    "input and output are the same file, and the output is replaced at the start",
                    "Use another file for the output.",
                );
            }
            let what = format!("pcap output {}", file_name(&given.output));
            if let Err(owner) = self.device_locks.lock(what, self.interface) {
                self.errors.add_about(
                    path,
                    format!("interface \"{owner}\" writes to \"{}\" already", given.output),
                    "Use another output file for each port; several may share /dev/null.",
                    &[&owner, &given.output],
                );
            }
        }
        given.clone()
    }

    fn tunnel(&mut self, given: &v1::Tunnel) -> v1::Tunnel {
        // libyang has checked that both are addresses.
        let (Some(local), Some(remote)) = (ip(&given.local), ip(&given.remote)) else {
            return given.clone();
        };
        let mut wrong = |leaf: &str, cause: String, fix: &str| {
            self.errors.add(format!("{}/tunnel/{leaf}", self.path), cause, fix);
        };
        for (leaf, end) in [("local", local), ("remote", remote)] {
            if IpAddr::is_multicast(&end) || end.is_unspecified() {
                wrong(leaf, format!("{end} is not a unicast address"), "Use a unicast address.");
            }
        }
        if local.is_ipv4() != remote.is_ipv4() {
            let cause = format!("{local} and {remote} are of different families");
            wrong("remote", cause, "Use addresses of one family; inner packets may be of either.");
        } else if local == remote {
            let cause = format!("{remote} is the local endpoint");
            wrong("remote", cause, "Use the address of the remote router.");
        }
        given.clone()
    }

    fn generator(&mut self, given: &Generator) -> Option<v1::Generator> {
        let path = format!("{}/generator", self.path);
        let v1::Generator { frame, vlan, .. } = given.of;
        let (source, destination) = (ip(&given.of.source)?, ip(&given.of.destination)?);
        if source.is_ipv4() != destination.is_ipv4() {
            self.errors.add(
                format!("{path}/destination"),
                format!("{source} and {destination} are of different families"),
                "Use addresses of one family.",
            );
        }
        // Ethernet 14, one tag 4, IPv6 40, UDP 8.
        let least = if destination.is_ipv6() { 62 } else { 42 } + if vlan > 0 { 4 } else { 0 };
        if frame < least {
            self.errors.add(
                format!("{path}/frame"),
                format!("{frame} bytes are too few for the headers of a {destination} packet"),
                format!("Use at least {least}."),
            );
        }
        let mut destination_mac = Vec::new();
        if let Some(text) = &given.destination_mac {
            match mac::individual(text) {
                Some(bytes) => destination_mac = bytes,
                None => self.errors.add(
                    format!("{path}/destination-mac"),
                    format!("{text} is not a unicast MAC address"),
                    "Use a unicast address that is not all zero, or remove it: then it is that of the interface.",
                ),
            }
        }
        Some(v1::Generator { destination_mac, ..given.of.clone() })
    }
}

/// The name of a file or socket without its folder. All are in one folder, so that it tells them apart.
fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether this is a name as the type `device-name` of the module describes it.
pub(crate) fn is_device_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.+@-".contains(&byte);
    let begins = name.bytes().next().is_some_and(|it| it.is_ascii_alphanumeric() || it == b'_');
    begins && name.len() <= DEVICE_NAME_LIMIT && name.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_names_are_those_of_linux() {
        assert!(is_device_name("eth0.100"));
        for wrong in ["", "a b", "a/b", "a:b", "..", "tap%d", "sixteen-letters-"] {
            assert!(!is_device_name(wrong), "{wrong}");
        }
    }

    #[test]
    fn ports_in_force_have_the_locks_of_their_settings() {
        for text in [
            r#"{"af-packet": {"device": "e0"}}"#,
            r#"{"af-xdp": {"device": "e0", "attach": "auto", "bind": "auto", "need-wakeup": true}}"#,
            r#"{"auto": {"device": "e0", "netns": "n"}}"#,
            r#"{"tap": {"device": "t0"}}"#,
            r#"{"memif": {"socket": "/run/m", "id": 7, "role": "slave", "ring-size": 1, "buffer-size": 64}}"#,
            r#"{"memif": {"socket": "/run/m", "id": 7, "role": "master", "ring-size": 1, "buffer-size": 64}}"#,
            r#"{"dpdk": {"device": "net_null0,copy=1"}}"#,
            r#"{"pcap": {"input": "a.pcap", "output": "b.pcap"}}"#,
        ] {
            let settings: Port = serde_json::from_str(text).unwrap();
            let mut errors = ValidationErrors::default();
            let mut locks = DeviceLocks::default();
            let port = desired("one", "/", &settings, &mut locks, &mut errors);
            assert!(errors.is_empty(), "{text}");
            let mut locks = DeviceLocks::of(std::iter::once(&port));
            desired("two", "/", &settings, &mut locks, &mut errors);
            assert_eq!(errors.into_vec().len(), 1, "{text}");
        }
    }

    #[test]
    fn a_device_is_locked_once() {
        let mut locks = DeviceLocks::default();
        assert_eq!(locks.lock("device a".into(), "one"), Ok(()));
        assert_eq!(locks.lock("device a".into(), "two"), Err("one".into()));
        assert_eq!(locks.lock("device b".into(), "two"), Ok(()));
    }
}
