//! What is counted of flows: one counter, and an exact table of counters of hosts or prefixes.
//!
//! A counter of the table is a word with the tag of its host and how many flows it has ([`TaggedCounters`]). A flow
//! keeps the place of its counter.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use stoa_engine::prepared::Prepared;
use stoa_tables::tagged_counters::{NotTaken, Place, TaggedCounters};
use zerocopy::FromZeros;

use super::{Measure, UNLIMITED};

/// The most counters of a table; a flow keeps the number of one in 32 bits.
const COUNTERS: usize = 1 << 27;
/// How often a word is read again that other workers change meanwhile.
const TURNS: usize = 16;
/// Words that count flows in more bits than all tables have. The others are the tag of a host or prefix.
type Tagged = TaggedCounters<26>;

/// What somebody may have; [`UNLIMITED`]: as much as there is room.
pub(super) struct Bounds([AtomicU32; Measure::ALL.len()]);

impl Default for Bounds {
    fn default() -> Self {
        Self(Measure::ALL.map(|_| AtomicU32::new(UNLIMITED)))
    }
}

impl Bounds {
    pub(super) fn set(&self, bounds: [u32; Measure::ALL.len()]) {
        self.0.iter().zip(bounds).for_each(|(to, bound)| to.store(bound, Relaxed));
    }

    fn get(&self, measure: Measure) -> u32 {
        self.0[measure as usize].load(Relaxed)
    }

    /// Whether anything is limited, so that flows are counted.
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        self.0.iter().any(|bound| bound.load(Relaxed) != UNLIMITED)
    }
}

/// A flow that is to be counted.
#[derive(Clone, Copy)]
pub(super) struct Beginning {
    /// Whether it is half open.
    pub(super) is_half_open: bool,
    /// The second at which it begins; `None`: it is not new, and no limit holds it up.
    pub(super) new_at: Option<u32>,
}

/// The flows of one host, prefix, zone or VRF, of all workers together.
#[derive(Debug, Default, FromZeros)]
pub(super) struct Counted {
    /// Tag and live flows.
    word: AtomicU64,
    /// The second of the last new flow, and how many were new in it.
    new: AtomicU64,
    half_open: AtomicU32,
    _rest: u32,
}

impl Place for Counted {
    fn word(&self) -> &AtomicU64 {
        &self.word
    }
}

fn split(new: u64) -> (u32, u32) {
    ((new >> 32) as u32, new as u32)
}

impl Counted {
    /// What it has now, by [`Measure`].
    pub(super) fn now(&self, tick: u32) -> [u32; Measure::ALL.len()] {
        let (at, new) = split(self.new.load(Relaxed));
        let live = Tagged::count(self.word.load(Relaxed)) as u32;
        [live, self.half_open.load(Relaxed), if at == tick { new } else { 0 }]
    }

    /// The limit that a flow would exceed. It only reads. `is_known`: whether the counter was nobody else's before.
    pub(super) fn refusal(
        &self,
        bounds: &Bounds,
        is_half_open: bool,
        (tick, is_known): (u32, bool),
    ) -> Option<Measure> {
        let now = if is_known { self.now(tick) } else { [0; _] };
        let is_reached = |it: &Measure| {
            let is_meant = *it != Measure::HalfOpen || is_half_open;
            is_meant && now[*it as usize] >= bounds.get(*it)
        };
        Measure::ALL.into_iter().find(is_reached)
    }

    /// Counts a flow whose counter is known.
    pub(super) fn take(&self, bounds: &Bounds, it: Beginning) -> Result<(), Measure> {
        let most = if it.new_at.is_some() { bounds.get(Measure::Live) } else { UNLIMITED };
        let before = Tagged::count(self.word.fetch_add(1, Relaxed));
        if before >= most.into() {
            self.drop_live();
            return Err(Measure::Live);
        }
        self.take_rest(bounds, it)
    }

    /// Counts what a live flow has beside that. After a refusal it is not live either.
    fn take_rest(&self, bounds: &Bounds, it: Beginning) -> Result<(), Measure> {
        if it.is_half_open {
            let before = self.half_open.fetch_add(1, Relaxed);
            if it.new_at.is_some() && before >= bounds.get(Measure::HalfOpen) {
                self.give_back(true);
                return Err(Measure::HalfOpen);
            }
        }
        let most = bounds.get(Measure::New);
        if let Some(tick) = it.new_at.filter(|_| most != UNLIMITED)
            && !self.take_new(tick, most)
        {
            self.give_back(it.is_half_open);
            return Err(Measure::New);
        }
        Ok(())
    }

