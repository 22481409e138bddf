//! Where generated frames come from: the sub-interfaces of a port, mixed at random, and sources
//! that are routed to them.
//!
//! For random sources a table is split: each of its prefixes lies with all its more specific ones
//! on one side, so that neither an address of a source nor one of a destination meets a route of
//! the other side.

use std::collections::BTreeMap;
use std::sync::Arc;

use stoa_ports::Senders;

use super::layout::Layout;
use super::targets::{Prefix, SPREAD, Table};
use super::{BenchError, Ip};
use crate::prefixes::Family;
use crate::random::Random;

/// Number of frames until the tags repeat, at least.
const TURNS: usize = 1 << 16;

/// A prefix of a source, and the number of the prefix that is covered by no other and covers it.
pub(super) type SourcePrefix = (Prefix, u32);

/// Prefixes of destinations and of sources.
pub(super) type Split = (Vec<Prefix>, Vec<SourcePrefix>);

/// Splits sorted prefixes into those of destinations and those of sources.
pub(super) fn split<K: Family>(prefixes: &[(K, u8)]) -> Split {
    let (mut destinations, mut sources) = (Vec::new(), Vec::new());
    let mut cover: Option<(K, u8)> = None;
    let (mut is_source, mut covers) = (false, 0);
    for (network, len) in prefixes {
        let prefix = (network.address(), *len);
        if *len == 0 {
            // The default route covers both sides and belongs to neither.
            destinations.push(prefix);
            continue;
        }
        if cover.is_none_or(|(root, length)| network.cut(length) != root) {
            cover = Some((*network, *len));
            let bits = network.number();
            let seed = bits as u64 ^ (bits >> 64) as u64 ^ (u64::from(*len) << 56);
            // The high bits of a multiplication depend on all bits.
            is_source = Random::new(seed).next() >> 63 == 1;
            covers += u32::from(is_source);
        }
        if is_source {
            sources.push((prefix, covers - 1));
        } else {
            destinations.push(prefix);
        }
    }
    (destinations, sources)
}

/// The receiving interface that a source prefix is routed to.
pub(super) fn interface_of(layout: &Layout, table: usize, cover: u32) -> usize {
    layout.interface_of(table, cover as usize)
}

/// The senders of all ports for one family.
pub(super) struct PortSenders<'a> {
    layout: &'a Layout,
    ip: Ip,
    /// Source prefixes of each receiving interface of a table, by their number of interfaces.
    groups: BTreeMap<usize, Vec<Vec<Prefix>>>,
}

impl<'a> PortSenders<'a> {
    /// Distributes the sources of `table`, if it has some.
    pub(super) fn new(layout: &'a Layout, table: &Table) -> Result<Self, BenchError> {
        let mut groups = BTreeMap::new();
        if let Some(sources) = &table.sources {
            for at in 0..layout.tables() {
                let count = layout.interfaces_of(at);
                groups.entry(count).or_insert_with(|| group(sources, count));
            }
        }
        if groups.values().flatten().any(Vec::is_empty) {
            let count = layout.interfaces();
            return Err(BenchError::Range(format!(
                "too few prefixes for sources on each of {count} receiving interfaces: give more \
                 --routes or a larger table with --prefixes"
            )));
        }
        Ok(Self { layout, ip: table.ip, groups })
    }

    /// The senders of a port; `None`: all frames are alike.
    pub(super) fn of(&self, port: usize) -> Option<Arc<Senders>> {
        let layout = self.layout;
        if layout.each == 1 && self.groups.is_empty() {
            return None;
        }
        let least = if self.groups.is_empty() { TURNS } else { SPREAD };
        // Each sub-interface as often as the others, in random order.
        let interfaces: Vec<usize> = layout.of_port(port).collect();
        let count = interfaces.len() * least.div_ceil(interfaces.len());
        let mut turns: Vec<usize> = interfaces.into_iter().cycle().take(count).collect();
        let mut random = Random::new(0x51de + port as u64);
        random.shuffle(&mut turns);
        let mut senders = Senders {
            depth: layout.depth(),
            vlans: turns.iter().map(|at| layout.vlans(*at)).collect(),
            ..Senders::default()
        };
        match self.ip {
            Ip::V4 => senders.sources4 = self.sources(&turns, &mut random),
            Ip::V6 => senders.sources6 = self.sources(&turns, &mut random),
        }
        Some(Arc::new(senders))
    }

