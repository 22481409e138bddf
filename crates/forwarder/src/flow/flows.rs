//! The flow tables of the router, one for each family: all workers look up in them, and each owns the flows that it has
//! created ([`super::tracker`]).

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use stoa_engine::quiescence::Quiescence;
use stoa_engine::{clock, heap};
use stoa_tables::flow_table::{FlowCapacity, FlowError, FlowReader, FlowTable};
use stoa_tables::lpm::Kernel;

use super::adoption::Adoption;
use super::alg::{AlgFlows, Expectations};
pub use super::flow_counts::{FlowCounts, FlowSums};
use super::limits::FlowLimits;
use super::profiles::Profiles;
pub use super::random::random;
use super::random::secret;
use super::selection::{Selection, SharedSelection};
use super::splice::Splices;
use super::syn_cookies::SynCookies;
pub use super::time::{FlowTime, Now};
use super::tracker::FlowTracker;
use crate::flow_sync::Standby;
use crate::ipfix::Exports;
use crate::nat::Traffic;
use crate::nat::mappings::Mappings;
use crate::nat::quotas::Quotas;
use crate::nat64::hosts::{HOSTS, Hosts};

/// One table: a family.
struct Family {
    /// Locked by threads that start and by the control thread, never for a packet.
    table: Mutex<FlowTable>,
    reader: FlowReader,
    /// Of flows that are not translated, and that are.
    capacity: [u32; 2],
    counts: Box<[FlowCounts]>,
    splices: Splices,
    algs: AlgFlows,
}

/// The tables of both families.
pub struct Flows {
    four: Family,
    six: Family,
    quiescence: Arc<Quiescence>,
    /// Which flows were cleared last: odd for all, even for those of `selection`. It grows each time.
    cleared: AtomicU32,
    selection: SharedSelection,
    time: FlowTime,
    profiles: Profiles,
    syn_cookies: SynCookies,
    mappings: Arc<Mappings>,
    traffic: Box<[Traffic]>,
    /// How many flows are translated.
    translated: AtomicU32,
    exports: Exports,
    expectations: Expectations,
    limits: FlowLimits,
    nat64_hosts: Hosts,
    adoption: Adoption,
    standby: Standby,
}

/// How many flows fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// IPv4 flows that are not translated.
    pub ip4: u32,
    /// IPv6 flows.
    pub ip6: u32,
    /// Translated IPv4 flows.
    pub translated: u32,
    /// Dynamic mappings of address translation.
    pub mappings: u32,
}

/// The part of a table that one source may fill with flows, and how many flows it may have of a small table.
const SOURCE_PART: u32 = 16;
const SOURCE_LEAST: u32 = 256;

/// The default limit of a source in a table of so many flows.
fn source_limit(capacity: u32) -> u32 {
    (capacity / SOURCE_PART).max(SOURCE_LEAST)
}

impl Family {
    fn new(capacity: FlowCapacity, kernel: Kernel, workers: usize) -> Result<Self, FlowError> {
        let table = FlowTable::new(&capacity, &secret())?;
        table.regions().into_iter().for_each(|it| heap::expect_huge_pages(it.start, it.bytes));
        let reader = table.reader();
        let reader = reader.clone().with_kernel(kernel).unwrap_or(reader);
        let counts = (0..workers).map(|_| FlowCounts::default()).collect();
        let capacity = [capacity.ip4 + capacity.ip6, capacity.translated_ip4];
        table.limit_sources(source_limit(capacity[0].max(capacity[1])));
        let (table, splices) = (Mutex::new(table), Splices::default());
        let algs = AlgFlows::default();
        Ok(Self { table, reader, capacity, counts, splices, algs })
    }
}

impl Flows {
    /// Empty tables for so many flows.
    ///
    /// # Errors
    /// The system has no address space for them.
    pub fn new(
        sizes: Sizes,
        kernel: Kernel,
        workers: usize,
        quiescence: &Arc<Quiescence>,
    ) -> Result<Self, FlowError> {
        let none = FlowCapacity::default();
        let Sizes { ip4, ip6, translated, mappings } = sizes;
        // Each subscriber has a mapping, or a flow without one.
        let quotas = Quotas::new(mappings.max(translated), random());
        let mappings = Arc::new(Mappings::new(mappings, quotas, &secret())?);
        let four = FlowCapacity { ip4, translated_ip4: translated, ..none };
        Ok(Self {
            four: Family::new(four, kernel, workers)?,
            six: Family::new(FlowCapacity { ip6, ..none }, kernel, workers)?,
            quiescence: Arc::clone(quiescence),
            cleared: AtomicU32::new(0),
            selection: SharedSelection::default(),
            time: FlowTime::default(),
            profiles: Profiles::default(),
            syn_cookies: SynCookies::new(workers, [random(), random()]),
            traffic: (0..workers.max(1)).map(|_| Traffic::default()).collect(),
            translated: AtomicU32::new(0),
            exports: Exports::new(random::<1>()[0]),
            expectations: Expectations::new(random::<1>()[0] as u32, Arc::clone(&mappings)),
            mappings,
            limits: FlowLimits::new(workers, [random(), random()]),
            nat64_hosts: Hosts::new().map_err(|_| FlowError::Capacity(HOSTS as u64))?,
            adoption: Adoption::default(),
            standby: Standby::default(),
        })
    }

