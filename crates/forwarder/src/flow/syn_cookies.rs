//! SYN cookies of zones: when they are on, and what came of them. Workers ask and count; the control thread sets
//! thresholds, changes keys, and switches cookies off.
//!
//! While the half-open connections to a zone are as many as its threshold, SYNs to it get no flow, but an answer that
//! needs none ([`super::cookie`]). The worker that reaches the threshold switches cookies on at once. They stay on for
//! a while, so that they do not alternate from packet to packet.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use stoa_engine::counters::Counter;

use super::cookie::Keys;

/// Numbers of zones: 0 to 255.
pub const ZONES: usize = 256;
/// The threshold of a zone without cookies.
const OFF: u32 = u32::MAX;

/// A zone, in a cache line of its own.
#[repr(align(64))]
struct Zone {
    threshold: AtomicU32,
    /// Half-open connections to it, of all workers.
    half_open: AtomicU32,
    is_on: AtomicBool,
}

/// What a worker has counted of a zone.
#[derive(Default)]
struct Counts {
    sent: Counter,
    accepted: Counter,
}

/// What one worker counts.
#[repr(align(64))]
struct OfWorker {
    zones: Box<[Counts]>,
    refused: Counter,
}

/// The state of a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneSums {
    /// Half-open connections from which on cookies are on; `None`: it has none.
    pub threshold: Option<u32>,
    /// Half-open connections.
    pub half_open: u32,
    /// Whether cookies are on.
    pub is_on: bool,
    /// SYNs that were answered with a cookie.
    pub sent: u64,
    /// Connections that have begun with a valid cookie.
    pub accepted: u64,
}

/// The cookies of all zones.
pub struct SynCookies {
    keys: Keys,
    zones: Box<[Zone]>,
    workers: Box<[OfWorker]>,
    /// Whether a zone has a threshold.
    is_configured: AtomicBool,
    /// Whether cookies of a zone are on.
    is_any_on: AtomicBool,
    /// Whether cookies are valid that were sent.
    is_armed: AtomicBool,
}

impl SynCookies {
    /// No zone has cookies.
    pub fn new(workers: usize, secrets: [[u64; 2]; 2]) -> Self {
        let zone = || Zone {
            threshold: AtomicU32::new(OFF),
            half_open: AtomicU32::new(0),
            is_on: AtomicBool::new(false),
        };
        let of_worker = || OfWorker {
            zones: (0..ZONES).map(|_| Counts::default()).collect(),
            refused: Counter::default(),
        };
        Self {
            keys: Keys::new(secrets),
            zones: (0..ZONES).map(|_| zone()).collect(),
            workers: (0..workers).map(|_| of_worker()).collect(),
            is_configured: AtomicBool::new(false),
            is_any_on: AtomicBool::new(false),
            is_armed: AtomicBool::new(false),
        }
    }

    /// The keys.
    #[inline(always)]
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Whether a zone has a threshold.
    #[inline(always)]
    pub fn is_configured(&self) -> bool {
        self.is_configured.load(Relaxed)
    }

    /// Whether a SYN may be answered with a cookie, so that it gets a flow only when its zone is known.
    #[inline(always)]
    pub fn defers(&self) -> bool {
        self.is_any_on.load(Relaxed)
    }

    /// Whether an acknowledgement may have a cookie.
    #[inline(always)]
    pub fn is_armed(&self) -> bool {
        self.is_armed.load(Relaxed)
    }

    /// Whether cookies of a zone are on.
    #[inline]
    pub fn is_on(&self, zone: u32) -> bool {
        self.zones.get(zone as usize).is_some_and(|zone| zone.is_on.load(Relaxed))
    }

    /// A connection to a zone is half open from now on.
    pub fn opened(&self, zone: u32) {
        let Some(zone) = self.zones.get(zone as usize) else { return };
        let half_open = zone.half_open.fetch_add(1, Relaxed).wrapping_add(1);
        if half_open >= zone.threshold.load(Relaxed) && !zone.is_on.load(Relaxed) {
            self.switch_on(zone);
        }
    }

    #[cold]
    fn switch_on(&self, zone: &Zone) {
        if zone.threshold.load(Relaxed) != OFF {
            zone.is_on.store(true, Relaxed);
            self.is_any_on.store(true, Relaxed);
        }
    }

    /// A connection to a zone is open, or over.
    pub fn closed(&self, zone: u32) {
        if let Some(zone) = self.zones.get(zone as usize) {
            zone.half_open.fetch_sub(1, Relaxed);
        }
    }

    /// A worker has sent a cookie.
    #[inline]
    pub fn count_sent(&self, worker: usize, zone: u32) {
        if let Some(counts) = self.counts(worker, zone) {
            counts.sent.add(1);
        }
        if !self.is_armed.load(Relaxed) {
            self.is_armed.store(true, Relaxed);
        }
    }

    /// A worker has begun a connection with a cookie.
    pub fn count_accepted(&self, worker: usize, zone: u32) {
        if let Some(counts) = self.counts(worker, zone) {
            counts.accepted.add(1);
        }
    }

    /// A worker has dropped a segment that acknowledges no valid cookie. Its zone is not known.
    pub fn count_refused(&self, worker: usize) {
        if let Some(worker) = self.workers.get(worker) {
            worker.refused.add(1);
        }
    }

