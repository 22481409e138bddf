//! Budgets of all classes and interfaces, which the workers share: token buckets of
//! one word each, and counters of what passed and what did not.

use stoa_engine::counters::Counter;
use stoa_engine::{Context, INTERFACES, Vector, clock};
use stoa_tables::shared_bucket::{SharedBucket, SharedLimit, buckets};
use zerocopy::FromZeros;

use super::{Class, Limit};

const CLASSES: usize = Class::ALL.len();

/// What one class passed and refused at one interface, on one worker.
#[derive(Default, FromZeros)]
#[repr(C)]
struct Tally {
    passed: Counter,
    dropped: Counter,
}

/// Packets that were within a budget, and those beyond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Within.
    pub passed: u64,
    /// Beyond, or without room in the ring to the control thread.
    pub dropped: u64,
}

impl Figures {
    /// What came since.
    pub fn since(self, before: Self) -> Self {
        Self { passed: self.passed - before.passed, dropped: self.dropped - before.dropped }
    }
}

/// The limits of one class.
struct ClassLimits {
    interface: SharedLimit,
    total: SharedLimit,
    all: SharedBucket,
}

/// The budgets of all classes and interfaces.
pub struct Budgets {
    limits: Box<[ClassLimits]>,
    /// By interface and class.
    buckets: Box<[SharedBucket]>,
    /// By worker; then by interface and class.
    tallies: Box<[Box<[Tally]>]>,
}

/// The share of a class's total that may come at once: a tenth of a second of it.
fn burst_of_total(limit: Limit) -> u64 {
    u64::from(limit.total / 10).max(limit.burst.into())
}

impl Budgets {
    /// Full budgets with the usual limits, for so many workers. Cells take no memory
    /// until their interface sees a packet; `None`: no address space.
    pub fn new(workers: usize) -> Option<Self> {
        let hz = clock::tsc_hz();
        let limits = |class: Class| {
            let limit = class.usual_limit();
            ClassLimits {
                interface: SharedLimit::new(limit.rate.into(), limit.burst.into(), hz),
                total: SharedLimit::new(limit.total.into(), burst_of_total(limit), hz),
                all: SharedBucket::default(),
            }
        };
        let tallies = || Tally::new_vec_zeroed(INTERFACES * CLASSES).ok().map(Vec::into);
        Some(Self {
            limits: Class::ALL.map(limits).into(),
            buckets: buckets(INTERFACES * CLASSES)?,
            tallies: (0..workers).map(|_| tallies()).collect::<Option<_>>()?,
        })
    }

    /// Changes the limit of a class; only the main thread calls this.
    pub fn set(&self, class: Class, limit: Limit) {
        let hz = clock::tsc_hz();
        let limits = &self.limits[class as usize];
        limits.interface.set(limit.rate.into(), limit.burst.into(), hz);
        limits.total.set(limit.total.into(), burst_of_total(limit), hz);
        limits.all.fill();
        self.buckets.iter().skip(class as usize).step_by(CLASSES).for_each(SharedBucket::fill);
    }

    fn at(class: Class, interface: u32) -> usize {
        interface as usize % INTERFACES * CLASSES + class as usize
    }

    fn allows(&self, class: Class, interface: u32, now: u64) -> bool {
        let limits = &self.limits[class as usize];
        self.buckets[Self::at(class, interface)].take(&limits.interface, now)
            && limits.all.take(&limits.total, now)
    }

    /// Takes one packet of a class that `interface` received out of the budget, and
    /// counts it. `false`: drop it as [`Class::limited`].
    #[inline]
    pub fn admit(&self, cx: &Context<'_>, class: Class, interface: u32) -> bool {
        let allowed = self.allows(class, interface, cx.now);
        self.count(cx, class, interface, allowed);
        allowed
    }

    fn count(&self, cx: &Context<'_>, class: Class, interface: u32, passed: bool) {
        if let Some(tallies) = self.tallies.get(cx.worker) {
            let tally = &tallies[Self::at(class, interface)];
            if passed { tally.passed.add(1) } else { tally.dropped.add(1) }
        }
    }

    /// Hands a lane to the control thread within the budget of its class at the
    /// interface that received it; else drops it by name.
    pub fn punt(&self, cx: &mut Context<'_>, vector: &mut Vector, lane: usize, class: Class) {
        let interface = vector.rx_if[lane];
        if !self.allows(class, interface, cx.now) {
            vector.drop_lane(lane, class.limited().reason());
            return self.count(cx, class, interface, false);
        }
        let fits = cx.punt(vector, lane, class as u16, class.urgency());
        self.count(cx, class, interface, fits);
    }

    /// What a class passed and dropped at an interface, all workers together.
    pub fn figures(&self, class: Class, interface: u32) -> Figures {
        let mut figures = Figures::default();
        for tallies in &self.tallies {
            let tally = &tallies[Self::at(class, interface)];
            figures.passed += tally.passed.get();
            figures.dropped += tally.dropped.get();
        }
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_and_a_class_have_budgets_of_their_own() {
        let budgets = Budgets::new(1).unwrap();
        budgets.set(Class::Arp, Limit { rate: 1, burst: 3, total: 50 });
        let now = clock::tsc();
        let took =
            |class, interface| (0..50).filter(|_| budgets.allows(class, interface, now)).count();
        assert_eq!(took(Class::Arp, 1), 3);
        assert_eq!(took(Class::Arp, 2), 2, "five in all");
        assert_eq!(took(Class::Nd, 1), 50);
        budgets.set(Class::Arp, Limit { rate: 1, burst: 4, total: 100 });
        assert_eq!((took(Class::Arp, 1), took(Class::Arp, 2)), (4, 4));
    }
}
