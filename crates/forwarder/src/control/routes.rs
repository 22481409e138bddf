//! Routes: maps desired routes to prefixes, sets of paths and next hops.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use super::desired::{Action, Interface, Path, Prefix, Route, bits, network};
use super::fib::{PathKey, PathSet, hop_of};
use super::forwarder_state::{ForwarderState, Installed};
use super::limits::TableFull;
use super::vrfs::{DEFAULT, Slot};
use crate::neighbor::entry::Key;
use crate::shared::SpecialNextHop;

/// Routes per batch of table changes.
const BATCH: usize = 4096;

/// A route whose next hop is allocated, before it is in the table.
struct Prepared<'a> {
    prefix: Prefix,
    route: &'a Route,
    /// The paths of `hop`, which are already counted as used.
    set: Option<Vec<PathKey>>,
    hop: u32,
}

impl ForwarderState {
    /// Changes or removes (`None`) routes of the default VRF one after the other, and closes the batch: what
    /// applying a state does after the comparison. The desired state is not changed; for benchmarks.
    ///
    /// # Errors
    /// The first route that does not fit; those before it are changed.
    pub fn change_routes<'a>(
        &mut self,
        changes: impl IntoIterator<Item = (Prefix, Option<&'a Route>)>,
    ) -> Result<(), TableFull> {
        for (prefix, route) in changes {
            match route {
                Some(route) => self.set_route(DEFAULT, prefix, route)?,
                None => self.remove_route(DEFAULT, prefix),
            }
        }
        self.fib.settle();
        Ok(())
    }

    /// Adds or changes a route. Nothing changes when it does not fit.
    pub(super) fn set_route(
        &mut self,
        slot: Slot,
        prefix: Prefix,
        route: &Route,
    ) -> Result<(), TableFull> {
        let prepared = self.prepare(prefix, route)?;
        // A desired route replaces a neighbour's host route, and shadows a learned route.
        match self.fib.insert(slot, prefix, prepared.hop) {
            Ok(former) => self.shadow(slot, prefix, former),
            Err(full) => {
                self.release_prepared(prepared);
                return Err(full);
            }
        }
        self.install(slot, prepared);
        Ok(())
    }

    /// Adds or changes routes, in order; fastest when they ascend.
    ///
    /// # Errors
    /// The first that does not fit, and why; those before it are in the table.
    pub(super) fn set_routes(
        &mut self,
        slot: Slot,
        routes: &[(Prefix, &Route)],
    ) -> Result<(), (Prefix, TableFull)> {
        let mut rest = routes;
        while let [(first, _), ..] = rest {
            let mut batch = Vec::with_capacity(rest.len().min(BATCH));
            for &(prefix, route) in rest.iter().take(BATCH) {
                let table_full_counts = self.fib.table_full_counts;
                match self.prepare(prefix, route) {
                    Ok(prepared) => batch.push(prepared),
                    Err(full) if batch.is_empty() => return Err((*first, full)),
                    Err(_) => {
                        // Installing the routes before it may free a next hop: not a refusal yet.
                        self.fib.table_full_counts = table_full_counts;
                        break;
                    }
                }
            }
            rest = &rest[batch.len()..];
            self.set_batch(slot, batch)?;
        }
        Ok(())
    }

    fn set_batch(
        &mut self,
        slot: Slot,
        batch: Vec<Prepared<'_>>,
    ) -> Result<(), (Prefix, TableFull)> {
        let hops: Vec<_> = batch.iter().map(|route| (route.prefix, route.hop)).collect();
        let mut former = Vec::with_capacity(hops.len());
        let pinned = self.fib.insert_all(slot, &hops, &mut former);
        let inserted = pinned.as_ref().map_or_else(|(inserted, _)| *inserted, |()| hops.len());
        for (at, prepared) in batch.into_iter().enumerate() {
            if at < inserted {
                self.shadow(slot, prepared.prefix, former.get(at).copied().unwrap_or(0));
                self.install(slot, prepared);
            } else {
                self.release_prepared(prepared);
            }
        }
        pinned.map_err(|(at, full)| (hops[at].0, full))
    }

