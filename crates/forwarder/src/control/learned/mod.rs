//! Routes that daemons have learned, beside those of the desired state.
//!
//! ```text
//! message ─► pieces ─► lpm: prefix ─► id of a next hop ─► face ─► hop: what the caller said
//! ```
//!
//! A *hop* is what the caller of `LearnRoutes` gave an id. It has a *face* for each VRF and family
//! with routes on it, and a face is one next hop of the forwarding table: to redirect a million
//! prefixes is to write one word. No map has the prefixes: the value in the table tells the face,
//! and the face tells the rest; it counts its prefixes, so that nobody has to look for them.
//!
//! Each message that begins anew makes what is held *stale*: it keeps forwarding, until it is said
//! again or everything was said. A desired route goes before a learned one to the same prefix, which
//! is kept aside (*shadowed*) and comes back. A neighbour's host route gives way to a learned one as to a
//! desired one.

mod audit;
mod listing;
mod family;
mod hops;
mod hosts;
mod update;
mod message;
mod shadow;
mod stream;
mod sweep;
mod install;

use std::collections::{BTreeMap, HashMap};

pub use audit::Audit;
pub use update::RouteUpdate;
pub use message::Message;
pub(super) use stream::Callers;

use super::desired::{Action, Path, Prefix};
use super::fib::PathKey;
use super::vrfs::Slot;

/// A hop of the caller.
struct Hop {
    /// The caller's id.
    id: u32,
    /// Of the messages between two that begin anew.
    generation: u64,
    protocol: i32,
    action: Action,
    backup: Vec<Path>,
    /// The next hops that are its faces.
    vrf_hops: Vec<u32>,
}

/// What a hop is to one VRF and family.
pub(super) struct VrfHop {
    slot: Slot,
    is_ip4: bool,
    /// What the paths come to now; those through interfaces that are not there are left out.
    pub(super) paths: Vec<PathKey>,
    pub(super) backup: Vec<PathKey>,
    /// Whether no path can be used, and a backup path is.
    pub(super) is_on_backup: bool,
    /// Whether its links are counted as links of the VRF.
    is_linked: bool,
}

/// What is looked at for each route, by next hop.
#[derive(Clone, Copy, Default)]
struct HopUse {
    /// Place of the hop, plus one; 0: this next hop is none of ours.
    hop: u32,
    /// Prefixes on it, the shadowed ones among them.
    users: u32,
    /// Whether a path leads onto a link.
    is_on_link: bool,
}

/// All that is learned.
#[derive(Default)]
pub(super) struct Learned {
    hops: Vec<Option<Hop>>,
    free: Vec<u32>,
    /// Places of the hops of this generation, by the caller's ids.
    by_id: HashMap<u32, u32>,
    /// By next hop.
    hop_uses: Vec<HopUse>,
    vrf_hops: HashMap<u32, VrfHop>,
    generation: u64,
    /// Hops of former generations that are still there.
    stale: usize,
    /// Next hops of routes that desired ones stand before.
    shadowed: BTreeMap<(Slot, Prefix), u32>,
    /// Everything was said since the last beginning: what is stale goes, and does not come back.
    is_complete: bool,
    /// Goes on with each change of routes or of what ids mean.
    changes: u64,
    /// The newest of the callers.
    caller: u64,
    /// Where neighbours are.
    hosts: hosts::Hosts,
    /// A hop that has prefixes leads onto other links than before: which neighbours have host
    /// routes is to be looked at again.
    are_links_new: bool,
}

impl Learned {
    /// Whether no hop is known, and so no route.
    pub(super) fn is_empty(&self) -> bool {
        self.vrf_hops.is_empty()
    }

    /// Whether the next hop is that of learned routes.
    pub(super) fn has(&self, next_hop: u32) -> bool {
        self.hop_uses.get(next_hop as usize).is_some_and(|hop_use| hop_use.hop != 0)
    }

    /// The face of learned routes with this next hop.
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
        let place = self.hop_use(next_hop).hop.checked_sub(1)?;
        self.hops.get(place as usize)?.as_ref()
    }

    /// A prefix leads to this next hop no more.
    fn remove_user(&mut self, next_hop: u32, touched: &mut Vec<u32>) -> HopUse {
        let Some(hop_use) = self.hop_uses.get_mut(next_hop as usize).filter(|hop_use| hop_use.hop != 0)
        else {
            return HopUse::default();
        };
        // What the table holds beyond our count is a fault, and no reason to end.
        hop_use.users = hop_use.users.saturating_sub(1);
        if hop_use.users == 0 {
            touched.push(next_hop);
        }
        *hop_use
    }

    /// A prefix leads to this next hop now.
    fn add_user(&mut self, next_hop: u32, touched: &mut Vec<u32>) -> HopUse {
        let Some(hop_use) = self.hop_uses.get_mut(next_hop as usize).filter(|hop_use| hop_use.hop != 0)
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
