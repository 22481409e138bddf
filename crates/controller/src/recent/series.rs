//! A ring of rates, one for each interval of the last hour.

/// Seconds between two samples.
pub const INTERVAL_S: u64 = 10;
/// Samples that are kept: one hour.
pub const SAMPLES: usize = 360;

/// Intervals without a sample that get the mean rates of the time until the next one: a minute.
const BRIDGED: u64 = 6;

/// Rates of an interface, or of all ports.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Received packets per second.
    pub in_packets: f32,
    /// Sent packets per second.
    pub out_packets: f32,
    /// Received bits per second.
    pub in_bits: f32,
    /// Sent bits per second.
    pub out_bits: f32,
    /// Dropped and missed packets per second.
    pub dropped: f32,
}

/// Mean rates in equal intervals, oldest first. `None`: not sampled.
pub type Points = Vec<Option<Rates>>;

impl Rates {
    /// What stands for an interval without a sample. Half the memory of an `Option`.
    pub(super) const GAP: Rates = Rates {
        in_packets: f32::NAN,
        out_packets: f32::NAN,
        in_bits: f32::NAN,
        out_bits: f32::NAN,
        dropped: f32::NAN,
    };

    pub(super) fn is_gap(&self) -> bool {
        self.in_packets.is_nan()
    }

    /// Adds the rates of another interface.
    pub(super) fn add(&mut self, other: &Rates) {
        self.in_packets += other.in_packets;
        self.out_packets += other.out_packets;
        self.in_bits += other.in_bits;
        self.out_bits += other.out_bits;
        self.dropped += other.dropped;
    }

    fn divided(self, by: f32) -> Rates {
        Rates {
            in_packets: self.in_packets / by,
            out_packets: self.out_packets / by,
            in_bits: self.in_bits / by,
            out_bits: self.out_bits / by,
            dropped: self.dropped / by,
        }
    }

    /// The mean without gaps; `None` if there are only gaps.
    pub(super) fn mean(all: impl Iterator<Item = Rates>) -> Option<Rates> {
        let (mut sum, mut count) = (Rates::default(), 0_u16);
        for rates in all.filter(|rates| !rates.is_gap()) {
            sum.add(&rates);
            count += 1;
        }
        (count > 0).then(|| sum.divided(f32::from(count)))
    }
}

/// The rates of the last [`SAMPLES`] intervals, by number of the interval. 7,200 bytes.
#[derive(Debug)]
pub(super) struct Series {
    rates: Box<[Rates; SAMPLES]>,
    newest: u64,
}

impl Series {
    /// All intervals up to `newest` have these rates.
    pub(super) fn filled(newest: u64, rates: Rates) -> Series {
        Series { rates: Box::new([rates; SAMPLES]), newest }
    }

    /// Sets the rates of an interval, and of up to [`BRIDGED`] skipped ones, for which they are the mean. More skipped
    /// ones are gaps. Older intervals than the newest stay.
    pub(super) fn put(&mut self, interval: u64, rates: Rates) {
        if interval <= self.newest {
            return;
        }
        let skipped = interval - self.newest - 1;
        let missing = if skipped <= BRIDGED { rates } else { Rates::GAP };
        for missed in interval - skipped.min(SAMPLES as u64)..interval {
            self.rates[place(missed)] = missing;
        }
        self.rates[place(interval)] = rates;
        self.newest = interval;
    }

    /// The rates of an interval; a gap if it is not kept.
    pub(super) fn get(&self, interval: u64) -> Rates {
        let is_kept = interval <= self.newest && interval + SAMPLES as u64 > self.newest;
        if is_kept { self.rates[place(interval)] } else { Rates::GAP }
    }

    /// Whether there was no packet in all kept intervals.
    pub(super) fn is_idle(&self) -> bool {
        self.rates.iter().all(|rates| rates.is_gap() || *rates == Rates::default())
    }
}

fn place(interval: u64) -> usize {
    (interval % SAMPLES as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(in_packets: f32) -> Rates {
        Rates { in_packets, ..Rates::default() }
    }

    #[test]
    fn a_ring_keeps_an_hour_and_marks_what_is_missing() {
        let mut series = Series::filled(0, Rates::GAP);
        for interval in 1..=400 {
            series.put(interval, packets(interval as f32));
        }
        assert!(series.get(40).is_gap() && series.get(401).is_gap());
        assert_eq!((series.get(41), series.get(400)), (packets(41.0), packets(400.0)));
        series.put(404, packets(404.0));
        assert!((401..404).all(|interval| series.get(interval) == packets(404.0)));
        series.put(412, packets(412.0));
        assert!((405..412).all(|interval| series.get(interval).is_gap()));
        assert_eq!(series.get(400), packets(400.0));
        // Longer than the ring.
        series.put(2_000, packets(1.0));
        assert!((1_641..2_000).all(|interval| series.get(interval).is_gap()));
        assert_eq!(series.get(2_000), packets(1.0));
        series.put(5, packets(9.0));
        assert!(series.get(5).is_gap() && !series.is_idle());
    }

    #[test]
    fn a_mean_leaves_gaps_out() {
        let mean = Rates::mean([packets(4.0), Rates::GAP, packets(2.0)].into_iter());
        assert_eq!(mean, Some(packets(3.0)));
        assert_eq!(Rates::mean([Rates::GAP; 3].into_iter()), None);
    }
}
