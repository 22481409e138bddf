//! The capabilities that the ports of a configuration need, and those that are missing; `confine` gives up all others.

mod call_rules;
mod confine;
mod forwarder_calls;
mod opener_calls;
mod system_calls;

use std::path::Path;

use stoa_api::v1;
use stoa_api::v1::port::Driver;
use stoa_yang::error::ValidationError;

pub use self::confine::{Process, confine};
use crate::config::interface_path;

/// A capability of Linux (capabilities(7)): name and bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Capability {
    bit: u8,
    name: &'static str,
}

const NET_ADMIN: Capability = Capability { bit: 12, name: "CAP_NET_ADMIN" };
const NET_RAW: Capability = Capability { bit: 13, name: "CAP_NET_RAW" };
const BPF: Capability = Capability { bit: 39, name: "CAP_BPF" };
const SYS_ADMIN: Capability = Capability { bit: 21, name: "CAP_SYS_ADMIN" };

impl std::fmt::Display for Capability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// The capabilities that a port needs, with the reasons.
fn needs(port: &v1::Port) -> Vec<(Capability, &'static str)> {
    let (mut needs, netns) = match &port.driver {
        Some(Driver::AfPacket(device)) => (
            vec![
                (NET_RAW, "an af-packet port opens a packet socket"),
                (NET_ADMIN, "an af-packet port sets its device up and promiscuous"),
            ],
            &device.netns,
        ),
        Some(Driver::AfXdp(device)) => (
            vec![
                (NET_RAW, "an af-xdp port opens an AF_XDP socket"),
                (NET_ADMIN, "an af-xdp port attaches a program to its device"),
                (BPF, "an af-xdp port loads a program into the kernel"),
            ],
            &device.netns,
        ),
        Some(Driver::Tap(device)) => {
            (vec![(NET_ADMIN, "a tap port creates its device and sets it up")], &device.netns)
        }
        _ => return vec![],
    };
    if !netns.is_empty() {
        needs.push((SYS_ADMIN, "the device is in another network namespace"));
    }
    needs
}

/// The capabilities that a host interface needs, with the reasons.
fn host_interface_needs(host_interface: &v1::HostInterface) -> Vec<(Capability, &'static str)> {
    let mut needs = vec![(NET_ADMIN, "a host interface is a TAP device with addresses and routes")];
    if !host_interface.netns.is_empty() {
        needs.push((SYS_ADMIN, "the host interface is in another network namespace"));
    }
    needs
}

/// All needed capabilities with their data paths and reasons.
fn all_needs(desired: &v1::Desired) -> impl Iterator<Item = (String, Capability, &'static str)> {
    let ports = desired.ports.iter().flat_map(|port| {
        let path = format!("{}/stoa-interfaces:port", interface_path(&port.interface));
        needs(port).into_iter().map(move |(capability, reason)| (path.clone(), capability, reason))
    });
    let host_interfaces = desired.interfaces.iter().flat_map(|interface| {
        let path =
            format!("{}/stoa-host-interface:host-interface", interface_path(&interface.name));
        let needs = interface.host_interface.as_ref().map(host_interface_needs).unwrap_or_default();
        needs.into_iter().map(move |(capability, reason)| (path.clone(), capability, reason))
    });
    ports.chain(host_interfaces)
}

/// The capabilities that `desired` needs, without duplicates.
pub fn needed(desired: &v1::Desired) -> Vec<Capability> {
    let mut all: Vec<Capability> =
        all_needs(desired).map(|(_, capability, _)| capability).collect();
    all.sort();
    all.dedup();
    all
}

/// An error for each needed capability that this process lacks.
pub fn missing(desired: &v1::Desired) -> Vec<ValidationError> {
    // Without /proc they are unknown: then opening the port fails.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    match effective(&status) {
        Some(held) => missing_of(desired, held, is_root(&status)),
        None => vec![],
    }
    .into_iter()
    .chain(without_tun(desired, Path::new("/dev/net/tun")))
    .collect()
}

/// Errors if /dev/net/tun is missing, which containers often lack and host interfaces need.
fn without_tun(desired: &v1::Desired, tun: &Path) -> Vec<ValidationError> {
    let with_host_interface =
        desired.interfaces.iter().filter(|interface| interface.host_interface.is_some());
    with_host_interface
        .filter(|_| !tun.exists())
        .map(|interface| ValidationError {
            path: format!("{}/stoa-host-interface:host-interface", interface_path(&interface.name)),
            cause: format!("{} is missing: a host interface is a TAP device", tun.display()),
            fix: "Load the module (modprobe tun) and restart the forwarder, add the device to the container \
                   (--device /dev/net/tun), or remove the host interface: Stoa answers ARP, neighbour discovery, ping \
                   and traceroute without it."
                .to_owned(),
            names: Vec::new(),
        })
        .collect()
}

