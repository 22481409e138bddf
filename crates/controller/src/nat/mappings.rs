//! Static mappings: port forwards, and addresses that stand for others.

use ipnet::Ipv4Net;
use stoa_api::nat::{BACKENDS, PORTS};
use stoa_wire::protocol::{TCP, UDP};
use stoa_yang::error::ValidationErrors;

use super::paths::mapping_path;
use super::values::{Ports, ports, range, unicast};
use crate::config::model::{MappingEntry, NatBackend, NatInstance};

/// A host that shares the connections of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Backend {
    pub(super) address: std::net::Ipv4Addr,
    pub(super) first_port: u32,
    pub(super) weight: u32,
}

/// A static mapping without errors.
#[derive(Clone, Debug)]
pub(super) struct Mapping<'a> {
    pub(super) instance: u32,
    pub(super) index: u32,
    pub(super) vrf: &'a str,
    pub(super) internal_vrf: &'a str,
    /// `None`: all protocols.
    pub(super) protocol: Option<u32>,
    /// `None`: it has backends.
    pub(super) internal: Option<Ipv4Net>,
    pub(super) external: Ipv4Net,
    /// The ports of both ends; `None`: all, unchanged. With backends, both are the external ones.
    pub(super) ports: Option<(Ports, Ports)>,
    pub(super) backends: Vec<Backend>,
    pub(super) is_by_source: bool,
    /// What internal hosts see as sources: addresses and ports.
    pub(super) remote: Option<(Ipv4Net, Ports)>,
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
    instance: &'a NatInstance,
    vrf: &'a str,
    errors: &mut ValidationErrors,
) -> Vec<Mapping<'a>> {
    let all = instance.mapping_table.mapping_entry.iter();
    let found = all.filter_map(|it| mapping((instance.id, it), vrf, errors));
    found.collect()
}

fn mapping<'a>(
    (instance, given): (u32, &'a MappingEntry),
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
    let has_backends = !given.backend.is_empty();
    let external =
        address(given.external_src_address.as_deref(), "external-src-address", &path, errors);
    let internal = match has_backends {
        true => None,
        false => {
            let given = given.internal_src_address.as_deref();
            Some(address(given, "internal-src-address", &path, errors))
        }
    };
    let of_ports = [
        ("internal-src-port", given.internal_src_port),
        ("external-src-port", given.external_src_port),
    ];
    let [from, to] = of_ports.map(|(name, given)| ports(given, &format!("{path}/{name}"), errors));
    let remote = remote(given, &path, errors);
    let is_free = no_internal_end(given, &path, errors);
    let (internal, external) = (internal.map_or(Some(None), |it| it.map(Some))?, external?);
    let ports = match (if has_backends { to } else { from }, to) {
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
    let mapping = Mapping {
        instance,
        index: given.index,
        vrf,
        internal_vrf: given.internal_vrf.as_deref().unwrap_or(vrf),
        protocol: given.transport_protocol,
        internal,
        external,
        ports,
        backends: backends(&given.backend, ports.map(|(_, to)| to), &path, errors)?,
        is_by_source: given.backend_selection.as_deref() == Some("source"),
        remote: remote?,
    };
    (check(&mapping, &path, errors) && is_free).then_some(mapping)
}

/// The address of an end.
fn address(
    given: Option<&str>,
    leaf: &str,
    path: &str,
    errors: &mut ValidationErrors,
) -> Option<Ipv4Net> {
    let leaf = format!("{path}/{leaf}");
    let Some(given) = given else {
        errors.add(leaf, "the mapping has no such address", "Set it, such as 192.0.2.1/32.");
        return None;
    };
    unicast(given, &leaf, errors)
}

/// Checks that a mapping with backends has no other internal end, and none without them what only they have.
fn no_internal_end(given: &MappingEntry, path: &str, errors: &mut ValidationErrors) -> bool {
    if given.backend.is_empty() {
        if given.backend_selection.is_some() {
            let cause = "the mapping has no backends";
            errors.add(format!("{path}/stoa-nat:backend-selection"), cause, "Remove it.");
        }
        return given.backend_selection.is_none();
    }
    let leaves = [
        ("internal-src-address", given.internal_src_address.is_some()),
        ("internal-src-port", given.internal_src_port.start_port_number.is_some()),
    ];
    let too_many = leaves.into_iter().find(|(_, is_there)| *is_there);
    if let Some((leaf, _)) = too_many {
        errors.add(
            format!("{path}/{leaf}"),
            "the mapping has backends, which have addresses and ports of their own",
            "Remove it, or remove the backends.",
        );
    }
    too_many.is_none()
}

/// What internal hosts see as sources. `None`: it has errors.
fn remote(
    given: &MappingEntry,
    path: &str,
    errors: &mut ValidationErrors,
) -> Option<Option<(Ipv4Net, Ports)>> {
    let leaf = format!("{path}/internal-dst-port");
    let range = ports(given.internal_dst_port, &leaf, errors);
    let Some(address) = given.internal_dst_address.as_deref() else {
        if range.is_some() {
            errors.add(
                leaf,
                "the mapping has ports of sources that internal hosts see, but no addresses",
                "Set internal-dst-address, such as the address of the inside interface; or remove it.",
            );
            return None;
        }
        return Some(None);
    };
    let addresses = unicast(address, &format!("{path}/internal-dst-address"), errors)?;
    Some(Some((addresses, range.unwrap_or(PORTS))))
}

/// The backends of a mapping with these external ports.
fn backends(
    given: &[NatBackend],
    external: Option<Ports>,
    path: &str,
    errors: &mut ValidationErrors,
) -> Option<Vec<Backend>> {
    if given.is_empty() {
        return Some(Vec::new());
    }
    let list = format!("{path}/stoa-nat:backend");
    let Some((first, last)) = external else {
        let fix = "Set transport-protocol and external-src-port.";
        errors.add(list, "backends share the connections to ports, and the mapping has none", fix);
        return None;
    };
    if given.len() > BACKENDS {
        let cause = format!("{} backends are more than {BACKENDS}", given.len());
        errors.add(&list, cause, "Use fewer.");
    }
    let mut ends = std::collections::BTreeMap::new();
    let mut all = Vec::new();
    for it in given {
        let path = format!("{list}[id='{}']", it.id);
        let net = unicast(&format!("{}/32", it.address), &format!("{path}/address"), errors)?;
        let first_port = it.start_port_number.unwrap_or(first);
        let end = first_port + (last - first);
        if end > 65_535 {
            errors.add(
                format!("{path}/start-port-number"),
                format!("{} ports from {first_port} on are more than there are", last - first + 1),
                "Use a lower port.",
            );
            return None;
        }
        if let Some(other) = ends.insert((it.address, first_port), it.id) {
            errors.add(
                format!("{path}/address"),
                format!("backend {other} has {}:{first_port} as well", it.address),
                "Use another address or port; a weight gives a host more connections.",
            );
        }
        all.push(Backend { address: net.network(), first_port, weight: it.weight.unwrap_or(1) });
    }
    if all.iter().all(|it| it.weight == 0) {
        let fix = "Set the weight of one to 1 or more.";
        errors.add(list, "no backend takes connections: all have the weight 0", fix);
    }
    Some(all)
}

/// Checks that both ends have the same size, and that ports are those of hosts.
fn check(mapping: &Mapping<'_>, path: &str, errors: &mut ValidationErrors) -> bool {
    let Mapping { internal, external, protocol, .. } = *mapping;
    let internal = internal.unwrap_or(external);
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
