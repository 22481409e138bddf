//! IPv6 hosts and their stand-ins: IPv4 addresses from 240.0.0.0 on (RFC 1112 section 4, reserved), which no host has
//! and which `ip4-input` drops as source and destination.
//!
//! A host keeps its stand-in while it sends or receives anything, and as long as any of its flows lives without
//! packets: none finds another host behind its stand-in. A host that nobody has answered has unanswered flows alone, so
//! that forged sources have a place for minutes only. All workers share the table. Readers take no lock: a state tells
//! whether what they have read belongs together. Workers that add a host take the lock of its set, or give up.

mod listed;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};

use stoa_engine::counters::{OutOfMemory, zeroed};
use stoa_tables::flow_hash::fold_product;
use stoa_tables::flow_table::{GROUP_HOSTS, GROUPED};
use stoa_wire::protocol::TCP;
use stoa_wire::siit::Prefix;
use zerocopy::FromZeros;

use crate::flow::flows::random;
use crate::flow::profiles::Longest;

/// How many hosts there can be. A network has more places than hosts, as sets fill unevenly.
pub const HOSTS: usize = 1 << 20;
/// By how many seconds a host outlives its flows: workers have different clocks.
const MARGIN_S: u32 = 60;
/// Hosts among which one is looked for.
const WAYS: usize = 8;
/// The first stand-in. Bits of a stand-in: 4 of this number, 8 of its network of 64 bits, 20 of its place.
pub(crate) const FIRST: u32 = GROUPED;
/// The bits of a network in a stand-in: none has the last number, so that no stand-in is a broadcast address.
const TAG: u32 = 20;
const TAGS: u64 = 255;
const _: () = assert!(HOSTS == 1 << TAG);
// The places of a network of 64 bits follow each other: hosts of one network differ in the bits of hosts alone.
const _: () = assert!(HOSTS / QUARTER.pow(NETWORKS.len() as u32) == 1 << GROUP_HOSTS);
/// Any odd number whose bits are mixed: the golden ratio.
const MIXER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Networks have parts of the table: one of 48 bits has a quarter of it, one of 56 bits a quarter of that, and one of
/// 64 bits a quarter of that again.
const NETWORKS: [u32; 3] = [48, 56, 64];
const QUARTER: usize = 4;

/// A number in which each bit depends on all bits of both.
#[inline(always)]
fn mixed(value: u64, key: u64) -> u64 {
    fold_product(fold_product(value, MIXER) ^ key, MIXER)
}

/// Whether an IPv4 address is a stand-in.
#[inline(always)]
pub const fn is_stand_in(address: u32) -> bool {
    address >= FIRST && address - FIRST < (TAGS as u32) << TAG
}

/// A host as a state tells: nobody, one that is being written, or one with a VRF and a number of its own.
const NOBODY: u64 = 0;
const WRITTEN: u64 = 1;
const PRESENT: u64 = 2;

#[derive(FromZeros)]
#[repr(C, align(32))]
struct Host {
    high: AtomicU64,
    low: AtomicU64,
    /// [`NOBODY`], [`WRITTEN`], or [`PRESENT`] with the VRF from bit 2 on, the bits of its network in the stand-in
    /// from bit 18 on, and how often it was written from bit 32 on.
    state: AtomicU64,
    /// When it was last seen: a tick, in seconds.
    used: AtomicU32,
    /// What anybody has sent it: an [`Answer`].
    answer: AtomicU8,
    /// Of the first host of a set: whether somebody adds a host to the set.
    is_locked: AtomicBool,
}

/// What a host has got from others, by which its flows may live longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Answer {
    /// Nothing.
    None,
    /// Packets of other protocols than TCP.
    Datagram,
    /// Segments of TCP.
    Segment,
}

impl Answer {
    /// What a packet of a protocol is for its receiver.
    #[inline(always)]
    pub const fn of(protocol: u8) -> Self {
        if protocol == TCP { Self::Segment } else { Self::Datagram }
    }
}

/// Why a host has no stand-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoStandIn {
    /// There are as many hosts as there can be.
    Full,
    /// Another worker adds a host at the same place.
    Contended,
}

/// All hosts.
pub struct Hosts {
    hosts: Box<[Host]>,
    key: [u64; 2],
    /// By slots of VRFs; workers do not read it.
    prefixes: Mutex<BTreeMap<u16, Prefix>>,
}

impl Host {
    /// What it is, if it is present.
    #[inline(always)]
    fn read(&self) -> Option<(u128, u16)> {
        let state = self.state.load(Ordering::Acquire);
        if state & 3 != PRESENT {
            return None;
        }
        let halves = [&self.high, &self.low].map(|it| u128::from(it.load(Ordering::Relaxed)));
        fence(Ordering::Acquire);
        let is_same = self.state.load(Ordering::Relaxed) == state;
        is_same.then_some((halves[0] << 64 | halves[1], (state >> 2) as u16))
    }

