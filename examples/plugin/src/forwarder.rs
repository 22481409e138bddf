//! The part in the forwarder: which DSCPs an interface drops, and how many packets it dropped. The control thread
//! writes the first, workers the second. The total of the router goes on after a restart of the forwarder.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use stoa_engine::INTERFACES;
use stoa_engine::counters::{Counter, zeroed};
use stoa_engine::drops::ReasonSpec;
use stoa_forwarder::plugin::{Part, Plugin, Start, StartFailure};
use stoa_warm_restart::{Slot, State};

use crate::{NAME, node};

/// The name of the drop reason.
pub const REASON: &str = "dscp-filter";

/// What the router gets.
pub const PLUGIN: Plugin = Plugin {
    name: NAME,
    features: node::FEATURES,
    drops: &[ReasonSpec { name: REASON, description: "DSCP that the interface drops" }],
    check: |settings| dscps(settings).map(|_| ()).ok_or_else(|| "expected 8 bytes".to_owned()),
    start: |start| Ok(Arc::new(Filter::new(start)?)),
};

/// Most nodes with a total: one for each worker and family.
const TOTALS: usize = 512;

/// The region that survives the forwarder: packets that each node has dropped, in all its lives.
pub struct Totals;

impl State for Totals {
    const NAME: &'static str = "dscp-filter-totals";
    const VERSION: u32 = 1;
    /// The node: see [`node_key`].
    type Key = u32;
    type Value = u64;

    fn is_valid(node: &u32, _: &u64) -> bool {
        (*node as usize) < TOTALS
    }
}

/// The node of a worker for a family.
fn node_key(worker: usize, is_ip4: bool) -> u32 {
    worker as u32 * 2 + u32::from(is_ip4)
}

/// The total of one node, which the node alone writes.
pub struct Total {
    packets: u64,
    /// `None`: it does not survive, as this machine has more workers than there is room for.
    slot: Option<Slot<Totals>>,
    shown: Arc<AtomicU64>,
}

impl Total {
    /// Counts dropped packets: once for a vector, not for each packet.
    pub fn add(&mut self, packets: u64) {
        self.packets += packets;
        self.shown.store(self.packets, Ordering::Relaxed);
        if let Some(slot) = &mut self.slot {
            slot.write(&self.packets);
        }
    }
}

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
    /// By node, until the node takes its own.
    totals: Mutex<BTreeMap<u32, Total>>,
    /// The totals, for the control thread; those of nodes that only an earlier forwarder had among them.
    shown: Vec<Arc<AtomicU64>>,
}

impl Filter {
    fn new(start: &mut Start<'_>) -> Result<Filter, StartFailure> {
        let mut opened = start.open::<Totals>(TOTALS)?;
        let (mut totals, mut shown) = (BTreeMap::new(), Vec::new());
        let mut add = |node, packets, slot| {
            let total = Total { packets, slot, shown: Arc::new(AtomicU64::new(packets)) };
            shown.push(Arc::clone(&total.shown));
            totals.insert(node, total);
        };
        let mut missing: Vec<u32> = (0..start.workers)
            .flat_map(|worker| [false, true].map(|is_ip4| node_key(worker, is_ip4)))
            .collect();
        for (slot, packets) in opened.entries {
            missing.retain(|node| node != slot.key());
            add(*slot.key(), packets, Some(slot));
        }
        for node in missing {
            let has_place = Totals::is_valid(&node, &0);
            add(node, 0, has_place.then(|| opened.region.insert(node, &0)).flatten());
        }
        Ok(Filter {
            dscps: zeroed(INTERFACES)?,
            dropped: (0..start.workers).map(|_| zeroed(INTERFACES)).collect::<Result<_, _>>()?,
            baseline: zeroed(INTERFACES)?,
            totals: Mutex::new(totals),
            shown,
        })
    }

    /// The total of a node, when the node is made.
    pub fn take_total(&self, worker: usize, is_ip4: bool) -> Option<Total> {
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        totals.remove(&node_key(worker, is_ip4))
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

    /// The DSCPs, the number of packets, and that of the router in all its lives, 8 bytes each.
    fn state(&self, interface: u32) -> Vec<u8> {
        let at = interface as usize % INTERFACES;
        let dscps = self.dscps[at].load(Ordering::Relaxed);
        let dropped = self.total(at) - self.baseline[at].load(Ordering::Relaxed);
        let of_router = self.shown.iter().map(|total| total.load(Ordering::Relaxed)).sum();
        [dscps, dropped, of_router].map(u64::to_le_bytes).concat()
    }
}
