//! The routes of a table and the destinations of packets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use stoa_ports::Destinations;

use super::layout::Layout;
use super::senders::{SourcePrefix, Split, split};
use super::{BenchError, Ip, Visits, Workload};
use crate::prefixes::{self, Family, PrefixError, Source};
use crate::random::Random;

/// Number of random destinations, unless there are more prefixes; fewer make tests quick.
pub(super) const SPREAD: usize = if cfg!(test) { 1 << 14 } else { 1 << 20 };

/// A prefix and its length.
pub(super) type Prefix = (IpAddr, u8);

impl Ip {
    /// The source address of packets without `--random-sources`.
    pub(super) fn source(self) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::new(198, 18, 0, 2)),
            Self::V6 => IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 2)),
        }
    }

    /// The routes of a table without a file: /24s from 16.0.0.0 on, /48s from 2400:: on.
    fn prefix(self, at: u32) -> Prefix {
        match self {
            Self::V4 => (IpAddr::V4(Ipv4Addr::from(0x1000_0000 + (at << 8))), 24),
            Self::V6 => {
                let network = (0x2400_u128 << 112) | (u128::from(at) << 80);
                (IpAddr::V6(Ipv6Addr::from(network)), 48)
            }
        }
    }
}

/// One of this many prefixes is reserved for route changes, if there are any.
const MOVING: usize = 8;

/// The routes of an address family.
pub(super) struct Table {
    pub(super) ip: Ip,
    /// Prefixes of destinations, or all.
    pub(super) prefixes: Vec<Prefix>,
    /// Prefixes of sources, if sources are random.
    pub(super) sources: Option<Vec<SourcePrefix>>,
    visits: Visits,
    /// Whether some prefixes change; packets are not sent to them.
    has_moving: bool,
    /// Whether the number of destinations is odd: then they meet all of a power of two of sources.
    is_odd: bool,
}

impl Table {
    /// The table of `workload`.
    pub(super) fn new(workload: &Workload, ip: Ip) -> Result<Self, BenchError> {
        let has_sources = workload.has_random_sources();
        let (prefixes, sources) = match ip {
            _ if workload.prefixes.is_empty() => synthetic(workload, ip),
            Ip::V4 => load::<u32>(&workload.prefixes, has_sources)?,
            Ip::V6 => load::<u128>(&workload.prefixes, has_sources)?,
        };
        let sources = has_sources.then_some(sources);
        let (visits, has_moving) = (workload.visits, workload.update_rate > 0);
        let is_odd = workload.flows.are_new();
        Ok(Self { ip, prefixes, sources, visits, has_moving, is_odd })
    }

    /// Number of prefixes.
    pub(super) fn len(&self) -> usize {
        self.prefixes.len() + self.sources.as_ref().map_or(0, Vec::len)
    }

    /// Prefixes that are added and removed.
    pub(super) fn moving(&self) -> impl Iterator<Item = Prefix> {
        let last = if self.has_moving { self.prefixes.len() } else { 0 };
        self.prefixes[..last].iter().skip(MOVING - 1).step_by(MOVING).copied()
    }

    /// The destinations of a port's packets, repeated in a cycle; `share` is (port, ports). Each
    /// port begins at another place.
    pub(super) fn destinations(&self, share: (usize, usize)) -> Destinations {
        fn of<K: Family>(
            (visits, is_odd): (Visits, bool),
            prefixes: &[Prefix],
            (port, ports): (usize, usize),
        ) -> Arc<[K]> {
            let mut list = list::<K>(visits, prefixes);
            if is_odd && list.len().is_multiple_of(2) {
                list.pop();
            }
            let first = list.len() * port / ports;
            list.rotate_left(first);
            list.into()
        }
        let stays = |at: &usize| !self.has_moving || at % MOVING != MOVING - 1;
        let prefixes = self.prefixes.iter().enumerate().filter(|(at, _)| stays(at));
        let prefixes: Vec<Prefix> = prefixes.map(|(_, prefix)| *prefix).collect();
        match self.ip {
            Ip::V4 => Destinations::List4(of((self.visits, self.is_odd), &prefixes, share)),
            Ip::V6 => Destinations::List6(of((self.visits, self.is_odd), &prefixes, share)),
        }
    }
}

/// The prefixes of a table without a file; those of sources are added.
fn synthetic(workload: &Workload, ip: Ip) -> Split {
    let prefixes = (0..workload.routes).map(|at| ip.prefix(at)).collect();
    let count = match workload.has_random_sources() {
        true => workload.routes.max(Layout::new(workload).interfaces() as u32),
        false => 0,
    };
    let sources = (0..count).map(|at| (ip.prefix(workload.routes + at), at));
    (prefixes, sources.collect())
}