    /// Only who has the lock of the set calls it.
    fn write(&self, (address, vrf): (u128, u16), tag: u8, tick: u32) {
        let number = (self.state.load(Ordering::Relaxed) >> 32).wrapping_add(1) & 0xffff_ffff;
        // A host that was never written has the number 0, which is no matter.
        self.state.store(number << 32 | WRITTEN, Ordering::Relaxed);
        fence(Ordering::Release);
        self.high.store((address >> 64) as u64, Ordering::Relaxed);
        self.low.store(address as u64, Ordering::Relaxed);
        self.used.store(tick, Ordering::Relaxed);
        self.answer.store(Answer::None as u8, Ordering::Relaxed);
        let who = u64::from(tag) << 18 | u64::from(vrf) << 2 | PRESENT;
        self.state.store(number << 32 | who, Ordering::Release);
    }

    /// The same, and it was seen.
    #[inline(always)]
    fn seen(&self, tick: u32) -> Option<(u128, u16)> {
        let found = self.read()?;
        // The clock of another worker may be ahead.
        if tick.wrapping_sub(self.used.load(Ordering::Relaxed)) as i32 <= 0 {
            return Some(found);
        }
        self.used.store(tick, Ordering::Relaxed);
        // It may have lost its place meanwhile: see `take`.
        fence(Ordering::SeqCst);
        self.read().filter(|it| *it == found)
    }

    /// Whether its flows have ended: then it is nobody's. Only who has the lock of the set calls it.
    fn take(&self, tick: u32, longest: Longest) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        if state & 3 == NOBODY {
            return true;
        }
        self.state.store(state & !3 | WRITTEN, Ordering::Relaxed);
        // A worker either sees this, or is seen here.
        fence(Ordering::SeqCst);
        let is_over = self.overdue(tick, longest) > 0;
        if !is_over {
            self.state.store(state, Ordering::Release);
        }
        is_over
    }

    /// By how many seconds it was not seen for longer than its flows live.
    fn overdue(&self, tick: u32, longest: Longest) -> u32 {
        if self.state.load(Ordering::Relaxed) & 3 == NOBODY {
            return u32::MAX;
        }
        let keep = match self.answer.load(Ordering::Relaxed) {
            it if it == Answer::None as u8 => longest.unanswered,
            it if it == Answer::Datagram as u8 => longest.datagrams,
            _ => longest.answered,
        };
        // The clock of the worker that has seen it may be ahead of this one.
        let idle = tick.wrapping_sub(self.used.load(Ordering::Relaxed)) as i32;
        idle.max(0).cast_unsigned().saturating_sub(keep.saturating_add(MARGIN_S))
    }
}

impl Hosts {
    /// Without hosts. Memory is taken as they come.
    pub fn new() -> Result<Self, OutOfMemory> {
        Self::with_key(random())
    }

    fn with_key(key: [u64; 2]) -> Result<Self, OutOfMemory> {
        Ok(Self { hosts: zeroed(HOSTS)?, key, prefixes: Mutex::default() })
    }

    /// A secret number of a network of 64 bits in a VRF.
    #[inline(always)]
    fn network_number(&self, (address, vrf): (u128, u16), length: u32) -> u64 {
        let [one, two] = self.key;
        mixed((address >> (128 - length)) as u64 ^ one, u64::from(vrf) ^ two)
    }

    /// Where the set of a host begins, and the bits of its network. Hosts of one network have sets of one part of the
    /// table, so that nobody fills all of it with addresses of his own network.
    #[inline(always)]
    fn set(&self, (address, vrf): (u128, u16)) -> (usize, u8) {
        let [_, two] = self.key;
        let (mut place, mut sets, mut network) = (0, HOSTS / WAYS, 0);
        for length in NETWORKS {
            network = self.network_number((address, vrf), length);
            sets /= QUARTER;
            place += network as usize % QUARTER * sets;
        }
        let host = mixed(address as u64 ^ two, network);
        ((place + host as usize % sets) * WAYS % HOSTS, ((network >> 32) % TAGS) as u8)
    }

    /// The place of a stand-in, if its host is of the right network.
    #[inline(always)]
    fn at(&self, stand_in: u32) -> Option<&Host> {
        let place = stand_in.checked_sub(FIRST)?;
        let host = self.hosts.get(place as usize % HOSTS)?;
        let state = host.state.load(Ordering::Relaxed);
        ((state >> 18) as u8 == (place >> TAG) as u8).then_some(host)
    }

