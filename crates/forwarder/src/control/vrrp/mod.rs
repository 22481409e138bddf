//! Virtual routers (VRRP, RFC 9568; version 2 by RFC 3768): the routers of a link elect an active one, which
//! answers for the virtual addresses with a virtual MAC address.

mod actions;
mod listing;
mod receive;
mod state_machine;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

use stoa_wire::{protocol, vrrp};

use super::capability::{Capability, Punted, Start, Step, Verbs};
use super::desired::{self, Action, Prefix, VirtualRouter};
use super::fib::PathKey;
use super::forwarder_state::{ForwarderState, InterfaceState};
use super::listing::unix_s;
use super::punts::protocol_of;
use super::vrfs::{DEFAULT, Slot};
use crate::ethernet::interface_flags::{VIRTUAL, VRRP4, VRRP6};
use crate::neighbor::entry::Millis;
use crate::neighbor::messages::Link;
use crate::punt::Class;
use crate::shared::SpecialNextHop;
use state_machine::{Machine, Parameters, State, VrrpAction};

/// Interface, whether it is IPv6, VRID.
type Key = (u32, bool, u8);

/// Counters of a virtual router.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    transitions: u64,
    received: u64,
    sent: u64,
    interval_errors: u64,
    priority_zero_received: u64,
    priority_zero_sent: u64,
    address_errors: u64,
}

/// The last event, as in ietf-vrrp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    None,
    Startup,
    InterfaceUp,
    InterfaceDown,
    NoPrimaryAddress,
    HigherPriority,
    LowerPriority,
    ActiveTimeout,
}

/// A virtual router on an interface.
struct Router {
    desired: VirtualRouter,
    machine: Machine,
    counts: Counts,
    event: Event,
    last_advertisement_source: Option<IpAddr>,
    /// When it left [`State::Initialize`]; seconds since 1970.
    up_unix_s: u64,
    /// Time of the last state change; seconds since 1970.
    changed_unix_s: u64,
    created_unix_s: u64,
    /// The routes that it added.
    routes: Vec<(Slot, Prefix)>,
    /// Whether it has announced its addresses since it became active.
    is_announced: bool,
}

/// All virtual routers.
#[derive(Default)]
pub(super) struct VirtualRouters {
    routers: BTreeMap<Key, Router>,
    /// Interfaces with virtual routers at their last publication.
    published: BTreeSet<u32>,
}

impl Capability for VirtualRouters {
    const VERBS: Verbs = Verbs {
        retire: ForwarderState::retire_virtual_routers,
        // They may track any interface.
        review: |state, _| state.review_virtual_routers(),
        flags: ForwarderState::vrrp_flags,
        punts: &[Punted {
            class: Class::Vrrp,
            takes: |bytes| protocol_of(bytes) == Some(protocol::VRRP),
            receive: |state, _, packet| state.receive_vrrp(&packet),
        }],
        run_due: ForwarderState::tick_virtual_routers,
        due_in: |state| state.time_until(state.virtual_routers_due()),
        tick: ForwarderState::follow_tracked_networks,
        end: ForwarderState::end_virtual_routers,
        facts: |state, index, facts| facts.virtual_routers = state.virtual_router_states(index),
        entries_of: ForwarderState::add_virtual_router_entries,
        ..Verbs::NONE
    };

    fn start(_: &Start<'_>) -> Self {
        Self::default()
    }
}

fn parameters(desired: &VirtualRouter, priority: u8) -> Parameters {
    Parameters {
        priority,
        preempt: desired.preempt,
        hold_ms: desired.hold_ms,
        interval_ms: Millis::from(desired.interval_cs) * 10,
    }
}

/// The virtual routers of an interface, with whether they are for IPv6.
fn configured_routers(
    interface: &desired::Interface,
) -> impl Iterator<Item = (bool, &VirtualRouter)> + use<'_> {
    let of = |family: &'_ desired::Family| family.enabled;
    let four = interface.ip4.virtual_routers.iter().filter(move |_| of(&interface.ip4));
    let six = interface.ip6.virtual_routers.iter().filter(move |_| of(&interface.ip6));
    four.map(|it| (false, it)).chain(six.map(|it| (true, it)))
}

