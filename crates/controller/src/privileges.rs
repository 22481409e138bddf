//! Which capabilities the ports of a configuration need, and which are missing.

use std::path::Path;

use stoa_api::v1;
use stoa_api::v1::port::Driver;

use crate::finding::Finding;
use crate::interfaces::place;

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

/// What a port needs, and what for.
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
            (vec![(NET_ADMIN, "a tap port makes its device and sets it up")], &device.netns)
        }
        _ => return vec![],
    };
    if !netns.is_empty() {
        needs.push((SYS_ADMIN, "the device is in another network namespace"));
    }
    needs
}

/// What a mirror needs, and what for.
fn mirror_needs(mirror: &v1::Mirror) -> Vec<(Capability, &'static str)> {
    let mut needs = vec![(NET_ADMIN, "a mirror is a TAP device with addresses and routes")];
    if !mirror.netns.is_empty() {
        needs.push((SYS_ADMIN, "the mirror is in another network namespace"));
    }
    needs
}

/// All needs, with their places.
fn all_needs(desired: &v1::Desired) -> impl Iterator<Item = (String, Capability, &'static str)> {
    let ports = desired.ports.iter().flat_map(|port| {
        let place = format!("{}/stoa-interfaces:port", place(&port.interface));
        needs(port).into_iter().map(move |(capability, why)| (place.clone(), capability, why))
    });
    let mirrors = desired.interfaces.iter().flat_map(|interface| {
        let place = format!("{}/stoa-mirror:mirror", place(&interface.name));
        let needs = interface.mirror.as_ref().map(mirror_needs).unwrap_or_default();
        needs.into_iter().map(move |(capability, why)| (place.clone(), capability, why))
    });
    ports.chain(mirrors)
}

/// Every capability that the ports of `desired` need, once.
pub fn needed(desired: &v1::Desired) -> Vec<Capability> {
    let mut all: Vec<Capability> =
        all_needs(desired).map(|(_, capability, _)| capability).collect();
    all.sort();
    all.dedup();
    all
}

/// The capabilities that are needed and that this process does not have, for
/// each port and why. Empty when all are there.
pub fn missing(desired: &v1::Desired) -> Vec<Finding> {
    // Without /proc nothing is known: the ports will say it themselves.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    match effective(&status) {
        Some(held) => missing_of(desired, held),
        None => vec![],
    }
    .into_iter()
    .chain(without_tun(desired, Path::new("/dev/net/tun")))
    .collect()
}

/// Mirrors are made by a device file that containers often lack.
fn without_tun(desired: &v1::Desired, tun: &Path) -> Vec<Finding> {
    let mirrored = desired.interfaces.iter().filter(|interface| interface.mirror.is_some());
    mirrored
        .filter(|_| !tun.exists())
        .map(|interface| Finding {
            path: format!("{}/stoa-mirror:mirror", place(&interface.name)),
            why: format!("{} is missing: a mirror is a TAP device", tun.display()),
            mend: "Load the module (modprobe tun), give the container the device (--device \
                   /dev/net/tun), or take the mirror out: ARP, neighbours, ping and traceroute \
                   are answered without."
                .to_owned(),
        })
        .collect()
}

fn missing_of(desired: &v1::Desired, held: u64) -> Vec<Finding> {
    let names: Vec<String> =
        needed(desired).iter().map(|one| one.name.to_ascii_lowercase()).collect();
    let program = std::env::current_exe()
        .map_or_else(|_| "stoa".to_owned(), |path| path.display().to_string());
    let mut findings = Vec::new();
    for (path, capability, why) in all_needs(desired) {
        if held & (1 << capability.bit) == 0 {
            findings.push(Finding {
                path,
                why: format!("{capability} is missing: {why}"),
                mend: format!(
                    "Run as root (sudo), or once: sudo setcap {}+ep {program}",
                    names.join(",")
                ),
            });
        }
    }
    findings
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
    fn each_port_says_what_it_lacks() {
        assert_eq!(needed(&desired()), [NET_ADMIN, NET_RAW, SYS_ADMIN]);
        assert_eq!(missing_of(&desired(), 0).len(), 4);
        assert_eq!(missing_of(&desired(), u64::MAX), []);
        let one = missing_of(&desired(), 1 << 12 | 1 << 21);
        assert_eq!(one.len(), 1);
        assert!(one[0].why.starts_with("CAP_NET_RAW is missing"), "{one:?}");
        assert!(one[0].mend.contains("cap_net_admin,cap_net_raw,cap_sys_admin+ep"), "{one:?}");
    }

    #[test]
    fn a_mirror_says_what_it_lacks() {
        let mirror = Some(v1::Mirror { device: "a".into(), netns: "red".into() });
        let interface = v1::Interface { name: "a".into(), mirror, ..v1::Interface::default() };
        let desired = v1::Desired { interfaces: vec![interface], ..v1::Desired::default() };
        assert_eq!(needed(&desired), [NET_ADMIN, SYS_ADMIN]);
        let missing = without_tun(&desired, Path::new("/nowhere/tun"));
        assert!(missing[0].mend.contains("--device"), "{missing:?}");
        assert!(missing[0].path.ends_with("stoa-mirror:mirror"), "{missing:?}");
        assert_eq!(without_tun(&desired, Path::new("/")), []);
    }

    #[test]
    fn capabilities_are_read_from_proc() {
        assert_eq!(effective("Name:\tx\nCapEff:\t000001ffffffffff\n"), Some(0x1ff_ffff_ffff));
        assert_eq!(effective("CapEff:\tnone\n"), None);
        assert_eq!(effective(""), None);
    }
}
