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
    fn of_backend(&self, it: &Backend, end: StaticEnd) -> StaticEnd {
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
    /// Internal addresses: instance and VRF, last and first one. None is a part of two.
    inside: BTreeMap<((u32, u16), u32), u32>,
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
        let inside = merged(&all);
        Self { all, internal, external, inside }
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
    let with_internal = all.iter().filter(|it| it.backends.is_empty());
    let mut ranges: Vec<_> = with_internal
        .map(|it| ((it.instance, it.internal_vrf), it.internal.network, it.internal.last()))
        .collect();
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn host(network: u32) -> Prefix4 {
        Prefix4 { network, length: 32 }
    }

    fn whole() -> Static {
        Static {
            number: 1,
            instance: 1,
            internal: Prefix4 { network: 0x0a00_0000, length: 24 },
            external: Prefix4 { network: 0xc000_0200, length: 24 },
            ..Static::default()
        }
    }

    #[test]
    fn prefixes_keep_the_place_of_an_address() {
        let all = Statics::of(vec![whole()]);
        let end = StaticEnd { address: 0xc000_0209, port: None };
        assert_eq!(all.of_internal((1, 0), (17, 0x0a00_0009, Some(7))), Some((1, end)));
        assert_eq!(all.of_internal((2, 0), (17, 0x0a00_0009, Some(7))), None);
        assert_eq!(all.of_internal((1, 0), (17, 0x0a00_0109, Some(7))), None);
        let end = StaticEnd { address: 0x0a00_0009, port: None };
        assert_eq!(all.of_external(0, (50, 0xc000_0209, None)), Some((&whole(), end)));
        assert_eq!(all.of_external(1, (50, 0xc000_0209, None)), None);
    }

    #[test]
    fn ports_go_before_the_whole_address() {
        let web = Static {
            number: 2,
            protocol: 6,
            internal: host(0x0a00_0105),
            external: host(0xc000_0205),
            ports: Some((8000, 80, 3)),
            ..whole()
        };
        let all = Statics::of(vec![whole(), web.clone()]);
        let of = |protocol, port| all.of_external(0, (protocol, 0xc000_0205, port)).unwrap();
        let end = |port| StaticEnd { address: 0x0a00_0105, port: Some(port) };
        assert_eq!(of(6, Some(80)), (&web, end(8000)));
        assert_eq!(of(6, Some(83)), (&web, end(8003)));
        for (protocol, port) in [(6, Some(84)), (6, Some(79)), (17, Some(80)), (1, None)] {
            assert_eq!(of(protocol, port).0, &whole(), "{protocol} {port:?}");
        }
        let back = StaticEnd { address: 0xc000_0205, port: Some(81) };
        assert_eq!(all.of_internal((1, 0), (6, 0x0a00_0105, Some(8001))), Some((2, back)));
        assert_eq!(all.of_internal((1, 0), (6, 0x0a00_0105, Some(8004))), None);
    }

    #[test]
    fn internal_addresses_are_known_without_a_port() {
        let of = |instance: u32, network: u32, length: u8| Static {
            instance,
            internal: Prefix4 { network, length },
            ..whole()
        };
        let statics =
            Statics::of(vec![of(1, 128, 32), of(1, 0, 24), of(1, 512, 31), of(2, 600, 32)]);
        let known = |instance, address| statics.has_internal((instance, 0), address);
        assert!([0, 127, 128, 255, 512, 513].into_iter().all(|address| known(1, address)));
        assert!([256, 511, 514, 600].into_iter().all(|address| !known(1, address)));
        assert_eq!([known(2, 600), known(2, 128), known(3, 0)], [true, false, false]);
    }

    #[test]
    fn backends_keep_the_place_of_a_port() {
        let backend =
            |number, first_port, weight| Backend { number, address: number, first_port, weight };
        let shared = Static {
            protocol: 6,
            internal: host(0),
            external: host(9),
            ports: Some((80, 80, 3)),
            backends: [backend(5, 8000, 1), backend(6, 9000, 0)].into(),
            ..whole()
        };
        let statics = Statics::of(vec![shared.clone()]);
        let reached = |port, hash| {
            let (it, end) = statics.of_external(0, (6, 9, Some(port)))?;
            it.reached(end, hash)
        };
        let end = |port| StaticEnd { address: 5, port: Some(port) };
        assert_eq!((reached(80, 7), reached(83, 9)), (Some((5, end(8000))), Some((5, end(8003)))));
        assert_eq!(reached(84, 7), None);
        // What they send of their own accord is not that of the mapping.
        assert_eq!(statics.of_internal((1, 0), (6, 5, Some(8000))), None);
        assert!(!statics.has_internal((1, 0), 5));
        let idle = Static { backends: [backend(5, 80, 0)].into(), ..shared };
        assert_eq!(idle.reached(end(80), 1), None);
    }

    proptest! {
        /// Mappings of neighbouring ranges: as a walk of all of them finds.
        #[test]
        fn look_ups_find_what_a_walk_finds(
            lengths in prop::collection::vec((1..5_u16, 0..3_u16, any::<bool>()), 1..12),
            (port, address) in (0..60_u16, 0..4_u32),
        ) {
            let (mut at, mut all) = (1, Vec::new());
            for (number, (more, gap, is_tcp)) in lengths.into_iter().enumerate() {
                all.push(Static {
                    number: number as u32,
                    protocol: if is_tcp { 6 } else { 17 },
                    internal: host(u32::from(more) % 2),
                    external: host(u32::from(at) % 3),
                    ports: Some((at, at + 100, more)),
                    ..whole()
                });
                at += more + 1 + gap;
            }
            let statics = Statics::of(all.clone());
            for protocol in [6, 17] {
                let walk = |to_inside: bool| {
                    let mut found = all.iter().filter(|it| it.protocol == protocol);
                    found.find_map(|it| {
                        let (inside, outside, _) = it.ports?;
                        let (ways, ports) = if to_inside {
                            ((it.external, it.internal), (outside, inside))
                        } else {
                            ((it.internal, it.external), (inside, outside))
                        };
                        let port = if to_inside { port + 100 } else { port };
                        let end = it.translate(ways, Some(ports), (address, Some(port)))?;
                        Some((it.number, end))
                    })
                };
                let found = statics.of_external(0, (protocol, address, Some(port + 100)));
                prop_assert_eq!(found.map(|(it, end)| (it.number, end)), walk(true));
                prop_assert_eq!(statics.of_internal((1, 0), (protocol, address, Some(port))), walk(false));
            }
        }
    }
}
