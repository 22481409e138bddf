//! Look-ups, by any number of threads.

use std::sync::Arc;

use core::sync::atomic::Ordering::Relaxed;

#[cfg(all(target_arch = "x86_64", not(loom)))]
use super::avx2_kernel as kernel;
use super::bucket::Reference;
use super::ends::Ends;
use super::key::{Canonical, FlowKey};
use super::line::{Direction, FlowEntry};
use super::memory::{Kind, Memory};
use crate::flow_hash::Flow;
use crate::lpm::Kernel;

/// What a look-up found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Match(pub(super) u32);

impl Match {
    /// No flow.
    pub const NONE: Self = Self(u32::MAX);
    /// The bit of packets in the direction of the replies.
    pub(super) const REPLY: u32 = 1 << 31;

    /// What a reference means for a packet; `is_reversed`: its direction is not that of the key.
    #[inline(always)]
    pub(super) fn new(reference: Reference, is_reversed: bool) -> Self {
        let is_reply = reference.is_second() != is_reversed;
        Self(reference.away(false).0 | if is_reply { Self::REPLY } else { 0 })
    }

    /// Whether there is a flow.
    #[inline(always)]
    pub fn is_some(self) -> bool {
        self != Self::NONE
    }

    /// The match of a packet that has a key of a flow as it is: the first one in the original direction, the second
    /// one of a translated flow in the other.
    #[inline(always)]
    pub fn of_received(id: u32, direction: Direction) -> Self {
        Self(id | if direction as u8 == 0 { 0 } else { Self::REPLY | Reference::SECOND })
    }

    /// As a number, for columns.
    #[inline(always)]
    pub const fn word(self) -> u32 {
        self.0
    }

    /// The inverse of [`Self::word`].
    #[inline(always)]
    pub const fn of_word(word: u32) -> Self {
        Self(word)
    }

    /// Of a translated flow: whether the packet has one of its keys as it is, not reversed. It has not been translated
    /// yet.
    #[inline(always)]
    pub const fn is_received(self) -> bool {
        (self.0 >> 31 ^ self.0 >> 30) & 1 == 0
    }

    /// The flow's id.
    #[inline(always)]
    pub fn id(self) -> Option<u32> {
        self.is_some().then_some(self.0 & !(Self::REPLY | Reference::SECOND))
    }

    /// The direction of the packet within the flow.
    #[inline(always)]
    pub fn direction(self) -> Direction {
        if self.0 & Self::REPLY == 0 { Direction::Original } else { Direction::Reply }
    }

    /// Whether the packet has the key of the replies of a translated flow, or this key reversed.
    #[inline(always)]
    pub fn is_second_key(self) -> bool {
        self.0 & Reference::SECOND != 0
    }
}

/// Columns of the keys of IPv4 packets, in host byte order. All have the same length.
#[derive(Clone, Copy, Debug)]
pub struct Columns4<'a> {
    /// Source addresses.
    pub sources: &'a [u32],
    /// Destination addresses.
    pub destinations: &'a [u32],
    /// Source ports above destination ports.
    pub ports: &'a [u32],
    /// The protocol (8 bits) above the VRF (16 bits); the uppermost 8 bits are 0.
    pub contexts: &'a [u32],
}

