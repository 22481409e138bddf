//! The part in the forwarder: which DSCPs an interface drops, and how many packets it dropped. The control thread
//! writes the first, workers the second.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stoa_engine::INTERFACES;
use stoa_engine::counters::{Counter, OutOfMemory, zeroed};
use stoa_engine::drops::ReasonSpec;
use stoa_forwarder::plugin::{Part, Plugin};

use crate::{NAME, node};

/// The name of the drop reason.
pub const REASON: &str = "dscp-filter";

/// What the router gets.
pub const PLUGIN: Plugin = Plugin {
    name: NAME,
    features: node::FEATURES,
    drops: &[ReasonSpec { name: REASON, description: "DSCP that the interface drops" }],
    check: |settings| dscps(settings).map(|_| ()).ok_or_else(|| "expected 8 bytes".to_owned()),
    start: |workers| Ok(Arc::new(Filter::new(workers)?)),
};

/// The settings of an interface: a bit for each DSCP that it drops.
pub fn dscps(settings: &[u8]) -> Option<u64> {
    settings.try_into().ok().map(u64::from_le_bytes)
}

/// The filters of all interfaces.
pub struct Filter {
    dscps: Box<[AtomicU64]>,
    /// By worker, then by interface.
    dropped: Vec<Box<[Counter]>>,
    /// What was dropped before the interface was created.
    baseline: Box<[AtomicU64]>,
}

impl Filter {
    fn new(workers: usize) -> Result<Filter, OutOfMemory> {
        Ok(Filter {
            dscps: zeroed(INTERFACES)?,
            dropped: (0..workers).map(|_| zeroed(INTERFACES)).collect::<Result<_, _>>()?,
            baseline: zeroed(INTERFACES)?,
        })
    }

    /// Whether an interface drops packets with this DSCP, 0..63.
    #[inline(always)]
    pub fn drops(&self, interface: u32, dscp: u8) -> bool {
        let dscps = &self.dscps[interface as usize % INTERFACES];
        dscps.load(Ordering::Relaxed) >> (dscp & 63) & 1 == 1
    }

    /// Counts a packet that a worker drops.
    #[inline(always)]
    pub fn count(&self, worker: usize, interface: u32) {
        if let Some(counters) = self.dropped.get(worker) {
            counters[interface as usize % INTERFACES].add(1);
        }
    }

    fn total(&self, at: usize) -> u64 {
        self.dropped.iter().map(|counters| counters[at].get()).sum()
    }
}

impl Part for Filter {
    fn set_interface(&self, interface: u32, settings: Option<&[u8]>) {
        let at = interface as usize % INTERFACES;
        let new = settings.and_then(dscps).unwrap_or(0);
        if settings.is_none() {
            self.baseline[at].store(self.total(at), Ordering::Relaxed);
        }
        self.dscps[at].store(new, Ordering::Relaxed);
    }

    /// The DSCPs and the number of packets, 8 bytes each.
    fn state(&self, interface: u32) -> Vec<u8> {
        let at = interface as usize % INTERFACES;
        let dscps = self.dscps[at].load(Ordering::Relaxed);
        let dropped = self.total(at) - self.baseline[at].load(Ordering::Relaxed);
        [dscps, dropped].map(u64::to_le_bytes).concat()
    }
}