    /// A source for each of these receiving interfaces; none without source prefixes.
    fn sources<K: Family>(&self, turns: &[usize], random: &mut Random) -> Vec<K> {
        let mut one = |at: &usize| {
            let table = self.layout.table_of(*at);
            let groups = self.groups.get(&self.layout.interfaces_of(table))?;
            let group = groups.get(at / self.layout.tables())?;
            let (address, len) = group[random.below(group.len())];
            Some(K::of(address)?.inside(len, random))
        };
        turns.iter().filter_map(&mut one).collect()
    }
}

/// Distributes sources over `count` interfaces.
fn group(sources: &[SourcePrefix], count: usize) -> Vec<Vec<Prefix>> {
    let mut groups = vec![Vec::new(); count];
    for (prefix, cover) in sources {
        groups[*cover as usize % count].push(*prefix);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::workload::tests::workload;
    use crate::prefixes::{self, Source};

    #[test]
    fn neither_side_covers_the_other() {
        fn check<K: Family>() {
            let mut prefixes = prefixes::load::<K>(&Source::Synthetic(50_000)).unwrap();
            prefixes.insert(0, (K::bits(0), 0));
            let (destinations, sources) = split(&prefixes);
            assert_eq!(destinations.len() + sources.len(), prefixes.len());
            assert!((20_000..30_000).contains(&sources.len()), "{}", sources.len());
            let mut sides: Vec<(K, u8, bool)> = Vec::new();
            let of = |prefix: &Prefix| (K::of(prefix.0).unwrap(), prefix.1);
            sides.extend(destinations[1..].iter().map(of).map(|(at, len)| (at, len, false)));
            sides.extend(
                sources.iter().map(|(prefix, _)| of(prefix)).map(|(at, len)| (at, len, true)),
            );
            sides.sort_unstable();
            let mut covers: Vec<(K, u8, bool)> = Vec::new();
            for (network, len, is_source) in sides {
                covers.retain(|(cover, len, _)| network.cut(*len) == *cover);
                assert!(covers.iter().all(|(.., side)| *side == is_source));
                covers.push((network, len, is_source));
            }
        }
        check::<u32>();
        check::<u128>();
    }

    #[test]
    fn frames_are_mixed_and_sources_are_routed_back() {
        let mut workload = workload();
        (workload.ports, workload.vlans, workload.vrfs) = (2, 6, 3);
        (workload.routes, workload.random_sources) = (40, true);
        let layout = Layout::new(&workload);
        let table = Table::new(&workload, Ip::V4).unwrap();
        let senders = PortSenders::new(&layout, &table).unwrap();
        for port in 0..2 {
            let of_port = senders.of(port).unwrap();
            assert_eq!(of_port.vlans.len(), of_port.sources4.len());
            assert!(of_port.vlans[..64].windows(2).any(|two| two[0] != two[1]));
            for (vlans, source) in of_port.vlans.iter().zip(&of_port.sources4) {
                let at = layout.of_port(port).find(|at| layout.vlans(*at) == *vlans).unwrap();
                let sources = table.sources.as_ref().unwrap();
                let covers = |((address, len), _): &&SourcePrefix| {
                    u32::of(*address) == Some(source.cut(*len))
                };
                let (_, cover) = sources.iter().find(covers).unwrap();
                assert_eq!(interface_of(&layout, layout.table_of(at), *cover), at);
            }
        }
        workload.vlans = 2000;
        let layout = Layout::new(&workload);
        let mut plain = table;
        plain.sources = Some(Vec::new());
        let error = PortSenders::new(&layout, &plain).err().unwrap().to_string();
        assert!(error.contains("--prefixes"), "{error}");
    }
}
