//! Static mappings: port forwards, and addresses that stand for others.

use ipnet::Ipv4Net;
use stoa_wire::protocol::{TCP, UDP};
use stoa_yang::error::ValidationErrors;

use super::paths::mapping_path;
use super::values::{Ports, ports, range, unicast};
use crate::config::model::{MappingEntry, NatInstance};

/// A static mapping without errors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mapping<'a> {
    pub(super) instance: u32,
    pub(super) index: u32,
    pub(super) vrf: &'a str,
    /// `None`: all protocols.
    pub(super) protocol: Option<u32>,
    pub(super) internal: Ipv4Net,
    pub(super) external: Ipv4Net,
    /// The ports of both ends; `None`: all, unchanged.
    pub(super) ports: Option<(Ports, Ports)>,
}

impl Mapping<'_> {
    /// Its external ports.
    pub(super) fn external_ports(&self) -> Ports {
        self.ports.map_or((0, 65_535), |(_, external)| external)
    }

    /// Whether packets of one protocol may belong to both.
    pub(super) fn shares_protocol(&self, other: &Mapping<'_>) -> bool {
        self.protocol.is_none() || other.protocol.is_none() || self.protocol == other.protocol
    }
}

/// The static mappings of an instance, whose external interfaces are in `vrf`.
pub(super) fn mappings<'a>(
    instance: &NatInstance,
    vrf: &'a str,
    errors: &mut ValidationErrors,
) -> Vec<Mapping<'a>> {
    let all = instance.mapping_table.mapping_entry.iter();
    let found = all.filter_map(|it| mapping((instance.id, it), vrf, errors));
    found.collect()
}

fn mapping<'a>(
    (instance, given): (u32, &MappingEntry),
    vrf: &'a str,
    errors: &mut ValidationErrors,
) -> Option<Mapping<'a>> {
    let path = mapping_path(instance, given.index);
    if let Some(kind) = given.kind.as_deref().filter(|kind| *kind != "static") {
        errors.add(
            format!("{path}/type"),
            format!("a mapping of the type {kind} cannot be configured"),
            "Set it to static, or remove it.",
        );
    }
    let ends = [
        ("internal-src-address", &given.internal_src_address),
        ("external-src-address", &given.external_src_address),
    ];
    let [internal, external] = ends.map(|(leaf, value)| {
        let leaf = format!("{path}/{leaf}");
        match value {
            Some(value) => unicast(value, &leaf, errors),
            None => {
                errors.add(
                    leaf,
                    "the mapping has no such address",
                    "Set it, such as 192.0.2.1/32.",
                );
                None
            }
        }
    });
    let protocol = given.transport_protocol;
    let of_ports = [
        ("internal-src-port", given.internal_src_port),
        ("external-src-port", given.external_src_port),
    ];
    let [from, to] = of_ports.map(|(name, given)| ports(given, &format!("{path}/{name}"), errors));
    let (internal, external) = (internal?, external?);
    let ports = match (from, to) {
        (None, None) => None,
        (Some(from), Some(to)) => Some((from, to)),
        (None, Some(both)) | (Some(both), None) => {
            let name = if from.is_none() { "internal-src-port" } else { "external-src-port" };
            errors.add(
                format!("{path}/{name}"),
                format!("the other end has ports ({}), and this one has none", range(both)),
                "Set start-port-number of both, or remove both.",
            );
            return None;
        }
    };
    let mapping =
        Mapping { instance, index: given.index, vrf, protocol, internal, external, ports };
    check(&mapping, &path, errors).then_some(mapping)
}

/// Checks that both ends have the same size, and that ports are those of hosts.
fn check(mapping: &Mapping<'_>, path: &str, errors: &mut ValidationErrors) -> bool {
    let Mapping { internal, external, protocol, .. } = *mapping;
    let Some((from, to)) = mapping.ports else {
        if let Some(number) = protocol {
            errors.add(
                format!("{path}/transport-protocol"),
                format!("the mapping has protocol {number}, but no ports"),
                "Set internal-src-port and external-src-port; or remove it, for all protocols.",
            );
            return false;
        }
        if internal.prefix_len() == external.prefix_len() {
            return true;
        }
        errors.add(
            format!("{path}/external-src-address"),
            format!("{external} and the internal {internal} differ in length"),
            "Use prefixes of the same length: each address stands for one other.",
        );
        return false;
    };
    // The checksum of SCTP covers its ports and the whole packet, so that is translated by address.
    let has_ports = |number: u32| [TCP, UDP].map(u32::from).contains(&number);
    if !protocol.is_some_and(has_ports) {
        let cause = match protocol {
            None => "the mapping has ports, but no protocol".to_owned(),
            Some(number) => format!("ports of protocol {number} are not translated"),
        };
        let fix = "Set it to 6 for TCP or 17 for UDP; a mapping for both needs two entries.";
        errors.add(format!("{path}/transport-protocol"), cause, fix);
        return false;
    }
    for (leaf, net) in [("internal-src-address", internal), ("external-src-address", external)] {
        if net.prefix_len() < 32 {
            errors.add(
                format!("{path}/{leaf}"),
                format!("a mapping of ports has one address, and {net} has several"),
                format!("Write one address with its length, such as {}/32.", net.network()),
            );
            return false;
        }
    }
    let length = |(first, last): Ports| last - first + 1;
    if length(from) != length(to) {
        errors.add(
            format!("{path}/external-src-port"),
            format!(
                "the {} external ports ({}) and the {} internal ones ({}) differ in number",
                length(to),
                range(to),
                length(from),
                range(from)
            ),
            "Use ranges of the same length.",
        );
        return false;
    }
    true
}
