//! Policy routing: rules select the routing table of a packet by more than its destination, or drop
//! it, as Linux rules do (ip-rule(8)).
//!
//! A feature of the arcs between `ip4-input` and `ip4-lookup`, and of IPv6, enabled on the interfaces
//! of VRFs with rules. Rules do not apply to packets for local addresses.

mod header;
mod node;
mod walk;

pub(crate) use node::follow_route4;
pub use node::{EDGES4, EDGES6, make4, make6};

use std::sync::Arc;

use stoa_engine::counters::Counter;

use crate::shared::SpecialNextHop;

/// The most rules of one VRF and family.
pub const RULES: usize = 1_024;

/// The priority of the VRF's own table: that of `main` in Linux.
pub const OWN_TABLE: u32 = 32_766;

/// Any interface, in [`Match::interface`].
pub const ANY: u32 = u32::MAX;

/// The conditions of a rule; all of them must hold. `K` is an address in host byte order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match<K> {
    /// Network and mask of the source.
    pub source: (K, K),
    /// Network and mask of the destination.
    pub destination: (K, K),
    /// The interface that received the packet, or [`ANY`].
    pub interface: u32,
    /// Value and mask of the TOS byte or traffic class.
    pub class: (u8, u8),
    /// Value and mask of the protocol as in [`header`].
    pub protocol: (u16, u16),
    /// First and last source port; a range from 0 also matches packets without ports.
    pub source_ports: (u16, u16),
    /// First and last destination port.
    pub destination_ports: (u16, u16),
}

impl<K: Default> Match<K> {
    /// Matches all packets.
    pub fn all() -> Self {
        Self {
            source: Default::default(),
            destination: Default::default(),
            interface: ANY,
            class: (0, 0),
            protocol: (0, 0),
            source_ports: (0, u16::MAX),
            destination_ports: (0, u16::MAX),
        }
    }
}

/// The action of a rule on packets that match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyAction {
    /// Look up this table; without a route, continue with the next rule.
    Table {
        /// The id of its VRF for workers.
        vrf: u32,
        /// Whether to ignore its default route.
        suppress_default: bool,
    },
    /// Drop, with or without an ICMP error.
    Special(SpecialNextHop),
    /// Continue with the rule at this index, which is further down.
    Goto(usize),
}

/// One rule in the form for workers.
#[derive(Clone, Debug)]
pub struct Rule<K> {
    /// Its conditions.
    pub of: Match<K>,
    /// Its action.
    pub action: PolicyAction,
    /// Its counters.
    pub hits: Arc<Hits>,
}

impl<K: PartialEq> PartialEq for Rule<K> {
    fn eq(&self, other: &Self) -> bool {
        self.of == other.of && self.action == other.action && Arc::ptr_eq(&self.hits, &other.hits)
    }
}

/// Packets and bytes that matched a rule, on one worker.
#[derive(Default)]
#[repr(align(64))]
struct Cell {
    packets: Counter,
    bytes: Counter,
}

/// The hit counters of a rule.
pub struct Hits(Box<[Cell]>);

impl std::fmt::Debug for Hits {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:?}", self.sum())
    }
}

impl Hits {
    /// Zero counters for so many workers.
    pub fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| Cell::default()).collect())
    }

    /// Adds to the counters of a worker; only this worker calls it.
    fn add(&self, worker: usize, packets: usize, bytes: u64) {
        if let Some(cell) = self.0.get(worker) {
            cell.packets.add(packets as u64);
            cell.bytes.add(bytes);
        }
    }

    /// Packets and bytes of all workers.
    pub fn sum(&self) -> (u64, u64) {
        let add =
            |sum: (u64, u64), cell: &Cell| (sum.0 + cell.packets.get(), sum.1 + cell.bytes.get());
        self.0.iter().fold((0, 0), add)
    }
}

/// The rules of one family of a VRF, with its own table among them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules<K> {
    /// In the order of evaluation.
    pub list: Vec<Rule<K>>,
    /// Whether any of them matches protocol or ports, which are behind extension headers.
    pub is_deep: bool,
}

/// The rules of one VRF.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// The id of the VRF for workers.
    pub vrf: u32,
    /// IPv4.
    pub ip4: Rules<u32>,
    /// IPv6.
    pub ip6: Rules<u128>,
}

/// The rules of all VRFs with rules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policies(pub Vec<Policy>);

impl Policies {
    /// The rules of the VRF with this id.
    pub fn of(&self, vrf: u32) -> Option<&Policy> {
        self.0.iter().find(|policy| policy.vrf == vrf)
    }
}

#[cfg(test)]
mod tests;
