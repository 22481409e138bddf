//! The control thread's side of the tunnels: changes single ones, and makes what workers read.
//!
//! A change writes its own line and its own entry of the table of endpoints; [`TunnelWriter::tunnels`] copies
//! the lines, 64 bytes a tunnel. Workers that still have the former lines may see an entry of the new ones: the
//! line does not confirm it, so that a packet of the changed tunnel is refused, and none reaches another tunnel.

use std::collections::BTreeMap;

use stoa_ports::Encapsulation;
use stoa_tables::exact_match::ExactMatch;
use stoa_tables::lpm::Kernel;

use super::Tunnel;
use super::line::TunnelLine;
use super::table::{Scope, Tunnels, key};

/// Seeds to try. Two of 65,536 tunnels have the same key with one seed of 30,000.
const SEEDS: u64 = 16;

/// All tunnels, to change.
pub struct TunnelWriter {
    kernel: Kernel,
    /// By interface: the tunnel and its line.
    tunnels: BTreeMap<u32, (Tunnel, u32)>,
    /// The first one is no tunnel.
    lines: Vec<TunnelLine>,
    /// Lines that are not in use.
    free: Vec<u32>,
    /// The line of each interface, 0 for none; their number is a power of two.
    by_interface: Vec<u32>,
    by_ends: ExactMatch,
    seed: u64,
    writes: u64,
}

impl TunnelWriter {
    /// No tunnels, for workers with this kernel.
    pub fn new(kernel: Kernel) -> Self {
        Self {
            kernel,
            tunnels: BTreeMap::new(),
            lines: vec![TunnelLine::default()],
            free: Vec::new(),
            by_interface: vec![0],
            by_ends: ExactMatch::default(),
            seed: 0,
            writes: 0,
        }
    }

    /// The tunnel of an interface.
    pub fn get(&self, interface: u32) -> Option<&Tunnel> {
        self.tunnels.get(&interface).map(|(tunnel, _)| tunnel)
    }

    /// All tunnels, by interface.
    pub fn all(&self) -> impl Iterator<Item = &Tunnel> {
        self.tunnels.values().map(|(tunnel, _)| tunnel)
    }

    /// Lines and entries written since the start: the cost of changes.
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// Changes the tunnels of some interfaces; `None`: it is no tunnel any more. `identify` makes the secret part
    /// of the identifications of a tunnel's packets. The validation has checked that no two tunnels have the same
    /// endpoints. Returns whether anything differs.
    pub fn change(
        &mut self,
        changes: Vec<(u32, Option<Tunnel>)>,
        identify: impl Fn(&Tunnel) -> u16,
    ) -> bool {
        let differs = |change: &(u32, Option<Tunnel>)| self.get(change.0) != change.1.as_ref();
        let changes: Vec<_> = changes.into_iter().filter(differs).collect();
        // All before the first one is added: two tunnels may exchange their endpoints.
        changes.iter().for_each(|(interface, _)| self.remove(*interface));
        let added = changes.iter().filter_map(|(_, tunnel)| tunnel.as_ref());
        let is_unique =
            added.fold(true, |is_unique, tunnel| is_unique & self.add(tunnel, identify(tunnel)));
        if !is_unique {
            self.find_seed();
        }
        !changes.is_empty()
    }

    /// The tunnels for workers.
    pub fn tunnels(&self) -> Tunnels {
        let reader = self.by_ends.reader();
        let reader = reader.clone().with_kernel(self.kernel).unwrap_or(reader);
        // No line is in use: workers test whether there is one.
        let lines = if self.tunnels.is_empty() { &self.lines[..1] } else { &self.lines[..] };
        Tunnels::of(lines, &self.by_interface, (reader, self.seed))
    }

    fn remove(&mut self, interface: u32) {
        let Some((tunnel, line)) = self.tunnels.remove(&interface) else { return };
        self.writes += 1;
        if let Some(key) = key_of(self.seed, &tunnel)
            && self.by_ends.get(key) == Some(line)
        {
            self.by_ends.remove(key);
        }
        self.by_interface[interface as usize] = 0;
        self.lines[line as usize] = TunnelLine::default();
        self.free.push(line);
    }

    /// Adds a tunnel; `false`: another one has its key.
    fn add(&mut self, tunnel: &Tunnel, identification: u16) -> bool {
        let Some(line) = TunnelLine::of(tunnel, identification) else { return true };
        self.writes += 1;
        let index = self.free.pop().unwrap_or(self.lines.len() as u32);
        match self.lines.get_mut(index as usize) {
            Some(free) => *free = line,
            None => self.lines.push(line),
        }
        let interfaces = (tunnel.interface as usize + 1).next_power_of_two();
        if interfaces > self.by_interface.len() {
            self.by_interface.resize(interfaces, 0);
        }
        self.by_interface[tunnel.interface as usize] = index;
        self.tunnels.insert(tunnel.interface, (tunnel.clone(), index));
        insert(&mut self.by_ends, self.seed, (tunnel, index)).is_ok()
    }

    /// Writes the table of endpoints anew, with a seed by which no two tunnels have the same key.
    fn find_seed(&mut self) {
        let mut last = None;
        for _ in 0..SEEDS {
            self.seed += 1;
            self.by_ends = ExactMatch::default();
            self.writes += self.tunnels.len() as u64;
            let mut all = self.tunnels.values();
            let seed = self.seed;
            let table = &mut self.by_ends;
            last = all.find_map(|(tunnel, index)| insert(table, seed, (tunnel, *index)).err());
            if last.is_none() {
                return;
            }
        }
        if let Some(error) = last {
            tracing::error!(error, "cannot find all tunnels by their endpoints");
        }
    }
}

