//! Counts and digests of learned routes, computed from the forwarding tables and not from separate counters,
//! which would share their errors.

use std::collections::BTreeMap;

use stoa_api::{digest, v1};
use stoa_delta::Digests;

use super::VrfHop;
use super::family::Family;
use crate::control::desired::Prefix;
use crate::control::forwarder_state::ForwarderState;
use crate::control::vrfs::Slot;

/// Routes per slice of an audit: about a millisecond.
const SCAN_LIMIT: usize = 10_000;

/// An audit in progress.
pub struct Audit {
    slot: Slot,
    is_ip4: bool,
    /// The digest slices whose routes are listed.
    listed_slices: [bool; digest::SLICES],
    /// Where to continue; `None`: at the shadowed routes, which are the last.
    from: Option<(u128, u8)>,
    is_done: bool,
    /// The change counter when the audit began.
    changes: u64,
    digests: Digests,
    listed: BTreeMap<u32, Vec<u8>>,
    /// Prefixes by next hop.
    users: Vec<u32>,
    is_changing: bool,
}

impl Audit {
    /// The result.
    pub fn reply(self, vrf: &str) -> v1::AuditRoutesReply {
        let run = |(hop, packed): (u32, Vec<u8>)| {
            let (ip4, ip6) = if self.is_ip4 { (packed, vec![]) } else { (vec![], packed) };
            v1::RouteRun { vrf: vrf.to_owned(), hop, ip4, ip6 }
        };
        v1::AuditRoutesReply {
            routes: self.digests.rows,
            runs: self.listed.into_iter().map(run).collect(),
            digests: self.digests.into_sums(),
            is_changing: self.is_changing,
        }
    }

    /// Counts a route over a next hop, with the caller's id of its hop; 0 when the hop is of an earlier generation.
    fn count<K: Family>(&mut self, (prefix, length): (K, u8), next_hop: u32, hop: u32) {
        if let Some(users) = self.users.get_mut(next_hop as usize) {
            *users += 1;
        }
        let slice = digest::slice(prefix.as_u128(), length);
        self.digests.add(slice, digest::route(prefix.as_u128(), length, hop));
        if self.listed_slices[slice] {
            prefix.pack(length, self.listed.entry(hop).or_default());
        }
    }
}

impl ForwarderState {
    /// A whole audit at once: for tests.
    pub fn audit_routes(
        &mut self,
        request: &v1::AuditRoutesRequest,
    ) -> Option<v1::AuditRoutesReply> {
        let mut audit = self.begin_audit(request)?;
        while !self.audit_more(&mut audit) {}
        Some(audit.reply(&request.vrf))
    }

    /// Begins an audit; `None` for an unknown VRF or family.
    pub fn begin_audit(&self, request: &v1::AuditRoutesRequest) -> Option<Audit> {
        let slot = self.vrfs.slot_of(&request.vrf)?;
        let is_ip4 = match request.family {
            4 => true,
            6 => false,
            _ => return None,
        };
        let mut listed_slices = [false; digest::SLICES];
        for slice in &request.slices {
            if let Some(slice) = listed_slices.get_mut(*slice as usize) {
                *slice = true;
            }
        }
        Some(Audit {
            slot,
            is_ip4,
            listed_slices,
            from: Some((0, 0)),
            is_done: false,
            changes: self.capabilities.learned.changes,
            digests: Digests::default(),
            listed: BTreeMap::new(),
            users: vec![0; self.capabilities.learned.hop_uses.len()],
            is_changing: false,
        })
    }

    /// Runs the next slice of an audit; true at its end, where it corrects the numbers of prefixes of next hops.
    pub fn audit_more(&mut self, audit: &mut Audit) -> bool {
        if audit.changes != self.capabilities.learned.changes {
            audit.is_changing = true;
        }
        if !audit.is_done {
            match (audit.from, audit.is_ip4) {
                (Some(from), true) => self.audit_table(audit, (from.0 as u32, from.1)),
                (Some(from), false) => self.audit_table(audit, from),
                (None, true) => self.audit_shadowed::<u32>(audit),
                (None, false) => self.audit_shadowed::<u128>(audit),
            }
            if audit.is_done && !audit.is_changing {
                self.correct_users(audit);
            }
        }
        audit.is_done
    }

