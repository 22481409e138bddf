//! A neighbour and its states (RFC 4861 7.3.2); ARP neighbours use the same state machine.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use stoa_engine::Packet;

use super::occupancy::EvictionClass;

/// An interface and an address on its link.
pub type Key = (u32, IpAddr);

/// All keys of an interface.
pub fn keys_of(interface: u32) -> RangeInclusive<Key> {
    let (first, last) = (Ipv4Addr::UNSPECIFIED, Ipv6Addr::from(u128::MAX));
    (interface, IpAddr::V4(first))..=(interface, IpAddr::V6(last))
}

/// Milliseconds since the start of the forwarder.
pub type Millis = u64;

/// The most packets queued for one neighbour.
pub const QUEUE: usize = 16;
/// Interval of solicitations: RETRANS_TIMER.
pub const RETRANSMIT_MS: Millis = 1000;
/// Number of solicitations: MAX_MULTICAST_SOLICIT and MAX_UNICAST_SOLICIT.
pub const MAX_SOLICITS: u8 = 3;
/// The mean reachable time: REACHABLE_TIME. The cache uses a random value between 0.5 and 1.5 times
/// this (RFC 4861 6.3.2).
pub const REACHABLE_MS: Millis = 30_000;
/// The longest reachable time.
pub const MAX_REACHABLE_MS: Millis = REACHABLE_MS * 3 / 2;
/// Time between the use of a stale neighbour and the first probe: DELAY_FIRST_PROBE_TIME.
pub const DELAY_MS: Millis = 5000;
/// Time before a failed neighbour is deleted or solicited again.
pub const FAILED_MS: Millis = 3000;
/// Time after which an unused stale neighbour is deleted.
pub const GC_STALE_MS: Millis = 600_000;

/// The state of a neighbour (RFC 4861 7.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Solicited, no reply yet.
    Incomplete,
    /// Confirmed within the reachable time.
    Reachable,
    /// Not confirmed within the reachable time, and unused since.
    Stale,
    /// Used while stale: waits for the first probe.
    Delay,
    /// Unicast probes are sent.
    Probe,
    /// Resolution failed.
    Failed,
    /// Configured.
    Permanent,
}

impl State {
    /// The name in `stoa show neighbors`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Incomplete => "incomplete",
            Self::Reachable => "reachable",
            Self::Stale => "stale",
            Self::Delay => "delay",
            Self::Probe => "probe",
            Self::Failed => "failed",
            Self::Permanent => "permanent",
        }
    }

    /// Whether packets can be sent to it.
    pub fn is_resolved(self) -> bool {
        !matches!(self, Self::Incomplete | Self::Failed)
    }
}

/// A neighbour.
#[derive(Debug)]
pub struct Entry {
    /// The state.
    pub state: State,
    /// Its MAC address, when resolved.
    pub mac: [u8; 6],
    /// When it was last confirmed or created.
    pub confirmed: Millis,
    /// When its timer expires.
    pub deadline: Millis,
    /// Solicitations sent in this state.
    pub tries: u8,
    /// Packets queued for resolution.
    pub(super) queue: VecDeque<Packet>,
    /// Number of routes through it; it is kept while there are any.
    pub pins: u32,
    /// Whether it has ever replied to a solicitation: otherwise its address can be forged.
    pub verified: bool,
    /// Whether it stopped replying and has not come back: routes avoid it.
    pub lost: bool,
    /// Identifies the neighbour in its adjacencies and in queued packets; never 0.
    pub serial: u32,
    /// Its adjacency in the forwarding table.
    pub adjacency: u32,
    /// Its next hop in the forwarding table.
    pub next_hop: u32,
    /// The VRFs with a host route to it: that of its interface, and others with a route to its link.
    pub routed_in: Vec<usize>,
    /// The packet counter of its adjacency at the last check.
    pub used: u64,
    /// Packets and bytes of its previous adjacencies.
    pub(super) carried: (u64, u64),
    /// The counters of its adjacency at assignment: adjacency ids are reused.
    pub(super) base: (u64, u64),
}

impl Entry {
    /// The number of packets that wait for it.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// An unresolved neighbour.
    pub fn new(now: Millis) -> Self {
        Self {
            state: State::Incomplete,
            mac: [0; 6],
            confirmed: now,
            deadline: now,
            tries: 0,
            queue: VecDeque::new(),
            pins: 0,
            verified: false,
            lost: false,
            serial: 0,
            adjacency: 0,
            next_hop: 0,
            routed_in: Vec::new(),
            used: 0,
            carried: (0, 0),
            base: (0, 0),
        }
    }

    /// Its eviction class.
    pub fn eviction_class(&self) -> EvictionClass {
        match self.state {
            State::Permanent => EvictionClass::Configured,
            state if !state.is_resolved() => EvictionClass::Unresolved,
            _ if self.verified => EvictionClass::Verified,
            _ => EvictionClass::Unverified,
        }
    }

    /// Packets and bytes sent to it; `now` is the value of the counters of its adjacency.
    pub fn sent(&self, now: (u64, u64)) -> (u64, u64) {
        let more = (now.0.saturating_sub(self.base.0), now.1.saturating_sub(self.base.1));
        (self.carried.0 + more.0, self.carried.1 + more.1)
    }

    /// Changes its adjacency: `old` and `new` are the counters of the old and the new one.
    pub fn carry(&mut self, old: (u64, u64), new: (u64, u64)) {
        self.carried = self.sent(old);
        (self.base, self.used) = (new, new.0);
    }

    /// Confirms its MAC address for the `reachable` time.
    pub fn confirm(&mut self, mac: [u8; 6], now: Millis, reachable: Millis) {
        (self.mac, self.state) = (mac, State::Reachable);
        (self.confirmed, self.deadline, self.tries) = (now, now + reachable, 0);
        (self.verified, self.lost) = (true, false);
    }

    /// Sets an unconfirmed MAC address (RFC 4861 7.2.3).
    pub fn hint(&mut self, mac: [u8; 6], now: Millis) {
        if self.state.is_resolved() && self.mac == mac {
            return;
        }
        (self.mac, self.state) = (mac, State::Stale);
        (self.deadline, self.tries, self.lost) = (now + GC_STALE_MS, 0, false);
    }
}
