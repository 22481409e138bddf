//! VRFs: routing tables beside the default one, each with its own routes, addresses and
//! neighbours' host routes. An interface is in one of them; what it receives is routed there.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::desired::{DesiredState, Prefix, Route, bits, network};
use super::fib::PathKey;
use super::limits::TableFull;
use super::forwarder_state::{Installed, ForwarderState};
use super::route_counts::RouteCounts;
use crate::shared::{DEFAULT_VRF, VrfReaders, VrfTables, vrf_id};

/// VRFs that a forwarder has at most, the default one among them.
pub const VRFS: usize = 256;

/// The place of a VRF; 0 is the default one.
pub type Slot = usize;

/// The place of the default VRF.
pub const DEFAULT: Slot = 0;

/// A VRF on the control thread.
pub(super) struct VrfState {
    /// "" is the default one.
    pub(super) name: String,
    /// The name by which workers know it.
    pub(super) id: u32,
    pub(super) routes: BTreeMap<Prefix, Installed>,
    /// DesiredState, and out of the table while all their gateways are silent.
    pub(super) bfd_down: BTreeMap<Prefix, Route>,
    pub(super) counts: RouteCounts,
}

/// All VRFs by slot.
pub(super) struct Vrfs {
    slots: Vec<Option<VrfState>>,
    /// How many prefixes a VRF has on the link of an interface, that is, without a gateway.
    links: BTreeMap<(u32, Slot), usize>,
    /// How many VRFs there were so far.
    generation: u32,
}

impl Vrfs {
    /// The default one alone.
    pub(super) fn new() -> Self {
        let mut vrfs = Self { slots: Vec::new(), links: BTreeMap::new(), generation: 0 };
        vrfs.slots.push(Some(VrfState::new("", DEFAULT_VRF)));
        vrfs
    }

    /// How many there are, the default one among them.
    pub(super) fn len(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    /// All of them in the order of their slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, &VrfState)> {
        let known = self.slots.iter().enumerate();
        known.filter_map(|(slot, state)| Some((slot, state.as_ref()?)))
    }

    /// One of them.
    pub(super) fn get(&self, slot: Slot) -> Option<&VrfState> {
        self.slots.get(slot)?.as_ref()
    }

    /// One of them, to change.
    pub(super) fn get_mut(&mut self, slot: Slot) -> Option<&mut VrfState> {
        self.slots.get_mut(slot)?.as_mut()
    }

    /// The slot of that name; "" is the default one.
    pub(super) fn slot_of(&self, name: &str) -> Option<Slot> {
        self.iter().find(|(_, state)| state.name == name).map(|(slot, _)| slot)
    }

    /// The route to exactly this prefix.
    pub(super) fn route(&self, slot: Slot, prefix: &Prefix) -> Option<&Installed> {
        self.get(slot)?.routes.get(prefix)
    }

    /// The VRFs that have a prefix on the link of an interface: its own, and those into
    /// which such a route was leaked.
    pub(super) fn on_link(&self, interface: u32) -> Vec<Slot> {
        let links = self.links.range((interface, 0)..=(interface, Slot::MAX));
        links.map(|((_, slot), _)| *slot).collect()
    }

    /// Keeps the count of prefixes that a VRF has on the links of interfaces.
    pub(super) fn count_links(&mut self, slot: Slot, set: Option<&[PathKey]>, more: bool) {
        for key in set.unwrap_or_default().iter().filter(|key| key.next_hop.is_none()) {
            let at = (key.interface, slot);
            let count = self.links.entry(at).or_insert(0);
            *count = if more { *count + 1 } else { count.saturating_sub(1) };
            if *count == 0 {
                self.links.remove(&at);
            }
        }
    }
}

impl VrfState {
    pub(super) fn new(name: &str, id: u32) -> Self {
        let (routes, bfd_down) = (BTreeMap::new(), BTreeMap::new());
        Self { name: name.to_owned(), id, routes, bfd_down, counts: RouteCounts::default() }
    }
}

