//! Connections that are expected: announced by a control connection, between its two hosts, for some seconds, once.
//!
//! A table of fixed size that all workers share, without locks. The pair of hosts gives the bucket, so that a look-up
//! reads 8 slots at most, and two hosts have 8 expectations at most. A slot has a generation: who reads it sees whether
//! it has changed meanwhile.

mod slot;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use stoa_engine::counters::zeroed;
use stoa_tables::flow_hash::{Flow, mix};
use stoa_tables::flow_table::{FlowKey, Tuple};

use super::{Alg, AlgCounts};
use slot::Slot;

/// Expectations of all hosts, and of two hosts.
pub const CAPACITY: u32 = 2_048;
const BUCKET: usize = 8;
const BUCKETS: usize = CAPACITY as usize / BUCKET;
/// Expectations of connections to one host.
pub const OF_HOST: u16 = 32;
/// Counters of hosts: a keyed hash of the address gives the counter, so that others may have the same one.
const HOSTS: usize = 1_024;

/// What the first packet of an expected connection has; its source port is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedKey {
    /// The source address; of IPv4 the lowest 32 bits.
    pub source: u128,
    /// The destination address.
    pub destination: u128,
    /// Whether these are IPv6 addresses.
    pub is_ip6: bool,
    /// The destination port.
    pub port: u16,
    /// The protocol.
    pub protocol: u8,
    /// VRF, as in keys of flows.
    pub vrf: u16,
}

impl ExpectedKey {
    /// The one that the packet of a flow key meets.
    pub fn of(key: &FlowKey) -> Self {
        let vrf = key.vrf;
        match key.tuple {
            Tuple::Ip4(it) => Self {
                source: it.source.into(),
                destination: it.destination.into(),
                is_ip6: false,
                port: it.destination_port,
                protocol: it.protocol,
                vrf,
            },
            Tuple::Ip6(it) => Self {
                source: it.source,
                destination: it.destination,
                is_ip6: true,
                port: it.destination_port,
                protocol: it.protocol,
                vrf,
            },
        }
    }

    /// The hash of its hosts, in either order.
    fn hosts(&self, seed: u32) -> u32 {
        let (source, destination) = (self.source, self.destination);
        let (source_port, destination_port, protocol) = (0, 0, 0);
        Flow { source, destination, source_port, destination_port, protocol }.symmetric_hash(seed)
    }

    fn host(&self, seed: u32) -> usize {
        let words = [0, 32, 64, 96].map(|by| (self.destination >> by) as u32);
        words.iter().fold(seed, |hash, word| mix(hash ^ word)) as usize % HOSTS
    }
}

/// What a packet of a translated connection becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Becomes {
    /// Its source address.
    pub source: u32,
    /// Its destination address.
    pub destination: u32,
    /// Its destination port.
    pub port: u16,
    /// The VRF of its replies, as in keys of flows.
    pub vrf: u16,
    /// The number of the policy or static mapping that translates the control connection.
    pub number: u32,
}

/// The control connection of an expectation: the id of its flow, and when that began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// Id.
    pub id: u32,
    /// Tick.
    pub start: u32,
}

/// A connection that is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// What its first packet has.
    pub key: ExpectedKey,
    /// What that becomes; `None`: its destination stays.
    pub becomes: Option<Becomes>,
    /// The gateway.
    pub alg: Alg,
    /// The number of the rule that has admitted the control connection, and its flow profile.
    pub rule: u32,
    /// As above.
    pub profile: u8,
    /// The control connection.
    pub control: Control,
    /// The tick from which on it is expected no more.
    pub until: u32,
}

impl Expectation {
    fn is_over(&self, now: u32) -> bool {
        now.wrapping_sub(self.until).cast_signed() >= 0
    }
}

/// Why a connection is not expected: there are as many as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// All expectations. There is no memory for them before a rule names a gateway.
pub struct Expectations {
    slots: OnceLock<Box<[Slot]>>,
    /// Expectations for each counter of hosts.
    hosts: Box<[AtomicU16; HOSTS]>,
    live: AtomicU32,
    /// The tick at which all were looked at last.
    swept: AtomicU32,
    seed: u32,
    counts: AlgCounts,
}

impl Expectations {
    /// None. `seed`: what others cannot foresee.
    pub fn new(seed: u32) -> Self {
        Self {
            slots: OnceLock::new(),
            hosts: Box::new([const { AtomicU16::new(0) }; HOSTS]),
            live: AtomicU32::new(0),
            swept: AtomicU32::new(0),
            seed,
            counts: AlgCounts::default(),
        }
    }

