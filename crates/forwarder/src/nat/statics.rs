//! Static mappings: port forwards, and one-to-one translation of prefixes. They are looked up for first packets only.

use std::collections::BTreeMap;

use super::Prefix4;

/// An address, and a port if the mapping has ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticEnd {
    /// Address.
    pub address: u32,
    /// Port; `None`: it stays as it is.
    pub port: Option<u16>,
}

/// A static mapping as workers need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Static {
    /// Its number, as that of a policy.
    pub number: u32,
    /// The instance.
    pub instance: u32,
    /// VRF of the external addresses, as in keys of flows.
    pub vrf: u16,
    /// The protocol; 0: all, and no ports.
    pub protocol: u8,
    /// Internal addresses.
    pub internal: Prefix4,
    /// External addresses, as many.
    pub external: Prefix4,
    /// First internal port, first external port, and how many ports follow each.
    pub ports: Option<(u16, u16, u16)>,
}

impl Static {
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

/// Where a mapping ends, with its protocol, in one of the two directions: instance or VRF, protocol, last address, last
/// port.
type Key = (u32, u8, u32, u16);

/// All static mappings.
#[derive(Clone, Debug, Default)]
pub struct Statics {
    all: Vec<Static>,
    internal: BTreeMap<Key, usize>,
    external: BTreeMap<Key, usize>,
    /// Internal addresses: instance, last and first one. None is a part of two.
    inside: BTreeMap<(u32, u32), u32>,
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
            let (protocol, address, port) = key(it.internal, last(inside));
            internal.insert((it.instance, protocol, address, port), at);
            let (protocol, address, port) = key(it.external, last(outside));
            external.insert((it.vrf.into(), protocol, address, port), at);
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
        scope: u32,
        (protocol, address, port): (u8, u32, Option<u16>),
    ) -> impl Iterator<Item = &'a Static> {
        // Those with ports go first.
        [(protocol, port.unwrap_or(0)), (0, 0)].into_iter().filter_map(move |(protocol, port)| {
            let from = (scope, protocol, address, port);
            let (key, at) = map.range(from..).next()?;
            self.all.get(*at).filter(|_| (key.0, key.1) == (scope, protocol))
        })
    }

    /// Whether an address is an internal one, with whatever protocol and port.
    pub fn has_internal(&self, instance: u32, address: u32) -> bool {
        let next = self.inside.range((instance, address)..).next();
        next.is_some_and(|((of, _), first)| *of == instance && *first <= address)
    }

    /// The external end of an internal one, and the number of the mapping.
    pub fn of_internal(
        &self,
        instance: u32,
        (protocol, address, port): (u8, u32, Option<u16>),
    ) -> Option<(u32, StaticEnd)> {
        self.find(&self.internal, instance, (protocol, address, port)).find_map(|it| {
            let ports = it.ports.map(|(inside, outside, _)| (inside, outside));
            let end = it.translate((it.internal, it.external), ports, (address, port))?;
            Some((it.number, end))
        })
    }

    /// The internal end of an external one, and the mapping.
    pub fn of_external(
        &self,
        vrf: u16,
        (protocol, address, port): (u8, u32, Option<u16>),
    ) -> Option<(&Static, StaticEnd)> {
        self.find(&self.external, vrf.into(), (protocol, address, port)).find_map(|it| {
            let ports = it.ports.map(|(inside, outside, _)| (outside, inside));
            let end = it.translate((it.external, it.internal), ports, (address, port))?;
            Some((it, end))
        })
    }
}

/// The internal addresses of all, by instance and last one: prefixes contain each other, or have nothing in common.
fn merged(all: &[Static]) -> BTreeMap<(u32, u32), u32> {
    let mut ranges: Vec<_> =
        all.iter().map(|it| (it.instance, it.internal.network, it.internal.last())).collect();
    // The widest of those that begin together comes first.
    ranges.sort_by_key(|(instance, first, last)| (*instance, *first, u32::MAX - last));
    let mut merged: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for (instance, first, last) in ranges {
        let around = merged.range((instance, last)..).next();
        if around.is_none_or(|((of, _), begin)| *of != instance || *begin > first) {
            merged.insert((instance, last), first);
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

    const WHOLE: Static = Static {
        number: 1,
        instance: 1,
        vrf: 0,
        protocol: 0,
        internal: Prefix4 { network: 0x0a00_0000, length: 24 },
        external: Prefix4 { network: 0xc000_0200, length: 24 },
        ports: None,
    };

    #[test]
    fn prefixes_keep_the_place_of_an_address() {
        let all = Statics::of(vec![WHOLE]);
        let end = StaticEnd { address: 0xc000_0209, port: None };
        assert_eq!(all.of_internal(1, (17, 0x0a00_0009, Some(7))), Some((1, end)));
        assert_eq!(all.of_internal(2, (17, 0x0a00_0009, Some(7))), None);
        assert_eq!(all.of_internal(1, (17, 0x0a00_0109, Some(7))), None);
        let end = StaticEnd { address: 0x0a00_0009, port: None };
        assert_eq!(all.of_external(0, (50, 0xc000_0209, None)), Some((&WHOLE, end)));
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
            ..WHOLE
        };
        let all = Statics::of(vec![WHOLE, web]);
        let of = |protocol, port| all.of_external(0, (protocol, 0xc000_0205, port)).unwrap();
        let end = |port| StaticEnd { address: 0x0a00_0105, port: Some(port) };
        assert_eq!(of(6, Some(80)), (&web, end(8000)));
        assert_eq!(of(6, Some(83)), (&web, end(8003)));
        for (protocol, port) in [(6, Some(84)), (6, Some(79)), (17, Some(80)), (1, None)] {
            assert_eq!(of(protocol, port).0, &WHOLE, "{protocol} {port:?}");
        }
        let back = StaticEnd { address: 0xc000_0205, port: Some(81) };
        assert_eq!(all.of_internal(1, (6, 0x0a00_0105, Some(8001))), Some((2, back)));
        assert_eq!(all.of_internal(1, (6, 0x0a00_0105, Some(8004))), None);
    }

    #[test]
    fn internal_addresses_are_known_without_a_port() {
        let of = |instance: u32, network: u32, length: u8| Static {
            instance,
            internal: Prefix4 { network, length },
            ..WHOLE
        };
        let statics =
            Statics::of(vec![of(1, 128, 32), of(1, 0, 24), of(1, 512, 31), of(2, 600, 32)]);
        let known = |instance, address| statics.has_internal(instance, address);
        assert!([0, 127, 128, 255, 512, 513].into_iter().all(|address| known(1, address)));
        assert!([256, 511, 514, 600].into_iter().all(|address| !known(1, address)));
        assert_eq!([known(2, 600), known(2, 128), known(3, 0)], [true, false, false]);
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
                    ..WHOLE
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
                prop_assert_eq!(statics.of_internal(1, (protocol, address, Some(port))), walk(false));
            }
        }
    }
}
