//! The forwarding tables as the control thread writes them: prefixes point to shared next hops, next hops to
//! adjacencies. Removed entries wait for a grace period before they are reused.

mod path_sets;
mod prefixes;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stoa_engine::heap;
use stoa_engine::quiescence::Quiescence;
use stoa_tables::adjacency::{Adjacencies, Adjacency, AdjacencyError};
use stoa_tables::grace::Reclaim;
use stoa_tables::lpm::{Ip4Lpm, Ip4LpmReader, Ip6Lpm, Ip6LpmReader, LpmCapacity};
use stoa_tables::next_hop::{Member, NextHop, NextHopCapacity, NextHopError, NextHops};

use super::desired::{Prefix, bits};
use super::limits::{Limits, Table, TableFull, TableFullCounts};
use super::vrfs::{DEFAULT, Slot};
use crate::kernel::Kernel;
use crate::shared::{Readers, SpecialNextHop};
pub(super) use path_sets::PathSets;

/// One path of a set, by interface index.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathKey {
    /// The interface.
    pub interface: u32,
    /// The gateway; `None`: the destination is on the link.
    pub next_hop: Option<IpAddr>,
    /// Whether the set is for IPv4.
    pub is_ip4: bool,
    /// Share of the flows.
    pub weight: u16,
}

/// A set of paths that prefixes share.
#[derive(Debug)]
pub struct PathSet {
    /// Its next hop.
    pub hop: u32,
    /// Number of prefixes that use it.
    pub users: u32,
}

/// The prefixes of one VRF.
struct Prefixes {
    ip4: Ip4Lpm,
    ip6: Ip6Lpm,
    /// Whether their tables are on huge pages.
    huge4: bool,
    huge6: bool,
}

/// A table of so many prefixes is on huge pages: look-ups all over it would miss the TLB. Those of smaller
/// tables would take more memory than these do.
const HUGE_FROM: usize = 1 << 14;

/// Adjacencies beyond the limit, so that those in use can be replaced in a full table: the new one is there
/// before the old one goes.
const SPARE_ADJACENCIES: usize = 16;

/// Lines of the table of adjacencies.
pub(super) fn adjacency_lines(limits: Limits) -> usize {
    limits.adjacencies + SPARE_ADJACENCIES
}

/// How long a change waits for workers to release what was removed. They pass a quiescent point in each iteration, so
/// that a longer time only matters to workers that get no processor: what they hold stays reserved.
pub(super) const GRACE_PATIENCE: Duration = Duration::from_millis(500);
/// How often it looks whether they have.
pub(super) const GRACE_POLL: Duration = Duration::from_micros(50);

impl Prefixes {
    fn new(routes4: usize, routes6: usize) -> Option<Self> {
        let ip4 = Ip4Lpm::new(LpmCapacity::for_routes(routes4))?;
        let ip6 = Ip6Lpm::new(LpmCapacity::for_routes(routes6))?;
        Some(Self { ip4, ip6, huge4: false, huge6: false })
    }

    /// To be called before so many prefixes of a family are inserted.
    fn expect(&mut self, is_ip4: bool, count: usize) {
        let (is_huge, len) = match is_ip4 {
            true => (&mut self.huge4, self.ip4.len()),
            false => (&mut self.huge6, self.ip6.len()),
        };
        if *is_huge || len + count < HUGE_FROM {
            return;
        }
        *is_huge = true;
        let regions = if is_ip4 { self.ip4.regions() } else { self.ip6.regions() };
        regions.into_iter().for_each(|it| heap::prefer_huge_pages(it.start, it.bytes));
    }
}

/// Entries and capacity of the tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    pub(super) routes4: (usize, usize),
    pub(super) routes6: (usize, usize),
    /// Of the fullest VRF and family other than the default VRF.
    pub(super) vrf_routes: (usize, usize),
    pub(super) next_hops: (usize, usize),
    pub(super) adjacencies: (usize, usize),
}

/// Writer of all tables.
pub struct Fib {
    /// By slot; the default VRF always exists.
    vrfs: Vec<Option<Prefixes>>,
    vrf_routes: usize,
    /// Has capacity for twice the limit: beside the next hops in use are the stale ones of a daemon that is
    /// resynchronizing after a restart.
    hops: NextHops,
    hop_limit: usize,
    /// Next hops of stale learned routes: they are removed soon, and do not count towards the limit.
    stale_hops: usize,
    /// Has [`SPARE_ADJACENCIES`] more than the limit.
    adjacencies: Adjacencies,
    adjacency_limit: usize,
    specials: HashMap<u8, u32>,
    /// Sets of paths by their paths.
    pub(super) sets: PathSets,
    /// How often a next hop was changed: the cost of repairs.
    pub(super) hop_changes: u64,
    /// How often each table was full.
    pub table_full_counts: TableFullCounts,
    /// SIMD kernel of the workers' lookups.
    kernel: Kernel,
    quiescence: Arc<Quiescence>,
}