    fn counts(&self, worker: usize, zone: u32) -> Option<&Counts> {
        self.workers.get(worker)?.zones.get(zone as usize)
    }

    /// Sets the thresholds of zones by their numbers; 0: cookies are always on. All other zones have none.
    pub fn configure(&self, thresholds: &[(u8, u32)]) {
        let mut all = [OFF; ZONES];
        for (zone, threshold) in thresholds {
            all[usize::from(*zone)] = (*threshold).min(OFF - 1);
        }
        for (zone, threshold) in self.zones.iter().zip(all) {
            zone.threshold.store(threshold, Relaxed);
            if threshold == OFF {
                zone.is_on.store(false, Relaxed);
            } else if zone.half_open.load(Relaxed) >= threshold {
                self.switch_on(zone);
            }
        }
        self.is_configured.store(!thresholds.is_empty(), Relaxed);
        self.note_any_on();
    }

    /// Switches cookies of a zone off if its half-open connections are a quarter below the threshold, or fewer.
    pub fn calm(&self, zone: u8) {
        let zone = &self.zones[usize::from(zone)];
        let threshold = zone.threshold.load(Relaxed);
        if zone.half_open.load(Relaxed) < threshold - threshold / 4 {
            zone.is_on.store(false, Relaxed);
            self.note_any_on();
        }
    }

    fn note_any_on(&self) {
        let is_any = || self.zones.iter().any(|zone| zone.is_on.load(Relaxed));
        if !is_any() {
            self.is_any_on.store(false, Relaxed);
            // A worker may have switched one on meanwhile.
            if is_any() {
                self.is_any_on.store(true, Relaxed);
            }
        }
    }

    /// The next time step of keys. `is_used`: cookies were sent in the one that ends.
    pub fn rotate(&self, secret: [u64; 2], is_used: bool) {
        self.keys.rotate(secret);
        if !is_used {
            self.is_armed.store(false, Relaxed);
        }
    }

    /// The state of a zone by its number.
    pub fn zone(&self, number: u8) -> ZoneSums {
        let zone = &self.zones[usize::from(number)];
        let threshold = zone.threshold.load(Relaxed);
        let counts = self.workers.iter().map(|worker| &worker.zones[usize::from(number)]);
        let sums = ZoneSums {
            threshold: (threshold != OFF).then_some(threshold),
            half_open: zone.half_open.load(Relaxed),
            is_on: zone.is_on.load(Relaxed),
            ..ZoneSums::default()
        };
        counts.fold(sums, |sums, counts| ZoneSums {
            sent: sums.sent + counts.sent.get(),
            accepted: sums.accepted + counts.accepted.get(),
            ..sums
        })
    }

    /// Segments that were dropped because they acknowledge no valid cookie.
    pub fn refused(&self) -> u64 {
        self.workers.iter().map(|worker| worker.refused.get()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_switches_on_and_calm_switches_off() {
        let cookies = SynCookies::new(2, [[1, 2], [3, 4]]);
        assert!(!cookies.is_configured() && !cookies.defers());
        cookies.configure(&[(5, 4), (6, 0)]);
        assert!(cookies.is_configured() && cookies.defers());
        assert!(cookies.is_on(6) && !cookies.is_on(5) && !cookies.is_on(7));
        cookies.configure(&[(5, 4)]);
        assert!(!cookies.is_on(6) && !cookies.defers());
        for _ in 0..3 {
            cookies.opened(5);
        }
        assert!(!cookies.is_on(5));
        cookies.opened(5);
        assert!(cookies.is_on(5) && cookies.defers());
        cookies.closed(5);
        cookies.calm(5);
        assert!(cookies.is_on(5), "3 of 4");
        cookies.closed(5);
        cookies.calm(5);
        assert!(!cookies.is_on(5) && !cookies.defers());
        // Zones without cookies are counted, too: a threshold may follow.
        cookies.opened(9);
        assert!(!cookies.is_on(9));
        cookies.configure(&[(9, 1)]);
        assert!(cookies.is_on(9));
        assert_eq!(cookies.zone(9).half_open, 1);
        cookies.configure(&[]);
        assert_eq!(cookies.zone(9), ZoneSums { half_open: 1, ..ZoneSums::default() });
        cookies.configure(&[(9, 0)]);
        cookies.calm(9);
        assert!(cookies.is_on(9), "always");
    }

    #[test]
    fn counts_are_of_zones_and_arm() {
        let cookies = SynCookies::new(2, [[1, 2], [3, 4]]);
        cookies.count_accepted(0, 5);
        assert!(!cookies.is_armed());
        cookies.count_sent(0, 5);
        cookies.count_sent(1, 5);
        cookies.count_sent(1, 6);
        cookies.count_refused(1);
        let of = |zone| (cookies.zone(zone).sent, cookies.zone(zone).accepted);
        assert_eq!([of(5), of(6), of(7)], [(2, 1), (1, 0), (0, 0)]);
        assert_eq!(cookies.refused(), 1);
        assert!(cookies.is_armed());
        cookies.rotate([7, 8], true);
        assert!(cookies.is_armed());
        cookies.rotate([7, 9], false);
        assert!(!cookies.is_armed());
    }
}
