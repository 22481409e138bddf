//! Static mappings: port forwards, and one-to-one translation of prefixes. They are looked up for first packets only.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Prefix4;
use super::backends::Backend;

/// An address, and a port if the mapping has ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticEnd {
    /// Address.
    pub address: u32,
    /// Port; `None`: it stays as it is.
    pub port: Option<u16>,
}

/// What internal hosts see in place of the sources of packets to an external end: twice NAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Addresses.
    pub addresses: Prefix4,
    /// First and last port.
    pub ports: (u16, u16),
}

/// A static mapping as workers need it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Static {
    /// Its number, as that of a policy.
    pub number: u32,
    /// The instance.
    pub instance: u32,
    /// VRF of the external addresses, as in keys of flows.
    pub vrf: u16,
    /// VRF of the internal addresses.
    pub internal_vrf: u16,
    /// The protocol; 0: all, and no ports.
    pub protocol: u8,
    /// Internal addresses; not with backends.
    pub internal: Prefix4,
    /// External addresses, as many.
    pub external: Prefix4,
    /// First internal port, first external port, and how many ports follow each. With backends, both are the external
    /// one.
    pub ports: Option<(u16, u16, u16)>,
    /// Hosts that share the connections, in place of the internal address.
    pub backends: Arc<[Backend]>,
    /// Whether a source keeps its backend.
    pub is_by_source: bool,
    /// What internal hosts see in place of the sources.
    pub remote: Option<Remote>,
}

impl Static {
    /// The internal end that a connection gets, and the number that its flow has. `end`: where the mapping leads;
    /// `hash`: of the connection or its source. `None`: no backend takes new ones.
    pub(super) fn reached(&self, end: StaticEnd, hash: u32) -> Option<(u32, StaticEnd)> {
        if self.backends.is_empty() {
            return Some((self.number, end));
        }
        let it = Backend::choose(&self.backends, hash)?;
        Some((it.number, self.of_backend(it, end)))
    }

    /// The end that a backend has. `end`: where the mapping leads.
    pub(super) fn of_backend(&self, it: &Backend, end: StaticEnd) -> StaticEnd {
        let first = self.ports.map_or(0, |(first, ..)| first);
        let port = end.port.map(|port| port.wrapping_sub(first).wrapping_add(it.first_port));
        StaticEnd { address: it.address, port }
    }

    /// All internal ends that connections may get. `end`: where the mapping leads.
    pub fn ends(&self, end: StaticEnd) -> Vec<StaticEnd> {
        match self.backends.is_empty() {
            true => vec![end],
            false => self.backends.iter().map(|it| self.of_backend(it, end)).collect(),
        }
    }

    /// What it makes of an end at its `from` side.
    fn translate(
        &self,
        (from, to): (Prefix4, Prefix4),
        ports: Option<(u16, u16)>,
        (address, port): (u32, Option<u16>),
    ) -> Option<StaticEnd> {
        if !from.contains(address) {
            return None;
        }
        let port = match (ports, port) {
            (None, _) => None,
            (Some((first, first_to)), Some(port)) => {
                let by = port.checked_sub(first)?;
                let (_, _, more) = self.ports?;
                Some(first_to.checked_add(by).filter(|_| by <= more)?)
            }
            (Some(_), None) => return None,
        };
        Some(StaticEnd { address: to.network | address & to.host_bits(), port })
    }
}

/// Where a mapping ends, with its protocol, in one of the two directions: instance and VRF, or VRF; protocol, last
/// address, last port.
type Key = ((u32, u16), u8, u32, u16);

/// All static mappings.
#[derive(Clone, Debug, Default)]
pub struct Statics {
    all: Vec<Static>,
    internal: BTreeMap<Key, usize>,
    external: BTreeMap<Key, usize>,
    /// Internal addresses, those of backends among them: instance and VRF, last and first one. None is a part of two.
    inside: BTreeMap<((u32, u16), u32), u32>,
    /// Ends of backends, with their first port. None is a part of two.
    backends: BTreeMap<Key, u16>,
}