    fn family(&self, is_ip4: bool) -> &Family {
        if is_ip4 { &self.four } else { &self.six }
    }

    /// What a worker owns; `None`: somebody has it already.
    pub fn tracker(self: &Arc<Self>, worker: usize) -> Option<FlowTracker> {
        let now = self.now(clock::tsc()).tick;
        let owner = |is_ip4| {
            let table = &self.family(is_ip4).table;
            let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
            table.owner(u8::try_from(worker).ok()?, now)
        };
        Some(FlowTracker::new(self, worker, [owner(true)?, owner(false)?]))
    }

    /// Look-ups in the table of a family.
    pub fn reader(&self, is_ip4: bool) -> &FlowReader {
        &self.family(is_ip4).reader
    }

    /// How flows are followed.
    #[inline(always)]
    pub fn profiles(&self) -> &Profiles {
        &self.profiles
    }

    /// The SYN cookies of zones.
    #[inline(always)]
    pub fn syn_cookies(&self) -> &SynCookies {
        &self.syn_cookies
    }

    /// The flows of a family that began with a SYN cookie.
    #[inline(always)]
    pub fn splices(&self, is_ip4: bool) -> &Splices {
        &self.family(is_ip4).splices
    }

    /// Whether flows of a family may be spliced, or may have gateways.
    #[inline(always)]
    pub fn may_alter(&self, is_ip4: bool) -> bool {
        let family = self.family(is_ip4);
        family.splices.0.is_prepared() || family.algs.0.is_prepared()
    }

    /// Has workers be able to splice flows; whether there is memory.
    pub fn prepare_splices(&self) -> bool {
        let all = [&self.four, &self.six];
        all.iter().all(|family| family.splices.0.prepare(family.capacity.iter().sum()))
    }

    /// The flows of a family that have application level gateways.
    #[inline(always)]
    pub fn alg_flows(&self, is_ip4: bool) -> &AlgFlows {
        &self.family(is_ip4).algs
    }

    /// The connections that gateways expect.
    #[inline(always)]
    pub fn expectations(&self) -> &Expectations {
        &self.expectations
    }

    /// Has flows be able to have gateways; whether there is memory.
    pub fn prepare_algs(&self) -> bool {
        let all = [&self.four, &self.six];
        self.expectations.prepare()
            && all.iter().all(|family| family.algs.0.prepare(family.capacity.iter().sum()))
    }

    /// How many flows of a family fit, translated ones among them.
    pub fn capacity(&self, is_ip4: bool) -> u32 {
        self.family(is_ip4).capacity.iter().sum()
    }

    /// How many translated flows of a family fit, or others.
    pub fn capacity_of(&self, is_ip4: bool, is_translated: bool) -> u32 {
        self.family(is_ip4).capacity[usize::from(is_translated)]
    }

    /// Translated flows.
    pub fn translated(&self) -> u32 {
        self.translated.load(Ordering::Relaxed)
    }

    /// A translated flow has begun, or is over.
    pub(super) fn note_translated(&self, has_begun: bool) {
        let by = if has_begun { 1 } else { u32::MAX };
        self.translated.fetch_add(by, Ordering::Relaxed);
    }

    /// What a worker has translated; only this worker adds to it.
    #[inline]
    pub fn nat_traffic(&self, worker: usize) -> &Traffic {
        &self.traffic[worker % self.traffic.len()]
    }

    /// What all workers have translated: packets and bytes out, packets and bytes in.
    pub fn translated_traffic(&self) -> [u64; 4] {
        self.traffic.iter().fold([0; 4], |sum, it| {
            let own = [&it.out_packets, &it.out_bytes, &it.in_packets, &it.in_bytes];
            std::array::from_fn(|at| sum[at] + own[at].get())
        })
    }

    /// What is exported of flows by IPFIX.
    #[inline(always)]
    pub fn exports(&self) -> &Exports {
        &self.exports
    }

    /// The adoption of flows of a former process.
    #[inline(always)]
    pub fn adoption(&self) -> &Adoption {
        &self.adoption
    }

    /// Flows of a partner.
    #[inline(always)]
    pub fn standby(&self) -> &Standby {
        &self.standby
    }

