//! The search for a block of a subscriber that has a free port, within what the subscriber may have.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use stoa_tables::port_block::{PortBlock, settle};

use super::{ADDRESSES, BlockRange, Blocks, Subscriber, class};
use crate::nat::block_events::{Event, EventKind};
use crate::reports::Reporter;

/// What a subscriber of a policy may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Blocks.
    pub blocks: u32,
    /// Ports in use: of TCP, UDP, ICMP, and of all protocols together; [`u32::MAX`]: as many as the blocks have.
    pub ports: [u32; 4],
}

/// Why a subscriber gets no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoBlock {
    /// It has as many blocks or ports as it may have.
    OverQuota,
    /// All blocks belong to others.
    Full,
}

/// What looks for a block, and reports what it does.
pub(in crate::nat) struct Search<'a> {
    pub(in crate::nat) blocks: &'a Blocks,
    pub(in crate::nat) range: &'a BlockRange,
    /// Ranges that are in force no longer, whose blocks may still belong to subscribers.
    pub(in crate::nat) former: &'a [Arc<BlockRange>],
    pub(in crate::nat) share: Share,
    pub(in crate::nat) subscriber: Subscriber,
    pub(in crate::nat) protocol: u8,
    /// The number of the worker.
    pub(in crate::nat) worker: u8,
    /// Tick and milliseconds.
    pub(in crate::nat) now: (u32, u32),
}