/// All prefixes of a family, from all files; split when sources are random.
fn load<K: Family>(sources: &[Source], is_split: bool) -> Result<Split, BenchError> {
    let mut all: Vec<(K, u8)> = Vec::new();
    let mut nothing = None;
    for source in sources {
        match prefixes::load(source) {
            Ok(prefixes) => all.extend(prefixes),
            // The file may be of the other family.
            Err(empty @ PrefixError::Empty { .. }) => nothing = Some(empty),
            Err(error) => return Err(error.into()),
        }
    }
    if let (true, Some(nothing)) = (all.is_empty(), nothing) {
        return Err(nothing.into());
    }
    all.sort_unstable();
    all.dedup();
    if is_split {
        let (destinations, sources) = split(&all);
        if destinations.is_empty() {
            let reason = "too few prefixes for destinations and sources: use a larger table";
            return Err(BenchError::Range(reason.to_owned()));
        }
        return Ok((destinations, sources));
    }
    let prefixes = all.into_iter().map(|(network, len)| (network.address(), len));
    Ok((prefixes.collect(), Vec::new()))
}

fn list<K: Family>(visits: Visits, prefixes: &[Prefix]) -> Vec<K> {
    // A fixed seed: every run visits the same destinations.
    let mut random = Random::new(0x5707);
    let of = |(address, len): &Prefix| Some((K::of(*address)?, *len));
    // A default route covers destinations without a route.
    let mut routes: Vec<(K, u8)> =
        prefixes.iter().filter_map(of).filter(|(_, len)| *len > 0).collect();
    if routes.is_empty() {
        routes.extend(prefixes.iter().filter_map(of));
    }
    if visits != Visits::Some(1) {
        random.shuffle(&mut routes);
    }
    let (count, len) = (routes.len(), routes.len().max(SPREAD));
    // Draws prefixes, and an address in each.
    let drawn: Vec<usize> = match visits {
        Visits::Some(visited) => (0..visited as usize).map(|at| at % count).collect(),
        // All prefixes once, then more until the list is full.
        Visits::Random => {
            (0..len).map(|at| if at < count { at } else { random.below(count) }).collect()
        }
        Visits::Zipf => (0..len).map(|_| random.zipf(count)).collect(),
    };
    let mut one =
        |at: usize| routes.get(at).map(|(network, len)| network.inside(*len, &mut random));
    let mut list: Vec<K> = drawn.into_iter().filter_map(&mut one).collect();
    if visits == Visits::Random {
        random.shuffle(&mut list);
    }
    list
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn some(prefixes: &[&str]) -> Vec<Prefix> {
        let parse = |text: &&str| {
            let (address, len) = text.split_once('/').unwrap();
            (address.parse().unwrap(), len.parse().unwrap())
        };
        prefixes.iter().map(parse).collect()
    }

    #[test]
    fn random_destinations_visit_every_prefix() {
        let prefixes: Vec<Prefix> = (0..1000).map(|at| Ip::V6.prefix(at)).collect();
        let list = list::<u128>(Visits::Random, &prefixes);
        assert_eq!(list.len(), SPREAD);
        let visited: HashSet<u128> = list.iter().map(|address| address.cut(48)).collect();
        assert_eq!(visited.len(), 1000);
        assert!(list.iter().collect::<HashSet<_>>().len() > SPREAD / 2, "hosts differ");
    }

    /// With an odd number of destinations, each packet of as many as there are pairs has another pair.
    #[test]
    fn sources_of_new_flows_meet_all_destinations() {
        for (visits, count) in
            [(Visits::Some(64), 63), (Visits::Some(63), 63), (Visits::Random, SPREAD - 1)]
        {
            let flows = crate::forward::Flows::New;
            let workload =
                Workload { visits, flows, ..crate::forward::workload::tests::workload() };
            let table = Table::new(&workload, Ip::V4).unwrap();
            let Destinations::List4(list) = table.destinations((0, 1)) else { panic!("IPv4") };
            assert_eq!(list.len(), count);
            assert!(flows.sources().is_power_of_two());
        }
    }

    #[test]
    fn each_destination_has_its_own_prefix() {
        let prefixes: Vec<Prefix> = (0..1000).map(|at| Ip::V4.prefix(at)).collect();
        let visited: HashSet<u32> =
            list::<u32>(Visits::Some(64), &prefixes).into_iter().map(|at| at.cut(24)).collect();
        assert_eq!(visited.len(), 64);
        assert_eq!(list::<u32>(Visits::Some(3000), &prefixes).len(), 3000);
        let zipf = list::<u32>(Visits::Zipf, &prefixes);
        let mut often = std::collections::HashMap::new();
        zipf.iter().for_each(|address| *often.entry(address.cut(24)).or_insert(0) += 1);
        assert!(often.values().max().unwrap() > &(SPREAD / 20));
    }

    #[test]
    fn the_default_route_is_not_a_destination() {
        let prefixes = some(&["0.0.0.0/0", "10.1.0.0/16"]);
        assert!(list::<u32>(Visits::Random, &prefixes).iter().all(|at| at >> 16 == 0x0a01));
        assert_eq!(list::<u32>(Visits::Some(1), &some(&["0.0.0.0/0"])).len(), 1);
    }
}
