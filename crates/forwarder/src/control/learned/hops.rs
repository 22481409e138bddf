//! Hops of learned routes and their VRF hops: create, change, repair, remove.

use std::collections::BTreeSet;

use super::message::{CheckedHop, RouteError};
use super::{Hop, VrfHop};
use crate::control::TableFull;
use crate::control::desired::{Action, Path};
use crate::control::fib::{PathKey, hop_of};
use crate::control::forwarder_state::ForwarderState;
use crate::control::limits::Table;
use crate::control::vrfs::Slot;
use crate::shared::SpecialNextHop;
use stoa_tables::next_hop::NextHop;

/// Primary and backup paths of a VRF hop.
type Keys = (Vec<PathKey>, Vec<PathKey>);

impl ForwarderState {
    /// Adds a hop, or changes it with all routes on it. Nothing changes on an error.
    pub(super) fn set_learned_hop(&mut self, checked: CheckedHop) -> Result<(), RouteError> {
        let CheckedHop { id, protocol, action, backup } = checked;
        let Some(index) = self.capabilities.learned.by_id.get(&id).copied() else {
            return self.add_learned_hop(CheckedHop { id, protocol, action, backup });
        };
        let Some(Some(hop)) = self.capabilities.learned.hops.get(index as usize) else {
            return Ok(());
        };
        let vrf_hops = hop.vrf_hops.clone();
        let old = (hop.action.clone(), hop.backup.clone());
        for (done, next_hop) in vrf_hops.iter().enumerate() {
            if let Err(reason) = self.change_vrf_hop(*next_hop, &action, &backup) {
                for next_hop in &vrf_hops[..done] {
                    // Fits: it was there a moment ago.
                    let _ = self.change_vrf_hop(*next_hop, &old.0, &old.1);
                }
                return Err(reason);
            }
        }
        if let Some(Some(hop)) = self.capabilities.learned.hops.get_mut(index as usize) {
            (hop.protocol, hop.action, hop.backup) = (protocol, action, backup);
        }
        Ok(())
    }

    fn add_learned_hop(&mut self, checked: CheckedHop) -> Result<(), RouteError> {
        let CheckedHop { id, protocol, action, backup } = checked;
        let limit = self.limits.next_hops;
        // Stale hops remain until the resynchronization is complete: a restarted daemon announces as many
        // again.
        let used = self.capabilities.learned.hops.len() - self.capabilities.learned.free.len();
        if used.saturating_sub(self.capabilities.learned.stale) >= limit {
            let reason = format!("all {limit} hops of learned routes are in use");
            return Err(self.fib.table_full(Table::NextHops, reason).into());
        }
        let generation = self.capabilities.learned.generation;
        let hop = Hop { id, generation, protocol, action, backup, vrf_hops: Vec::new() };
        let learned = &mut self.capabilities.learned;
        let index = learned.free.pop().unwrap_or_else(|| {
            learned.hops.push(None);
            learned.hops.len() as u32 - 1
        });
        learned.hops[index as usize] = Some(hop);
        learned.by_id.insert(id, index);
        Ok(())
    }

    /// The next hop of a caller's hop in a VRF and family, created on first use.
    pub(super) fn vrf_hop_for(
        &mut self,
        id: u32,
        slot: Slot,
        is_ip4: bool,
    ) -> Result<u32, RouteError> {
        let index = self.capabilities.learned.by_id.get(&id).copied();
        let hop =
            index.and_then(|index| self.capabilities.learned.hops.get(index as usize)?.as_ref());
        let Some((index, hop)) = index.zip(hop) else {
            let fix = "Send the hop before its routes; it may have been refused.";
            return Err(RouteError::new(format!("hop {id} is unknown"), fix));
        };
        let is_it = |next_hop: &&u32| {
            let vrf_hop = self.capabilities.learned.vrf_hops.get(next_hop);
            vrf_hop.is_some_and(|vrf_hop| (vrf_hop.slot, vrf_hop.is_ip4) == (slot, is_ip4))
        };
        if let Some(next_hop) = hop.vrf_hops.iter().find(is_it) {
            return Ok(*next_hop);
        }
        let special = special_of_action(&hop.action);
        let (paths, backup) = self.path_keys(&hop.action, &hop.backup, is_ip4)?;
        let all = [&paths[..], &backup].concat();
        self.pin_all(&all)?;
        let (value, is_on_backup) = self.select_paths(special, &paths, &backup);
        let next_hop = match self.fib.add_hop(&value) {
            Ok(next_hop) => next_hop,
            Err(full) => {
                self.unpin_all(&all);
                return Err(full.into());
            }
        };
        let vrf_hop = VrfHop { slot, is_ip4, paths, backup, is_on_backup, is_linked: false };
        self.capabilities.learned.vrf_hops.insert(next_hop, vrf_hop);
        let hop_use = self.capabilities.learned.hop_use_mut(next_hop);
        (hop_use.hop, hop_use.users) = (index + 1, 0);
        hop_use.is_on_link = !links_of(&all).is_empty();
        if let Some(Some(hop)) = self.capabilities.learned.hops.get_mut(index as usize) {
            hop.vrf_hops.push(next_hop);
        }
        Ok(next_hop)
    }

