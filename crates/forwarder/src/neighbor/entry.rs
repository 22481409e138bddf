//! One neighbour and its states (RFC 4861 7.3.2; ARP neighbours follow the same).

use std::collections::VecDeque;
use std::net::IpAddr;

use stoa_engine::Packet;

use super::occupancy::EvictionClass;

/// An interface and an address on its link.
pub type Key = (u32, IpAddr);

/// Milliseconds since the forwarder began.
pub type Millis = u64;

/// Packets that wait for one neighbour at most.
pub const QUEUE: usize = 16;
/// Time between two questions: RETRANS_TIMER.
pub const RETRANSMIT_MS: Millis = 1000;
/// Questions before giving up: MAX_MULTICAST_SOLICIT and MAX_UNICAST_SOLICIT.
pub const MAX_SOLICITS: u8 = 3;
/// How long an answer is trusted, in the middle: REACHABLE_TIME. What is used is
/// between half and one and a half of it (RFC 4861 6.3.2), see `Cache`.
pub const REACHABLE_MS: Millis = 30_000;
/// The longest time for which an answer is trusted.
pub const MAX_REACHABLE_MS: Millis = REACHABLE_MS * 3 / 2;
/// How long traffic may show that a stale neighbour lives: DELAY_FIRST_PROBE_TIME.
pub const DELAY_MS: Millis = 5000;
/// How long a neighbour that does not answer is left alone.
pub const FAILED_MS: Millis = 3000;
/// How long an unused neighbour is remembered.
pub const GC_STALE_MS: Millis = 600_000;

/// What is known of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Asked for, no answer yet.
    Incomplete,
    /// Confirmed of late.
    Reachable,
    /// Known, not confirmed of late, not used since.
    Stale,
    /// Used while stale: about to be asked again.
    Delay,
    /// Asked again, directly.
    Probe,
    /// Does not answer.
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
    /// When it was last confirmed, or came into being.
    pub confirmed: Millis,
    /// When something is to be done about it.
    pub deadline: Millis,
    /// Questions asked in this state.
    pub tries: u8,
    /// Packets that wait.
    pub queue: VecDeque<Packet>,
    /// Routes that lead through it: it is kept while there are any.
    pub pins: u32,
    /// Whether it has ever answered us: until then anybody may have made it up.
    pub verified: bool,
    /// Whether it stopped answering and has not come back: routes go round it.
    pub lost: bool,
    /// Names the neighbour in its adjacencies and in packets that wait for it; never 0.
    pub serial: u32,
    /// The adjacency of the forwarding table.
    pub adjacency: u32,
    /// The next hop that stands for it.
    pub next_hop: u32,
    /// The VRFs in which a host route leads to it: that of its interface, and others with a
    /// route to its link.
    pub routed_in: Vec<usize>,
    /// Packets sent to it when last looked at.
    pub used: u64,
    /// Packets and bytes over adjacencies that it had before.
    pub(super) carried: (u64, u64),
    /// What the counters of its adjacency said when it got it: ids are used again.
    pub(super) base: (u64, u64),
}

impl Entry {
    /// A neighbour that nothing is known of.
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

    /// How it counts in the census.
    pub fn eviction_class(&self) -> EvictionClass {
        match self.state {
            State::Permanent => EvictionClass::Configured,
            state if !state.is_resolved() => EvictionClass::Unresolved,
            _ if self.verified => EvictionClass::Verified,
            _ => EvictionClass::Unverified,
        }
    }

    /// Packets and bytes sent to it, when the counters of its adjacency say `now`.
    pub fn sent(&self, now: (u64, u64)) -> (u64, u64) {
        let more = (now.0.saturating_sub(self.base.0), now.1.saturating_sub(self.base.1));
        (self.carried.0 + more.0, self.carried.1 + more.1)
    }

    /// It gets another adjacency: the old one's counters say `old`, the new one's `new`.
    pub fn carry(&mut self, old: (u64, u64), new: (u64, u64)) {
        self.carried = self.sent(old);
        (self.base, self.used) = (new, new.0);
    }

    /// Takes in that the neighbour has this MAC address, which is trusted so long.
    pub fn confirm(&mut self, mac: [u8; 6], now: Millis, reachable: Millis) {
        (self.mac, self.state) = (mac, State::Reachable);
        (self.confirmed, self.deadline, self.tries) = (now, now + reachable, 0);
        (self.verified, self.lost) = (true, false);
    }

    /// Takes in a hint of a MAC address that nobody has confirmed (RFC 4861 7.2.3).
    pub fn hint(&mut self, mac: [u8; 6], now: Millis) {
        if self.state.is_resolved() && self.mac == mac {
            return;
        }
        (self.mac, self.state) = (mac, State::Stale);
        (self.deadline, self.tries, self.lost) = (now + GC_STALE_MS, 0, false);
    }
}
