//! Static mappings of the contract, checked.

use stoa_api::nat::{BACKENDS, PORTS, WEIGHT};
use stoa_api::v1;

use super::{Wrong, ports, prefix, prefix_message};
use crate::control::desired::ValidationErrors;
use crate::nat::Prefix4;

/// A static mapping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NatMapping {
    /// The instance.
    pub instance: u32,
    /// Its number in the instance.
    pub index: u32,
    /// The VRF of the external addresses.
    pub vrf: String,
    /// The VRF of the internal addresses.
    pub internal_vrf: String,
    /// The protocol; 0: all.
    pub protocol: u8,
    /// Internal addresses; not with backends.
    pub internal: Prefix4,
    /// External addresses.
    pub external: Prefix4,
    /// First internal port, first external port, and how many ports follow each. With backends, the first one is that
    /// of each of them.
    pub ports: Option<(u16, u16, u16)>,
    /// Hosts that share the connections, in place of the internal address.
    pub backends: Vec<NatBackend>,
    /// Whether a source keeps its backend.
    pub is_by_source: bool,
    /// What internal hosts see in place of the sources; `None`: the sources.
    pub remote: Option<NatRemote>,
}

/// A host that shares the connections of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NatBackend {
    /// Address.
    pub address: u32,
    /// The port for the first external one.
    pub first_port: u16,
    /// Its part of the connections, 0 to 100; 0: it gets no new ones.
    pub weight: u8,
}

/// Sources that internal hosts see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NatRemote {
    /// Addresses.
    pub addresses: Prefix4,
    /// First and last port.
    pub ports: (u16, u16),
}

fn checked_backend(backend: &v1::NatBackend, more: u16) -> Result<NatBackend, Wrong> {
    let Ok(octets) = <[u8; 4]>::try_from(backend.address.as_slice()) else {
        return Err(("has a backend without IPv4 address".to_owned(), "Use 4 bytes."));
    };
    let Some(weight) = u8::try_from(backend.weight).ok().filter(|it| *it <= WEIGHT) else {
        let cause = format!("has a backend of the weight {}", backend.weight);
        return Err((cause, "Use at most 100."));
    };
    let last = backend.first_port.saturating_add(more.into());
    let (first_port, _) = ports(&v1::PortRange { first: backend.first_port, last })?;
    Ok(NatBackend { address: u32::from_be_bytes(octets), first_port, weight })
}

fn checked_backends(mapping: &v1::NatMapping, more: u16) -> Result<Vec<NatBackend>, Wrong> {
    if mapping.backends.len() > BACKENDS {
        let cause = format!("has {} backends, more than {BACKENDS}", mapping.backends.len());
        return Err((cause, "Use fewer."));
    }
    let backends = mapping.backends.iter().map(|it| checked_backend(it, more));
    let backends = backends.collect::<Result<Vec<_>, _>>()?;
    let mut ends: Vec<_> = backends.iter().map(|it| (it.address, it.first_port)).collect();
    ends.sort_unstable();
    ends.dedup();
    if ends.len() < backends.len() {
        return Err(("has a backend twice".to_owned(), "Send each address and port once."));
    }
    Ok(backends)
}

fn checked_remote(mapping: &v1::NatMapping) -> Result<Option<NatRemote>, Wrong> {
    let Some(addresses) = &mapping.internal_remote else {
        return match &mapping.internal_remote_ports {
            None => Ok(None),
            Some(_) => Err(("has ports of sources without addresses".to_owned(), "Set both.")),
        };
    };
    let default = v1::PortRange { first: PORTS.0, last: PORTS.1 };
    let ports = ports(mapping.internal_remote_ports.as_ref().unwrap_or(&default))?;
    Ok(Some(NatRemote { addresses: prefix(Some(addresses))?, ports }))
}

/// Addresses and ports inside and outside: of one host, or of several ones that have ports of their own.
type Ends = (Prefix4, Option<(u16, u16, u16)>);

fn checked_ends(mapping: &v1::NatMapping, external: Prefix4) -> Result<Ends, Wrong> {
    let has_backends = !mapping.backends.is_empty();
    if has_backends && (mapping.internal.is_some() || mapping.internal_ports.is_some()) {
        return Err(("has backends and an internal end".to_owned(), "Use one of them."));
    }
    let internal = match has_backends {
        true => Prefix4 { network: 0, length: 32 },
        false => prefix(mapping.internal.as_ref())?,
    };
    if internal.length != external.length {
        let cause = format!("maps {} bits to {}", internal.length, external.length);
        return Err((cause, "Use prefixes of equal length."));
    }
    let inside = if has_backends { &mapping.external_ports } else { &mapping.internal_ports };
    let ranges = match (inside, &mapping.external_ports) {
        (None, None) => None,
        (Some(inside), Some(outside)) => Some((ports(inside)?, ports(outside)?)),
        _ => return Err(("has ports on one side only".to_owned(), "Set both, or none.")),
    };
    let is_whole = mapping.protocol == 0;
    if is_whole != ranges.is_none() || !matches!(mapping.protocol, 0 | 6 | 17) {
        let cause = format!("has the protocol {} and {ranges:?} as ports", mapping.protocol);
        return Err((cause, "Use TCP or UDP with ports, or neither."));
    }
    if ranges.is_none() && has_backends {
        return Err(("has backends without ports".to_owned(), "Use TCP or UDP with ports."));
    }
    if ranges.is_some() && internal.length != 32 {
        let cause = "has ports of more than one address".to_owned();
        return Err((cause, "Use single addresses with ports."));
    }
    let ports = match ranges {
        None => None,
        Some((inside, outside)) if inside.1 - inside.0 == outside.1 - outside.0 => {
            Some((inside.0, outside.0, inside.1 - inside.0))
        }
        Some(_) => {
            let cause = "has port ranges of different lengths".to_owned();
            return Err((cause, "Use as many ports inside as outside."));
        }
    };
    Ok((internal, ports))
}

