//! Translation of IPv4 addresses (NAT44: RFC 4787, 5382, 5508): policies, static mappings, and three nodes.
//!
//! A translated flow has two keys: that of its packets in the original direction, and that of the replies. The node of
//! access lists of received packets finds a packet's flow by either. `ip4-nat44-input` gives packets other
//! destinations: behind input lists, which see packets as they are on the wire, and before routes. `ip4-nat44-output`
//! gives packets other sources: behind zone pairs, which see inside addresses, and before output lists. What is
//! translated has the flag [`TRANSLATED`](stoa_engine::vector::flags::TRANSLATED), so that an ICMP error about it
//! quotes and reaches its sender.

mod adopt;
mod alg;
mod allocate;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod apply_avx2;
pub mod backends;
pub mod block_events;
pub mod blocks;
mod choice;
mod create;
mod errors;
mod events;
mod first;
mod held;
mod input;
mod known;
mod lanes;
mod left;
mod make;
pub mod mappings;
mod output;
mod places;
pub mod quotas;
pub mod rewrite;
pub mod statics;
mod vouch;
pub mod vrfs;
mod worker;

pub use alg::{AlgPort, Wanted, external_port};
pub use errors::restore;
pub use held::NotHeld;
pub use input::make_input;
pub(crate) use lanes::{goes_on, undo};
pub(crate) use left::LEFT_PART;
pub use output::make_output;
pub use places::{Places, Wish};
pub(crate) use vouch::{Leaves, is_never_vouched};
pub use worker::{CONTROL, NatWorker, Traffic};

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use stoa_api::nat::Deterministic;
use stoa_engine::Vector;

use crate::drops::Drop;
use crate::icmp::IcmpCause;
use crate::nat64::hosts::is_stand_in;
use blocks::{BlockRange, Share};
use quotas::Quota;
use statics::{StaticEnd, Statics};

/// Next nodes of packets besides those of the arc.
pub const EDGES: &[&str] = &["icmp4-error"];
const ERROR: u16 = 0;

/// Drops a lane. One for which no external port or mapping is left is answered (RFC 4787 REQ-12, as RFC 7857 advises),
/// unless its policy is silent, the first; and one that may begin no flow, unless refusals of flows are, the second.
fn refuse((vector, lane): (&mut Vector, usize), reason: Drop, is_silent: [bool; 2]) {
    let [of_policy, of_flows] = is_silent;
    let (cause, is_silent) = match reason {
        Drop::Nat44NoPort => (Some(IcmpCause::NoPort), of_policy),
        Drop::Nat44Quota => (Some(IcmpCause::Quota), of_policy),
        Drop::Nat44TableFull => (IcmpCause::of_flow(reason), of_policy),
        _ => (IcmpCause::of_flow(reason), of_flows),
    };
    match cause.filter(|_| !is_silent) {
        Some(cause) => (vector.arg[lane], vector.next[lane]) = (cause.code(), ERROR),
        None => vector.next[lane] = reason.next(),
    }
}

/// The node that translates destinations.
pub const INPUT_NODE: &str = "ip4-nat44-input";
/// The node that routes translated packets in other VRFs.
pub const VRF_NODE: &str = "ip4-nat44-vrf";
/// The node that translates sources.
pub const OUTPUT_NODE: &str = "ip4-nat44-output";

/// An IPv4 prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix4 {
    /// The first address.
    pub network: u32,
    /// Its length.
    pub length: u8,
}

impl Prefix4 {
    const fn host_bits(self) -> u32 {
        match u32::MAX.checked_shr(self.length as u32) {
            Some(bits) => bits,
            None => 0,
        }
    }

    /// Whether an address is in it.
    #[inline]
    pub const fn contains(self, address: u32) -> bool {
        address & !self.host_bits() == self.network
    }

    /// The last address.
    pub const fn last(self) -> u32 {
        self.network | self.host_bits()
    }
}

/// RFC 4787 section 5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filtering {
    /// Only the address and port to which the internal host has sent.
    #[default]
    AddressAndPort,
    /// Any port of an address to which it has sent.
    Address,
    /// Anyone.
    Anyone,
}