    /// The paths of the family over existing interfaces.
    fn path_keys(
        &self,
        action: &Action,
        backup: &[Path],
        is_ip4: bool,
    ) -> Result<Keys, RouteError> {
        let Action::Paths(paths) = action else { return Ok(Keys::default()) };
        let fits = |path: &&Path| path.next_hop.is_none_or(|gateway| gateway.is_ipv4() == is_ip4);
        let fitting: Vec<Path> = paths.iter().filter(fits).cloned().collect();
        if fitting.is_empty() && !paths.is_empty() {
            let reason = format!("the hop has no path for IPv{}", if is_ip4 { 4 } else { 6 });
            return Err(RouteError::new(reason, "Send gateways of the family of its routes."));
        }
        let backup: Vec<Path> = backup.iter().filter(fits).cloned().collect();
        Ok((self.keys_of(&fitting, is_ip4), self.keys_of(&backup, is_ip4)))
    }

    /// The next hop to use now, and whether it is of backup paths. In order of preference: paths with a
    /// reachable gateway, backup paths with a reachable gateway, paths whose link is up, backup paths whose
    /// link is up.
    fn select_paths(
        &self,
        special: Option<SpecialNextHop>,
        paths: &[PathKey],
        backup: &[PathKey],
    ) -> (NextHop, bool) {
        if let Some(special) = special {
            return (NextHop::Special { code: special as u8, argument: 0 }, false);
        }
        let (first, second) = (self.live_paths(paths), self.live_paths(backup));
        let choose = |live: &[(bool, (u32, u16))], with_unreachable: bool| {
            let usable =
                live.iter().filter(|(is_unreachable, _)| with_unreachable || !is_unreachable);
            usable.map(|(_, path)| *path).collect::<Vec<_>>()
        };
        let choices = [(&first, false), (&second, false), (&first, true), (&second, true)];
        for (at, (live, with_unreachable)) in choices.into_iter().enumerate() {
            let usable = choose(live, with_unreachable);
            if !usable.is_empty() {
                return (hop_of(&usable), at % 2 == 1);
            }
        }
        (hop_of(&[]), false)
    }

    fn change_vrf_hop(
        &mut self,
        next_hop: u32,
        action: &Action,
        backup: &[Path],
    ) -> Result<(), RouteError> {
        let Some(is_ip4) =
            self.capabilities.learned.vrf_hops.get(&next_hop).map(|vrf_hop| vrf_hop.is_ip4)
        else {
            return Ok(());
        };
        let keys = self.path_keys(action, backup, is_ip4)?;
        Ok(self.set_vrf_hop(next_hop, special_of_action(action), keys)?)
    }

    /// Sets the paths of a VRF hop. Nothing changes when they do not fit.
    fn set_vrf_hop(
        &mut self,
        next_hop: u32,
        special: Option<SpecialNextHop>,
        (paths, backup): Keys,
    ) -> Result<(), TableFull> {
        let all = [&paths[..], &backup].concat();
        self.pin_all(&all)?;
        let (value, is_on_backup) = self.select_paths(special, &paths, &backup);
        if let Err(full) = self.fib.set_hop(next_hop, &value) {
            self.unpin_all(&all);
            return Err(full);
        }
        self.count_vrf_hop_links(next_hop, false);
        let mut former = Vec::new();
        let all_links = links_of(&all);
        if let Some(vrf_hop) = self.capabilities.learned.vrf_hops.get_mut(&next_hop) {
            former.append(&mut vrf_hop.paths);
            former.append(&mut vrf_hop.backup);
            (vrf_hop.paths, vrf_hop.backup, vrf_hop.is_on_backup) = (paths, backup, is_on_backup);
        }
        self.capabilities.learned.hop_use_mut(next_hop).is_on_link = !all_links.is_empty();
        self.capabilities.learned.are_links_new |= links_of(&former) != all_links;
        self.count_vrf_hop_links(next_hop, true);
        self.unpin_all(&former);
        Ok(())
    }

