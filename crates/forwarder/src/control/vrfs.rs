//! VRFs: routing tables with their own routes, addresses and host routes of neighbours. An interface is in
//! one VRF, which routes the packets that it receives.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use stoa_tables::lpm::{Ip4LpmTables, Ip6LpmTables};

use super::capability::CAPABILITIES;
use super::desired::{DesiredState, Prefix, bits, network};
use super::fib::PathKey;
use super::forwarder_state::{ForwarderState, Installed};
use super::limits::TableFull;
use super::route_counts::{Lengths, RouteCounts};
use crate::shared::{DEFAULT_VRF, VrfTables, vrf_id};

/// Most VRFs of a forwarder, including the default one.
pub const VRFS: usize = 256;

/// The index of a VRF; 0 is the default one.
pub type Slot = usize;

/// The slot of the default VRF.
pub const DEFAULT: Slot = 0;

/// A VRF on the control thread.
pub(super) struct VrfState {
    /// "" is the default VRF.
    pub(super) name: String,
    /// Its id in the workers.
    pub(super) id: u32,
    pub(super) routes: BTreeMap<Prefix, Installed>,
    pub(super) counts: RouteCounts,
    /// Which prefix lengths `routes` has.
    pub(super) lengths: Lengths,
}

/// All VRFs by slot.
pub(super) struct Vrfs {
    slots: Vec<Option<VrfState>>,
    by_name: HashMap<String, Slot>,
    /// Number of on-link paths of prefixes by interface and VRF.
    links: BTreeMap<(u32, Slot), usize>,
    /// Number of VRFs created so far.
    generation: u32,
}

impl Vrfs {
    /// Only the default VRF.
    pub(super) fn new() -> Self {
        let by_name = HashMap::from([(String::new(), DEFAULT)]);
        let mut vrfs = Self { slots: Vec::new(), by_name, links: BTreeMap::new(), generation: 0 };
        vrfs.slots.push(Some(VrfState::new("", DEFAULT_VRF)));
        vrfs
    }

    /// Number of VRFs, including the default one.
    pub(super) fn len(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    /// All VRFs in the order of their slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, &VrfState)> {
        let known = self.slots.iter().enumerate();
        known.filter_map(|(slot, state)| Some((slot, state.as_ref()?)))
    }

    /// The VRF in a slot.
    pub(super) fn get(&self, slot: Slot) -> Option<&VrfState> {
        self.slots.get(slot)?.as_ref()
    }

    /// The VRF in a slot, mutable.
    pub(super) fn get_mut(&mut self, slot: Slot) -> Option<&mut VrfState> {
        self.slots.get_mut(slot)?.as_mut()
    }

    /// The slot of a VRF by name; "" is the default one.
    pub(super) fn slot_of(&self, name: &str) -> Option<Slot> {
        self.by_name.get(name).copied()
    }

    /// The route to exactly this prefix.
    pub(super) fn route(&self, slot: Slot, prefix: &Prefix) -> Option<&Installed> {
        self.get(slot)?.routes.get(prefix)
    }

    /// The VRFs with a prefix on the link of an interface: its own, and those with a route leaked into them.
    pub(super) fn on_link(&self, interface: u32) -> Vec<Slot> {
        let links = self.links.range((interface, 0)..=(interface, Slot::MAX));
        links.map(|((_, slot), _)| *slot).collect()
    }

    /// Maintains the number of on-link paths.
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
        let (counts, lengths) = (RouteCounts::default(), Lengths::default());
        Self { name: name.to_owned(), id, routes: BTreeMap::new(), counts, lengths }
    }
}

impl ForwarderState {
    /// The paths and backup paths of the longest match of an address, among desired and learned routes of at
    /// least `min` bits. Host routes of neighbours are derived from it and do not count.
    fn longest(&self, slot: Slot, address: IpAddr, min: u8) -> [&[PathKey]; 2] {
        let none = self.capabilities.learned.is_empty();
        let Some(state) = self.vrfs.get(slot) else { return [&[], &[]] };
        for length in (min..=bits(address)).rev() {
            if none && !state.lengths.has(address.is_ipv4(), length) {
                continue;
            }
            let prefix = (network(address, length), length);
            if let Some(installed) = self.vrfs.route(slot, &prefix) {
                return [installed.set.as_deref().unwrap_or_default(), &[]];
            }
            let next_hop = if none { None } else { self.fib.get(slot, prefix) };
            if let Some(vrf_hop) =
                next_hop.and_then(|next_hop| self.capabilities.learned.vrf_hop(next_hop))
            {
                return [&vrf_hop.paths, &vrf_hop.backup];
            }
        }
        [&[], &[]]
    }

