//! The traffic of the last hour, from samples of counters.
//!
//! Memory: 7,200 bytes for each interface that had packets during the hour, [`INTERFACES`] of them at most; of all
//! others the last counters only.

use std::collections::BTreeMap;
use std::time::Duration;

use super::series::{INTERVAL_S, Points, Rates, SAMPLES, Series};

/// Interfaces with packets whose history is kept. Interfaces beyond have none.
const INTERFACES: usize = 1_024;

/// Counters of an interface.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) in_packets: u64,
    pub(super) out_packets: u64,
    pub(super) in_octets: u64,
    pub(super) out_octets: u64,
    /// Dropped by Stoa or missed by the port.
    pub(super) dropped: u64,
}

impl Counters {
    /// The rates since `before`, `seconds` ago. `None`: the counters began anew.
    fn rates(&self, before: &Counters, seconds: f64) -> Option<Rates> {
        let rate = |now: u64, before: u64| {
            now.checked_sub(before).map(|more| (more as f64 / seconds) as f32)
        };
        Some(Rates {
            in_packets: rate(self.in_packets, before.in_packets)?,
            out_packets: rate(self.out_packets, before.out_packets)?,
            in_bits: 8.0 * rate(self.in_octets, before.in_octets)?,
            out_bits: 8.0 * rate(self.out_octets, before.out_octets)?,
            dropped: rate(self.dropped, before.dropped)?,
        })
    }
}

/// The counters of an interface at one time.
#[derive(Clone, Debug)]
pub(super) struct InterfaceSample {
    pub(super) name: String,
    /// The counters of a port include those of its sub-interfaces.
    pub(super) is_port: bool,
    pub(super) created_unix_s: u64,
    pub(super) counters: Counters,
}

/// All counters at one time.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) interfaces: Vec<InterfaceSample>,
    /// Packets that were dropped for any reason.
    pub(super) dropped: u64,
}

#[derive(Debug)]
struct Interface {
    created_unix_s: u64,
    counters: Counters,
    /// `None`: no packet during the hour, or too many interfaces.
    series: Option<Series>,
    /// It had packets and no place.
    is_omitted: bool,
}

/// The traffic of the last hour. Intervals are numbered from the start of the controller, by a clock that nobody sets.
#[derive(Debug)]
pub(super) struct Traffic {
    total: Series,
    interfaces: BTreeMap<String, Interface>,
    /// Number of interfaces with a series.
    kept: usize,
    /// Time of the last sample, and dropped packets at that time.
    last: Option<(Duration, u64)>,
    newest: u64,
}

impl Default for Traffic {
    fn default() -> Traffic {
        Traffic {
            total: Series::filled(0, Rates::GAP),
            interfaces: BTreeMap::new(),
            kept: 0,
            last: None,
            newest: 0,
        }
    }
}

impl Traffic {
    /// Adds a sample that was taken at this time since the start of the controller. The first one yields no rates.
    pub(super) fn record(&mut self, at: Duration, sample: Sample) {
        let interval = at.as_secs() / INTERVAL_S;
        if self.last.is_some() && interval <= self.newest {
            return;
        }
        let last = self.last.replace((at, sample.dropped));
        let seconds = last.map(|(before, _)| at.saturating_sub(before).as_secs_f64());
        let mut total = Rates::default();
        let mut before = std::mem::take(&mut self.interfaces);
        for one in sample.interfaces {
            let known = before.remove(&one.name);
            let rates = seconds.zip(known.as_ref()).and_then(|(seconds, known)| {
                let is_same = known.created_unix_s == one.created_unix_s;
                is_same.then(|| one.counters.rates(&known.counters, seconds))?
            });
            if let Some(rates) = rates.filter(|_| one.is_port) {
                total.add(&rates);
            }
            let (series, is_omitted) = self.series(known, rates, interval);
            let InterfaceSample { created_unix_s, counters, .. } = one;
            let interface = Interface { created_unix_s, counters, series, is_omitted };
            self.interfaces.insert(one.name, interface);
        }
        self.kept -= before.values().filter(|removed| removed.series.is_some()).count();
        let dropped = last.and_then(|(_, before)| sample.dropped.checked_sub(before));
        let total = seconds.zip(dropped).map_or(Rates::GAP, |(seconds, dropped)| Rates {
            dropped: (dropped as f64 / seconds) as f32,
            ..total
        });
        self.total.put(interval, total);
        self.newest = interval;
    }

    /// The series of an interface with the rates of an interval, and whether it has none though it had packets.
    fn series(
        &mut self,
        known: Option<Interface>,
        rates: Option<Rates>,
        interval: u64,
    ) -> (Option<Series>, bool) {
        let was_omitted = known.as_ref().is_some_and(|known| known.is_omitted);
        let series = known.and_then(|known| known.series);
        let had_series = series.is_some();
        let is_busy = rates.is_some_and(|rates| rates != Rates::default());
        let mut series = match series {
            None if !is_busy => return (None, was_omitted),
            None if self.kept >= INTERFACES => return (None, true),
            None if was_omitted => Series::filled(self.newest, Rates::GAP),
            None => Series::filled(self.newest, Rates::default()),
            Some(series) => series,
        };
        series.put(interval, rates.unwrap_or(Rates::GAP));
        let series = Some(series).filter(|series| !series.is_idle());
        self.kept = self.kept + usize::from(series.is_some()) - usize::from(had_series);
        (series, false)
    }

    /// The number of the last sampled interval; 0: none.
    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    /// The names of all interfaces.
    pub(super) fn names(&self) -> Vec<String> {
        self.interfaces.keys().cloned().collect()
    }

    /// All ports together, in intervals of this many samples.
    pub(super) fn total(&self, samples: usize) -> Points {
        self.points(samples, |interval| self.total.get(interval))
    }

    /// An interface; `None` if it does not exist or there is no history of it.
    pub(super) fn interface(&self, name: &str, samples: usize) -> Option<Points> {
        let interface = self.interfaces.get(name).filter(|interface| !interface.is_omitted)?;
        Some(self.points(samples, |interval| match &interface.series {
            // Without a sample of the router there is none of the interface.
            _ if self.total.get(interval).is_gap() => Rates::GAP,
            Some(series) => series.get(interval),
            None => Rates::default(),
        }))
    }

    fn points(&self, samples: usize, rates: impl Fn(u64) -> Rates) -> Points {
        let first = self.newest + 1;
        let count = SAMPLES / samples;
        // Intervals before the start of the controller have no number.
        let interval = |before: usize| first.checked_sub(before as u64);
        let point = |point: usize| {
            let end = (count - point) * samples;
            Rates::mean((0..samples).filter_map(|at| interval(end - at)).map(&rates))
        };
        (0..count).map(point).collect()
    }
}

#[cfg(test)]
mod tests;