    /// Counts a new flow, unless there are `most` in this second. One that other workers are always ahead of is one too
    /// many.
    fn take_new(&self, tick: u32, most: u32) -> bool {
        for _ in 0..TURNS {
            let word = self.new.load(Relaxed);
            let (at, count) = split(word);
            // The clock of another worker may be ahead.
            let is_later = tick.wrapping_sub(at).cast_signed() > 0;
            let (at, count) = if is_later { (tick, 0) } else { (at, count) };
            if count >= most {
                return false;
            }
            let next = u64::from(at) << 32 | u64::from(count + 1);
            if self.new.compare_exchange(word, next, Relaxed, Relaxed).is_ok() {
                return true;
            }
        }
        false
    }

    /// A flow that was new was not created after all.
    pub(super) fn undo_new(&self) {
        let less = |word: u64| (split(word).1 > 0).then(|| word - 1);
        let _ = self.new.fetch_update(Relaxed, Relaxed, less);
    }

    fn drop_live(&self) {
        Tagged::give_back(&self.word);
    }

    /// A flow that it counts is half open no longer.
    pub(super) fn opened(&self) {
        let _ = self.half_open.fetch_update(Relaxed, Relaxed, |count| count.checked_sub(1));
    }

    /// A flow that it counts has ended.
    pub(super) fn give_back(&self, is_half_open: bool) {
        if is_half_open {
            self.opened();
        }
        self.drop_live();
    }
}

/// Exact counters of hosts or of prefixes.
pub(super) struct Counters {
    /// A power of two of them, once somebody is limited. Memory is touched when it is used.
    all: Prepared<Counted>,
    tagged: Tagged,
    pub(super) bounds: Bounds,
}

impl Counters {
    pub(super) fn new(keys: [u64; 2]) -> Self {
        let (all, bounds) = Default::default();
        Self { all, tagged: Tagged::new(keys), bounds }
    }

    /// Makes room for the counters of so many flows; whether there is memory. Only the control thread calls it.
    pub(super) fn prepare(&self, flows: u64) -> bool {
        self.all.prepare(Tagged::places(flows, COUNTERS))
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// A counter by its place.
    #[inline]
    pub(super) fn get(&self, place: usize) -> Option<&Counted> {
        self.all.get(place)
    }

    /// The limit that a flow of a name would exceed. It only reads.
    pub(super) fn refusal(&self, name: [u64; 2], is_half_open: bool, tick: u32) -> Option<Measure> {
        let name = self.tagged.name(self.all.len(), name);
        let (place, _, is_known) = self.tagged.find(&self.all, name)?;
        self.all.get(place)?.refusal(&self.bounds, is_half_open, (tick, is_known))
    }

    /// Counts a flow of a name; the place of its counter. `None`: no counter is free, and the flow is not counted. A
    /// new one that other workers are always ahead of is refused.
    pub(super) fn take(&self, name: [u64; 2], it: Beginning) -> Result<Option<usize>, Measure> {
        let name = self.tagged.name(self.all.len(), name);
        let most = if it.new_at.is_some() { self.bounds.get(Measure::Live) } else { UNLIMITED };
        let mut taken = self.tagged.take(&self.all, name, most.into());
        for _ in 0..TURNS {
            // A flow that there is already is not left out: limits would let in one more.
            if taken != Err(NotTaken::Contended) || it.new_at.is_some() {
                break;
            }
            taken = self.tagged.take(&self.all, name, most.into());
        }
        let taken = match taken {
            Ok(taken) => taken,
            Err(NotTaken::Most) => return Err(Measure::Live),
            Err(NotTaken::Contended) if it.new_at.is_some() => return Err(Measure::Live),
            Err(NotTaken::Full | NotTaken::Contended) => return Ok(None),
        };
        let Some(counter) = self.all.get(taken.place) else { return Ok(None) };
        if taken.is_other {
            counter.new.store(0, Relaxed);
        }
        counter.take_rest(&self.bounds, it).map(|()| Some(taken.place))
    }

    /// The most that any of some counters has, by [`Measure`].
    pub(super) fn most_of(
        &self,
        places: std::ops::Range<usize>,
        tick: u32,
    ) -> [u32; Measure::ALL.len()] {
        let some = self.all.get(places).unwrap_or_default();
        some.iter().fold([0; _], |most, counter| {
            let now = counter.now(tick);
            std::array::from_fn(|at| u32::max(most[at], now[at]))
        })
    }

    /// The sums of all counters, for tests.
    #[cfg(test)]
    pub(super) fn sums(&self) -> [u64; 2] {
        self.all.iter().fold([0; 2], |[live, half], it| {
            let [its_live, its_half, _] = it.now(0);
            [live + u64::from(its_live), half + u64::from(its_half)]
        })
    }
}