fn no_memory() -> TableFull {
    TableFull::of(Table::Ip4Routes, "no memory for the forwarding tables")
}

impl Fib {
    /// Empty tables of the default VRF, for workers with this kernel.
    ///
    /// # Errors
    /// Memory is exhausted.
    pub fn new(
        limits: Limits,
        kernel: Kernel,
        quiescence: Arc<Quiescence>,
    ) -> Result<Self, TableFull> {
        let objects = limits.next_hops * 2;
        let hops = NextHopCapacity { objects, buckets: objects * 16 };
        let default = Prefixes::new(limits.routes4, limits.routes6).ok_or_else(no_memory)?;
        let mut fib = Self {
            vrfs: vec![Some(default)],
            vrf_routes: limits.vrf_routes,
            hops: NextHops::new(hops).ok_or_else(no_memory)?,
            hop_limit: limits.next_hops,
            stale_hops: 0,
            adjacencies: Adjacencies::new(adjacency_lines(limits)),
            adjacency_limit: limits.adjacencies,
            specials: HashMap::new(),
            sets: PathSets::default(),
            hop_changes: 0,
            table_full_counts: TableFullCounts::default(),
            kernel,
            quiescence,
        };
        for special in [
            SpecialNextHop::Local,
            SpecialNextHop::Blackhole,
            SpecialNextHop::Unreachable,
            SpecialNextHop::Prohibited,
            SpecialNextHop::Broadcast,
        ] {
            let code = special as u8;
            let hop = fib.add_hop(&NextHop::Special { code, argument: 0 })?;
            fib.specials.insert(code, hop);
        }
        Ok(fib)
    }

    /// Readers for the workers; `None` only without a default VRF.
    pub fn readers(&self) -> Option<Readers> {
        let (ip4, ip6) = self.vrf_readers(DEFAULT)?;
        let (next_hops, adjacencies) = (self.hops.reader(), self.adjacencies.reader());
        Some(Readers { ip4, ip6, next_hops, adjacencies })
    }

    /// Adds empty tables of another VRF.
    pub(super) fn add_vrf(&mut self, slot: Slot) -> Result<(), TableFull> {
        let Some(prefixes) = Prefixes::new(self.vrf_routes, self.vrf_routes) else {
            return Err(self
                .table_full_counts
                .full(Table::Vrfs, "no memory for the tables of a VRF"));
        };
        if slot >= self.vrfs.len() {
            self.vrfs.resize_with(slot + 1, || None);
        }
        self.vrfs[slot] = Some(prefixes);
        Ok(())
    }

    /// Removes a VRF. Workers that still read its tables keep them alive.
    pub(super) fn remove_vrf(&mut self, slot: Slot) {
        if slot != DEFAULT
            && let Some(prefixes) = self.vrfs.get_mut(slot)
        {
            *prefixes = None;
        }
    }

    /// Readers of the tables of a VRF.
    pub(super) fn vrf_readers(&self, slot: Slot) -> Option<(Ip4LpmReader, Ip6LpmReader)> {
        let prefixes = self.vrfs.get(slot)?.as_ref()?;
        let kernel = self.kernel.lookup();
        let ip4 = prefixes.ip4.reader().with_kernel(kernel)?;
        Some((ip4, prefixes.ip6.reader().with_kernel(kernel)?))
    }

    /// Entries and capacity of the tables.
    pub(super) fn usage(&self) -> Usage {
        let of = |prefixes: &Prefixes| {
            let (ip4, ip6) = (&prefixes.ip4, &prefixes.ip6);
            ((ip4.len(), ip4.capacity()), (ip6.len(), ip6.capacity()))
        };
        let mut all = self.vrfs.iter().flatten().map(of);
        let (routes4, routes6) = all.next().unwrap_or_default();
        let fullest = all.map(|(ip4, ip6)| ip4.0.max(ip6.0)).max();
        Usage {
            routes4,
            routes6,
            vrf_routes: (fullest.unwrap_or(0), self.vrf_routes),
            next_hops: (self.hops_in_use(), self.hop_limit),
            adjacencies: (self.adjacencies.len(), self.adjacency_limit),
        }
    }

    /// The id of a special next hop.
    pub fn special(&self, special: SpecialNextHop) -> u32 {
        self.specials.get(&(special as u8)).copied().unwrap_or(0)
    }

    /// The epochs of the workers that read these tables.
    pub(super) fn quiescence(&self) -> &Quiescence {
        &self.quiescence
    }

    /// Counts a full table and returns the error.
    pub(super) fn table_full(&mut self, table: Table, reason: impl std::fmt::Display) -> TableFull {
        self.table_full_counts.full(table, reason)
    }

    /// So many next hops are of stale routes from now on.
    pub(super) fn set_stale_hops(&mut self, hops: usize) {
        self.stale_hops = hops;
    }

    /// A stale next hop is about to be removed.
    pub(super) fn forget_stale_hop(&mut self) {
        self.stale_hops = self.stale_hops.saturating_sub(1);
    }