    /// Counts the on-link paths of a VRF hop in its VRF while prefixes use it.
    fn count_vrf_hop_links(&mut self, next_hop: u32, may_link: bool) {
        let is_linked = may_link && self.capabilities.learned.hop_use(next_hop).users > 0;
        let Some(vrf_hop) = self.capabilities.learned.vrf_hops.get_mut(&next_hop) else { return };
        if vrf_hop.is_linked != is_linked {
            vrf_hop.is_linked = is_linked;
            self.vrfs.count_links(vrf_hop.slot, Some(&vrf_hop.paths), is_linked);
            self.vrfs.count_links(vrf_hop.slot, Some(&vrf_hop.backup), is_linked);
        }
    }

    /// Updates VRF hops whose number of prefixes has become 0 or 1: removes stale ones without prefixes.
    pub(super) fn settle_vrf_hops(&mut self, touched: &[u32]) {
        for next_hop in touched {
            self.count_vrf_hop_links(*next_hop, true);
            if self.capabilities.learned.hop_use(*next_hop).users == 0
                && self.capabilities.learned.is_stale(*next_hop)
            {
                let index = self.capabilities.learned.hop_use(*next_hop).hop - 1;
                self.remove_vrf_hop(*next_hop);
                let hop =
                    self.capabilities.learned.hops.get(index as usize).and_then(Option::as_ref);
                if hop.is_some_and(|hop| hop.vrf_hops.is_empty()) {
                    self.remove_learned_hop(index);
                }
            }
        }
    }

    /// Removes a VRF hop that no prefix uses.
    pub(super) fn remove_vrf_hop(&mut self, next_hop: u32) {
        self.count_vrf_hop_links(next_hop, false);
        let is_stale = self.capabilities.learned.is_stale(next_hop);
        let Some(vrf_hop) = self.capabilities.learned.vrf_hops.remove(&next_hop) else { return };
        if is_stale {
            self.fib.forget_stale_hop();
        }
        let hop_use = std::mem::take(self.capabilities.learned.hop_use_mut(next_hop));
        if let Some(index) = hop_use.hop.checked_sub(1)
            && let Some(Some(hop)) = self.capabilities.learned.hops.get_mut(index as usize)
        {
            hop.vrf_hops.retain(|it| *it != next_hop);
        }
        self.fib.remove_hop(next_hop);
        self.unpin_all(&vrf_hop.paths);
        self.unpin_all(&vrf_hop.backup);
    }

    /// Removes a hop whose VRF hops no prefix uses.
    pub(super) fn remove_learned_hop(&mut self, index: u32) {
        let Some(Some(hop)) = self.capabilities.learned.hops.get(index as usize) else { return };
        for next_hop in hop.vrf_hops.clone() {
            self.remove_vrf_hop(next_hop);
        }
        let learned = &mut self.capabilities.learned;
        if let Some(hop) = learned.hops[index as usize].take() {
            learned.free.push(index);
            if hop.generation == learned.generation {
                learned.by_id.remove(&hop.id);
            } else {
                learned.stale -= 1;
            }
        }
    }

    /// The caller releases a hop.
    pub(super) fn release_learned_hop(&mut self, id: u32) -> Result<(), RouteError> {
        let Some(index) = self.capabilities.learned.by_id.get(&id).copied() else { return Ok(()) };
        let hop = self.capabilities.learned.hops.get(index as usize).and_then(Option::as_ref);
        let vrf_hops = hop.into_iter().flat_map(|hop| &hop.vrf_hops);
        let users: u32 =
            vrf_hops.map(|next_hop| self.capabilities.learned.hop_use(*next_hop).users).sum();
        if users > 0 {
            let fix = "Remove the routes, or send them with another hop.";
            return Err(RouteError::new(format!("{users} routes still use the hop"), fix));
        }
        self.remove_learned_hop(index);
        Ok(())
    }