/// Whether one can become the other without releasing its addresses.
fn is_compatible(one: &VirtualRouter, other: &VirtualRouter) -> bool {
    one.addresses == other.addresses
        && one.version == other.version
        && one.is_owner() == other.is_owner()
}

impl ForwarderState {
    /// Resigns where virtual routers are removed or replaced; runs before interfaces change.
    fn retire_virtual_routers(&mut self, step: &Step<'_>) {
        let stays = |(interface, is_ip6, vrid): Key, router: &Router| {
            let Some(state) = self.interface(interface) else { return false };
            let Some(desired) = step.desired().interfaces.get(&state.name) else { return false };
            let stays_there = desired.enabled
                && desired.vrf == state.desired.vrf
                && (desired.parent == state.desired.parent && desired.tags == state.desired.tags);
            stays_there
                && configured_routers(desired).any(|(six, other)| {
                    six == is_ip6 && other.vrid == vrid && is_compatible(&router.desired, other)
                })
        };
        let mut gone: Vec<Key> = Vec::new();
        for index in step.touched.interfaces.keys().filter_map(|name| self.index_of(name)) {
            let of_interface = (index, false, 0)..=(index, true, u8::MAX);
            let all = self.capabilities.vrrp.routers.range(of_interface);
            gone.extend(all.filter(|it| !stays(*it.0, it.1)).map(|(key, _)| *key));
        }
        for key in &gone {
            self.stop_virtual_router(*key);
            self.capabilities.vrrp.routers.remove(key);
        }
        if !gone.is_empty() {
            self.publish_virtual_routers();
            self.flush();
        }
    }

    fn stop_virtual_router(&mut self, key: Key) {
        let can_send = self.interface(key.0).is_some_and(|state| state.is_up);
        let Some(router) = self.capabilities.vrrp.routers.get_mut(&key) else { return };
        let actions = router.machine.stop(can_send);
        self.run_actions(key, &actions);
    }

    /// Reviews all interfaces: creates new virtual routers, starts and stops them with their interface, and
    /// applies tracking to their priority.
    pub(super) fn review_virtual_routers(&mut self) {
        let mut desired: BTreeMap<Key, VirtualRouter> = BTreeMap::new();
        for index in self.index.with_virtual_routers() {
            if let Some(state) = self.interface(index)
                && !self.is_tunnel(index)
            {
                let all = configured_routers(&state.desired);
                desired.extend(all.map(|(six, it)| ((index, six, it.vrid), it.clone())));
            }
        }
        let gone = self.capabilities.vrrp.routers.keys().filter(|key| !desired.contains_key(key));
        let mut has_changed = false;
        for key in gone.copied().collect::<Vec<_>>() {
            self.stop_virtual_router(key);
            self.capabilities.vrrp.routers.remove(&key);
            has_changed = true;
        }
        for (key, desired) in desired {
            has_changed |= self.review_virtual_router(key, desired);
        }
        if has_changed {
            self.publish_virtual_routers();
        }
    }