    /// Makes room; whether there is memory.
    pub fn prepare(&self) -> bool {
        if self.slots.get().is_none()
            && let Ok(slots) = zeroed(CAPACITY as usize)
        {
            // Only the control thread prepares.
            let _ = self.slots.set(slots);
        }
        self.slots.get().is_some()
    }

    /// Whether any connection is expected.
    #[inline(always)]
    pub fn is_any(&self) -> bool {
        self.live.load(Ordering::Relaxed) != 0
    }

    /// How many connections are expected.
    pub fn live(&self) -> u32 {
        self.live.load(Ordering::Relaxed)
    }

    /// What gateways have done.
    pub fn counts(&self) -> &AlgCounts {
        &self.counts
    }

    /// A number that others cannot foresee, for each `number`.
    pub fn random(&self, number: u32) -> u32 {
        mix(self.seed ^ mix(number))
    }

    fn bucket(&self, key: &ExpectedKey) -> &[Slot] {
        let at = key.hosts(self.seed) as usize % BUCKETS * BUCKET;
        self.slots.get().and_then(|all| all.get(at..at + BUCKET)).unwrap_or(&[])
    }

    /// Frees a slot that is as it was; whether it was.
    fn release(&self, slot: &Slot, (state, host): (u32, u32)) -> bool {
        let is_free = slot.free(state);
        if is_free {
            self.live.fetch_sub(1, Ordering::Relaxed);
            self.release_host(host as usize);
        }
        is_free
    }

    fn release_host(&self, host: usize) {
        if let Some(counter) = self.hosts.get(host) {
            counter.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The expectation with this key, if there is one.
    pub fn find(&self, key: &ExpectedKey, now: u32) -> Option<Expectation> {
        let all = self.bucket(key).iter().filter_map(Slot::read);
        all.map(|(_, it, _)| it).find(|it| it.key == *key && !it.is_over(now))
    }

    /// Takes away the expectation that a first packet meets.
    pub fn take(&self, key: &ExpectedKey, now: u32) -> Option<Expectation> {
        for slot in self.bucket(key) {
            let Some((state, it, host)) = slot.read() else { continue };
            // Another worker may have got a packet of the same connection.
            if it.key == *key && self.release(slot, (state, host)) {
                if it.is_over(now) {
                    self.counts.note_expired();
                    continue;
                }
                self.counts.note_begun();
                return Some(it);
            }
        }
        None
    }

    /// Expects a connection, in place of the last one that its control connection has announced.
    ///
    /// # Errors
    /// There is no room, or its host has as many as it may have.
    pub fn expect(&self, new: &Expectation, now: u32) -> Result<(), Full> {
        let (bucket, host) = (self.bucket(&new.key), new.key.host(self.seed));
        for slot in bucket {
            let Some((state, it, of_host)) = slot.read() else { continue };
            let is_former = it.control == new.control && it.key.is_ip6 == new.key.is_ip6;
            if it.is_over(now) {
                if self.release(slot, (state, of_host)) {
                    self.counts.note_expired();
                }
            } else if is_former {
                self.release(slot, (state, of_host));
            } else if it.key == new.key {
                return Err(Full);
            }
        }
        let more = |count: u16| (count < OF_HOST).then(|| count + 1);
        let counter = self.hosts.get(host).ok_or(Full)?;
        counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).map_err(|_| Full)?;
        // Before it can be taken away.
        self.live.fetch_add(1, Ordering::Relaxed);
        if bucket.iter().any(|slot| slot.fill(new, host)) {
            self.counts.note_expected();
            return Ok(());
        }
        self.live.fetch_sub(1, Ordering::Relaxed);
        self.release_host(host);
        Err(Full)
    }

    /// Ends what is over, once a tick, whichever worker asks first.
    pub fn sweep(&self, now: u32) {
        if !self.is_any() {
            return;
        }
        let last = self.swept.load(Ordering::Relaxed);
        let is_mine = last != now
            && self.swept.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        for slot in self.slots.get().filter(|_| is_mine).into_iter().flatten() {
            if let Some((state, it, host)) = slot.read()
                && it.is_over(now)
                && self.release(slot, (state, host))
            {
                self.counts.note_expired();
            }
        }
    }

    /// All of them.
    pub fn listed(&self) -> impl Iterator<Item = Expectation> {
        self.slots.get().into_iter().flatten().filter_map(Slot::read).map(|(_, it, _)| it)
    }
}

#[cfg(test)]
mod tests;
