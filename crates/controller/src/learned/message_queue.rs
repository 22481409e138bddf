//! Messages to the forwarder, of some thousand routes each.

use std::collections::VecDeque;

use stoa_api::v1;

use super::prefixes::{Address, Ip6Words};
use crate::config::routes::VrfName;

/// Maximum routes of a message: some milliseconds of the forwarder's control thread.
const MAX_ROUTES: usize = 8_192;
/// Maximum hops and removed hops of a message.
const MAX_HOPS: usize = 4_096;

/// Changes in order.
#[derive(Debug, Default)]
pub struct MessageQueue {
    open: v1::LearnedRoutes,
    routes: usize,
    closed: VecDeque<v1::LearnedRoutes>,
    /// There is no stream: changes are discarded.
    is_disabled: bool,
}

/// An address family as runs encode it.
pub trait PackedFamily: Address {
    /// Appends a prefix to a run.
    fn pack(self, length: u8, run: &mut v1::RouteRun);
}

impl PackedFamily for u32 {
    fn pack(self, length: u8, run: &mut v1::RouteRun) {
        let [a, b, c, d] = self.to_be_bytes();
        run.ip4.extend_from_slice(&[a, b, c, d, length]);
    }
}

impl PackedFamily for Ip6Words {
    fn pack(self, length: u8, run: &mut v1::RouteRun) {
        run.ip6.extend_from_slice(&self.widen().to_be_bytes());
        run.ip6.push(length);
    }
}

impl MessageQueue {
    /// Discards everything. `is_disabled`: and all further changes.
    pub fn clear(&mut self, is_disabled: bool) {
        *self = Self { is_disabled, ..Self::default() };
    }

    /// Marks the first message of a stream.
    pub fn start_session(&mut self) {
        self.open.begins = true;
    }

    /// Everything was sent.
    pub fn complete(&mut self) {
        if !self.is_disabled {
            self.open.completes = true;
            self.close();
        }
    }

    /// Adds or changes a hop.
    pub fn hop(&mut self, hop: v1::LearnedHop) {
        if self.is_disabled {
            return;
        }
        if let Some(known) = self.open.hops.iter_mut().rev().take(8).find(|it| it.id == hop.id) {
            *known = hop;
            return;
        }
        self.open.hops.push(hop);
        if self.open.hops.len() >= MAX_HOPS {
            self.close();
        }
    }

    /// Sets the hop of a prefix; 0 withdraws the prefix.
    pub fn route<A: PackedFamily>(&mut self, vrf: &VrfName, address: A, length: u8, hop: u32) {
        if self.is_disabled {
            return;
        }
        match self.open.runs.last_mut() {
            Some(run) if run.hop == hop && vrf.is(&run.vrf) => address.pack(length, run),
            _ => {
                let mut run = v1::RouteRun { vrf: vrf.0.clone(), hop, ..Default::default() };
                address.pack(length, &mut run);
                self.open.runs.push(run);
            }
        }
        self.routes += 1;
        if self.routes >= MAX_ROUTES {
            self.close();
        }
    }

    /// Removes hops without routes.
    pub fn forget(&mut self, hops: Vec<u32>) {
        if self.is_disabled {
            return;
        }
        self.open.forgotten.extend(hops);
        if self.open.forgotten.len() >= MAX_HOPS {
            self.close();
        }
    }

    /// Closes the current message if it is not empty; returns whether it was closed.
    pub fn close(&mut self) -> bool {
        let open = &self.open;
        let is_empty = open.hops.is_empty() && open.runs.is_empty() && open.forgotten.is_empty();
        if is_empty && !open.begins && !open.completes {
            return false;
        }
        self.closed.push_back(std::mem::take(&mut self.open));
        self.routes = 0;
        true
    }

    /// Messages that are ready to send.
    pub fn len(&self) -> usize {
        self.closed.len()
    }

    /// The next message.
    pub fn next(&mut self) -> Option<v1::LearnedRoutes> {
        self.closed.pop_front()
    }
}
