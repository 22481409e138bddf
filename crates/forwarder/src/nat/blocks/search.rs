//! The search for a block of a subscriber that has a free port, within what the subscriber may have.

use std::sync::atomic::{Ordering, fence};

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
    pub(in crate::nat) share: Share,
    pub(in crate::nat) subscriber: Subscriber,
    pub(in crate::nat) protocol: u8,
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
        let (range, home) = (self.range, self.range.home(self.subscriber));
        let addresses = ADDRESSES.min(range.addresses());
        let has_strayed = range.strayed.load(Ordering::Acquire) > 0;
        let (mut own, mut own_at, mut is_past) = (0, None, after.is_none());
        for step in 0..if has_strayed { addresses } else { addresses.min(1) } {
            for id in range.blocks_at(home, step) {
                let Some(block) = self.blocks.block(id) else { continue };
                if block.word.load(Ordering::Acquire) >> 16 != self.subscriber.key() {
                    continue;
                }
                (own, own_at) = (own + 1, own_at.or(Some(step)));
                if !is_past {
                    is_past = after == Some(id);
                } else if block.hold(self.subscriber, class(self.protocol), range.size) {
                    return self.within_quota(id);
                }
            }
        }
        let (most, most_in_all) = self.limits();
        let has_all = self.in_use().is_some_and(|(ports, all)| ports >= most || all >= most_in_all);
        if own >= self.share.blocks || has_all {
            return Err(NoBlock::OverQuota);
        }
        // All blocks of a subscriber are at one address while that has any (RFC 6888 REQ-2).
        for step in own_at.into_iter().chain(0..addresses) {
            for id in range.blocks_at(home, step) {
                if let Some(found) = self.claim(id, events) {
                    return found.and_then(|()| self.within_quota(id));
                }
            }
        }
        Err(NoBlock::Full)
    }

    /// Takes a block that nobody has; `None`: somebody has it.
    fn claim(&self, id: u32, events: &mut Reporter<Event>) -> Option<Result<(), NoBlock>> {
        let (block, range) = (self.blocks.block(id)?, self.range);
        let (class, held) = (class(self.protocol), self.subscriber.key() << 16 | 1);
        if block.word.load(Ordering::Relaxed) != 0 || !block.take_port(class, range.size) {
            return None;
        }
        if block.word.compare_exchange(0, held, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            // Another worker was faster, perhaps for the same subscriber.
            block.give_back(class);
            return block.hold(self.subscriber, class, range.size).then_some(Ok(()));
        }
        block.since.store(self.now.0, Ordering::Relaxed);
        // Of two workers that allocate at once, one sees the block of the other.
        fence(Ordering::SeqCst);
        let is_too_much = self.own() > self.share.blocks;
        if is_too_much {
            block.give_back(class);
            let undone = block.word.compare_exchange(held, 0, Ordering::SeqCst, Ordering::Relaxed);
            if undone.is_ok() {
                return Some(Err(NoBlock::OverQuota));
            }
            // Another worker holds it already: it is one too many until that is over.
            self.blocks.release_of(id, None, self.now.0);
        }
        if !range.is_at_home(id, self.subscriber) {
            range.strayed.fetch_add(1, Ordering::AcqRel);
        }
        events.push(self.event(EventKind::Allocated, id));
        Some(if is_too_much { Err(NoBlock::OverQuota) } else { Ok(()) })
    }

    /// The blocks of the subscriber.
    fn own(&self) -> u32 {
        let home = self.range.home(self.subscriber);
        let steps = 0..ADDRESSES.min(self.range.addresses());
        let all = steps.flat_map(|step| self.range.blocks_at(home, step));
        let words =
            all.filter_map(|id| self.blocks.block(id)).map(|it| it.word.load(Ordering::SeqCst));
        words.filter(|word| word >> 16 == self.subscriber.key()).count() as u32
    }

    /// Ports of the protocol that the subscriber has in use, and of all protocols; `None`: it may have any number.
    fn in_use(&self) -> Option<(u32, u32)> {
        if self.limits() == (u32::MAX, u32::MAX) {
            return None;
        }
        let (home, class) = (self.range.home(self.subscriber), class(self.protocol));
        let has_strayed = self.range.strayed.load(Ordering::Acquire) > 0;
        let most = if has_strayed { ADDRESSES } else { 1 };
        let steps = most.min(self.range.addresses());
        let (mut ports, mut holders) = (0, 0);
        for id in (0..steps).flat_map(|step| self.range.blocks_at(home, step)) {
            let Some(block) = self.blocks.block(id) else { continue };
            let word = block.word.load(Ordering::SeqCst);
            if word >> 16 == self.subscriber.key() {
                holders += u32::from(word as u16);
                ports += u32::from(block.ports[class].load(Ordering::SeqCst));
            }
        }
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
