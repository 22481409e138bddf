//! The forwarding tables as the control thread writes them: prefixes point to
//! shared next hops, next hops to adjacencies. What is taken out waits for a grace
//! period before it is used again.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use stoa_engine::quiescence::Quiescence;
use stoa_tables::adjacency::{Adjacencies, Adjacency};
use stoa_tables::grace::Reclaim;
use stoa_tables::lpm::{Ip4Lpm, Ip6Lpm, LpmCapacity, LpmError};
use stoa_tables::next_hop::{Member, NextHop, NextHopCapacity, NextHops};

use super::wanted::{Prefix, bits};
use crate::shared::{Readers, Verdict};

/// Limits of the forwarding tables.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// IPv4 prefixes.
    pub routes4: usize,
    /// IPv6 prefixes.
    pub routes6: usize,
    /// Next hops: sets of paths, and neighbours.
    pub next_hops: usize,
    /// Adjacencies: neighbours and interfaces.
    pub adjacencies: usize,
    /// Neighbours.
    pub neighbors: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            routes4: 2 << 20,
            routes6: 1 << 20,
            next_hops: 1 << 17,
            adjacencies: 1 << 16,
            neighbors: 1 << 14,
        }
    }
}

/// Why the tables refused.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Full(String);

impl Full {
    pub(super) fn of(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// One path of a set, by index.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathKey {
    /// The interface.
    pub interface: u32,
    /// The gateway, if it is not the destination itself.
    pub next_hop: Option<IpAddr>,
    /// Whether the set is of IPv4.
    pub is_ip4: bool,
    /// Share of the flows.
    pub weight: u16,
}

/// A set of paths that prefixes share.
#[derive(Debug)]
pub struct PathSet {
    /// Its next hop.
    pub hop: u32,
    /// Prefixes that use it.
    pub users: u32,
}

/// Writer of all tables.
pub struct Fib {
    ip4: Ip4Lpm,
    ip6: Ip6Lpm,
    hops: NextHops,
    adjacencies: Adjacencies,
    verdicts: HashMap<u8, u32>,
    /// Sets of paths by what they are made of.
    pub sets: BTreeMap<Vec<PathKey>, PathSet>,
    quiescence: Arc<Quiescence>,
}

impl Fib {
    /// Empty tables.
    ///
    /// # Errors
    /// The system has not the memory.
    pub fn new(limits: Limits, quiescence: Arc<Quiescence>) -> Result<Self, Full> {
        let none = || Full("no memory for the forwarding tables".to_owned());
        let hops = NextHopCapacity { objects: limits.next_hops, buckets: limits.next_hops * 16 };
        let mut fib = Self {
            ip4: Ip4Lpm::new(LpmCapacity::for_routes(limits.routes4)).ok_or_else(none)?,
            ip6: Ip6Lpm::new(LpmCapacity::for_routes(limits.routes6)).ok_or_else(none)?,
            hops: NextHops::new(hops).ok_or_else(none)?,
            adjacencies: Adjacencies::new(limits.adjacencies),
            verdicts: HashMap::new(),
            sets: BTreeMap::new(),
            quiescence,
        };
        for verdict in [
            Verdict::Local,
            Verdict::Blackhole,
            Verdict::Unreachable,
            Verdict::Prohibited,
            Verdict::Broadcast,
        ] {
            let code = verdict as u8;
            let hop = fib.add_hop(&NextHop::Special { code, argument: 0 })?;
            fib.verdicts.insert(code, hop);
        }
        Ok(fib)
    }

    /// What workers read.
    pub fn readers(&self) -> Readers {
        Readers {
            ip4: self.ip4.reader(),
            ip6: self.ip6.reader(),
            next_hops: self.hops.reader(),
            adjacencies: self.adjacencies.reader(),
        }
    }

    /// The next hop of a verdict.
    pub fn verdict(&self, verdict: Verdict) -> u32 {
        self.verdicts.get(&(verdict as u8)).copied().unwrap_or(0)
    }