pub(super) fn checked_mapping(mapping: &v1::NatMapping) -> Result<NatMapping, Wrong> {
    let external = prefix(mapping.external.as_ref())?;
    let (internal, ports) = checked_ends(mapping, external)?;
    let more = ports.map_or(0, |(_, _, more)| more);
    Ok(NatMapping {
        instance: mapping.instance,
        index: mapping.index,
        vrf: mapping.vrf.clone(),
        internal_vrf: mapping.internal_vrf.clone().unwrap_or_else(|| mapping.vrf.clone()),
        protocol: mapping.protocol as u8,
        internal,
        external,
        ports,
        backends: checked_backends(mapping, more)?,
        is_by_source: mapping.by_source,
        remote: checked_remote(mapping)?,
    })
}

impl NatMapping {
    /// As a message of the contract, with all defaults filled in.
    pub(in crate::control) fn message(&self) -> v1::NatMapping {
        let prefix = prefix_message;
        let range = |first: u16| {
            let (_, _, more) = self.ports?;
            Some(v1::PortRange { first: first.into(), last: u32::from(first) + u32::from(more) })
        };
        let internal = self.backends.is_empty().then_some(self.internal);
        let backend = |it: &NatBackend| v1::NatBackend {
            address: it.address.to_be_bytes().into(),
            first_port: it.first_port.into(),
            weight: it.weight.into(),
        };
        let remote_ports = |NatRemote { ports: (first, last), .. }: NatRemote| v1::PortRange {
            first: first.into(),
            last: last.into(),
        };
        v1::NatMapping {
            instance: self.instance,
            index: self.index,
            vrf: self.vrf.clone(),
            protocol: self.protocol.into(),
            internal: internal.map(prefix),
            external: Some(prefix(self.external)),
            internal_ports: internal.and(self.ports).and_then(|it| range(it.0)),
            external_ports: self.ports.and_then(|it| range(it.1)),
            backends: self.backends.iter().map(backend).collect(),
            by_source: self.is_by_source,
            internal_remote: self.remote.map(|it| prefix(it.addresses)),
            internal_remote_ports: self.remote.map(remote_ports),
            internal_vrf: Some(self.internal_vrf.clone()),
        }
    }

    /// Whether flows of a backend go on with another one, as far as it has this backend.
    pub(in crate::control) fn is_same_service(&self, other: &Self) -> bool {
        let has_backends = !self.backends.is_empty() && !other.backends.is_empty();
        has_backends && self.service() == other.service()
    }

    /// What must stay as it is for flows of a backend to go on.
    pub(in crate::control) fn service(&self) -> Self {
        Self { backends: Vec::new(), is_by_source: false, ..self.clone() }
    }

    pub(super) fn path(&self) -> String {
        mapping_path(self.instance, self.index)
    }
}

pub(super) fn mapping_path(instance: u32, index: u32) -> String {
    format!("nat instance {instance} mapping {index}")
}

/// What of a mapping must not overlap with others: scope, protocol, first and last address, first and last port.
type Extent<'a> = (&'a str, u32, u8, (u32, u32), (u16, u16));

/// Reports mappings that overlap with another one: of the same scope and protocol.
pub(super) fn check_overlaps<'a>(
    mappings: impl Iterator<Item = &'a NatMapping>,
    what: &str,
    extent: impl Fn(&'a NatMapping) -> Extent<'a>,
    errors: &mut ValidationErrors,
) {
    let mut all: Vec<(Extent<'a>, &NatMapping)> = mappings.map(|it| (extent(it), it)).collect();
    all.sort_by_key(|it| it.0);
    for pair in all.windows(2) {
        let [(one, first), (other, second)] = pair else { continue };
        let is_same = (one.0, one.1, one.2) == (other.0, other.1, other.2);
        let is_within = other.3.0 <= one.3.1 && (one.3 != other.3 || other.4.0 <= one.4.1);
        if is_same && is_within {
            let cause = format!("has {what} that mapping {} has, too", first.index);
            errors.add(second.path(), cause, "Use others.");
        }
    }
}