    fn audit_table<K: Family>(&self, audit: &mut Audit, from: (K, u8)) {
        audit.from = None;
        let table = K::table(&self.fib, audit.slot).into_iter();
        let routes = table.flat_map(|table| table.range(from.0, from.1)).enumerate();
        for (at, (prefix, length, value)) in routes {
            if at == SCAN_LIMIT {
                audit.from = Some((prefix.as_u128(), length));
                return;
            }
            if self.capabilities.learned.has(value) {
                audit.count((prefix, length), value, self.caller_id(value));
            }
        }
    }

    fn audit_shadowed<K: Family>(&self, audit: &mut Audit) {
        audit.is_done = true;
        for ((slot, (address, length)), next_hop) in &self.capabilities.learned.shadowed {
            if *slot == audit.slot
                && let Some(prefix) = K::of(*address)
            {
                audit.count((prefix, *length), *next_hop, self.caller_id(*next_hop));
            }
        }
    }

    /// Sets the numbers of prefixes of next hops to what the table has. They follow the changes of routes, and differ
    /// where a prefix has come or gone otherwise: a next hop that is in use must not be removed.
    fn correct_users(&mut self, audit: &Audit) {
        let learned = &self.capabilities.learned;
        let wrong = |(next_hop, vrf_hop): (&u32, &VrfHop)| {
            let users = *audit.users.get(*next_hop as usize)?;
            let is_meant = (vrf_hop.slot, vrf_hop.is_ip4) == (audit.slot, audit.is_ip4);
            (is_meant && learned.hop_use(*next_hop).users != users).then_some((*next_hop, users))
        };
        let wrong: Vec<(u32, u32)> = learned.vrf_hops.iter().filter_map(wrong).collect();
        for (next_hop, users) in &wrong {
            let counted = &mut self.capabilities.learned.hop_use_mut(*next_hop).users;
            tracing::error!(
                next_hop,
                counted,
                users,
                "corrected the number of routes of a next hop"
            );
            *counted = *users;
        }
        let is_wrong = !wrong.is_empty();
        let touched: Vec<u32> = wrong.into_iter().map(|(next_hop, _)| next_hop).collect();
        self.settle_vrf_hops(&touched);
        if is_wrong {
            // Whether a neighbour gets a host route depends on the routes over its link.
            self.capabilities.neighbors.touch_all();
            self.review_touched_host_routes();
        }
    }

    fn caller_id(&self, next_hop: u32) -> u32 {
        let hop = self.capabilities.learned.hop_of(next_hop);
        hop.filter(|hop| hop.generation == self.capabilities.learned.generation)
            .map_or(0, |hop| hop.id)
    }

    /// Points a prefix to the next hop of another one in the table only, as a bug would: for tests of audits. Returns
    /// whether there is such a next hop.
    #[doc(hidden)]
    pub fn add_to_table_only(&mut self, vrf: &str, prefix: Prefix, of: Prefix) -> bool {
        let Some(slot) = self.vrfs.slot_of(vrf) else { return false };
        let hop = self.fib.get(slot, of);
        hop.is_some_and(|hop| self.fib.insert(slot, prefix, hop).is_ok())
    }

    /// Removes a learned route from the table only, as a bug would: for tests of audits. Returns whether it
    /// existed.
    #[doc(hidden)]
    pub fn remove_from_table_only(&mut self, vrf: &str, prefix: Prefix) -> bool {
        let Some(slot) = self.vrfs.slot_of(vrf) else { return false };
        let is_there =
            self.fib.get(slot, prefix).is_some_and(|value| self.capabilities.learned.has(value));
        if is_there {
            self.fib.remove(slot, prefix);
        }
        is_there
    }
}
