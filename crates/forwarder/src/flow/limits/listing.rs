//! What limits of flows have refused, and what they count now.

use std::sync::atomic::Ordering;

use super::{FlowLimits, Measure, Of, Reached};

/// Counters of a slice of [`FlowLimits::fullest`]: less than a millisecond.
const SLICE: usize = 1 << 15;

impl FlowLimits {
    /// Whether senders of packets that may begin no flow get no answer.
    #[inline]
    pub fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::Relaxed)
    }

    /// Sets whether they get none.
    pub fn set_silent(&self, is_silent: bool) {
        self.is_silent.store(is_silent, Ordering::Relaxed);
    }

    /// A worker has dropped a first packet.
    pub fn count_refused(&self, worker: usize, Reached { of, measure }: Reached) {
        let of = self.refusals.get(worker).and_then(|it| it.0.get(of.place()));
        if let Some(refused) = of {
            refused[measure as usize].add(1);
        }
    }

    /// How many first packets were dropped by the limits of somebody, by [`Measure`].
    pub fn refused(&self, of: Of) -> [u64; Measure::ALL.len()] {
        let of_workers = self.refusals.iter().filter_map(|it| it.0.get(of.place()));
        of_workers.fold([0; _], |sum, it| std::array::from_fn(|at| sum[at] + it[at].get()))
    }

    /// What a zone or a VRF has now, by [`Measure`]. Hosts and prefixes are many: see [`Self::fullest`].
    pub fn now(&self, of: Of, tick: u32) -> Option<[u32; Measure::ALL.len()]> {
        match of {
            Of::Host | Of::Prefix => None,
            Of::Zone(number) => Some(self.zones[usize::from(number)].counted.now(tick)),
            Of::Vrf(slot) => Some(self.vrfs[usize::from(slot)].counted.now(tick)),
        }
    }

    /// The most that one of some hosts or prefixes has, and where to go on; 0: these were the last ones.
    pub fn fullest(&self, of: Of, from: usize, tick: u32) -> ([u32; Measure::ALL.len()], usize) {
        let counters = if of == Of::Host { &self.hosts } else { &self.prefixes };
        let end = from.saturating_add(SLICE).min(counters.len());
        let most = counters.most_of(from.min(end)..end, tick);
        (most, if end < counters.len() { end } else { 0 })
    }
}
