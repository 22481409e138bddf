//! Leases between the control thread, which has them, and the thread of the partner.
//!
//! The control thread posts what is true of each lease: the thread reads that in turns, and sends what the partner does
//! not know ([`walk`]). What the partner sends waits for the control thread, which does some of it in each tick.

pub mod walk;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use stoa_api::v1;
use stoa_seal::FRAME_MAX;

use super::message::{LEASE_MIN, Lease};
use crate::pcp::lease::{Key, Terms};

/// What waits for the control thread, at most.
const ROOM: usize = 16_384;
/// Room that is left for the items of a frame, before one is opened.
const LEAST: usize = FRAME_MAX / LEASE_MIN;

/// By which connection the partner has named a lease last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// The number of the connection; 0: none of this process.
    pub connection: u32,
    /// Whether it has said that the host asks there. Otherwise the lease may be standby at both, and each names it.
    pub is_theirs: bool,
}

/// A lease as the thread of the partner sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posted {
    /// What it is.
    pub terms: Terms,
    /// `None`: the host has asked here last. Otherwise the lease is standby.
    pub named: Option<Named>,
    /// The host has ended it here, and the partner may have it still.
    pub is_ended: bool,
}

/// What the control thread is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Have this lease, in the numbers and ticks of this process, by the connection with this number.
    Lease(Box<Lease>, u32),
    /// A standby lease has ended.
    End(Key),
    /// The partner has the lease still, as this connection says.
    Known(Key, u32),
    /// End a standby lease that this connection has not named: its bulk is over.
    Sweep(Key, u32),
}

/// What became of a lease of the partner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There is a new lease.
    Created,
    /// A standby lease has ended.
    Ended,
}

#[derive(Default)]
struct Board {
    all: BTreeMap<Key, (u32, Posted)>,
    /// Changes so far.
    version: u32,
}

/// The leases of this router, and what the partner has sent.
#[derive(Default)]
pub struct Leases {
    is_used: AtomicBool,
    board: Mutex<Board>,
    inbox: Mutex<VecDeque<Work>>,
    counts: [AtomicU64; 2],
}

impl Leases {
    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn inbox(&self) -> MutexGuard<'_, VecDeque<Work>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is a partner. Without one, nothing is posted.
    pub fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// There is a partner from now on, or none any more.
    pub fn set_used(&self, is_used: bool) {
        self.is_used.store(is_used, Ordering::Relaxed);
        if !is_used {
            self.board().all.clear();
            self.inbox().clear();
        }
    }

    /// A lease is this now.
    pub fn post(&self, key: Key, lease: Posted) {
        if self.is_used() {
            let board = &mut *self.board();
            board.version = board.version.wrapping_add(1);
            board.all.insert(key, (board.version, lease));
        }
    }

    /// There is no such lease any more.
    pub fn remove(&self, key: &Key) {
        if self.is_used() {
            self.board().all.remove(key);
        }
    }

    /// Forgets a lease that its host has ended here, unless there is another one by now.
    pub fn forget_ended(&self, key: &Key) {
        let board = &mut *self.board();
        if board.all.get(key).is_some_and(|(_, it)| it.is_ended) {
            board.all.remove(key);
        }
    }

    /// Whether there is room for all that a frame can have.
    pub fn has_room(&self) -> bool {
        self.inbox().len() + LEAST <= ROOM
    }

    /// Has the control thread do something; `false`: there is no room, or it must be kept for a frame, or there is no
    /// partner any more.
    pub fn hand(&self, work: Work, least: usize) -> bool {
        let inbox = &mut *self.inbox();
        // Under the lock: the thread of a partner that has gone may come here later than the end of its use.
        let has_room = self.is_used() && inbox.len() + least < ROOM;
        if has_room {
            inbox.push_back(work);
        }
        has_room
    }

    /// What the control thread does next.
    pub fn take(&self) -> Option<Work> {
        self.inbox().pop_front()
    }

    /// A lease of the partner has become this.
    pub fn count(&self, outcome: Outcome) {
        self.counts[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Leases that were created and ended since the start.
    pub fn sums(&self) -> [u64; 2] {
        self.counts.each_ref().map(|it| it.load(Ordering::Relaxed))
    }
}

/// Sets in the state what became of leases since these sums.
pub fn add_to(state: &mut v1::FlowSyncState, sums: [u64; 2], before: [u64; 2]) {
    state.created_leases = sums[0].saturating_sub(before[0]);
    state.ended_leases = sums[1].saturating_sub(before[1]);
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::nat::mappings::End;
    use crate::pcp::lease::{Holder, Origin};

    pub(in crate::flow_sync) fn key(port: u16) -> Key {
        Key { policy: 7, vrf: 0, address: 0x0a00_0005, protocol: 17, port, remote: None }
    }

    pub(in crate::flow_sync) fn terms(port: u16) -> Terms {
        Terms {
            holder: Holder::Nonce([3; 12]),
            origin: Origin { interface: 9, vrf: 0, address: 0x0a00_0005 },
            external: End { address: 0xcb00_7110, port, protocol: 17, vrf: 0 },
            end: 2_000,
            renewed: 1_000,
            peers: Vec::new(),
        }
    }

    #[test]
    fn nothing_is_posted_without_a_partner() {
        let leases = Leases::default();
        let own = Posted { terms: terms(1), named: None, is_ended: false };
        leases.post(key(1), own.clone());
        assert_eq!(leases.board().all.len(), 0);
        leases.set_used(true);
        leases.post(key(1), own.clone());
        leases.post(key(2), Posted { is_ended: true, ..own });
        [1, 2].iter().for_each(|port| leases.forget_ended(&key(*port)));
        assert_eq!(leases.board().all.keys().copied().collect::<Vec<_>>(), [key(1)]);
        assert!(leases.hand(Work::End(key(1)), 0));
        leases.set_used(false);
        assert!(!leases.hand(Work::End(key(1)), 0), "a thread that has not noticed yet");
        assert_eq!((leases.board().all.len(), leases.take()), (0, None));
    }

    #[test]
    fn sweeps_leave_room_for_a_frame() {
        let leases = Leases::default();
        leases.set_used(true);
        let count = (0..).take_while(|_| leases.hand(Work::Sweep(key(1), 1), LEAST)).count();
        assert_eq!((count, leases.has_room()), (ROOM - LEAST, true));
        assert!(leases.hand(Work::End(key(1)), 0) && !leases.has_room());
    }
}
