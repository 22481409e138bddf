//! Limits of flows: how many a host, a prefix, a zone and a VRF may have live, half open, and new in a second.
//!
//! A flow counts for whoever began it: the host and the prefix of the source of its first packet, the zone of the
//! interface that received it, and its VRF. Half open is TCP that both ends have not yet acknowledged. A first packet
//! beyond a limit is dropped; flows that exist go on. Counters are of all workers together. Two workers that begin
//! flows at the same moment see each other's. Only where they begin the first flows of a host or prefix at the same
//! moment, it may have a counter from each of them, and as many times the flows until one of these is empty.
//!
//! **Nothing leaks.** A flow keeps the places of its counters beside the flow table ([`Held`]), and gives back what it
//! has when it ends, whatever limits there are by then. When a change makes others count than before, each worker looks
//! at its flows between packets, and counts them anew.

mod counted;
mod listing;
mod settings;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use stoa_engine::INTERFACES;
use stoa_engine::counters::Counter;
use stoa_engine::prepared::Prepared;
use stoa_tables::flow_table::{FlowKey, Tuple};

use self::counted::{Beginning, Bounds, Counted, Counters};
use super::flow_words::FlowWords;
use super::selection::VRF_SLOT;
use crate::acl::zones::FIRST;
use settings::is_any;
pub use settings::{Limit, Limits, Measure, Of, PREFIX_LENGTHS, Reached};

/// No limit.
const UNLIMITED: u32 = u32::MAX;
/// Numbers of zones, and slots of VRFs.
const NUMBERS: usize = 256;
/// What a flow has of counters, as it is kept beside the flow table; 0s: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held([u32; 3]);

/// Bits of the last word of [`Held`]: zone and VRF in the lower ones.
const OF_ZONE: u32 = 1 << 16;
const OF_VRF: u32 = 1 << 17;
const HALF_OPEN: u32 = 1 << 18;

/// A flow that is to be counted.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// Its key.
    pub key: FlowKey,
    /// The number of the zone that it came from; 0: none.
    pub zone: u8,
    /// Whether it is half open.
    pub is_half_open: bool,
    /// The upper half of the IPv6 address that its IPv4 source stands for (NAT64): flows of both families count for it.
    pub network: Option<u64>,
}

impl Flow {
    fn is_ip6(&self) -> bool {
        self.network.is_some() || self.key.is_ip6()
    }
}

/// One that is limited by its number.
#[derive(Default)]
struct Numbered {
    counted: Counted,
    bounds: Bounds,
}

/// How often each limit has refused, on one worker.
struct Refusals(Box<[[Counter; Measure::ALL.len()]]>);

/// The limits of a router and what they count.
pub struct FlowLimits {
    /// Whether something is limited.
    is_on: AtomicBool,
    /// Whether senders of packets that may begin no flow get no answer.
    is_silent: AtomicBool,
    /// Raised when others are counted than before.
    version: AtomicU32,
    lengths: [AtomicU8; 2],
    hosts: Counters,
    prefixes: Counters,
    zones: Box<[Numbered]>,
    vrfs: Box<[Numbered]>,
    /// The VRFs of the slots, as in keys of flows: flows of one that had the slot before do not count.
    vrf_keys: Box<[AtomicU16]>,
    /// What flows hold, IPv4 and IPv6.
    held: [FlowWords<3>; 2],
    /// The numbers of the zones of interfaces; 0: in none.
    zone_of: Prepared<AtomicU8>,
    refusals: Box<[Refusals]>,
    /// As they were set; locked by the control thread only.
    set: Mutex<Limits>,
}

fn bounds(limit: Option<&Limit>) -> [u32; Measure::ALL.len()] {
    limit.map_or([UNLIMITED; _], |limit| {
        limit.map(|it| it.map_or(UNLIMITED, |it| it.min(UNLIMITED - 1)))
    })
}

