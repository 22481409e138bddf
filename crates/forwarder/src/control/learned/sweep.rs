//! Removes routes that were not announced again when a resynchronization completes.

use super::family::Family;
use super::message::{BATCH_ROUTES, RefusedRuns};
use crate::control::forwarder_state::ForwarderState;
use crate::control::vrfs::Slot;

/// Routes per slice of the scan.
const SCAN_LIMIT: usize = 4 * BATCH_ROUTES;

/// A scan of the tables that have stale routes.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// VRF and family; `from` is where to continue in the last of them.
    tables: Vec<(Slot, bool)>,
    from: Option<(u128, u8)>,
    /// Number of prefixes of the message refused before the sweep.
    refused: usize,
}

impl ForwarderState {
    /// Makes everything stale; the caller assigns ids anew.
    pub(super) fn begin_generation(&mut self) {
        let learned = &mut self.capabilities.learned;
        learned.generation += 1;
        learned.changes += 1;
        learned.is_complete = false;
        learned.by_id.clear();
        learned.stale = learned.hops.len() - learned.free.len();
        self.fib.set_stale_hops(learned.vrf_hops.len());
        self.drop_unused_stale();
    }

    fn drop_unused_stale(&mut self) {
        if self.capabilities.learned.stale == 0 {
            return;
        }
        for index in 0..self.capabilities.learned.hops.len() as u32 {
            let Some(Some(hop)) = self.capabilities.learned.hops.get(index as usize) else {
                continue;
            };
            let is_used = |next_hop: &u32| self.capabilities.learned.hop_use(*next_hop).users > 0;
            if hop.generation != self.capabilities.learned.generation
                && !hop.vrf_hops.iter().any(is_used)
            {
                self.remove_learned_hop(index);
            }
        }
    }

    /// A scan of the tables that have stale routes.
    pub(super) fn sweep(&mut self, refused: &RefusedRuns) -> Sweep {
        self.capabilities.learned.is_complete = true;
        let is_meant = |next_hop: u32| {
            self.capabilities.learned.hop_use(next_hop).users > 0
                && self.capabilities.learned.is_stale(next_hop)
        };
        let vrf_hops =
            self.capabilities.learned.vrf_hops.iter().filter(|(next_hop, _)| is_meant(**next_hop));
        let mut tables: Vec<_> =
            vrf_hops.map(|(_, vrf_hop)| (vrf_hop.slot, vrf_hop.is_ip4)).collect();
        tables.sort_unstable();
        tables.dedup();
        Sweep { tables, from: None, refused: refused.count }
    }

    /// Runs the next slice of a scan; true at its end.
    pub(super) fn sweep_more(&mut self, sweep: &mut Sweep, refused: &mut RefusedRuns) -> bool {
        if let Some((slot, is_ip4)) = sweep.tables.last().copied() {
            let from = sweep.from.unwrap_or_default();
            sweep.from = match is_ip4 {
                true => self.sweep_table(slot, (from.0 as u32, from.1), refused),
                false => self.sweep_table(slot, from, refused),
            };
            if sweep.from.is_none() {
                sweep.tables.pop();
            }
            return false;
        }
        self.sweep_shadowed();
        if refused.count == sweep.refused {
            self.reset_stale_users();
        }
        self.drop_unused_stale();
        true
    }

    /// Removes stale routes from `from` on; returns where to continue.
    fn sweep_table<K: Family>(
        &mut self,
        slot: Slot,
        from: (K, u8),
        refused: &mut RefusedRuns,
    ) -> Option<(u128, u8)> {
        let (mut gone, mut scanned) = (Vec::new(), 0);
        let mut next = None;
        for (prefix, length, value) in K::table(&self.fib, slot)?.range(from.0, from.1) {
            if scanned == SCAN_LIMIT || gone.len() == BATCH_ROUTES {
                next = Some((prefix.as_u128(), length));
                break;
            }
            scanned += 1;
            if self.capabilities.learned.is_stale(value) {
                gone.push((prefix, length, 0));
            }
        }
        self.change_learned(slot, &gone, refused);
        next
    }

    /// No table has a stale route any more: resets counts that a bug has left above 0.
    fn reset_stale_users(&mut self) {
        let vrf_hops: Vec<u32> = self.capabilities.learned.vrf_hops.keys().copied().collect();
        let stale: Vec<u32> = vrf_hops
            .into_iter()
            .filter(|next_hop| self.capabilities.learned.is_stale(*next_hop))
            .collect();
        for next_hop in &stale {
            self.capabilities.learned.hop_use_mut(*next_hop).users = 0;
        }
        self.settle_vrf_hops(&stale);
    }

    fn sweep_shadowed(&mut self) {
        let shadowed = self.capabilities.learned.shadowed.iter();
        let stale = shadowed.filter(|(_, next_hop)| self.capabilities.learned.is_stale(**next_hop));
        let stale: Vec<_> = stale.map(|(at, _)| *at).collect();
        let mut touched = Vec::new();
        for (slot, prefix) in stale {
            self.change_shadowed(slot, prefix, 0, &mut touched);
        }
        self.settle_vrf_hops(&touched);
    }
}
