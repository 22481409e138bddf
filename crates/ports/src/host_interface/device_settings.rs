//! What Linux must not do by itself on a host interface: we answer ARP and neighbour discovery for the
//! addresses that both have (Documentation/networking/ip-sysctl.rst).

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// Settings below `/proc/sys/net/FAMILY/conf/DEVICE`, and why.
const SETTINGS: &[(&str, &str, &str)] = &[
    // ARP requests are answered by us, and are not passed up; this is the second lock.
    ("ipv4", "arp_ignore", "8"),
    // Solicit a neighbour from the address on its network.
    ("ipv4", "arp_announce", "2"),
    // Packets were checked on their way here (uRPF), by routes that Linux need not know.
    ("ipv4", "rp_filter", "0"),
    ("ipv4", "forwarding", "0"),
    ("ipv4", "accept_redirects", "0"),
    ("ipv4", "send_redirects", "0"),
    // The link-local address is given, made from the MAC address like ours.
    ("ipv6", "addr_gen_mode", "1"),
    // We have checked the addresses for duplicates; the question would meet our own answer.
    ("ipv6", "accept_dad", "0"),
    ("ipv6", "dad_transmits", "0"),
    // A router takes no addresses and routes from others.
    ("ipv6", "forwarding", "0"),
    ("ipv6", "accept_ra", "0"),
    ("ipv6", "autoconf", "0"),
    ("ipv6", "router_solicitations", "0"),
    ("ipv6", "accept_redirects", "0"),
    // Addresses stay when someone sets the device down and up.
    ("ipv6", "keep_addr_on_down", "1"),
];

/// Sets them for a device of this namespace; returns how many Linux did not take.
pub(crate) fn apply(device: &str) -> usize {
    let without_ip6 = !std::fs::exists("/proc/sys/net/ipv6").unwrap_or(false);
    let refused = |(family, setting, value): &&(&str, &str, &str)| {
        if *family == "ipv6" && without_ip6 {
            return false;
        }
        let file = format!("/proc/sys/net/{family}/conf/{device}/{setting}");
        // In a container these are often read-only, and right already.
        let is_set = || std::fs::read_to_string(&file).is_ok_and(|text| text.trim() == *value);
        set(Path::new(&file), value).is_err() && !is_set()
    };
    SETTINGS.iter().filter(refused).count()
}

/// Writes a setting without truncating its file: the rules of the forwarder (Landlock) permit writing there alone.
fn set(file: &Path, value: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(file)?.write_all(value.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_written_without_truncating_or_creating_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("accept_ra");
        assert!(set(&file, "0").is_err(), "it does not exist");
        std::fs::write(&file, "1\n").unwrap();
        set(&file, "0").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "0\n");
    }
}
