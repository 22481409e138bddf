//! The control-plane policers of all classes and interfaces, shared by the workers: token buckets of one word
//! each, and counters of conforming and exceeding packets.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use stoa_engine::counters::Counter;
use stoa_engine::{Context, INTERFACES, Vector, clock};
use stoa_tables::shared_bucket::{SharedBucket, SharedLimit, buckets};
use zerocopy::FromZeros;

use super::{Class, Limit};

const CLASSES: usize = Class::ALL.len();

/// Counters of one class on one interface and worker.
#[derive(Default, FromZeros)]
#[repr(C)]
struct PolicerCell {
    passed: Counter,
    dropped: Counter,
}

/// The counters of one worker.
struct WorkerCells {
    /// By interface and class.
    cells: Box<[PolicerCell]>,
    /// By class, of all interfaces.
    sums: Box<[PolicerCell]>,
    /// One bit for each interface that has counted a packet.
    counted: Box<[AtomicU64]>,
}

impl WorkerCells {
    /// All zero; `None`: the address space is exhausted.
    fn new() -> Option<Self> {
        Some(Self {
            cells: PolicerCell::new_vec_zeroed(INTERFACES * CLASSES).ok()?.into(),
            sums: PolicerCell::new_vec_zeroed(CLASSES).ok()?.into(),
            counted: (0..INTERFACES / WORD).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    /// Counts a packet; only the worker calls this.
    #[inline]
    fn count(&self, class: Class, interface: u32, passed: bool) {
        for cell in [&self.cells[Policers::at(class, interface)], &self.sums[class as usize]] {
            if passed { cell.passed.add(1) } else { cell.dropped.add(1) }
        }
        let at = interface as usize % INTERFACES;
        let (word, bit) = (&self.counted[at / WORD], 1 << (at % WORD));
        let before = word.load(Ordering::Relaxed);
        if before & bit == 0 {
            word.store(before | bit, Ordering::Relaxed);
        }
    }
}

/// Interfaces of a word of [`WorkerCells::counted`].
const WORD: usize = 64;

/// Packets that conformed to a policer, and those that exceeded it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicerCounters {
    /// Conforming packets.
    pub passed: u64,
    /// Exceeding packets, and packets that found the ring to the control thread full.
    pub dropped: u64,
}

impl PolicerCounters {
    fn add(&mut self, cell: &PolicerCell) {
        self.passed += cell.passed.get();
        self.dropped += cell.dropped.get();
    }

    /// The difference to earlier counters.
    pub fn since(self, before: Self) -> Self {
        Self { passed: self.passed - before.passed, dropped: self.dropped - before.dropped }
    }
}

/// The limits of one class.
struct ClassLimits {
    interface: SharedLimit,
    /// The rate below which an interface is low-rate: rate / [`LOW_RATE_SHARE`].
    low_rate: SharedLimit,
    /// Interfaces above that may use the total down to its reserve.
    total: SharedLimit,
    /// Low-rate interfaces may use the reserve as well.
    reserve: SharedLimit,
    all: SharedBucket,
}

impl ClassLimits {
    fn new(limit: Limit) -> Self {
        let closed = || SharedLimit::new(0, 0, 1);
        let all = SharedBucket::default();
        let limits = Self {
            interface: closed(),
            low_rate: closed(),
            total: closed(),
            reserve: closed(),
            all,
        };
        limits.set(limit);
        limits
    }

    fn set(&self, limit: Limit) {
        let hz = clock::tsc_hz();
        let tenth = |of: u32| u64::from(if of == 0 { 0 } else { (of / LOW_RATE_SHARE).max(1) });
        let burst = u64::from(limit.total / 10).max(limit.burst.into());
        self.interface.set(limit.rate.into(), limit.burst.into(), hz);
        self.low_rate.set(tenth(limit.rate), tenth(limit.burst), hz);
        self.total.set(limit.total.into(), burst, hz);
        self.reserve.set(limit.total.into(), burst * 2, hz);
    }
}

/// An interface is low-rate while it sends less than this fraction of its rate.
const LOW_RATE_SHARE: u32 = 10;

/// The policers of all classes and interfaces.
///
/// A packet takes a token from the bucket of its interface and one from the bucket that all interfaces share.
/// The lower half of the shared bucket is reserved for low-rate interfaces: an interface that stays within a
/// tenth of its rate is served even while others are flooded, and the sum never exceeds the total.
pub struct Policers {
    limits: Box<[ClassLimits]>,
    /// By interface and class.
    buckets: Box<[SharedBucket]>,
    /// By interface and class: decides whether an interface is low-rate.
    low_rate: Box<[SharedBucket]>,
    /// By worker.
    cells: Box<[WorkerCells]>,
    /// The time if a test has stopped it, else 0.
    stopped: AtomicU64,
}

impl Policers {
    /// Full buckets with the default limits. A cell takes no memory until its interface receives a packet;
    /// `None`: the address space is exhausted.
    pub fn new(workers: usize) -> Option<Self> {
        Some(Self {
            limits: Class::ALL.map(|class| ClassLimits::new(class.default_limit())).into(),
            buckets: buckets(INTERFACES * CLASSES)?,
            low_rate: buckets(INTERFACES * CLASSES)?,
            cells: (0..workers).map(|_| WorkerCells::new()).collect::<Option<_>>()?,
            stopped: AtomicU64::new(0),
        })
    }

    /// Changes the limit of a class; only the control thread calls this.
    pub fn set(&self, class: Class, limit: Limit) {
        let limits = &self.limits[class as usize];
        limits.set(limit);
        limits.all.fill();
        // All others are full.
        for interface in self.counted_interfaces() {
            let at = Self::at(class, interface);
            self.buckets[at].fill();
            self.low_rate[at].fill();
        }
    }

    /// Stops the time of all policers; from now on only [`Self::skip`] advances it: for tests.
    pub fn stop_time(&self) {
        self.stopped.store(clock::tsc(), Ordering::Relaxed);
    }

    /// Advances the time if it is stopped: for tests.
    pub fn skip(&self, time: Duration) {
        let ticks = u128::from(clock::tsc_hz()) * time.as_nanos() / 1_000_000_000;
        if self.stopped.load(Ordering::Relaxed) != 0 {
            self.stopped.fetch_add(ticks as u64, Ordering::Relaxed);
        }
    }

    fn at(class: Class, interface: u32) -> usize {
        interface as usize % INTERFACES * CLASSES + class as usize
    }

    /// The time of the policers at a time of the time stamp counter: the same unless a test has stopped it.
    #[inline]
    pub fn time(&self, now: u64) -> u64 {
        let stopped = self.stopped.load(Ordering::Relaxed);
        if stopped == 0 { now } else { stopped }
    }

    fn conforms(&self, class: Class, interface: u32, now: u64) -> bool {
        let limits = &self.limits[class as usize];
        let (at, now) = (Self::at(class, interface), self.time(now));
        if !self.buckets[at].take(&limits.interface, now) {
            return false;
        }
        let is_low_rate = self.low_rate[at].take(&limits.low_rate, now);
        limits.all.take(if is_low_rate { &limits.reserve } else { &limits.total }, now)
    }

    /// Takes a token for one packet of a class that `interface` received, and counts the packet. `false`:
    /// drop it with [`Class::policer_drop`].
    #[inline]
    pub fn admit(&self, cx: &Context<'_>, class: Class, interface: u32) -> bool {
        let conforming = self.conforms(class, interface, cx.now);
        self.count(cx, class, interface, conforming);
        conforming
    }

    /// Whether [`Self::admit`] may admit a packet after so many others: to be asked before work that a flood must not
    /// cause. A packet that it refuses is counted.
    pub fn may_admit(
        &self,
        cx: &Context<'_>,
        (class, interface): (Class, u32),
        after: u32,
    ) -> bool {
        let may = self.has_token(class, interface, cx.now, after);
        if !may {
            self.count(cx, class, interface, false);
        }
        may
    }

    fn has_token(&self, class: Class, interface: u32, now: u64, after: u32) -> bool {
        let (limits, now) = (&self.limits[class as usize], self.time(now));
        let of_interface = &self.buckets[Self::at(class, interface)];
        of_interface.has_token(&limits.interface, now, after)
            && limits.all.has_token(&limits.reserve, now, after)
    }

    fn count(&self, cx: &Context<'_>, class: Class, interface: u32, passed: bool) {
        if let Some(cells) = self.cells.get(cx.worker) {
            cells.count(class, interface, passed);
        }
    }

    /// Punts a lane to the control thread when it conforms to the policer of its class and interface; drops
    /// it otherwise.
    pub fn punt(&self, cx: &mut Context<'_>, vector: &mut Vector, lane: usize, class: Class) {
        let interface = vector.rx_if[lane];
        if !self.conforms(class, interface, cx.now) {
            vector.drop_lane(lane, class.policer_drop().reason());
            return self.count(cx, class, interface, false);
        }
        let fits = cx.punt(vector, lane, class as u16, class.urgency());
        self.count(cx, class, interface, fits);
    }

    /// Packets of a class that conformed and exceeded on an interface, summed over the workers.
    pub fn counters(&self, class: Class, interface: u32) -> PolicerCounters {
        let mut counters = PolicerCounters::default();
        for worker in &self.cells {
            counters.add(&worker.cells[Self::at(class, interface)]);
        }
        counters
    }

    /// Packets of a class on all interfaces: a few loads for each worker, whatever the number of interfaces.
    pub fn sum(&self, class: Class) -> PolicerCounters {
        let mut counters = PolicerCounters::default();
        for worker in &self.cells {
            counters.add(&worker.sums[class as usize]);
        }
        counters
    }

    /// The interfaces that have counted a packet of any class since the start, in order: those that a list
    /// has to look at.
    pub fn counted_interfaces(&self) -> Vec<u32> {
        let mut interfaces = Vec::new();
        for word in 0..INTERFACES / WORD {
            let any =
                |bits, worker: &WorkerCells| bits | worker.counted[word].load(Ordering::Relaxed);
            let mut left = self.cells.iter().fold(0, any);
            while left != 0 {
                interfaces.push((word * WORD) as u32 + left.trailing_zeros());
                left &= left - 1;
            }
        }
        interfaces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_interface_and_class_has_its_own_policer() {
        let policers = Policers::new(1).unwrap();
        policers.set(Class::Arp, Limit { rate: 1, burst: 3, total: 50 });
        let now = clock::tsc();
        let conforms = |class, interface| {
            let passed = policers.conforms(class, interface, now);
            policers.cells[0].count(class, interface, passed);
            passed
        };
        let took = |class, interface| (0..50).filter(|_| conforms(class, interface)).count();
        assert_eq!(took(Class::Arp, 1), 3);
        assert_eq!(took(Class::Arp, 2), 2, "five in all");
        assert_eq!(took(Class::Nd, 1), 50);
        policers.set(Class::Arp, Limit { rate: 1, burst: 4, total: 100 });
        assert_eq!((took(Class::Arp, 1), took(Class::Arp, 2)), (4, 4));
    }

    #[test]
    fn what_may_be_admitted_is_there_behind_others() {
        let policers = Policers::new(1).unwrap();
        policers.set(Class::Arp, Limit { rate: 1, burst: 3, total: 50 });
        let now = clock::tsc();
        for taken in 0..5_u32 {
            let there = (0..6).filter(|after| policers.has_token(Class::Arp, 1, now, *after));
            assert_eq!(there.count() as u32, 3_u32.saturating_sub(taken));
            policers.conforms(Class::Arp, 1, now);
        }
        // Two of five are left in all. Before, nobody knows whether it is for the reserve of low rates.
        let there = (0..6).filter(|after| policers.has_token(Class::Arp, 2, now, *after)).count();
        let took = (0..6).filter(|_| policers.conforms(Class::Arp, 2, now)).count();
        assert_eq!((there, took), (3, 2));
    }

    #[test]
    fn a_list_looks_at_interfaces_with_packets_only() {
        let policers = Policers::new(2).unwrap();
        assert_eq!(policers.counted_interfaces(), [0; 0]);
        for (worker, class, interface, passed) in [
            (0, Class::Arp, 65_535, true),
            (1, Class::Arp, 64, false),
            (1, Class::Arp, 65_535, true),
            (0, Class::Nd, 3, true),
        ] {
            policers.cells[worker].count(class, interface, passed);
        }
        assert_eq!(policers.counted_interfaces(), [3, 64, 65_535]);
        assert_eq!(policers.sum(Class::Arp), PolicerCounters { passed: 2, dropped: 1 });
        assert_eq!(policers.counters(Class::Arp, 65_535).passed, 2);
        assert_eq!(policers.sum(Class::Icmp), PolicerCounters::default());
    }

    /// Ports that are flooded far beyond their rates share the total; a port that sends little is always
    /// served, and the total holds.
    #[test]
    fn flooded_ports_do_not_starve_a_low_rate_port() {
        let policers = Policers::new(1).unwrap();
        let limit = Limit { rate: 1000, burst: 256, total: 5000 };
        policers.set(Class::Arp, limit);
        let (hz, start, seconds) = (clock::tsc_hz(), clock::tsc(), 10);
        let (mut flooded, mut low_rate) = (0, 0);
        let steps = seconds * 1000;
        for step in 0..steps {
            let now = start + step * hz / 1000;
            // 20,000 a second on each of nine ports, 50 a second on the tenth.
            let of =
                |port| (0..20).filter(|_| policers.conforms(Class::Arp, port, now)).count() as u64;
            flooded += (1..10).map(of).sum::<u64>();
            low_rate += u64::from(step % 20 == 0 && policers.conforms(Class::Arp, 10, now));
        }
        assert_eq!(low_rate, steps / 20, "the low-rate port loses nothing");
        let bound = u64::from(limit.total) * seconds + 2 * u64::from(limit.total / 10);
        let all = flooded + low_rate;
        assert!(all <= bound + bound / 100, "{all} is more than {bound}");
        assert!(all >= u64::from(limit.total) * seconds * 9 / 10, "{all}: nothing is wasted");
    }
}