    /// Whether a route of any VRF has the address on the link of the interface.
    pub(super) fn leads_to_link(&self, interface: u32, address: IpAddr) -> bool {
        let is_on_link_of = |slot| self.links_of(slot, address).contains(&interface);
        self.vrfs.on_link(interface).into_iter().any(is_on_link_of)
    }

    /// Whether the longest match of an address leads through other interfaces only, and is not the default
    /// route.
    pub(super) fn leads_elsewhere(&self, slot: Slot, address: IpAddr, interface: u32) -> bool {
        let [keys, backup] = self.longest(slot, address, 1);
        let mut all = keys.iter().chain(backup);
        !keys.is_empty() && all.all(|key| key.interface != interface)
    }

    /// The interfaces on whose links the longest match of a VRF has an address. A neighbour on the link must
    /// not override a longer route that leads elsewhere.
    pub(super) fn links_of(&self, slot: Slot, address: IpAddr) -> Vec<u32> {
        let keys = self.longest(slot, address, 0).into_iter().flatten();
        keys.filter(|key| key.next_hop.is_none()).map(|key| key.interface).collect()
    }

    /// Creates new VRFs. Workers get their tables before any interface is in one.
    pub(super) fn add_vrfs(&mut self, desired: &DesiredState) -> Result<(), TableFull> {
        let mut added = false;
        for name in desired.vrfs.keys() {
            if self.vrfs.slot_of(name).is_some() {
                continue;
            }
            let free = (1..self.vrfs.slots.len()).find(|slot| self.vrfs.slots[*slot].is_none());
            // `Limits::check` has counted them; some VRFs of the previous state may still exist.
            let slot = free.unwrap_or(self.vrfs.slots.len());
            self.fib.add_vrf(slot)?;
            self.vrfs.generation += 1;
            let id = vrf_id(slot, self.vrfs.generation);
            if slot == self.vrfs.slots.len() {
                self.vrfs.slots.push(None);
            }
            self.vrfs.slots[slot] = Some(VrfState::new(name, id));
            self.vrfs.by_name.insert(name.clone(), slot);
            added = true;
        }
        if added {
            self.publish_vrfs();
        }
        Ok(())
    }

    /// Removes VRFs that are not desired, after their routes and interfaces. Their memory is freed when no
    /// worker reads their tables any more.
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
            if let Some(state) = self.vrfs.slots[slot].take() {
                self.vrfs.by_name.remove(&state.name);
            }
            self.fib.remove_vrf(slot);
            gone.push(slot);
        }
        self.publish_vrfs();
        for slot in gone {
            CAPABILITIES.iter().for_each(|capability| (capability.remove_vrf)(self, slot));
        }
    }

    fn publish_vrfs(&mut self) {
        let shared = &self.shared;
        let readers = |(slot, state): (Slot, &Option<VrfState>)| {
            let id = state.as_ref()?.id;
            let of_default = || (shared.ip4.clone(), shared.ip6.clone());
            let readers =
                if slot == DEFAULT { Some(of_default()) } else { self.fib.vrf_readers(slot) };
            readers.map(|(ip4, ip6)| ((id, ip4), (id, ip6)))
        };
        let slots: Vec<_> = self.vrfs.slots.iter().enumerate().map(readers).collect();
        let (ip4, ip6): (Vec<_>, Vec<_>) = slots.into_iter().map(Option::unzip).unzip();
        let kernel = shared.kernel.lookup();
        let (ip4, ip6) = (Ip4LpmTables::new(kernel, ip4), Ip6LpmTables::new(kernel, ip6));
        shared.vrfs.publish(VrfTables { ip4, ip6 }, &mut self.graveyard);
    }

    /// The id of a VRF in the workers.
    pub(super) fn vrf_id(&self, slot: Slot) -> u32 {
        self.vrfs.get(slot).map_or(DEFAULT_VRF, |state| state.id)
    }
}