/// Columns of the keys of IPv6 packets.
#[derive(Clone, Copy, Debug)]
pub struct Columns6<'a> {
    /// The words of the source addresses, the lowest first.
    pub sources: [&'a [u32]; 4],
    /// Those of the destination addresses.
    pub destinations: [&'a [u32]; 4],
    /// As for IPv4.
    pub ports: &'a [u32],
    /// As for IPv4.
    pub contexts: &'a [u32],
}

/// Look-ups in a table. Cheap to clone; give one to each worker.
#[derive(Clone, Debug)]
pub struct FlowReader {
    memory: Arc<Memory>,
    kernel: Kernel,
}

impl FlowReader {
    /// The arrays of the table ([`FlowTable::arrays`](super::FlowTable::arrays)), for whoever maps other memory in
    /// their place. The addresses stay in use when the table ends: an allocator would expect its own memory there.
    #[cfg(not(loom))]
    pub fn leak_arrays(&self) -> [&[core::sync::atomic::AtomicU32]; 4] {
        self.memory.leak_arrays();
        self.memory.arrays()
    }

    pub(super) fn new(memory: Arc<Memory>) -> Self {
        Self { memory, kernel: Self::of_table(Kernel::detect()) }
    }

    /// This reader with another kernel; `None` when the machine lacks it. Names of kernels that the flow table does not
    /// have stand for the next narrower one.
    pub fn with_kernel(mut self, kernel: Kernel) -> Option<Self> {
        self.kernel = Self::of_table(kernel);
        kernel.is_available().then_some(self)
    }

    /// The kernel in use: [`Kernel::Scalar`] or [`Kernel::Avx2`].
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    #[cfg(all(target_arch = "x86_64", not(loom)))]
    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    fn of_table(kernel: Kernel) -> Kernel {
        if kernel >= Kernel::Avx2 { Kernel::Avx2 } else { Kernel::Scalar }
    }

    /// The ids of a kind that flows have had so far: others have never been used, and reading them takes memory.
    pub fn used(&self, kind: Kind) -> core::ops::Range<u32> {
        let all = self.memory.ids_of(kind);
        let fresh = self.memory.fresh[kind as usize].load(Relaxed);
        all.start..all.start.saturating_add(fresh).min(all.end)
    }

    /// A flow by an id that this thread has found since its last quiescent point.
    ///
    /// # Panics
    ///
    /// The table has no such id.
    #[inline(always)]
    pub fn entry(&self, id: u32) -> FlowEntry<'_> {
        FlowEntry::new(&self.memory, id)
    }

    /// The addresses and ports that an IPv4 packet of a flow has on the other side of the router: translated if it [has
    /// been received](Match::is_received), as it was received if it is translated already. `None`: nothing translates
    /// it, or its flow is over.
    #[inline(always)]
    pub fn other_ends(&self, found: Match) -> Option<Ends> {
        let flow = self.entry(found.id()?);
        let is_translated = flow.kind() == super::Kind::TranslatedIp4 && flow.is_live();
        is_translated.then(|| flow.other_ends(found.is_second_key(), !found.is_received()))
    }

    /// The flow to which packets with a key belong. For a moment it may be one that has been removed, or whose creation
    /// was refused: then it is not [live](FlowEntry::is_live), and counts as none.
    pub fn find(&self, key: &FlowKey) -> Match {
        find(&self.memory, &Canonical::new(key))
    }

    /// Looks up IPv4 packets: `found[i]` belongs to the keys at `i`. A key that another worker moves at this
    /// moment may be missed; [`Self::find`] finds it, and so does an attempt to create the flow. As there, a flow
    /// may not be [live](FlowEntry::is_live). Works on the shortest of the slices.
    #[inline]
    pub fn lookup_ip4(&self, keys: &Columns4<'_>, found: &mut [Match]) {
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        if self.kernel >= Kernel::Avx2 {
            let columns = [keys.sources, keys.destinations, keys.ports, keys.contexts];
            if kernel::lookup::<4, 0>(&self.memory, &columns, found) {
                return;
            }
        }
        lookup_scalar(&self.memory, |lane| canonical_ip4(keys, lane), found);
    }

    /// Looks up IPv6 packets, as [`Self::lookup_ip4`] does.
    #[inline]
    pub fn lookup_ip6(&self, keys: &Columns6<'_>, found: &mut [Match]) {
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        if self.kernel >= Kernel::Avx2 {
            let ([a, b, c, d], [e, f, g, h]) = (keys.sources, keys.destinations);
            let columns = [a, b, c, d, e, f, g, h, keys.ports, keys.contexts];
            if kernel::lookup::<10, { kernel::GROUP }>(&self.memory, &columns, found) {
                return;
            }
        }
        lookup_scalar(&self.memory, |lane| canonical_ip6(keys, lane), found);
    }
}

/// The flow with a key.
#[inline(always)]
pub(super) fn find(memory: &Memory, key: &Canonical) -> Match {
    let is_key = |reference| compare(memory, key, reference).is_some();
    let place = memory.index.hash.place(key);
    let found = memory.index.find(place, is_key);
    let is_reversed = found.and_then(|found| compare(memory, key, found));
    found.zip(is_reversed).map_or(Match::NONE, |(found, reversed)| Match::new(found, reversed))
}

/// Whether a reference leads to a key, and if so, whether in the other direction.
#[inline(always)]
pub(super) fn compare(memory: &Memory, key: &Canonical, reference: Reference) -> Option<bool> {
    FlowEntry::new(memory, reference.flow()).compare(key, reference.is_second())
}

/// The scalar kernel.
#[inline(always)]
pub(super) fn lookup_scalar(
    memory: &Memory,
    key: impl Fn(usize) -> Option<Canonical>,
    found: &mut [Match],
) {
    for (lane, found) in found.iter_mut().enumerate() {
        let Some(key) = key(lane) else { return };
        *found = find(memory, &key);
    }
}

/// The key of a lane.
#[inline(always)]
pub(super) fn canonical_ip4(keys: &Columns4<'_>, lane: usize) -> Option<Canonical> {
    let (ports, context) = (*keys.ports.get(lane)?, *keys.contexts.get(lane)?);
    let flow = Flow {
        source: *keys.sources.get(lane)?,
        destination: *keys.destinations.get(lane)?,
        source_port: (ports >> 16) as u16,
        destination_port: ports as u16,
        protocol: (context >> 16) as u8,
    };
    Some(Canonical::new(&FlowKey::ip4(flow, context as u16)))
}

/// The key of a lane.
#[inline(always)]
pub(super) fn canonical_ip6(keys: &Columns6<'_>, lane: usize) -> Option<Canonical> {
    let (ports, context) = (*keys.ports.get(lane)?, *keys.contexts.get(lane)?);
    let address = |words: &[&[u32]; 4]| {
        let [a, b, c, d] =
            [words[0].get(lane)?, words[1].get(lane)?, words[2].get(lane)?, words[3].get(lane)?];
        Some(u128::from(*a) | u128::from(*b) << 32 | u128::from(*c) << 64 | u128::from(*d) << 96)
    };
    let flow = Flow {
        source: address(&keys.sources)?,
        destination: address(&keys.destinations)?,
        source_port: (ports >> 16) as u16,
        destination_port: ports as u16,
        protocol: (context >> 16) as u8,
    };
    Some(Canonical::new(&FlowKey::ip6(flow, context as u16)))
}