/// The key of the packets of a tunnel; `None` if its ends are of different families.
fn key_of(seed: u64, tunnel: &Tunnel) -> Option<u64> {
    let scope = Scope { vrf: tunnel.vrf, is_gre: tunnel.encapsulation == Encapsulation::Gre };
    key(seed, scope, (tunnel.remote, tunnel.local))
}

/// Enters a tunnel and its line into the table of endpoints.
fn insert(
    by_ends: &mut ExactMatch,
    seed: u64,
    (tunnel, line): (&Tunnel, u32),
) -> Result<(), String> {
    let Some(key) = key_of(seed, tunnel) else { return Ok(()) };
    match by_ends.insert(key, line) {
        Ok(None) => Ok(()),
        Ok(Some(_)) => Err("two tunnels have the same key".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    use stoa_wire::protocol;

    /// A few addresses of both families, so that tunnels share one or both, and are the mirror image
    /// of others.
    fn addresses() -> impl Strategy<Value = (IpAddr, IpAddr)> {
        prop_oneof![
            (0..5_u32, 0..5_u32).prop_map(|(a, b)| {
                (Ipv4Addr::from_bits(a).into(), Ipv4Addr::from_bits(b << 24 | 1).into())
            }),
            (0..3_u128, 0..3_u128).prop_map(|(a, b)| {
                (Ipv6Addr::from_bits(a).into(), Ipv6Addr::from_bits(b << 64).into())
            }),
        ]
    }

    fn protocols() -> impl Strategy<Value = u8> {
        prop_oneof![Just(protocol::IP4), Just(protocol::IP6), Just(protocol::GRE), Just(17)]
    }

    fn protocol_of(encapsulation: Encapsulation) -> u8 {
        if encapsulation == Encapsulation::Gre { protocol::GRE } else { protocol::IP4 }
    }

    proptest! {
        #[test]
        fn tunnels_are_those_of_a_map_after_any_changes(
            commits in prop::collection::vec(
                prop::collection::btree_map(
                    (0..20_u32).prop_map(|interface| interface * 3),
                    prop::option::weighted(0.8, (0..3_u32, addresses(), any::<bool>())),
                    0..20,
                ),
                1..8,
            ),
            asked in prop::collection::vec((0..3_u32, addresses(), protocols()), 1..100),
        ) {
            let mut writer = TunnelWriter::new(Kernel::detect());
            let mut map: HashMap<(u32, IpAddr, IpAddr, bool), u32> = HashMap::new();
            for commit in commits {
                map.retain(|_, interface| !commit.contains_key(interface));
                let mut changes = Vec::new();
                for (interface, change) in commit {
                    let tunnel = change.and_then(|(vrf, (local, remote), is_gre)| {
                        let ends = (vrf, local, remote, is_gre);
                        if map.contains_key(&ends) {
                            return None;
                        }
                        map.insert(ends, interface);
                        let encapsulation = if is_gre { Encapsulation::Gre } else { Encapsulation::Ip };
                        Some(Tunnel { interface, local, remote, encapsulation, hop_limit: 7, vrf })
                    });
                    changes.push((interface, tunnel));
                }
                writer.change(changes, |_| 0);
            }
            let table = writer.tunnels();
            prop_assert_eq!(table.is_empty(), map.is_empty());
            for (vrf, (local, remote), protocol) in asked {
                let expected = match protocol {
                    17 => None,
                    _ => map.get(&(vrf, local, remote, protocol == protocol::GRE)).copied(),
                };
                prop_assert_eq!(table.from(vrf, (remote, local), protocol), expected);
            }
            for ((vrf, local, remote, is_gre), interface) in &map {
                let encapsulation = if *is_gre { Encapsulation::Gre } else { Encapsulation::Ip };
                let found = table.from(*vrf, (*remote, *local), protocol_of(encapsulation));
                prop_assert_eq!(found, Some(*interface));
            }
            let interfaces: Vec<_> = map.into_values().collect();
            for interface in 0..200 {
                prop_assert_eq!(table.has(interface), interfaces.contains(&interface));
            }
        }
    }

    #[test]
    fn many_tunnels_are_found() {
        let tunnel = |interface: u32| Tunnel {
            interface,
            local: Ipv4Addr::new(192, 0, 2, 1).into(),
            remote: Ipv4Addr::from_bits(0x0a00_0000 + interface).into(),
            encapsulation: Encapsulation::Gre,
            hop_limit: 64,
            vrf: 0,
        };
        let tunnels: Vec<_> = (1..60_000).map(tunnel).collect();
        let all = tunnels.iter().map(|tunnel| (tunnel.interface, Some(tunnel.clone()))).collect();
        let mut writer = TunnelWriter::new(Kernel::detect());
        assert!(writer.change(all, |_| 0));
        let table = writer.tunnels();
        for tunnel in &tunnels {
            let found = table.from(0, (tunnel.remote, tunnel.local), protocol::GRE);
            assert_eq!(found, Some(tunnel.interface));
        }
        assert_eq!(table.from(0, (tunnels[0].local, tunnels[0].remote), protocol::GRE), None);
        // One of them changes.
        let before = writer.writes();
        let other = Tunnel { hop_limit: 9, ..tunnels[7].clone() };
        assert!(writer.change(vec![(other.interface, Some(other.clone()))], |_| 0));
        assert_eq!(writer.writes() - before, 2, "one removed, one added");
        assert!(!writer.change(vec![(other.interface, Some(other))], |_| 0), "the same");
        assert!(writer.change(vec![(tunnels[8].interface, None), (0, None)], |_| 0));
        assert_eq!(writer.writes() - before, 3);
        let gone = (tunnels[8].remote, tunnels[8].local);
        assert_eq!(writer.tunnels().from(0, gone, protocol::GRE), None);
    }
}