    /// The stand-in of a host that has one.
    #[inline]
    pub fn find(&self, host: (u128, u16), tick: u32) -> Option<u32> {
        let (first, tag) = self.set(host);
        let set = self.hosts.get(first..first + WAYS)?;
        let way = set.iter().position(|it| it.read() == Some(host))?;
        set[way].seen(tick).filter(|it| *it == host)?;
        Some(named(first + way, tag))
    }

    /// The stand-in of a host, which gets one if it has none. `longest`: how long a flow lives without packets at most.
    ///
    /// # Errors
    /// Why it gets none.
    pub fn stand_in(
        &self,
        host: (u128, u16),
        tick: u32,
        longest: impl FnOnce() -> Longest,
    ) -> Result<u32, NoStandIn> {
        self.find(host, tick).map_or_else(|| self.add(host, tick, (longest(), WAYS)), Ok)
    }

    /// The same of a host of a partner ([`crate::flow_sync`]): the last place of a set is left to others.
    ///
    /// # Errors
    /// As above.
    pub fn standby(
        &self,
        host: (u128, u16),
        tick: u32,
        longest: Longest,
    ) -> Result<u32, NoStandIn> {
        self.find(host, tick).map_or_else(|| self.add(host, tick, (longest, WAYS - 1)), Ok)
    }

    #[cold]
    #[inline(never)]
    fn add(
        &self,
        host: (u128, u16),
        tick: u32,
        (longest, most): (Longest, usize),
    ) -> Result<u32, NoStandIn> {
        let (first, tag) = self.set(host);
        let set = self.hosts.get(first..first + WAYS).ok_or(NoStandIn::Full)?;
        let lock = &set[0].is_locked;
        if lock.swap(true, Ordering::Acquire) {
            return Err(NoStandIn::Contended);
        }
        // Another worker may have added it meanwhile.
        let added = self.find(host, tick).map_or_else(
            || {
                let way = place(set, tick, (longest, most))?;
                set[way].write(host, tag, tick);
                Ok(named(first + way, tag))
            },
            Ok,
        );
        lock.store(false, Ordering::Release);
        added
    }

    /// The host behind a stand-in, with its VRF.
    #[inline]
    pub fn host(&self, stand_in: u32, tick: u32) -> Option<(u128, u16)> {
        self.at(stand_in)?.seen(tick)
    }

    /// The network of 64 bits of the host behind a stand-in: what limits count as one host. It does not count as a
    /// packet.
    #[inline]
    pub fn network(&self, address: u32) -> Option<u64> {
        let (host, _) = self.at(address)?.read()?;
        Some((host >> 64) as u64)
    }

    /// The subscriber that an IPv4 address is of: of a stand-in, a number from 240.0.0.0 on that all addresses of its
    /// network of 64 bits have. Of 10,000 networks, two have the same with a probability of 17%: they have one quota.
    #[inline]
    pub fn subscriber(&self, address: u32) -> u32 {
        if !is_stand_in(address) {
            return address;
        }
        let Some(host) = self.at(address).and_then(Host::read) else { return address };
        FIRST | (self.network_number(host, 64) >> 36) as u32
    }

    /// The same of a stand-in to which anybody but the router sends this.
    #[inline]
    pub fn receiver(&self, stand_in: u32, tick: u32, answer: Answer) -> Option<(u128, u16)> {
        let host = self.at(stand_in)?;
        let found = host.seen(tick)?;
        if host.answer.load(Ordering::Relaxed) < answer as u8 {
            host.answer.fetch_max(answer as u8, Ordering::Relaxed);
        }
        Some(found)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.hosts.iter().filter(|it| it.read().is_some()).count()
    }
}

/// The stand-in of a place for a host of a network.
#[inline(always)]
fn named(place: usize, tag: u8) -> u32 {
    FIRST + (u32::from(tag) << TAG) + place as u32
}

/// A place in a set: a free one, or that of the host whose flows have ended for the longest time. `most`: hosts that
/// may be there with the new one.
fn place(set: &[Host], tick: u32, (longest, most): (Longest, usize)) -> Result<usize, NoStandIn> {
    let overdue = |way: &usize| set[*way].overdue(tick, longest);
    if (0..set.len()).filter(|way| overdue(way) == 0).count() >= most {
        return Err(NoStandIn::Full);
    }
    let oldest = (0..set.len()).max_by_key(overdue).filter(|way| overdue(way) > 0);
    let way = oldest.ok_or(NoStandIn::Full)?;
    if set[way].take(tick, longest) { Ok(way) } else { Err(NoStandIn::Contended) }
}