/// The first words of an address without its host bits.
fn network(flow: &Flow, [ip4, ip6]: [u8; 2]) -> u64 {
    let mask6 = || u64::MAX.checked_shl(64 - u32::from(ip6.min(64))).unwrap_or(0);
    match (flow.network, flow.key.tuple) {
        (Some(network), _) => network & mask6(),
        (None, Tuple::Ip4(it)) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(ip4.min(32))).unwrap_or(0);
            (it.source & mask).into()
        }
        (None, Tuple::Ip6(it)) => (it.source >> 64) as u64 & mask6(),
    }
}

/// The name of a host or prefix for a table.
fn name(flow: &Flow, lengths: [u8; 2]) -> [u64; 2] {
    let length = lengths[usize::from(flow.is_ip6())];
    let context = u32::from(flow.key.vrf) | u32::from(length) << 16;
    [network(flow, lengths), u64::from(context) << 1 | u64::from(flow.is_ip6())]
}

/// The lengths of prefixes of which each is a host.
const HOSTS: [u8; 2] = [32, 64];

impl FlowLimits {
    /// No limits. `keys`: random.
    pub fn new(workers: usize, keys: [[u64; 2]; 2]) -> Self {
        let numbered = || (0..NUMBERS).map(|_| Numbered::default()).collect();
        let places = 2 + 2 * NUMBERS;
        let refusals = || Refusals((0..places).map(|_| Default::default()).collect());
        let [hosts, prefixes] = keys.map(Counters::new);
        Self {
            is_on: AtomicBool::new(false),
            is_silent: AtomicBool::new(false),
            version: AtomicU32::new(0),
            lengths: PREFIX_LENGTHS.map(AtomicU8::new),
            hosts,
            prefixes,
            zones: numbered(),
            vrfs: numbered(),
            vrf_keys: (0..NUMBERS as u16).map(AtomicU16::new).collect(),
            held: Default::default(),
            zone_of: Prepared::default(),
            refusals: (0..workers).map(|_| refusals()).collect(),
            set: Mutex::default(),
        }
    }

    /// Makes room for what limits count of tables with these capacities, IPv4 and IPv6; whether there is memory. Only
    /// the control thread calls it, before [`Self::set`].
    pub fn prepare(&self, limits: &Limits, capacities: [u32; 2]) -> bool {
        let flows = capacities.map(u64::from).iter().sum();
        let is_held = || {
            let mut all = self.held.iter().zip(capacities);
            all.all(|(held, capacity)| held.prepare(capacity))
        };
        (!limits.is_any() || is_held() && self.zone_of.prepare(INTERFACES))
            && (!is_any(&limits.host) || self.hosts.prepare(flows))
            && (!is_any(&limits.prefix) || self.prefixes.prepare(flows))
    }

    /// Sets all limits. Workers count their flows anew if others are counted than before.
    pub fn set(&self, limits: &Limits) {
        let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        self.hosts.bounds.set(bounds(Some(&limits.host)));
        self.prefixes.bounds.set(bounds(Some(&limits.prefix)));
        for (all, of) in [(&self.zones, &limits.zones), (&self.vrfs, &limits.vrfs)] {
            for (number, it) in (0..=u8::MAX).zip(all) {
                it.bounds.set(bounds(of.get(&number)));
            }
        }
        for (slot, key) in (0..=u8::MAX).zip(&self.vrf_keys) {
            let now = limits.vrf_keys.get(&slot).copied();
            key.store(now.unwrap_or(slot.into()), Ordering::Relaxed);
        }
        self.lengths
            .iter()
            .zip(limits.lengths)
            .for_each(|(to, it)| to.store(it, Ordering::Relaxed));
        self.is_on.store(limits.is_any(), Ordering::Relaxed);
        if !set.counts_as(limits) {
            self.version.fetch_add(1, Ordering::Release);
        }
        set.clone_from(limits);
    }