fn missing_of(desired: &v1::Desired, held: u64, is_root: bool) -> Vec<ValidationError> {
    let needed = needed(desired);
    let fix = if is_root {
        let missing = needed.iter().filter(|one| held & (1 << one.bit) == 0);
        let fix = fix_of_root(missing.map(|one| one.name));
        format!("{}{}.", fix[..1].to_uppercase(), &fix[1..])
    } else {
        let names: Vec<_> = needed.iter().map(|one| one.name.to_ascii_lowercase()).collect();
        let program = std::env::current_exe()
            .map_or_else(|_| "stoa".to_owned(), |path| path.display().to_string());
        format!("Run as root (sudo), or once: sudo setcap {}+ep {program}", names.join(","))
    };
    let mut errors = Vec::new();
    for (path, capability, reason) in all_needs(desired) {
        if held & (1 << capability.bit) == 0 {
            errors.push(ValidationError {
                path,
                cause: format!("{capability} is missing: {reason}"),
                fix: fix.clone(),
                names: Vec::new(),
            });
        }
    }
    errors
}

/// What to do where root lacks capabilities: in a container, or in a unit. As in `stoa_engine::capabilities`.
pub(crate) fn fix_of_root<'a>(missing: impl Iterator<Item = &'a str>) -> String {
    let name = |name: &str| format!("--cap-add {}", name.trim_start_matches("CAP_"));
    let add = missing.map(name).collect::<Vec<_>>().join(" ");
    format!(
        "start the container with {add}, or extend CapabilityBoundingSet of the unit: root lacks it here"
    )
}

/// Whether the effective user in the text of /proc/PID/status is root.
pub(crate) fn is_root(status: &str) -> bool {
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    users.and_then(|users| users.split_whitespace().nth(1)) == Some("0")
}

/// The effective capabilities in the text of /proc/PID/status.
fn effective(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desired() -> v1::Desired {
        let port = |interface: &str, driver| v1::Port {
            interface: interface.into(),
            driver: Some(driver),
            ..v1::Port::default()
        };
        let netns = String::new();
        v1::Desired {
            ports: vec![
                port("a", Driver::AfPacket(v1::AfPacket { device: "a".into(), netns })),
                port("t", Driver::Tap(v1::Tap { device: "t".into(), netns: "red".into() })),
                port("n", Driver::Null(v1::Null {})),
            ],
            ..v1::Desired::default()
        }
    }

    #[test]
    fn missing_capabilities_of_ports_are_errors() {
        assert_eq!(needed(&desired()), [NET_ADMIN, NET_RAW, SYS_ADMIN]);
        assert_eq!(missing_of(&desired(), 0, false).len(), 4);
        assert_eq!(missing_of(&desired(), u64::MAX, true), []);
        let one = missing_of(&desired(), 1 << 12 | 1 << 21, false);
        assert_eq!(one.len(), 1);
        assert!(one[0].cause.starts_with("CAP_NET_RAW is missing"), "{one:?}");
        assert!(one[0].fix.contains("cap_net_admin,cap_net_raw,cap_sys_admin+ep"), "{one:?}");
        let of_root = missing_of(&desired(), 1 << 12, true);
        let expected = "Start the container with --cap-add NET_RAW --cap-add SYS_ADMIN, or";
        assert!(of_root.iter().all(|error| error.fix.starts_with(expected)), "{of_root:?}");
        assert!(is_root("Name:\tx\nUid:\t1000\t0\t0\t0\n"));
        assert!(!is_root("Uid:\t0\t1000\t0\t0\n") && !is_root(""));
    }

    #[test]
    fn missing_capabilities_of_host_interfaces_are_errors() {
        let host_interface = Some(v1::HostInterface { device: "a".into(), netns: "red".into() });
        let interface =
            v1::Interface { name: "a".into(), host_interface, ..v1::Interface::default() };
        let desired = v1::Desired { interfaces: vec![interface], ..v1::Desired::default() };
        assert_eq!(needed(&desired), [NET_ADMIN, SYS_ADMIN]);
        let missing = without_tun(&desired, Path::new("/nowhere/tun"));
        assert!(missing[0].fix.contains("--device"), "{missing:?}");
        assert!(missing[0].path.ends_with("stoa-host-interface:host-interface"), "{missing:?}");
        assert_eq!(without_tun(&desired, Path::new("/")), []);
    }

    #[test]
    fn capabilities_are_parsed_from_proc() {
        assert_eq!(effective("Name:\tx\nCapEff:\t000001ffffffffff\n"), Some(0x1ff_ffff_ffff));
        assert_eq!(effective("CapEff:\tnone\n"), None);
        assert_eq!(effective(""), None);
    }
}
