//! Blocks of subscribers whose flows a former process had.

use stoa_tables::port_block::settle;

use super::{BlockRange, Blocks, Subscriber, class};
use crate::nat::block_events::{Event, EventKind};
use crate::reports::Reporter;

/// Times that a worker tries to hold a block that another one claims at this moment.
const TRIES: u32 = 10_000;

impl Blocks {
    /// Whether nobody has a block.
    pub(in crate::nat) fn is_free(&self, id: u32) -> bool {
        self.block(id).is_some_and(|it| it.state().is_free())
    }

    /// Holds a certain block for a subscriber that has it, or that gets it now, however many it may have; `false`:
    /// another one has it, or all of its ports are in use. `now`: tick and milliseconds.
    pub(in crate::nat) fn claim(
        &self,
        (range, id): (&BlockRange, u32),
        (subscriber, protocol): (Subscriber, u8),
        (worker, now): (u8, (u32, u32)),
        events: &mut Reporter<Event>,
    ) -> bool {
        let Some(block) = self.block(id) else { return false };
        let (key, class) = (subscriber.key(), class(protocol));
        for _ in 0..TRIES {
            if block.hold(key, class, range.size) {
                return true;
            }
            let state = block.state();
            if state.is_free() {
                if self.claim_free((range, id), (subscriber, class), (worker, now.0)) {
                    let kind = (EventKind::Allocated, now.1);
                    events.push(Event::of(range, kind, subscriber, Some(id)));
                    return true;
                }
            } else if state.key() != key || block.ports(class) >= range.size {
                return false;
            }
            std::hint::spin_loop();
        }
        false
    }

    /// The same for a block that nobody has; `false`: somebody was faster.
    fn claim_free(
        &self,
        (range, id): (&BlockRange, u32),
        (subscriber, class): (Subscriber, usize),
        (worker, tick): (u8, u32),
    ) -> bool {
        let Some(block) = self.block(id) else { return false };
        let (of, is_at_home) = ((subscriber.key(), worker), range.is_at_home(id, subscriber));
        // Before the block: who has one is counted.
        self.owned.add(subscriber, is_at_home);
        if block.claim(of, (class, range.size), tick) {
            range.note_taken(id);
            if settle(block, of, (class, u32::MAX), || std::iter::once(block)) {
                return true;
            }
            range.note_free(id);
        }
        self.owned.remove(subscriber, is_at_home);
        false
    }
}