    /// Returns whether anything has changed.
    fn review_virtual_router(&mut self, key: Key, desired: VirtualRouter) -> bool {
        let priority = self.tracked_priority(key.0, &desired);
        let now = self.now();
        let is_up = self.interface(key.0).is_some_and(|state| state.is_up);
        let has_source = self.vrrp_source(key).is_some();
        let new = |desired: VirtualRouter| Router {
            machine: Machine::new(parameters(&desired, priority)),
            desired,
            counts: Counts::default(),
            event: Event::None,
            last_advertisement_source: None,
            up_unix_s: 0,
            changed_unix_s: unix_s(),
            created_unix_s: unix_s(),
            routes: Vec::new(),
            is_announced: false,
        };
        let known = self.capabilities.vrrp.routers.contains_key(&key);
        let router =
            self.capabilities.vrrp.routers.entry(key).or_insert_with(|| new(desired.clone()));
        let mut has_changed = false;
        let is_new = parameters(&router.desired, 0) != parameters(&desired, 0);
        if is_new || router.machine.priority() != priority {
            router.machine.set_parameters(parameters(&desired, priority));
        }
        if router.desired != desired {
            router.desired = desired;
            has_changed = true;
        }
        let actions = match (router.machine.state(), is_up && has_source) {
            (State::Initialize, true) => {
                router.event = if known { Event::InterfaceUp } else { Event::Startup };
                router.up_unix_s = unix_s();
                router.changed_unix_s = router.up_unix_s;
                router.machine.start(now)
            }
            (State::Initialize, false) => Vec::new(),
            (_, false) => {
                router.event = if is_up { Event::NoPrimaryAddress } else { Event::InterfaceDown };
                router.changed_unix_s = unix_s();
                router.machine.stop(false)
            }
            (_, true) => Vec::new(),
        };
        has_changed |= !actions.is_empty();
        self.run_actions(key, &actions);
        has_changed
    }

    /// The priority minus the decrements of tracked objects that are down; that of an owner is fixed.
    fn tracked_priority(&self, interface: u32, desired: &VirtualRouter) -> u8 {
        if desired.is_owner() {
            return desired.priority;
        }
        let is_down = |name: &String| {
            let state = self.index_of(name).and_then(|index| self.interface(index));
            state.is_none_or(|state| !state.is_up)
        };
        let down = desired.tracked.iter().filter(|(name, _)| is_down(name));
        let slot = self.interface(interface).map_or(DEFAULT, |state| state.vrf);
        let lost =
            desired.networks.iter().filter(|(prefix, _)| !self.has_usable_route(slot, *prefix));
        let decrements = down.map(|(_, less)| less).chain(lost.map(|(_, less)| less));
        let less = decrements.fold(0_u8, |sum, less| sum.saturating_add(*less));
        desired.priority.saturating_sub(less).max(1)
    }

    /// Whether a VRF has a usable route to exactly this prefix.
    fn has_usable_route(&self, slot: Slot, prefix: Prefix) -> bool {
        let leads = |keys: &[PathKey]| {
            self.live_paths(keys).iter().any(|(is_unreachable, _)| !is_unreachable)
        };
        if let Some(installed) = self.vrfs.route(slot, &prefix) {
            let is_local = matches!(installed.route.action, Action::Special(SpecialNextHop::Local));
            return is_local || installed.set.as_deref().is_some_and(leads);
        }
        let next_hop = self.fib.get(slot, prefix);
        let vrf_hop = next_hop.and_then(|next_hop| self.capabilities.learned.vrf_hop(next_hop));
        vrf_hop.is_some_and(|vrf_hop| leads(&vrf_hop.paths) || leads(&vrf_hop.backup))
    }

    /// Checks whether tracked networks have changed.
    fn follow_tracked_networks(&mut self) {
        let has_moved = |(key, router): (&Key, &Router)| {
            !router.desired.networks.is_empty()
                && router.machine.priority() != self.tracked_priority(key.0, &router.desired)
        };
        if self.capabilities.vrrp.routers.iter().any(has_moved) {
            self.review_virtual_routers();
        }
    }

    /// Runs the timers.
    fn tick_virtual_routers(&mut self) {
        let now = self.now();
        let is_due = |router: &Router| router.machine.due().is_some_and(|due| due <= now);
        let due = self.capabilities.vrrp.routers.iter().filter(|(_, router)| is_due(router));
        let due: Vec<Key> = due.map(|(key, _)| *key).collect();
        let mut has_changed = false;
        for key in due {
            let Some(router) = self.capabilities.vrrp.routers.get_mut(&key) else { continue };
            let actions = router.machine.expire(now);
            if actions.contains(&VrrpAction::TakeOver) {
                router.event = Event::ActiveTimeout;
                has_changed = true;
            }
            self.run_actions(key, &actions);
        }
        if has_changed {
            self.publish_virtual_routers();
        }
    }