impl Statics {
    /// Of these, which do not overlap.
    pub fn of(all: Vec<Static>) -> Self {
        let (mut internal, mut external) = (BTreeMap::new(), BTreeMap::new());
        for (at, it) in all.iter().enumerate() {
            let last = |first: u16| it.ports.map_or(0, |(_, _, more)| first.saturating_add(more));
            let (inside, outside) =
                it.ports.map_or((0, 0), |(inside, outside, _)| (inside, outside));
            let key = |prefix: Prefix4, port| (it.protocol, prefix.last(), port);
            // Policies translate what backends send.
            if it.backends.is_empty() {
                let (protocol, address, port) = key(it.internal, last(inside));
                internal.insert(((it.instance, it.internal_vrf), protocol, address, port), at);
            }
            let (protocol, address, port) = key(it.external, last(outside));
            external.insert(((0, it.vrf), protocol, address, port), at);
        }
        let (inside, backends) = (merged(&all), backend_ends(&all));
        Self { all, internal, external, inside, backends }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All of them.
    pub fn all(&self) -> &[Static] {
        &self.all
    }

    fn find<'a>(
        &'a self,
        map: &'a BTreeMap<Key, usize>,
        scope: (u32, u16),
        (protocol, address, port): (u8, u32, Option<u16>),
    ) -> impl Iterator<Item = &'a Static> {
        // Those with ports go first.
        [(protocol, port.unwrap_or(0)), (0, 0)].into_iter().filter_map(move |(protocol, port)| {
            let from = (scope, protocol, address, port);
            let (key, at) = map.range(from..).next()?;
            self.all.get(*at).filter(|_| (key.0, key.1) == (scope, protocol))
        })
    }

    /// Whether an address is an internal one of an instance in a VRF, with whatever protocol and port.
    pub fn has_internal(&self, scope: (u32, u16), address: u32) -> bool {
        let next = self.inside.range((scope, address)..).next();
        next.is_some_and(|((of, _), first)| *of == scope && *first <= address)
    }

    /// Whether an end of an instance in a VRF is that of a backend. What this sends leaves by its flow only.
    pub fn is_backend(
        &self,
        scope: (u32, u16),
        (protocol, address, port): (u8, u32, Option<u16>),
    ) -> bool {
        let Some(port) = port else { return false };
        let next = self.backends.range((scope, protocol, address, port)..).next();
        next.is_some_and(|((of, kind, host, _), first)| {
            (*of, *kind, *host) == (scope, protocol, address) && *first <= port
        })
    }

    /// The external end of an internal one of an instance in a VRF, and the number of the mapping.
    pub fn of_internal(
        &self,
        scope: (u32, u16),
        (protocol, address, port): (u8, u32, Option<u16>),
    ) -> Option<(u32, StaticEnd)> {
        self.find(&self.internal, scope, (protocol, address, port)).find_map(|it| {
            let ports = it.ports.map(|(inside, outside, _)| (inside, outside));
            let end = it.translate((it.internal, it.external), ports, (address, port))?;
            Some((it.number, end))
        })
    }

    /// The internal end of an external one, and the mapping. With backends, [`Static::reached`] makes an end of it.
    pub fn of_external(
        &self,
        vrf: u16,
        (protocol, address, port): (u8, u32, Option<u16>),
    ) -> Option<(&Static, StaticEnd)> {
        self.find(&self.external, (0, vrf), (protocol, address, port)).find_map(|it| {
            let ports = it.ports.map(|(inside, outside, _)| (outside, inside));
            let end = it.translate((it.external, it.internal), ports, (address, port))?;
            Some((it, end))
        })
    }
}

/// The internal addresses of all, by instance and last one: prefixes contain each other, or have nothing in common.
fn merged(all: &[Static]) -> BTreeMap<((u32, u16), u32), u32> {
    let mut ranges = Vec::new();
    for it in all {
        let scope = (it.instance, it.internal_vrf);
        match it.backends.is_empty() {
            true => ranges.push((scope, it.internal.network, it.internal.last())),
            false => ranges.extend(it.backends.iter().map(|it| (scope, it.address, it.address))),
        }
    }
    // The widest of those that begin together comes first.
    ranges.sort_by_key(|(scope, first, last)| (*scope, *first, u32::MAX - last));
    let mut merged: BTreeMap<((u32, u16), u32), u32> = BTreeMap::new();
    for (scope, first, last) in ranges {
        let around = merged.range((scope, last)..).next();
        if around.is_none_or(|((of, _), begin)| *of != scope || *begin > first) {
            merged.insert((scope, last), first);
        }
    }
    merged
}

/// The ends of all backends, by their last port: several services may have ports of one host.
fn backend_ends(all: &[Static]) -> BTreeMap<Key, u16> {
    let of = |it: &Static| {
        let (scope, protocol) = ((it.instance, it.internal_vrf), it.protocol);
        let more = it.ports.map_or(0, |(.., more)| more);
        let ends = it.backends.iter();
        let ends = ends.map(move |to| (scope, protocol, to.address, to.first_port, more));
        ends.collect::<Vec<_>>()
    };
    let mut ranges: Vec<_> = all.iter().flat_map(of).collect();
    ranges.sort_unstable();
    let mut ends: BTreeMap<Key, u16> = BTreeMap::new();
    for (scope, protocol, address, first, more) in ranges {
        let key = |port| (scope, protocol, address, port);
        let last = first.saturating_add(more);
        // The range that begins before it and reaches it, if there is one.
        let around = ends.range(key(first)..=key(u16::MAX)).next();
        let around = around.map(|(key, begin)| (*key, *begin));
        let begin = around.map_or(first, |(_, begin)| begin.min(first));
        if let Some((former, _)) = around {
            ends.remove(&former);
        }
        let last = around.map_or(last, |((.., former), _)| former.max(last));
        ends.insert(key(last), begin);
    }
    ends
}

#[cfg(test)]
mod tests;