    /// Next hops without the stale ones.
    fn hops_in_use(&self) -> usize {
        self.hops.len().saturating_sub(self.stale_hops)
    }

    /// Adds a next hop.
    pub fn add_hop(&mut self, hop: &NextHop) -> Result<u32, TableFull> {
        let added = match self.hops_in_use() < self.hop_limit {
            true => self.hops.add(hop),
            false => Err(NextHopError::Full(self.hop_limit)),
        };
        added.map_err(|error| self.table_full_counts.full(Table::NextHops, error))
    }

    /// Changes a next hop, and with it all prefixes that use it.
    pub fn set_hop(&mut self, id: u32, hop: &NextHop) -> Result<(), TableFull> {
        self.hop_changes += 1;
        self.hops.set(id, hop).map_err(|error| self.table_full_counts.full(Table::NextHops, error))
    }

    /// A next hop as it was last set.
    pub(super) fn hop(&self, id: u32) -> Option<NextHop> {
        self.hops.get(id).ok()
    }

    /// Removes a next hop that no prefix uses.
    pub fn remove_hop(&mut self, id: u32) {
        let removed = self.hops.remove(id);
        debug_assert!(removed.is_ok());
    }

    /// Adds an adjacency.
    pub fn add_adjacency(&mut self, adjacency: &Adjacency) -> Result<u32, TableFull> {
        if self.adjacencies.len() < self.adjacency_limit {
            return self.add_replacement(adjacency);
        }
        let full = AdjacencyError::Full(self.adjacency_limit);
        Err(self.table_full_counts.full(Table::Adjacencies, full))
    }

    /// Adds an adjacency in the place of another one, which is to be retired next: the limit is no obstacle.
    pub fn add_replacement(&mut self, adjacency: &Adjacency) -> Result<u32, TableFull> {
        let mut added = self.adjacencies.add(adjacency);
        if matches!(added, Err(AdjacencyError::Full(_))) && self.adjacencies.pending() > 0 {
            self.wait_for_grace_period();
            added = self.adjacencies.add(adjacency);
        }
        added.map_err(|error| self.table_full_counts.full(Table::Adjacencies, error))
    }

    /// Has an adjacency drop packets from now on: the last resort when no other one can take its place.
    pub fn drop_over_adjacency(&mut self, id: u32) {
        let changed = self.adjacencies.set_drop(id);
        debug_assert!(changed.is_ok());
    }

    /// Moves all next hops from one adjacency to another and removes the first.
    pub fn replace_adjacency(&mut self, old: u32, new: u32) {
        self.hops.replace_adjacency(old, new);
        self.retire_adjacency(old);
    }

    /// Removes an adjacency that no next hop uses.
    pub fn retire_adjacency(&mut self, id: u32) {
        let retired = self.adjacencies.retire(id);
        debug_assert!(retired.is_ok());
    }

    /// An adjacency.
    pub fn adjacency(&self, id: u32) -> Option<Adjacency> {
        self.adjacencies.get(id).ok()
    }

    /// Closes a batch of changes. Returns the epoch whose end lets what was removed be used again.
    pub fn begin_grace_period(&mut self) -> u64 {
        self.settle();
        self.quiescence.advance()
    }

    /// Whether an epoch has ended: all workers have passed a quiescent point since.
    pub fn has_ended(&self, epoch: u64) -> bool {
        self.quiescence.safe() >= epoch
    }

    /// Closes a batch of changes and waits until what it removed can be used again. In the middle of a change urgent
    /// work cannot run, so that this is for full tables only; `ForwarderState` has the wait for others.
    fn wait_for_grace_period(&mut self) {
        let (epoch, deadline) = (self.begin_grace_period(), Instant::now() + GRACE_PATIENCE);
        while !self.has_ended(epoch) && Instant::now() < deadline {
            std::thread::sleep(GRACE_POLL);
        }
        self.settle();
    }

    /// Closes a batch of changes and reuses entries that no worker can read any more.
    pub fn settle(&mut self) {
        let (vrfs, hops, adjacencies) = (&mut self.vrfs, &mut self.hops, &mut self.adjacencies);
        let shared: [&mut dyn Reclaim; 2] = [hops, adjacencies];
        let prefixes = vrfs.iter_mut().flatten().flat_map(|prefixes| {
            let both: [&mut dyn Reclaim; 2] = [&mut prefixes.ip4, &mut prefixes.ip6];
            both
        });
        let tables = prefixes.chain(shared).filter(|table| table.pending() > 0);
        let mut times = None;
        for table in tables {
            let (epoch, safe) =
                *times.get_or_insert_with(|| (self.quiescence.advance(), self.quiescence.safe()));
            table.retire_mark(epoch);
            table.reclaim(safe);
        }
    }
}

/// The next hop of usable paths, given as `(adjacency, weight)`.
pub fn hop_of(usable: &[(u32, u16)]) -> NextHop {
    match usable {
        [] => NextHop::Special { code: SpecialNextHop::LinkDown as u8, argument: 0 },
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
