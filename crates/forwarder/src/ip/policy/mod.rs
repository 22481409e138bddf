//! Policy routing: rules that look at more of a packet than its destination, and say by which table
//! it is routed, or that it is not (as `ip rule` of Linux has them, ip-rule(8)).
//!
//! A feature of the arcs between `ip4-input` and `ip4-lookup`, and of IPv6: on at the interfaces of
//! VRFs that have rules. What is for our own addresses is ours whatever rules say.

mod header;
mod node;
mod walk;

pub use node::{EDGES4, EDGES6, make4, make6};

use std::sync::Arc;

use stoa_engine::counters::Counter;

use crate::shared::SpecialNextHop;

/// This feature's place in the arc; what packets go on to that nothing is decided about.
pub const ARC_POSITION: usize = 1;

/// Rules of one VRF and family at most.
pub const RULES: usize = 1_024;

/// The priority before whose rules the VRF's own table is looked at: that of `main` in Linux.
pub const OWN_TABLE: u32 = 32_766;

/// Any interface, in [`Match::interface`].
pub const ANY: u32 = u32::MAX;

/// What a rule is about; all of it has to hold. `K` is an address in host byte order.
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
    /// Value and mask of the protocol, as [`header`] has it.
    pub protocol: (u16, u16),
    /// First and last source port; from 0 on: any, or none.
    pub source_ports: (u16, u16),
    /// First and last destination port.
    pub destination_ports: (u16, u16),
}

impl<K: Default> Match<K> {
    /// All packets.
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

/// What becomes of packets that a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyAction {
    /// Routed by this table; where it has no route, the next rule is looked at.
    Table {
        /// The name of its VRF, as workers know it.
        vrf: u32,
        /// Whether its default route does not count.
        beyond_default: bool,
    },
    /// Dropped, and the sender is told or not.
    Special(SpecialNextHop),
    /// The next rule is the one at this place, which is further down.
    Goto(usize),
}

/// One rule as workers read it.
#[derive(Clone, Debug)]
pub struct Rule<K> {
    /// What it is about.
    pub of: Match<K>,
    /// What it does.
    pub action: PolicyAction,
    /// What it did.
    pub hits: Arc<Hits>,
}

impl<K: PartialEq> PartialEq for Rule<K> {
    fn eq(&self, other: &Self) -> bool {
        self.of == other.of && self.action == other.action && Arc::ptr_eq(&self.hits, &other.hits)
    }
}

/// Packets and bytes that a rule decided about, on one worker.
#[derive(Default)]
#[repr(align(64))]
struct Cell {
    packets: Counter,
    bytes: Counter,
}

/// What a rule did.
pub struct Hits(Box<[Cell]>);

impl std::fmt::Debug for Hits {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:?}", self.sum())
    }
}

impl Hits {
    /// Nothing so far, with room for so many workers.
    pub fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| Cell::default()).collect())
    }

    /// Counts; only this worker itself may say so.
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

/// The rules of one family of a VRF, in their order, its own table among them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules<K> {
    /// In the order in which they are looked at.
    pub list: Vec<Rule<K>>,
    /// Whether any of them asks for protocol or ports, which are behind extension headers.
    pub is_deep: bool,
}

/// The rules of one VRF.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// The name of the VRF, as workers know it.
    pub vrf: u32,
    /// IPv4.
    pub ip4: Rules<u32>,
    /// IPv6.
    pub ip6: Rules<u128>,
}

/// The rules of all VRFs that have some.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policies(pub Vec<Policy>);

impl Policies {
    /// Those of the VRF of that name.
    pub fn of(&self, vrf: u32) -> Option<&Policy> {
        self.0.iter().find(|policy| policy.vrf == vrf)
    }
}

#[cfg(test)]
mod tests;