/// How a policy maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mapping {
    /// An internal address and port keeps its external ones.
    #[default]
    EndpointIndependent,
    /// Each flow has a port of its own, which other flows to other ends may have too.
    EndpointDependent,
    /// Only static mappings translate.
    Static,
}

/// What became of packets of a policy. Workers add to it for first packets of flows only.
#[derive(Debug, Default)]
pub struct Counts {
    /// Flows created.
    pub created: AtomicU64,
    /// Packets dropped because no external port was free.
    pub out_of_ports: AtomicU64,
    /// Packets dropped because there was no room.
    pub table_full: AtomicU64,
    /// Packets dropped because there was no external address.
    pub no_address: AtomicU64,
    /// Packets dropped because their subscriber had as much as it may have.
    pub over_quota: AtomicU64,
    /// The tick of the last refusal that was reported, plus one.
    reported: AtomicU32,
}

impl Counts {
    fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether a refusal is reported: one in each tick, of all workers.
    fn reports(&self, tick: u32) -> bool {
        self.reported.swap(tick.wrapping_add(1), Ordering::Relaxed) != tick.wrapping_add(1)
    }
}

/// Which external address and ports sources of a policy get.
#[derive(Clone, Debug, Default)]
pub enum Allocation {
    /// Any port of the address that the hash of the source chooses.
    #[default]
    Ports,
    /// Blocks of ports for subscribers.
    Blocks(Arc<BlockRange>, Share),
    /// The block that follows from the source (RFC 7422).
    Deterministic(Arc<Deterministic>),
}

/// A policy as workers need it.
#[derive(Debug)]
pub struct Policy {
    /// Its number, which its flows have, and never that of another policy or static mapping.
    pub number: u32,
    /// The instance.
    pub instance: u32,
    /// The index of the external interface.
    pub interface: u32,
    /// Sources that are translated; empty: all.
    pub subscribers: Vec<Prefix4>,
    /// Whether it translates stand-ins of IPv6 hosts, and nothing else.
    pub is_nat64: bool,
    /// Destinations to which packets go as they are.
    pub exempt: Vec<Prefix4>,
    /// External addresses.
    pub pools: Vec<Prefix4>,
    /// First and last external port.
    pub ports: (u16, u16),
    /// How it maps.
    pub mapping: Mapping,
    /// Who may send to a mapping.
    pub filtering: Filtering,
    /// Which external ports a source gets.
    pub allocation: Allocation,
    /// What a source may have, where blocks do not say so.
    pub quota: Option<Quota>,
    /// Whether senders of packets without a port get no ICMP.
    pub is_silent: bool,
    /// Application level gateways of its flows.
    pub algs: Vec<AlgPort>,
    /// Counters.
    pub counts: Arc<Counts>,
}

impl Policy {
    /// Whether it translates packets from a source.
    pub fn has_subscriber(&self, source: u32) -> bool {
        if self.is_nat64 || is_stand_in(source) {
            return self.is_nat64 && is_stand_in(source);
        }
        self.subscribers.is_empty() || self.subscribers.iter().any(|it| it.contains(source))
    }

    /// Whether packets to a destination go as they are.
    fn exempts(&self, destination: u32) -> bool {
        self.exempt.iter().any(|it| it.contains(destination))
    }

    /// The external address of a source: always the same (RFC 4787 REQ-2). `hash`: of the source.
    fn address_of(&self, hash: u32) -> Option<u32> {
        let count = |pool: &Prefix4| u64::from(pool.host_bits()) + 1;
        let total: u64 = self.pools.iter().map(count).sum();
        let mut at = (u64::from(hash) * total) >> 32;
        for pool in &self.pools {
            if at < count(pool) {
                return Some(pool.network | at as u32);
            }
            at -= count(pool);
        }
        None
    }
}