impl Search<'_> {
    /// Holds a block of the subscriber that has a free port of the protocol, or allocates one. `after`: one that was
    /// tried in vain, with all that are before it.
    pub(in crate::nat) fn hold(
        &self,
        after: Option<u32>,
        events: &mut Reporter<Event>,
    ) -> Result<u32, NoBlock> {
        let (most, most_in_all) = self.limits();
        // Before anything is held: what is given back again would change what others see.
        if self.in_use().is_some_and(|(ports, all)| ports >= most || all >= most_in_all) {
            return Err(NoBlock::OverQuota);
        }
        let (mut own, mut own_at, mut is_past) = (0, None, after.is_none());
        let held = self.each_own(|step, id, block| {
            if block.state().is_claimed() {
                // Another worker may give it up: who gets the last block is decided when both have claimed one.
                return ControlFlow::Continue(());
            }
            (own, own_at) = (own + 1, own_at.or(Some(step)));
            if !is_past {
                is_past = after == Some(id);
            } else if block.hold(self.subscriber.key(), class(self.protocol), self.range.size) {
                return ControlFlow::Break(id);
            }
            ControlFlow::Continue(())
        });
        if let Some(id) = held {
            return self.within_quota(id);
        }
        if own >= self.share.blocks {
            return Err(NoBlock::OverQuota);
        }
        // All blocks of a subscriber are at one address while that has any (RFC 6888 REQ-2).
        let home = self.range.home(self.subscriber);
        let addresses = ADDRESSES.min(self.range.addresses());
        for step in own_at.into_iter().chain(0..addresses) {
            if !self.range.has_free(home.0, step) {
                continue;
            }
            for id in self.range.blocks_at(home, step) {
                if let Some(found) = self.claim(id, events) {
                    return found.and_then(|()| self.within_quota(id));
                }
            }
        }
        Err(NoBlock::Full)
    }

    /// Visits the blocks of the subscriber: how far from its home, and their numbers. It ends with the last one, as the
    /// subscriber has no more than are counted.
    fn each_own(
        &self,
        mut visit: impl FnMut(u32, u32, &PortBlock) -> ControlFlow<u32>,
    ) -> Option<u32> {
        let (range, key) = (self.range, self.subscriber.key());
        let count = self.blocks.owned.of(self.subscriber);
        let (mut at_home, mut away) = (count.at_home(), count.away());
        let home = range.home(self.subscriber);
        for step in 0..ADDRESSES.min(range.addresses()) {
            let left = if step == 0 { &mut at_home } else { &mut away };
            let mut ids = range.blocks_at(home, step);
            while *left > 0
                && let Some(id) = ids.next()
            {
                let Some(block) = self.blocks.block(id) else { continue };
                if block.state().key() != key {
                    continue;
                }
                *left -= 1;
                if let ControlFlow::Break(id) = visit(step, id, block) {
                    return Some(id);
                }
            }
        }
        None
    }

    /// Takes a block that nobody has; `None`: somebody has it.
    fn claim(&self, id: u32, events: &mut Reporter<Event>) -> Option<Result<(), NoBlock>> {
        let (block, range, key) = (self.blocks.block(id)?, self.range, self.subscriber.key());
        let (of, with) = ((key, self.worker), (class(self.protocol), range.size));
        if !block.state().is_free() || self.is_kept(id) {
            return None;
        }
        let is_at_home = range.is_at_home(id, self.subscriber);
        // Before the block: who has one is counted.
        self.blocks.owned.add(self.subscriber, is_at_home);
        if !block.claim(of, with, self.now.0) {
            self.blocks.owned.remove(self.subscriber, is_at_home);
            // Another worker was faster, perhaps for the same subscriber.
            return block.hold(key, with.0, with.1).then_some(Ok(()));
        }
        range.note_taken(id);
        let home = range.home(self.subscriber);
        let all = || {
            // When `settle` looks: then it counts what other workers claim.
            let is_away = self.blocks.owned.of(self.subscriber).away() > 0;
            let steps = 0..if is_away { ADDRESSES.min(range.addresses()) } else { 1 };
            let ids = steps.flat_map(move |step| range.blocks_at(home, step));
            ids.filter_map(|id| self.blocks.block(id))
        };
        if !settle(block, of, (with.0, self.share.blocks), all) {
            range.note_free(id);
            self.blocks.owned.remove(self.subscriber, is_at_home);
            return Some(Err(NoBlock::OverQuota));
        }
        events.push(self.event(EventKind::Allocated, id));
        Some(Ok(()))
    }

    /// Whether ports of a block still belong to another subscriber, by a former range.
    fn is_kept(&self, id: u32) -> bool {
        let Some((address, first, last)) = self.range.place(id) else { return true };
        let source = (self.subscriber.address, self.subscriber.vrf);
        self.former.iter().filter(|it| it.vrf == self.range.vrf).any(|former| {
            let (begin, end) = (first.max(former.ports.0), last.min(former.ports.1));
            let of = std::slice::from_ref(former);
            let ports = (begin..=end).step_by(former.size.max(1).into()).chain([end]);
            let mut ports = ports.filter(|_| begin <= end);
            ports.any(|port| self.blocks.is_kept(of, (former.vrf, address, port), source))
        })
    }

    /// Ports of the protocol that the subscriber has in use, and of all protocols; `None`: it may have any number.
    fn in_use(&self) -> Option<(u32, u32)> {
        if self.limits() == (u32::MAX, u32::MAX) {
            return None;
        }
        let (mut ports, mut holders) = (0, 0);
        self.each_own(|_, _, block| {
            holders += u32::from(block.state().holders());
            ports += u32::from(block.ports(class(self.protocol)));
            ControlFlow::Continue(())
        });
        Some((ports, holders))
    }

    /// The ports of the protocol, and of all protocols, that the subscriber may have.
    fn limits(&self) -> (u32, u32) {
        let [.., all] = self.share.ports;
        let of_class = match class(self.protocol) {
            3 => u32::MAX,
            class => self.share.ports[class],
        };
        (of_class, all)
    }

    /// A block that is held, unless its subscriber has more ports in use than it may have. What is held counts, so
    /// that workers together stay within the limit.
    fn within_quota(&self, id: u32) -> Result<u32, NoBlock> {
        let (most, most_in_all) = self.limits();
        // Of two workers that hold a port at once, one sees that of the other.
        fence(Ordering::SeqCst);
        if self.in_use().is_some_and(|(ports, all)| ports > most || all > most_in_all) {
            self.blocks.release(id, self.protocol, self.now.0);
            return Err(NoBlock::OverQuota);
        }
        Ok(id)
    }

    fn event(&self, kind: EventKind, id: u32) -> Event {
        Event::of(self.range, (kind, self.now.1), self.subscriber, Some(id))
    }

    /// What is reported when there is no block.
    pub(in crate::nat) fn refusal(&self, kind: EventKind) -> Event {
        Event::of(self.range, (kind, self.now.1), self.subscriber, None)
    }
}