    /// Looks up the interfaces of all hops by name again, after interfaces were added or removed.
    pub(super) fn resolve_learned(&mut self) {
        for next_hop in self.all_vrf_hops() {
            self.pause(1);
            let Some(hop) = self.capabilities.learned.hop_of(next_hop) else { continue };
            let Some(vrf_hop) = self.capabilities.learned.vrf_hops.get(&next_hop) else { continue };
            let Ok(keys) = self.path_keys(&hop.action, &hop.backup, vrf_hop.is_ip4) else {
                continue;
            };
            if (&keys.0, &keys.1) == (&vrf_hop.paths, &vrf_hop.backup) {
                continue;
            }
            let special = special_of_action(&hop.action);
            if let Err(full) = self.set_vrf_hop(next_hop, special, keys) {
                tracing::error!(%full, "cannot update a hop of learned routes after interface changes");
            }
            // Its prefixes may cover neighbours.
            self.capabilities.neighbors.touch_all();
        }
    }

    /// Removes the paths through interfaces that are about to be removed.
    pub(super) fn drop_learned_through(&mut self, interfaces: &BTreeSet<u32>) {
        for next_hop in self.all_vrf_hops() {
            self.pause(1);
            let Some(vrf_hop) = self.capabilities.learned.vrf_hops.get(&next_hop) else { continue };
            if !vrf_hop.leads_through(interfaces) {
                continue;
            }
            let rest = |keys: &[PathKey]| {
                let stays = |key: &&PathKey| !interfaces.contains(&key.interface);
                keys.iter().filter(stays).cloned().collect::<Vec<_>>()
            };
            let keys = (rest(&vrf_hop.paths), rest(&vrf_hop.backup));
            self.capabilities.neighbors.touch_all();
            if self.set_vrf_hop(next_hop, None, keys).is_err() {
                // Fewer paths need no more space; if they do not fit all the same, remove all paths.
                let _ = self.set_vrf_hop(next_hop, None, Keys::default());
            }
        }
    }

    fn all_vrf_hops(&self) -> Vec<u32> {
        self.capabilities.learned.vrf_hops.keys().copied().collect()
    }

    /// Updates VRF hops that have a matching path. The cost grows with the number of hops, not of prefixes.
    pub(in crate::control) fn refresh_learned(&mut self, is_meant: impl Fn(&PathKey) -> bool) {
        let meant: Vec<u32> = self
            .capabilities
            .learned
            .vrf_hops
            .iter()
            .filter(|(_, vrf_hop)| vrf_hop.paths.iter().chain(&vrf_hop.backup).any(&is_meant))
            .map(|(next_hop, _)| *next_hop)
            .collect();
        for next_hop in meant {
            let Some(vrf_hop) = self.capabilities.learned.vrf_hops.get(&next_hop) else { continue };
            let (value, is_on_backup) = self.select_paths(None, &vrf_hop.paths, &vrf_hop.backup);
            if self.fib.hop(next_hop).as_ref() != Some(&value)
                && let Err(full) = self.fib.set_hop(next_hop, &value)
            {
                tracing::error!(%full, "cannot change a hop of learned routes");
                continue;
            }
            if let Some(vrf_hop) = self.capabilities.learned.vrf_hops.get_mut(&next_hop) {
                vrf_hop.is_on_backup = is_on_backup;
            }
        }
    }
}

impl VrfHop {
    fn leads_through(&self, interfaces: &BTreeSet<u32>) -> bool {
        self.paths.iter().chain(&self.backup).any(|key| interfaces.contains(&key.interface))
    }

    /// The paths in use.
    pub(super) fn used(&self) -> &[PathKey] {
        if self.is_on_backup { &self.backup } else { &self.paths }
    }
}

/// The interfaces of on-link paths.
fn links_of(keys: &[PathKey]) -> BTreeSet<u32> {
    keys.iter().filter(|key| key.next_hop.is_none()).map(|key| key.interface).collect()
}

fn special_of_action(action: &Action) -> Option<SpecialNextHop> {
    match action {
        Action::Special(special) => Some(*special),
        Action::Paths(_) => None,
    }
}