impl ForwarderState {
    /// The paths of the longest route to an address that has at least so many bits, desired or
    /// learned, and its backup paths. Neighbours' host routes follow from it and do not count.
    fn longest(&self, slot: Slot, address: IpAddr, least: u8) -> [&[PathKey]; 2] {
        let none = self.learned.is_empty();
        for length in (least..=bits(address)).rev() {
            let prefix = (network(address, length), length);
            if let Some(installed) = self.vrfs.route(slot, &prefix) {
                return [installed.set.as_deref().unwrap_or_default(), &[]];
            }
            let next_hop = if none { None } else { self.fib.get(slot, prefix) };
            if let Some(vrf_hop) = next_hop.and_then(|next_hop| self.learned.vrf_hop(next_hop)) {
                return [&vrf_hop.paths, &vrf_hop.backup];
            }
        }
        [&[], &[]]
    }

    /// Whether the route of any VRF sees the address on the link of the interface.
    pub(super) fn leads_to_link(&self, interface: u32, address: IpAddr) -> bool {
        let sees = |slot| self.links_of(slot, address).contains(&interface);
        self.vrfs.on_link(interface).into_iter().any(sees)
    }

    /// Whether the longest route to an address leads through other interfaces alone, and
    /// is not the default route.
    pub(super) fn leads_elsewhere(&self, slot: Slot, address: IpAddr, interface: u32) -> bool {
        let [keys, backup] = self.longest(slot, address, 1);
        let mut all = keys.iter().chain(backup);
        !keys.is_empty() && all.all(|key| key.interface != interface)
    }

    /// The interfaces on whose links the longest route of a VRF sees an address: a longer
    /// route elsewhere must not be overridden by who happens to be on the link.
    pub(super) fn links_of(&self, slot: Slot, address: IpAddr) -> Vec<u32> {
        let keys = self.longest(slot, address, 0).into_iter().flatten();
        keys.filter(|key| key.next_hop.is_none()).map(|key| key.interface).collect()
    }

    /// Makes the VRFs that are new. Workers see their tables before any interface is in one.
    pub(super) fn add_vrfs(&mut self, desired: &DesiredState) -> Result<(), TableFull> {
        let mut added = false;
        for name in desired.vrfs.keys() {
            if self.vrfs.slot_of(name).is_some() {
                continue;
            }
            let free = (1..self.vrfs.slots.len()).find(|slot| self.vrfs.slots[*slot].is_none());
            // `admit` has counted them; some of the former state may still be here.
            let slot = free.unwrap_or(self.vrfs.slots.len());
            self.fib.add_vrf(slot)?;
            self.vrfs.generation += 1;
            let id = vrf_id(slot, self.vrfs.generation);
            if slot == self.vrfs.slots.len() {
                self.vrfs.slots.push(None);
            }
            self.vrfs.slots[slot] = Some(VrfState::new(name, id));
            added = true;
        }
        if added {
            self.publish_vrfs();
        }
        Ok(())
    }

    /// Takes the VRFs out that are not desired: their routes and interfaces are gone already.
    /// The tables go back to the system when no worker can see them any more.
    pub(super) fn remove_stale_vrfs(&mut self, desired: &DesiredState) {
        let is_stale =
            |state: &VrfState| !state.name.is_empty() && !desired.vrfs.contains_key(&state.name);
        let stale = self.vrfs.iter().filter(|(_, state)| is_stale(state));
        let stale: Vec<Slot> = stale.map(|(slot, _)| slot).collect();
        if stale.is_empty() {
            return;
        }
        let mut gone = Vec::new();
        for slot in stale {
            self.vrfs.slots[slot] = None;
            self.fib.remove_vrf(slot);
            gone.push(slot);
        }
        self.publish_vrfs();
        for slot in gone {
            self.remove_learned_of(slot);
        }
    }

    fn publish_vrfs(&mut self) {
        let readers = |(slot, state): (Slot, &Option<VrfState>)| {
            let name = state.as_ref()?.id;
            let (ip4, ip6) = self.fib.vrf_readers(slot)?;
            (slot != DEFAULT).then_some(VrfReaders { id: name, ip4, ip6 })
        };
        let by_slot = self.vrfs.slots.iter().enumerate().map(readers).collect();
        self.shared.vrfs.publish(VrfTables { by_slot }, &mut self.graveyard);
    }

    /// The name by which workers know the VRF of a slot.
    pub(super) fn vrf_id(&self, slot: Slot) -> u32 {
        self.vrfs.get(slot).map_or(DEFAULT_VRF, |state| state.id)
    }
}
