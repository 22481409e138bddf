//! Subscribers that a worker has refused: as long as nothing has changed for them, their next packets are refused
//! without a search. So a subscriber beyond its limits costs a worker no more than a few loads for each packet.

use super::owned::Count;
use super::{NoBlock, Search, Share, Subscriber, class};
use crate::nat::choice;

/// Subscribers, one for each value of a hash.
const ROOM: usize = 256;

/// What a refusal depends on. It is known for the rest of its tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reason {
    subscriber: Subscriber,
    /// The first block of the range, and changes of its free ones.
    range: (u32, u32),
    share: Share,
    class: usize,
    tick: u32,
    count: Count,
}

impl Reason {
    fn of(search: &Search<'_>) -> Self {
        let Search { blocks, range, share, subscriber, .. } = *search;
        Self {
            subscriber,
            range: (range.base, range.changes()),
            share,
            class: class(search.protocol),
            tick: search.now.0,
            count: blocks.owned.of(subscriber),
        }
    }

    fn place(&self) -> usize {
        let hash = choice::hash(self.subscriber.address, self.subscriber.vrf);
        (hash as usize + self.class) % ROOM
    }
}

/// The refusals of a worker.
pub(in crate::nat) struct Refused(Box<[Option<(Reason, NoBlock)>]>);

impl Default for Refused {
    fn default() -> Self {
        Self(vec![None; ROOM].into())
    }
}

impl Refused {
    /// Searches, unless it is known already that there is no block.
    pub(in crate::nat) fn or_search(
        &mut self,
        search: &Search<'_>,
        hold: impl FnOnce() -> Result<u32, NoBlock>,
    ) -> Result<u32, NoBlock> {
        // Read before the search: what changes meanwhile is not overlooked.
        let reason = Reason::of(search);
        let Some(known) = self.0.get_mut(reason.place()) else { return hold() };
        if let Some((_, why)) = known.as_ref().filter(|(of, _)| *of == reason) {
            return Err(*why);
        }
        let found = hold();
        if let Err(why) = found {
            *known = Some((reason, why));
        }
        found
    }
}