    /// The limits in force.
    pub fn get(&self) -> Limits {
        self.set.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How often others were counted than before, modulo 2^32.
    #[inline]
    pub fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    /// Whether something is limited.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Sets the number of the zone of an interface; 0: it is in none.
    pub fn set_zone_of(&self, interface: u32, zone: u8) {
        // Without memory, zones have no limits: their flows are not counted.
        if (zone > 0 || self.zone_of.is_prepared())
            && self.zone_of.prepare(INTERFACES)
            && let Some(of) = self.zone_of.get(interface as usize)
        {
            of.store(zone, Ordering::Relaxed);
        }
    }

    /// The number of the zone of an interface; 0: it is in none.
    #[inline]
    pub fn zone_of(&self, interface: u32) -> u8 {
        let zone = self.zone_of.get(interface as usize).map_or(0, |it| it.load(Ordering::Relaxed));
        if zone >= FIRST { zone } else { 0 }
    }

    fn lengths(&self) -> [u8; 2] {
        self.lengths.each_ref().map(|it| it.load(Ordering::Relaxed))
    }

    /// Whether a flow may begin in the second `tick`. Nothing is written: a flood that is refused leaves the counters
    /// to other workers.
    ///
    /// # Errors
    /// The limit that is reached.
    pub fn may_begin(&self, flow: &Flow, tick: u32) -> Result<(), Reached> {
        let is_half_open = flow.is_half_open;
        let reached = |of, measure: Option<Measure>| match measure {
            Some(measure) => Err(Reached { of, measure }),
            None => Ok(()),
        };
        if self.hosts.bounds.is_any() {
            let name = name(flow, HOSTS);
            reached(Of::Host, self.hosts.refusal(name, is_half_open, tick))?;
        }
        if self.prefixes.bounds.is_any() {
            let name = name(flow, self.lengths());
            reached(Of::Prefix, self.prefixes.refusal(name, is_half_open, tick))?;
        }
        let (zone, vrf) = (flow.zone, (flow.key.vrf & VRF_SLOT) as u8);
        let of = |Numbered { counted, bounds }: &Numbered| {
            let is_any = bounds.is_any();
            is_any.then(|| counted.refusal(bounds, is_half_open, (tick, true))).flatten()
        };
        if zone > 0 {
            reached(Of::Zone(zone), of(&self.zones[usize::from(zone)]))?;
        }
        match self.is_of_slot(&flow.key) {
            true => reached(Of::Vrf(vrf), of(&self.vrfs[usize::from(vrf)])),
            false => Ok(()),
        }
    }

    /// Whether the VRF of a flow is the one that has its slot now.
    fn is_of_slot(&self, key: &FlowKey) -> bool {
        let slot = usize::from(key.vrf & VRF_SLOT);
        self.vrf_keys.get(slot).is_some_and(|it| it.load(Ordering::Relaxed) == key.vrf)
    }

    /// Counts a flow that begins in the second `tick`; what it then holds.
    ///
    /// # Errors
    /// The limit that is reached. Nothing is counted then.
    pub fn hold(&self, flow: &Flow, tick: u32) -> Result<Held, Reached> {
        if self.is_on() {
            self.may_begin(flow, tick)?;
        }
        self.count(flow, Some(tick))
    }

    /// Counts a flow, whatever the limits are.
    fn hold_anyway(&self, flow: &Flow) -> Held {
        self.count(flow, None).unwrap_or_default()
    }

    fn count(&self, flow: &Flow, new_at: Option<u32>) -> Result<Held, Reached> {
        let mut held = Held::default();
        if !self.is_on() {
            return Ok(held);
        }
        let it = Beginning { is_half_open: flow.is_half_open, new_at };
        held.0[2] = if flow.is_half_open { HALF_OPEN } else { 0 };
        let counted = self.count_each(flow, it, &mut held);
        if counted.is_err() {
            self.undo(held);
        }
        counted.map(|()| held)
    }

    fn count_each(&self, flow: &Flow, it: Beginning, held: &mut Held) -> Result<(), Reached> {
        let reached = |of| move |measure| Reached { of, measure };
        if self.hosts.bounds.is_any() {
            let place = self.hosts.take(name(flow, HOSTS), it).map_err(reached(Of::Host))?;
            held.0[0] = place.map_or(0, |place| place as u32 + 1);
        }
        if self.prefixes.bounds.is_any() {
            let name = name(flow, self.lengths());
            let place = self.prefixes.take(name, it).map_err(reached(Of::Prefix))?;
            held.0[1] = place.map_or(0, |place| place as u32 + 1);
        }
        let (zone, vrf) = (flow.zone, (flow.key.vrf & VRF_SLOT) as u8);
        let of_zone = &self.zones[usize::from(zone)];
        if zone > 0 && of_zone.bounds.is_any() {
            of_zone.counted.take(&of_zone.bounds, it).map_err(reached(Of::Zone(zone)))?;
            held.0[2] |= OF_ZONE | u32::from(zone);
        }
        let of_vrf = &self.vrfs[usize::from(vrf)];
        if of_vrf.bounds.is_any() && self.is_of_slot(&flow.key) {
            of_vrf.counted.take(&of_vrf.bounds, it).map_err(reached(Of::Vrf(vrf)))?;
            held.0[2] |= OF_VRF | u32::from(vrf) << 8;
        }
        Ok(())
    }

    /// The counters that a flow holds.
    fn counters_of(&self, Held([host, prefix, rest]): Held) -> impl Iterator<Item = &Counted> {
        let at = |place: u32| place.checked_sub(1).map(|place| place as usize);
        let host = at(host).and_then(|place| self.hosts.get(place));
        let prefix = at(prefix).and_then(|place| self.prefixes.get(place));
        let zone = (rest & OF_ZONE != 0).then(|| &self.zones[rest as usize & 0xff].counted);
        let vrf = (rest & OF_VRF != 0).then(|| &self.vrfs[rest as usize >> 8 & 0xff].counted);
        [host, prefix, zone, vrf].into_iter().flatten()
    }

    /// A flow that holds this has ended.
    fn give_back(&self, held: Held) {
        let is_half_open = held.0[2] & HALF_OPEN != 0;
        self.counters_of(held).for_each(|it| it.give_back(is_half_open));
    }

    /// A flow that was counted was not created.
    #[cold]
    pub fn undo(&self, held: Held) {
        self.counters_of(held).for_each(Counted::undo_new);
        self.give_back(held);
    }

    fn of_family(&self, is_ip4: bool) -> &FlowWords<3> {
        &self.held[usize::from(!is_ip4)]
    }

    /// A flow of this worker with this id holds something from now on.
    #[inline]
    pub fn keep(&self, (is_ip4, id): (bool, u32), held: Held) {
        if held != Held::default() {
            let is_kept = self.of_family(is_ip4).store(id, held.0);
            debug_assert!(is_kept, "what is not kept would never be given back");
        }
    }

    /// What a flow holds; `None`: nothing, or no flow ever has held something.
    fn held(&self, (is_ip4, id): (bool, u32)) -> Option<Held> {
        let words = self.of_family(is_ip4);
        let held = words.is_prepared().then(|| words.load(id)).flatten().map(Held);
        held.filter(|held| *held != Held::default())
    }

    /// A flow of this worker has ended.
    #[inline]
    pub fn end(&self, (is_ip4, id): (bool, u32)) {
        if let Some(held) = self.held((is_ip4, id)) {
            self.of_family(is_ip4).store(id, Held::default().0);
            self.give_back(held);
        }
    }

    /// A flow of this worker is half open no longer.
    #[inline]
    pub fn opened(&self, (is_ip4, id): (bool, u32)) {
        if let Some(held) = self.held((is_ip4, id)).filter(|held| held.0[2] & HALF_OPEN != 0) {
            let [host, prefix, rest] = held.0;
            self.of_family(is_ip4).store(id, [host, prefix, rest & !HALF_OPEN]);
            self.counters_of(held).for_each(Counted::opened);
        }
    }

    /// Counts a live flow of this worker anew, for those that have limits now.
    pub fn recount(&self, (is_ip4, id): (bool, u32), flow: &Flow) {
        let (former, now) = (self.held((is_ip4, id)), self.hold_anyway(flow));
        if former.is_some() || now != Held::default() {
            self.of_family(is_ip4).store(id, now.0);
        }
        // At last: nobody begins a flow in place of this one meanwhile.
        former.into_iter().for_each(|held| self.give_back(held));
    }
}