    fn prepare<'a>(&mut self, prefix: Prefix, route: &'a Route) -> Result<Prepared<'a>, TableFull> {
        let (hop, set) = match &route.action {
            Action::Special(special) => (self.fib.special(*special), None),
            Action::Paths(paths) => {
                let keys = self.keys_of(paths, prefix.0.is_ipv4());
                (self.acquire_set(&keys)?, Some(keys))
            }
        };
        Ok(Prepared { prefix, route, set, hop })
    }

    /// Releases the set of a route that does not fit.
    fn release_prepared(&mut self, prepared: Prepared<'_>) {
        if let Some(keys) = prepared.set {
            self.release_set(&keys);
        }
    }

    /// Records that a route is in the table.
    fn install(&mut self, slot: Slot, prepared: Prepared<'_>) {
        let Prepared { prefix, route, set, .. } = prepared;
        self.capabilities.neighbors.touch(prefix);
        self.vrfs.count_links(slot, set.as_deref(), true);
        let installed = Installed { route: route.clone(), set };
        let old = self.vrfs.get_mut(slot).and_then(|state| state.insert(prefix, installed));
        if let Some(old) = old
            && let Some(keys) = old.set
        {
            self.vrfs.count_links(slot, Some(&keys), false);
            self.release_set(&keys);
        }
    }

    /// Removes a route. A shadowed learned route or a neighbour's host route takes its place.
    pub(super) fn remove_route(&mut self, slot: Slot, prefix: Prefix) {
        let state = self.vrfs.get_mut(slot);
        let Some(installed) = state.and_then(|state| state.remove(&prefix)) else { return };
        self.capabilities.neighbors.touch(prefix);
        let is_learned = self.unshadow(slot, prefix);
        if !is_learned {
            self.fib.remove(slot, prefix);
        }
        self.vrfs.count_links(slot, installed.set.as_deref(), false);
        if let Some(keys) = installed.set {
            self.release_set(&keys);
        }
        if prefix.1 == bits(prefix.0) && !is_learned {
            let links = self.links_of(slot, prefix.0);
            for interface in links {
                self.add_host_route((interface, prefix.0));
            }
        }
    }

    pub(super) fn keys_of(&self, paths: &[Path], is_ip4: bool) -> Vec<PathKey> {
        let key = |path: &Path| {
            let interface = self.index_of(&path.interface)?;
            // A tunnel has one endpoint, whatever gateway is configured.
            let next_hop = path.next_hop.filter(|_| !self.is_tunnel(interface));
            Some(PathKey { interface, next_hop, is_ip4, weight: path.weight })
        };
        let mut keys: Vec<_> = paths.iter().filter_map(key).collect();
        keys.sort();
        keys
    }

    /// The next hop of a set of paths, created on first use.
    fn acquire_set(&mut self, keys: &[PathKey]) -> Result<u32, TableFull> {
        if let Some(set) = self.fib.sets.get_mut(keys) {
            set.users += 1;
            return Ok(set.hop);
        }
        self.pin_all(keys)?;
        let hop = self.usable(keys);
        match self.fib.add_hop(&hop_of(&hop)) {
            Ok(hop) => {
                self.fib.sets.insert(keys, PathSet { hop, users: 1 });
                Ok(hop)
            }
            Err(full) => {
                self.unpin_all(keys);
                Err(full)
            }
        }
    }

    fn release_set(&mut self, keys: &[PathKey]) {
        let Some(set) = self.fib.sets.get_mut(keys) else { return };
        set.users -= 1;
        if set.users > 0 {
            return;
        }
        let hop = set.hop;
        self.fib.sets.remove(keys);
        self.fib.remove_hop(hop);
        self.unpin_all(keys);
    }

    /// Pins the gateways of all paths, or of none.
    pub(super) fn pin_all(&mut self, keys: &[PathKey]) -> Result<(), TableFull> {
        for (pinned, key) in keys.iter().enumerate() {
            if let Some(next_hop) = key.next_hop
                && let Err(full) = self.pin(key.interface, next_hop)
            {
                self.unpin_all(&keys[..pinned]);
                return Err(full);
            }
        }
        Ok(())
    }

    pub(super) fn unpin_all(&mut self, keys: &[PathKey]) {
        for key in keys {
            if let Some(next_hop) = key.next_hop {
                self.unpin(key.interface, next_hop);
            }
        }
    }

    /// The usable paths as adjacencies with weights. Paths with an unreachable gateway are left out while
    /// there is another path.
    fn usable(&self, keys: &[PathKey]) -> Vec<(u32, u16)> {
        let paths = self.live_paths(keys);
        let all_unreachable = paths.iter().all(|(is_unreachable, _)| *is_unreachable);
        paths
            .into_iter()
            .filter(|(is_unreachable, _)| all_unreachable || !is_unreachable)
            .map(|(_, path)| path)
            .collect()
    }

    /// The paths whose links are up: whether the gateway is unreachable, adjacency and weight.
    pub(super) fn live_paths(&self, keys: &[PathKey]) -> Vec<(bool, (u32, u16))> {
        let path = |key: &PathKey| {
            let interface = self.interface(key.interface).filter(|state| state.is_up)?;
            let (adjacency, is_unreachable) = match key.next_hop {
                Some(next_hop) if self.capabilities.bfd.has_failed(&(key.interface, next_hop)) => {
                    return None;
                }
                Some(next_hop) => {
                    let entry =
                        self.capabilities.neighbors.cache().get(&(key.interface, next_hop))?;
                    (entry.adjacency, entry.lost)
                }
                None if key.is_ip4 => (interface.gleans.0, false),
                None => (interface.gleans.1, false),
            };
            Some((is_unreachable, (adjacency, key.weight)))
        };
        keys.iter().filter_map(path).collect()
    }

    /// The reachability of a gateway has changed: updates the sets of paths through it.
    pub(super) fn refresh_sets_through(&mut self, (interface, address): Key) {
        if self
            .capabilities
            .neighbors
            .cache()
            .get(&(interface, address))
            .is_none_or(|entry| entry.pins == 0)
        {
            return;
        }
        let is_through =
            |key: &PathKey| key.interface == interface && key.next_hop == Some(address);
        // A single path is used even when its gateway is unreachable.
        self.refresh_sets_where(interface, |keys| keys.len() > 1 && keys.iter().any(is_through));
        self.refresh_learned(is_through);
        self.fib.settle();
    }

    /// BFD has changed the state of a gateway: updates all sets of paths through it.
    pub(super) fn refresh_sets_of(&mut self, (interface, address): Key) {
        let is_through =
            |key: &PathKey| key.interface == interface && key.next_hop == Some(address);
        self.refresh_sets_where(interface, |keys| keys.iter().any(is_through));
        self.refresh_learned(is_through);
        self.fib.settle();
    }

    /// Updates all sets of paths through an interface: the cost of a link change grows neither with the
    /// number of prefixes nor with that of other interfaces.
    pub(super) fn refresh_sets(&mut self, interface: u32) {
        self.refresh_desired_sets(interface);
        self.refresh_learned(|key| key.interface == interface);
    }

    /// The same for the paths of desired routes only.
    pub(super) fn refresh_desired_sets(&mut self, interface: u32) {
        self.refresh_sets_where(interface, |_| true);
    }

    fn refresh_sets_where(&mut self, interface: u32, is_meant: impl Fn(&[PathKey]) -> bool) {
        let sets = self.fib.sets.through(interface).filter(|keys| is_meant(keys));
        for keys in sets.cloned().collect::<Vec<_>>() {
            let hop = hop_of(&self.usable(&keys));
            let Some(id) = self.fib.sets.get(&keys).map(|set| set.hop) else { continue };
            if let Err(full) = self.fib.set_hop(id, &hop) {
                tracing::error!(%full, "cannot change a set of paths");
            }
        }
    }
}

