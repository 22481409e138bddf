//! Leases: mappings that hosts have asked for. A mapping with a lease stays without flows, and lets in whom the lease
//! names. The control thread knows who has which lease, and until when; workers see three bits of a mapping's word.

use std::sync::atomic::{AtomicU32, Ordering};

use super::{COUNT, Mappings, OVER, UNUSED};

/// The mapping has a lease.
const LEASED: u32 = 1 << 31;
/// Only some remote ends may send.
const RESTRICTED: u32 = 1 << 30;
/// It had a lease: flows that came in by it end.
const ENDED: u32 = 1 << 29;
const _: () = assert!(ENDED > COUNT);

/// Workers whose progress is noted.
const WORKERS: usize = 256;

/// A word without the mark of a lease that has ended: it does not keep a mapping.
pub(super) fn without_ended(word: u32) -> u32 {
    word & !ENDED
}

/// Whom the lease of a mapping lets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// It has none.
    No,
    /// Anybody.
    Anybody,
    /// Those among [`RemotePeers`](super::RemotePeers).
    Some,
}

impl Lease {
    fn of(word: u32) -> Self {
        if word & LEASED == 0 {
            Self::No
        } else if word & RESTRICTED == 0 {
            Self::Anybody
        } else {
            Self::Some
        }
    }
}

/// Which flows of a mapping end, of those that came in by a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// None.
    No,
    /// Those that neither [`RemotePeers`](super::RemotePeers) nor the policy let in any more: a lease lets in fewer.
    Others,
    /// All that the policy does not let in: no lease is left.
    All,
}

/// When leases have ended, and which workers have ended their flows.
pub(super) struct Ended {
    epoch: AtomicU32,
    swept: Box<[AtomicU32]>,
}

impl Default for Ended {
    fn default() -> Self {
        Self { epoch: AtomicU32::new(0), swept: (0..WORKERS).map(|_| AtomicU32::new(0)).collect() }
    }
}

impl Mappings {
    fn change(&self, id: u32, change: impl Fn(u32) -> Option<u32>) -> Option<u32> {
        let word = self.count(id)?;
        word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, change).ok()
    }

    /// Gives a mapping a lease, or changes whom it lets in; `false`: the mapping has ended. Flows that are to end do so
    /// unless this lease lets them in.
    pub fn lease(&self, id: u32, is_restricted: bool) -> bool {
        let leased = |word: u32| match is_restricted {
            true => word | LEASED | RESTRICTED,
            false => word & !(RESTRICTED | ENDED) | LEASED,
        };
        self.change(id, |word| (word & COUNT != OVER).then(|| leased(word))).is_some()
    }

    /// Ends the lease of a mapping. Flows that came in by it end with the next [`Self::end_flows_of_leases`]; whether
    /// it has any flows.
    pub fn end_lease(&self, id: u32) -> bool {
        let ended = |word: u32| {
            let rest = word & !(LEASED | RESTRICTED);
            let has_flows = word & COUNT > UNUSED;
            (word & LEASED != 0).then_some(if has_flows { rest | ENDED } else { rest })
        };
        self.change(id, ended).is_some_and(|before| before & COUNT > UNUSED)
    }

    /// Ends flows of a lease that lets in fewer than before, with the next [`Self::end_flows_of_leases`]: those that
    /// there are, and those that workers let in which do not know yet who may send. `false`: no lease is for some.
    pub fn narrow_lease(&self, id: u32) -> bool {
        let narrowed =
            |word: u32| (word & RESTRICTED != 0 && word & COUNT != OVER).then_some(word | ENDED);
        self.change(id, narrowed).is_some()
    }

    /// Whether a mapping is of an owner.
    pub fn is_owned_by(&self, id: u32, owner: usize) -> bool {
        usize::from(self.reader.entry(id).owner()) == owner
    }

    /// Whom the lease of a mapping lets in.
    pub fn lease_of(&self, id: u32) -> Lease {
        Lease::of(self.count(id).map_or(0, |word| word.load(Ordering::Relaxed)))
    }

    /// Counts one more flow, which such a lease lets in; `false`: it is another lease by now, or the mapping has ended.
    /// A lease that ends knows of this flow, or the flow knows of the end.
    pub fn hold_by(&self, id: u32, lease: Lease) -> bool {
        let is_room = |word: u32| word & COUNT != OVER && word & COUNT < COUNT;
        let more = |word: u32| (Lease::of(word) == lease && is_room(word)).then(|| word + 1);
        self.change(id, more).is_some()
    }

    /// Which flows end that came in by a lease of the mapping.
    pub fn ending(&self, id: u32) -> Ending {
        match self.count(id).map_or(0, |word| word.load(Ordering::Relaxed)) {
            word if word & ENDED == 0 => Ending::No,
            word if word & LEASED != 0 => Ending::Others,
            _ => Ending::All,
        }
    }

    /// Has workers end flows of ended leases; the epoch of that. Each worker looks at all of its flows, so do not call
    /// it often.
    pub fn end_flows_of_leases(&self) -> u32 {
        self.ended_leases.epoch.fetch_add(1, Ordering::AcqRel).wrapping_add(1)
    }

    /// The last epoch.
    pub fn lease_epoch(&self) -> u32 {
        self.ended_leases.epoch.load(Ordering::Acquire)
    }

    /// A worker has ended its flows of an epoch.
    pub fn note_swept(&self, worker: u8, epoch: u32) {
        if let Some(swept) = self.ended_leases.swept.get(usize::from(worker)) {
            swept.store(epoch, Ordering::Release);
        }
    }

    /// Whether so many workers have ended their flows of an epoch.
    pub fn is_swept(&self, workers: usize, epoch: u32) -> bool {
        self.ended_leases.swept.iter().take(workers).all(|swept| {
            // Epochs wrap.
            epoch.wrapping_sub(swept.load(Ordering::Acquire)).cast_signed() <= 0
        })
    }

    /// The flows that were to end have ended.
    pub fn forget_lease(&self, id: u32) {
        self.change(id, |word| Some(word & !ENDED));
    }
}