    /// When the next timer expires.
    fn virtual_routers_due(&self) -> Option<Millis> {
        self.capabilities.vrrp.routers.values().filter_map(|router| router.machine.due()).min()
    }

    /// All resign: the forwarder ends.
    fn end_virtual_routers(&mut self) {
        for key in self.capabilities.vrrp.routers.keys().copied().collect::<Vec<_>>() {
            self.stop_virtual_router(key);
        }
    }

    /// The flags of an interface in the workers.
    fn vrrp_flags(&self, index: u32, state: &InterfaceState) -> u32 {
        let bit = |on: bool, bit: u32| if on { bit } else { 0 };
        bit(!state.desired.ip4.virtual_routers.is_empty(), VRRP4)
            | bit(!state.desired.ip6.virtual_routers.is_empty(), VRRP6)
            | bit(self.has_active_virtual(index), VIRTUAL)
    }

    /// The virtual MAC address of an address on an interface, while its virtual router is active.
    pub(super) fn virtual_mac(&self, interface: u32, address: IpAddr) -> Option<[u8; 6]> {
        let of_family = self.virtual_routers_of(interface, address.is_ipv6());
        let mut active = of_family.filter(|(_, it)| it.machine.state() == State::Active);
        let found = active.find(|(_, router)| router.desired.addresses.contains(&address));
        found.map(|(vrid, _)| vrrp::mac(vrid, address.is_ipv6()).0)
    }

    /// Whether an address of an interface belongs to one of its virtual routers: another router may have it.
    pub(super) fn is_vrrp_address(&self, interface: u32, address: IpAddr) -> bool {
        self.interface(interface).is_some_and(|state| {
            configured_routers(&state.desired)
                .any(|(_, router)| router.addresses.contains(&address))
        })
    }

    /// Whether another router answers for it now.
    pub(super) fn is_inactive_vrrp_address(&self, interface: u32, address: IpAddr) -> bool {
        self.is_vrrp_address(interface, address) && self.virtual_mac(interface, address).is_none()
    }

    /// Whether a MAC address belongs to an active virtual router of the interface.
    pub(super) fn is_virtual_mac(&self, interface: u32, mac: [u8; 6]) -> bool {
        let is_it = |is_ip6: bool| {
            let mut all = self.virtual_routers_of(interface, is_ip6);
            all.any(|(vrid, it)| {
                it.machine.state() == State::Active && vrrp::mac(vrid, is_ip6).0 == mac
            })
        };
        is_it(false) || is_it(true)
    }

    fn virtual_routers_of(
        &self,
        interface: u32,
        is_ip6: bool,
    ) -> impl Iterator<Item = (u8, &Router)> {
        let range = (interface, is_ip6, 0)..=(interface, is_ip6, u8::MAX);
        self.capabilities.vrrp.routers.range(range).map(|(key, router)| (key.2, router))
    }

    /// The link-layer header for one of our addresses: with its virtual MAC address while it has one.
    pub(super) fn link_for(&self, interface: u32, address: IpAddr) -> Option<Link> {
        let link = self.interface(interface)?.link.clone();
        Some(match self.virtual_mac(interface, address) {
            Some(mac) => Link { mac, is_router: true, ..link },
            None => link,
        })
    }

    /// The source of an interface's IPv6 router advertisements: with virtual routers, the active one, and
    /// none while none is active (RFC 9568 6.4.2).
    pub(super) fn advertiser(&self, interface: u32) -> Option<(Ipv6Addr, Link)> {
        let own = self.interface(interface)?.link.clone();
        let mut all = self.virtual_routers_of(interface, true).peekable();
        if all.peek().is_none() {
            return Some((self.confirmed_link_local(interface)?, own));
        }
        let (vrid, router) = all.find(|(_, it)| it.machine.state() == State::Active)?;
        let IpAddr::V6(source) = router.desired.addresses.first()? else { return None };
        Some((*source, Link { mac: vrrp::mac(vrid, true).0, is_router: true, ..own }))
    }
}
