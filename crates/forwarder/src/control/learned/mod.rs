//! Routes learned from routing daemons, beside those of the desired state.
//!
//! ```text
//! message ─► batches ─► lpm: prefix ─► id of a next hop ─► VRF hop ─► hop: set by the caller
//! ```
//!
//! A *hop* is what the caller of `LearnRoutes` gave an id. It has a *VRF hop* for each VRF and family with
//! routes on it. A VRF hop is one next hop of the forwarding table: redirecting a million prefixes writes one
//! word. No map holds the prefixes: the value in the table leads to the VRF hop, which counts its prefixes.
//!
//! A message that begins anew makes all hops and routes *stale*: they keep forwarding until they are
//! announced again or the resynchronization completes. A desired route takes precedence over a learned one
//! with the same prefix, which is kept aside (*shadowed*) and returns. A host route of a neighbour gives way
//! to a learned one as to a desired one.

mod audit;
mod family;
mod hops;
mod hosts;
mod install;
mod listing;
mod message;
mod shadow;
mod stream;
mod sweep;
mod update;

use std::collections::{BTreeMap, HashMap};

pub use audit::Audit;
pub use message::Message;
pub use update::RouteUpdate;

use super::capability::{Capability, Start, Verbs};
use super::desired::{Action, Path, Prefix};
use super::fib::PathKey;
use super::forwarder_state::ForwarderState;
use super::vrfs::Slot;

/// A hop of the caller.
struct Hop {
    /// The caller's id.
    id: u32,
    /// Counts the messages that begin anew.
    generation: u64,
    protocol: i32,
    action: Action,
    backup: Vec<Path>,
    /// The ids of its VRF hops.
    vrf_hops: Vec<u32>,
}

/// A hop in one VRF and family.
pub(super) struct VrfHop {
    slot: Slot,
    is_ip4: bool,
    /// The paths over interfaces that exist.
    pub(super) paths: Vec<PathKey>,
    pub(super) backup: Vec<PathKey>,
    /// Whether no path is usable, and a backup path is.
    pub(super) is_on_backup: bool,
    /// Whether its on-link paths are counted in the VRF.
    is_linked: bool,
}

/// What every route needs about its next hop.
#[derive(Clone, Copy, Default)]
struct HopUse {
    /// Index of the hop plus one; 0: the next hop is not of learned routes.
    hop: u32,
    /// Number of prefixes, including shadowed ones.
    users: u32,
    /// Whether a path is on-link.
    is_on_link: bool,
}

/// All learned routes.
#[derive(Default)]
pub(super) struct Learned {
    hops: Vec<Option<Hop>>,
    free: Vec<u32>,
    /// Indexes of the hops of this generation, by the caller's ids.
    by_id: HashMap<u32, u32>,
    /// By next hop.
    hop_uses: Vec<HopUse>,
    vrf_hops: HashMap<u32, VrfHop>,
    generation: u64,
    /// Number of hops of earlier generations.
    stale: usize,
    /// Next hops of routes that are shadowed by desired ones.
    shadowed: BTreeMap<(Slot, Prefix), u32>,
    /// The resynchronization is complete: stale routes are removed and do not return.
    is_complete: bool,
    /// Counts changes of routes and of the meaning of ids.
    changes: u64,
    /// The newest caller.
    caller: u64,
    /// The neighbours by address.
    hosts: hosts::Hosts,
    /// The on-link paths of a used hop have changed: the host routes of neighbours need a review.
    are_links_new: bool,
}

impl Capability for Learned {
    const VERBS: Verbs = Verbs {
        apply: |state, step| {
            if step.interfaces.are_names_new || !step.touched.ports.is_empty() {
                state.resolve_learned();
            }
            Ok(())
        },
        remove_routes: ForwarderState::drop_learned_through,
        remove_vrf: ForwarderState::remove_learned_of,
        ..Verbs::NONE
    };

    fn start(_: &Start<'_>) -> Self {
        Self::default()
    }
}

impl Learned {
    /// Whether there are no hops, and so no routes.
    pub(super) fn is_empty(&self) -> bool {
        self.vrf_hops.is_empty()
    }

    /// Whether the next hop is of learned routes.
    pub(super) fn has(&self, next_hop: u32) -> bool {
        self.hop_uses.get(next_hop as usize).is_some_and(|hop_use| hop_use.hop != 0)
    }

    /// The VRF hop with this id.
    pub(super) fn vrf_hop(&self, next_hop: u32) -> Option<&VrfHop> {
        self.vrf_hops.get(&next_hop)
    }

    fn hop_use(&self, next_hop: u32) -> HopUse {
        self.hop_uses.get(next_hop as usize).copied().unwrap_or_default()
    }

    fn hop_use_mut(&mut self, next_hop: u32) -> &mut HopUse {
        let at = next_hop as usize;
        if at >= self.hop_uses.len() {
            self.hop_uses.resize(at + 1, HopUse::default());
        }
        &mut self.hop_uses[at]
    }

    /// The hop that a next hop belongs to.
    fn hop_of(&self, next_hop: u32) -> Option<&Hop> {
        let index = self.hop_use(next_hop).hop.checked_sub(1)?;
        self.hops.get(index as usize)?.as_ref()
    }

    /// A prefix no longer uses this next hop.
    fn remove_user(&mut self, next_hop: u32, touched: &mut Vec<u32>) -> HopUse {
        let Some(hop_use) =
            self.hop_uses.get_mut(next_hop as usize).filter(|hop_use| hop_use.hop != 0)
        else {
            return HopUse::default();
        };
        // A count below zero is a bug, but no reason to panic.
        hop_use.users = hop_use.users.saturating_sub(1);
        if hop_use.users == 0 {
            touched.push(next_hop);
        }
        *hop_use
    }

    /// A prefix now uses this next hop.
    fn add_user(&mut self, next_hop: u32, touched: &mut Vec<u32>) -> HopUse {
        let Some(hop_use) =
            self.hop_uses.get_mut(next_hop as usize).filter(|hop_use| hop_use.hop != 0)
        else {
            return HopUse::default();
        };
        hop_use.users += 1;
        if hop_use.users == 1 {
            touched.push(next_hop);
        }
        *hop_use
    }

    fn is_stale(&self, next_hop: u32) -> bool {
        self.hop_of(next_hop).is_some_and(|hop| hop.generation != self.generation)
    }
}
