//! Repairs the forwarding tables: what nothing wants is removed, and what is missing or leads elsewhere is set again.
//! Other differences between the running and the desired routes are repaired like a change.

use std::ops::Bound;

use crate::control::desired::{FIRST_PREFIX, Prefix};
use crate::control::fib::host;
use crate::control::forwarder_state::ForwarderState;
use crate::control::vrfs::Slot;

/// Routes between two pauses.
const SLICE: u32 = 512;

impl ForwarderState {
    /// Repairs the tables of all VRFs.
    pub(super) fn repair_tables(&mut self) {
        let slots: Vec<Slot> = self.vrfs.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            self.remove_unexpected(slot);
            self.set_missing(slot);
        }
        self.review_lost_host_routes();
        self.fib.settle();
    }

    /// The review after the transaction adds the host routes of neighbours that the tables have lost.
    fn review_lost_host_routes(&mut self) {
        let mut after = None;
        loop {
            let (mut lost, mut visited, mut last) = (Vec::new(), 0, None);
            let cache = self.capabilities.neighbors.cache();
            for (key, entry) in cache.following(after).take(SLICE as usize) {
                (visited, last) = (visited + 1, Some(*key));
                if self.lost_host_routes(*key, entry).next().is_some() {
                    lost.push(host(key.1));
                }
            }
            if last.is_none() {
                return;
            }
            after = last;
            lost.into_iter().for_each(|prefix| self.capabilities.neighbors.touch(prefix));
            self.pause(visited);
        }
    }

    /// Removes the entries of a table that no route, neighbour or route source wants.
    fn remove_unexpected(&mut self, slot: Slot) {
        let mut from = Some(FIRST_PREFIX);
        while let Some(begin) = from.take() {
            let (mut unexpected, mut visited) = (Vec::new(), 0);
            for (prefix, hop) in self.fib.routes_from(slot, begin) {
                if visited == SLICE {
                    from = Some(prefix);
                    break;
                }
                visited += 1;
                let is_expected = self.capabilities.learned.has(hop)
                    || self.vrfs.route(slot, &prefix).is_some()
                    || self.is_host_route(slot, &prefix, hop);
                if !is_expected {
                    unexpected.push(prefix);
                }
            }
            for prefix in unexpected {
                if !self.unshadow(slot, prefix) {
                    self.fib.remove(slot, prefix);
                }
                // A neighbour's host route may take its place.
                self.capabilities.neighbors.touch(prefix);
            }
            self.pause(visited);
        }
    }

    /// Sets the routes of a VRF that its table does not have, or has otherwise.
    fn set_missing(&mut self, slot: Slot) {
        let mut from: Bound<Prefix> = Bound::Unbounded;
        while let Some(vrf) = self.vrfs.get(slot) {
            let (mut missing, mut visited) = (Vec::new(), 0);
            let routes = vrf.routes.range((from, Bound::Unbounded));
            for (prefix, installed) in routes.take(SLICE as usize) {
                (visited, from) = (visited + 1, Bound::Excluded(*prefix));
                let hop = self.hop_of_installed(slot, prefix, installed);
                missing.extend(
                    hop.filter(|_| self.fib.get(slot, *prefix) != hop).map(|hop| (*prefix, hop)),
                );
            }
            if visited == 0 {
                return;
            }
            for (prefix, hop) in missing {
                match self.fib.insert(slot, prefix, hop) {
                    Ok(former) => self.shadow(slot, prefix, former),
                    Err(full) => {
                        let (address, length) = prefix;
                        tracing::error!(%full, %address, length, "cannot set a route again");
                    }
                }
                self.capabilities.neighbors.touch(prefix);
            }
            self.pause(visited);
        }
    }
}