    /// Points a prefix to a next hop.
    pub fn insert(&mut self, (address, length): Prefix, hop: u32) -> Result<(), Full> {
        match address {
            IpAddr::V4(ip) => self.ip4.insert(ip.into(), length, hop),
            IpAddr::V6(ip) => self.ip6.insert(ip.into(), length, hop),
        }
        .map(|_| ())
        .map_err(Full::of)
    }

    /// Takes a prefix out; one that is not there is no fault.
    pub fn remove(&mut self, (address, length): Prefix) {
        let removed = match address {
            IpAddr::V4(ip) => self.ip4.remove(ip.into(), length),
            IpAddr::V6(ip) => self.ip6.remove(ip.into(), length),
        };
        debug_assert!(matches!(removed, Ok(_) | Err(LpmError::Absent)));
    }

    /// Whether the exact prefix is there.
    pub fn has(&self, (address, length): Prefix) -> bool {
        match address {
            IpAddr::V4(ip) => self.ip4.get_exact(ip.into(), length).is_ok(),
            IpAddr::V6(ip) => self.ip6.get_exact(ip.into(), length).is_ok(),
        }
    }

    /// Adds a next hop.
    pub fn add_hop(&mut self, hop: &NextHop) -> Result<u32, Full> {
        self.hops.add(hop).map_err(Full::of)
    }

    /// Changes a next hop, and with it all prefixes on it.
    pub fn set_hop(&mut self, id: u32, hop: &NextHop) -> Result<(), Full> {
        self.hops.set(id, hop).map_err(Full::of)
    }

    /// Takes a next hop out that no prefix uses.
    pub fn remove_hop(&mut self, id: u32) {
        let removed = self.hops.remove(id);
        debug_assert!(removed.is_ok());
    }

    /// Adds an adjacency.
    pub fn add_adjacency(&mut self, adjacency: &Adjacency) -> Result<u32, Full> {
        self.adjacencies.add(adjacency).map_err(Full::of)
    }

    /// Turns all next hops from one adjacency to another and takes the first out.
    pub fn replace_adjacency(&mut self, old: u32, new: u32) {
        self.hops.replace_adjacency(old, new);
        self.retire_adjacency(old);
    }

    /// Takes an adjacency out that no next hop uses.
    pub fn retire_adjacency(&mut self, id: u32) {
        let retired = self.adjacencies.retire(id);
        debug_assert!(retired.is_ok());
    }

    /// An adjacency.
    pub fn adjacency(&self, id: u32) -> Option<Adjacency> {
        self.adjacencies.get(id).ok()
    }

    /// Closes a batch of changes and reuses what no worker can see any more.
    pub fn settle(&mut self) {
        let pending = self.ip4.pending()
            + self.ip6.pending()
            + self.hops.pending()
            + self.adjacencies.pending();
        if pending == 0 {
            return;
        }
        let epoch = self.quiescence.advance();
        let tables: [&mut dyn Reclaim; 4] =
            [&mut self.ip4, &mut self.ip6, &mut self.hops, &mut self.adjacencies];
        let safe = self.quiescence.safe();
        for table in tables {
            table.retire_mark(epoch);
            table.reclaim(safe);
        }
    }
}

/// The next hop of paths that can be used now: `(adjacency, weight)` each.
pub fn hop_of(usable: &[(u32, u16)]) -> NextHop {
    match usable {
        [] => NextHop::Special { code: Verdict::LinkDown as u8, argument: 0 },
        [(adjacency, _)] => NextHop::Adjacency(*adjacency),
        many => {
            let mut members: Vec<Member> = Vec::new();
            for (adjacency, weight) in many {
                match members.iter_mut().find(|member| member.adjacency == *adjacency) {
                    Some(member) => member.weight = member.weight.saturating_add(*weight),
                    None => members.push(Member { adjacency: *adjacency, weight: *weight }),
                }
            }
            NextHop::Group(members)
        }
    }
}

/// The host prefix of an address.
pub fn host(address: IpAddr) -> Prefix {
    (address, bits(address))
}
