//! Installs the routes of a batch in the table, and applies the consequences.

use stoa_tables::lpm::{Limit, LpmError, Outcome};

use super::family::Family;
use super::message::{Batch, Changes, RefusedRuns, RouteError};
use crate::control::forwarder_state::ForwarderState;
use crate::control::vrfs::Slot;
use crate::neighbor::entry::Key;

/// What follows once the routes of a batch are installed.
#[derive(Default)]
struct FollowUp {
    /// Next hops that got their first prefix or lost their last.
    touched: Vec<u32>,
    /// Neighbours whose host routes may change.
    hosts: Vec<Key>,
}

impl ForwarderState {
    /// Installs or removes the routes of a batch, in order. Refused routes are reported.
    pub(super) fn apply_batch(&mut self, batch: &Batch, refused: &mut RefusedRuns) {
        match &batch.changes {
            Changes::Ip4(changes) => self.apply_changes(batch, changes, refused),
            Changes::Ip6(changes) => self.apply_changes(batch, changes, refused),
        }
    }

    fn apply_changes<K: Family>(
        &mut self,
        batch: &Batch,
        requested: &[(K, u8, u32)],
        refused: &mut RefusedRuns,
    ) {
        let slot = self.vrfs.slot_of(&batch.vrf);
        let next_hops: Vec<Result<u32, RouteError>> = batch
            .hops
            .iter()
            .map(|id| match slot {
                // A VRF that is gone has no routes to remove.
                None if *id == 0 => Ok(0),
                None => {
                    let reason = format!("there is no VRF {:?}", batch.vrf);
                    Err(RouteError::new(
                        reason,
                        "Configure the VRF before you learn routes for it.",
                    ))
                }
                Some(_) if *id == 0 => Ok(0),
                Some(slot) => self.vrf_hop_for(*id, slot, K::IS_IP4),
            })
            .collect();
        let mut changes = Vec::with_capacity(requested.len());
        for &(prefix, length, at) in requested {
            match &next_hops[at as usize] {
                Ok(next_hop) => changes.push((prefix, length, *next_hop)),
                Err(reason) => {
                    let run = (batch.vrf.as_str(), batch.hops[at as usize]);
                    refused.prefix(run, (prefix, length), reason);
                    // The caller expects its previous hop to be replaced: remove the route.
                    changes.push((prefix, length, 0));
                }
            }
        }
        if let Some(slot) = slot {
            self.change_learned(slot, &changes, refused);
        }
    }

    /// Points prefixes to learned next hops, or removes them (0), in order.
    pub(super) fn change_learned<K: Family>(
        &mut self,
        slot: Slot,
        changes: &[(K, u8, u32)],
        refused: &mut RefusedRuns,
    ) {
        let mut follow_up = FollowUp::default();
        self.capabilities.learned.hosts.update(self.capabilities.neighbors.cache());
        let (mut rest, mut outcomes) = (changes, Vec::with_capacity(changes.len()));
        let mut retried_at = usize::MAX;
        while !rest.is_empty() {
            let done = self.change_table(slot, rest, &mut outcomes);
            self.process_outcomes(slot, rest, &outcomes, &mut follow_up);
            let Err(error) = done else { break };
            let at = changes.len() - rest.len() + outcomes.len();
            rest = &rest[outcomes.len()..];
            if error == LpmError::Full(Limit::LookupWords) && retried_at != at {
                // Memory that workers have released by now may suffice.
                self.fib.settle();
                retried_at = at;
                continue;
            }
            let [(prefix, length, next_hop), after @ ..] = rest else { break };
            let hop = self.capabilities.learned.hop_of(*next_hop).map_or(0, |hop| hop.id);
            let full = self.fib.refuse(slot, prefix.address(), error);
            let vrf = self.vrfs.get(slot).map_or("", |state| state.name.as_str());
            refused.prefix((vrf, hop), (*prefix, *length), &full.into());
            // It cannot have the new next hop and must not keep the old one.
            let gone = [(*prefix, *length, 0)];
            if *next_hop != 0 && self.change_table(slot, &gone, &mut outcomes).is_ok() {
                self.process_outcomes(slot, &gone, &outcomes, &mut follow_up);
            }
            rest = after;
        }
        self.settle_vrf_hops(&follow_up.touched);
        follow_up.hosts.sort_unstable();
        follow_up.hosts.dedup();
        for key in follow_up.hosts {
            self.review_host_routes_to(key);
        }
        self.fib.settle();
    }

    /// Changes the table, except where a desired route is, or, for removals, a neighbour's host route.
    fn change_table<K: Family>(
        &mut self,
        slot: Slot,
        changes: &[(K, u8, u32)],
        outcomes: &mut Vec<Outcome>,
    ) -> Result<(), LpmError> {
        let Self { fib, vrfs, capabilities, .. } = self;
        let learned = &capabilities.learned;
        outcomes.clear();
        let Some(table) = K::table_mut(fib, slot) else { return Ok(()) };
        let may_replace = |at: usize, old: u32| {
            if learned.has(old) {
                return true;
            }
            let (prefix, length, next_hop) = changes[at];
            next_hop != 0 && vrfs.route(slot, &prefix.prefix(length)).is_none()
        };
        table.change_all(changes, may_replace, outcomes).map_err(|refused| refused.error)
    }

    fn process_outcomes<K: Family>(
        &mut self,
        slot: Slot,
        changes: &[(K, u8, u32)],
        outcomes: &[Outcome],
        follow_up: &mut FollowUp,
    ) {
        let mut changed = false;
        for (&(prefix, length, next_hop), outcome) in changes.iter().zip(outcomes) {
            let (former, is_kept) = match *outcome {
                Outcome::Absent => continue,
                Outcome::Added => (0, false),
                Outcome::Replaced(old) | Outcome::Removed(old) => (old, false),
                Outcome::Kept(old) => (old, true),
            };
            changed = true;
            if is_kept {
                let at = prefix.prefix(length);
                if self.vrfs.route(slot, &at).is_some() {
                    self.change_shadowed(slot, at, next_hop, &mut follow_up.touched);
                }
                continue;
            }
            let before = self.capabilities.learned.remove_user(former, &mut follow_up.touched);
            let after = self.capabilities.learned.add_user(next_hop, &mut follow_up.touched);
            // Between two gateways, nothing changes for neighbours on a link.
            let is_alike = before.hop != 0 && after.hop != 0;
            if !is_alike || before.is_on_link || after.is_on_link {
                follow_up.hosts.extend(self.capabilities.learned.hosts.within(prefix, length));
            }
        }
        self.capabilities.learned.changes += u64::from(changed);
    }
}