/// The broadcast addresses of a directly connected IPv4 network as routes: packets to them are never
/// forwarded (RFC 2644, RFC 1812 4.2.2.11).
pub(super) fn broadcasts(
    (address, length): Prefix,
    route: &Route,
    interfaces: &BTreeMap<String, Interface>,
) -> Vec<(Prefix, Route)> {
    let on_link = |paths: &Vec<Path>| paths.iter().any(|path| path.next_hop.is_none());
    let may_broadcast = |path: &Path| {
        interfaces
            .get(&path.interface)
            .is_some_and(|interface| interface.ip4.options.directed_broadcast)
    };
    let IpAddr::V4(first) = network(address, length) else { return Vec::new() };
    match &route.action {
        Action::Paths(paths) if on_link(paths) && (1..=30).contains(&length) => {
            let refuse = |ip: Ipv4Addr| {
                let route = Route {
                    protocol: route.protocol,
                    action: Action::Special(SpecialNextHop::Broadcast),
                };
                ((IpAddr::V4(ip), 32), route)
            };
            let mut refused = vec![refuse(first)];
            if !paths.iter().any(may_broadcast) {
                refused.push(refuse(last(first, length)));
            }
            refused
        }
        _ => Vec::new(),
    }
}

/// The last address of a network: its broadcast address.
fn last(first: Ipv4Addr, length: u8) -> Ipv4Addr {
    (u32::from(first) | u32::MAX >> length).into()
}

/// The addresses of a network that may be broadcast addresses, as prefixes.
pub(super) fn broadcast_prefixes((address, length): Prefix) -> Vec<Prefix> {
    match network(address, length) {
        IpAddr::V4(first) if (1..=30).contains(&length) => {
            [first, last(first, length)].map(|ip| (IpAddr::V4(ip), 32)).to_vec()
        }
        _ => Vec::new(),
    }
}

/// Broadcast addresses of an interface's networks with directed broadcast: neighbours with the broadcast MAC
/// address (RFC 2644).
pub(super) fn directed_broadcasts(interface: &Interface) -> Vec<IpAddr> {
    if !interface.ip4.options.directed_broadcast {
        return Vec::new();
    }
    let networks = interface.ip4.addresses.iter().filter(|(_, length)| *length <= 30);
    let last = networks.filter_map(|(own, length)| match network(*own, *length) {
        IpAddr::V4(first) => Some(IpAddr::V4(last(first, *length))),
        IpAddr::V6(_) => None,
    });
    last.collect()
}