    /// The arrays of both families: see [`FlowReader::leak_arrays`](stoa_tables::flow_table::FlowReader::leak_arrays).
    pub fn leak_arrays(&self) -> Vec<&[AtomicU32]> {
        let tables = [&self.four, &self.six];
        tables.iter().flat_map(|family| family.reader.leak_arrays()).collect()
    }

    /// The limits of hosts, prefixes, zones and VRFs.
    #[inline(always)]
    pub fn limits(&self) -> &FlowLimits {
        &self.limits
    }

    /// IPv6 hosts that use NAT64: some sources of IPv4 flows stand for them.
    #[inline(always)]
    pub fn nat64_hosts(&self) -> &Hosts {
        &self.nat64_hosts
    }

    /// The dynamic mappings of address translation.
    #[inline(always)]
    pub fn mappings(&self) -> &Mappings {
        &self.mappings
    }

    /// Sets how many flows of a family a source may have: an IPv4 address, or an IPv6 /64, in a VRF. `None`: a
    /// sixteenth of the table, but at least 256. Flows beyond a lower limit stay.
    pub fn limit_sources(&self, is_ip4: bool, flows: Option<u32>) {
        let Family { table, capacity, .. } = self.family(is_ip4);
        let table = table.lock().unwrap_or_else(PoisonError::into_inner);
        table.limit_sources(flows.unwrap_or(source_limit(capacity[0].max(capacity[1]))));
    }

    /// How many flows of a family a source may have.
    pub fn source_limit(&self, is_ip4: bool) -> u32 {
        let table = &self.family(is_ip4).table;
        table.lock().unwrap_or_else(PoisonError::into_inner).source_limit()
    }

    /// Flows of a family.
    pub fn live(&self, is_ip4: bool) -> u64 {
        let table = &self.family(is_ip4).table;
        table.lock().unwrap_or_else(PoisonError::into_inner).live()
    }

    /// The counts of a family.
    pub fn sums(&self, is_ip4: bool) -> FlowSums {
        let all = self.family(is_ip4).counts.iter();
        all.fold(FlowSums::default(), |sum, it| FlowSums {
            created: sum.created + it.created.get(),
            expired: sum.expired + it.expired.get(),
            evicted: sum.evicted + it.evicted.get(),
            refused: sum.refused + it.refused.get(),
            source_limited: sum.source_limited + it.source_limited.get(),
            adopted: sum.adopted + it.adopted.get(),
            left_out: sum.left_out + it.left_out.get(),
        })
    }

    pub(super) fn counts(&self, is_ip4: bool, worker: usize) -> Option<&FlowCounts> {
        self.family(is_ip4).counts.get(worker)
    }

    pub(crate) fn quiescence(&self) -> &Arc<Quiescence> {
        &self.quiescence
    }

    /// Has workers remove all flows, which takes them a while ([`Self::is_clear`]). Those that begin meanwhile may go,
    /// too.
    pub fn clear(&self) {
        self.cleared.store((self.cleared() | 1).wrapping_add(2), Ordering::Release);
    }

    /// The same for some flows. Returns false, and does nothing, while workers still remove others.
    pub fn clear_selected(&self, selection: &Selection) -> bool {
        // No worker loads the selection after it has followed.
        let is_clear = self.is_clear();
        if is_clear {
            self.selection.store(selection);
            self.cleared.store((self.cleared() & !1).wrapping_add(2), Ordering::Release);
        }
        is_clear
    }

    /// Which flows are being cleared, if `cleared` is the last value of [`Self::cleared`].
    pub(super) fn selected(&self, cleared: u32) -> Selection {
        if cleared & 1 == 1 { Selection::default() } else { self.selection.load() }
    }

    /// How many flows were cleared since the start.
    pub fn removed(&self) -> u64 {
        self.four.counts.iter().chain(&self.six.counts).map(|counts| counts.removed.get()).sum()
    }

    /// Whether workers have removed all flows that the last call of [`Self::clear`] or [`Self::clear_selected`] meant.
    pub fn is_clear(&self) -> bool {
        let cleared = self.cleared();
        let mut all = self.four.counts.iter().chain(&self.six.counts);
        all.all(|counts| counts.followed.load(Ordering::Acquire) == cleared)
    }

    /// Which call of [`Self::clear`] or [`Self::clear_selected`] was the last.
    pub(super) fn cleared(&self) -> u32 {
        self.cleared.load(Ordering::Acquire)
    }

    /// The time at this value of the time stamp counter.
    #[inline]
    pub fn now(&self, tsc: u64) -> Now {
        self.time.now(tsc)
    }

    /// The time of flows and fragments, which tests stop and advance.
    pub fn time(&self) -> &FlowTime {
        &self.time
    }
}