/// What becomes of a packet on its way out of an external interface.
#[derive(Clone, Copy, Debug)]
enum Outbound<'a> {
    /// It goes as it is.
    Untranslated,
    /// It has the inside end of a backend, and no policy translates it: it must not leave.
    Backend,
    /// A static mapping gives it this source.
    Static(u32, StaticEnd),
    /// A policy translates it.
    By(&'a Policy),
    /// Only static mappings translate, and none of them has its source.
    Refused(&'a Policy),
}

/// All policies and static mappings.
#[derive(Debug, Default)]
pub struct Nat {
    /// In their order.
    pub policies: Vec<Policy>,
    /// Static mappings.
    pub statics: Statics,
    /// Numbers of static mappings and of their backends with their instance, as
    /// [`static_instances`](Self::static_instances) has them.
    pub instances: Vec<(u32, u32)>,
    /// Blocks of former policies, whose ports still belong to subscribers.
    pub former: Vec<Arc<BlockRange>>,
    /// External addresses of policies and static mappings, as first and last one, with their VRF, in order.
    pub external: Vec<(u16, u32, u32)>,
    /// Ports of external addresses at which the router listens, with their VRF, in order: no mapping gets them.
    pub own_ports: Vec<(u16, u32, u8, u16)>,
    /// Numbers of policies and static mappings, in order: flows of others end.
    pub numbers: Vec<u32>,
    /// Changes whenever numbers go.
    pub epoch: u32,
    /// All VRFs as in keys of flows, with their ids, in order; none if there is only one.
    pub vrfs: Vec<(u16, u32)>,
}

impl Nat {
    /// Whether nothing is translated.
    pub fn is_empty(&self) -> bool {
        self.policies.is_empty() && self.statics.is_empty()
    }

    /// Whether an address is that of a pool, of a static mapping or of an external interface.
    #[inline]
    pub(crate) fn is_external(&self, vrf: u16, address: u32) -> bool {
        let at = self.external.partition_point(|(of, _, last)| (*of, *last) < (vrf, address));
        self.external.get(at).is_some_and(|(of, first, _)| *of == vrf && *first <= address)
    }

    /// Whether a dynamic mapping must not have an external end: a static mapping has it, or the router itself.
    pub(crate) fn is_reserved(&self, vrf: u16, (protocol, address, port): (u8, u32, u16)) -> bool {
        self.own_ports.binary_search(&(vrf, address, protocol, port)).is_ok()
            || self.statics.of_external(vrf, (protocol, address, Some(port))).is_some()
    }

    /// Whether a policy has this interface as its external one.
    fn is_outside(&self, interface: u32) -> bool {
        self.policies.iter().any(|policy| policy.interface == interface)
    }

    /// Whether a static mapping of an instance with this external interface has an internal address of a VRF, with any
    /// port.
    fn is_mapped_inside(&self, interface: u32, (vrf, address): (u16, u32)) -> bool {
        let mut policies = self.policies.iter().filter(|policy| policy.interface == interface);
        policies.any(|policy| self.statics.has_internal((policy.instance, vrf), address))
    }

    /// The policy with a number.
    pub fn policy(&self, number: u32) -> Option<&Policy> {
        self.policies.iter().find(|policy| policy.number == number)
    }

    /// Whether flows with a number go on.
    pub(crate) fn has_number(&self, number: u32) -> bool {
        self.numbers.binary_search(&number).is_ok()
    }

    /// What becomes of a packet of a VRF that an interface is about to forward. `protocol`, and the source port, or the
    /// identifier of an ICMP request.
    fn outbound(
        &self,
        (interface, vrf): (u32, u16),
        (source, destination): (u32, u32),
        (protocol, port): (u8, Option<u16>),
    ) -> Outbound<'_> {
        // Whether the first policy of a backend lets it send to the destination as it is.
        let mut exempts_backend = None;
        for policy in self.policies.iter().filter(|policy| policy.interface == interface) {
            let (scope, end) = ((policy.instance, vrf), (protocol, source, port));
            let found = self.statics.of_internal(scope, end);
            if found.is_none() && !policy.has_subscriber(source) {
                if exempts_backend.is_none() && self.statics.is_backend(scope, end) {
                    exempts_backend = Some(policy.exempts(destination));
                }
                continue;
            }
            if policy.exempts(destination) {
                return Outbound::Untranslated;
            }
            return match found {
                Some((number, end)) => Outbound::Static(number, end),
                None if policy.mapping == Mapping::Static => Outbound::Refused(policy),
                None => Outbound::By(policy),
            };
        }
        match exempts_backend {
            Some(false) => Outbound::Backend,
            _ => Outbound::Untranslated,
        }
    }
}

#[cfg(test)]
mod tests;
