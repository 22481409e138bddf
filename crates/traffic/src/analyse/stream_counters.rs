//! Received packets of one stream: counters, order and latency.

use hdrhistogram::Histogram;

use super::sequence::{Position, Sequence};
use crate::signature::UNIT_NS;

/// The longest latency that is told apart, in units of [`UNIT_NS`]: what 31 bits of time hold.
const LONGEST: u64 = i32::MAX as u64;
/// Streams up to which latencies are kept with three digits, beyond with two: a histogram of
/// three digits takes a fifth of a megabyte.
const PRECISE: usize = 128;

/// Receive counters of a stream.
pub struct StreamCounters {
    /// Packets, duplicates included.
    pub packets: u64,
    /// Their bytes, FCS included.
    pub bytes: u64,
    /// Packets that came before.
    pub duplicates: u64,
    /// Packets with a lower number than one that came before them (RFC 4737, section 3).
    pub reordered: u64,
    /// The most packets that were sent later than a reordered one and came before it.
    pub reorder_extent: u64,
    /// Sum of the latencies of `timed` packets, in units of [`UNIT_NS`].
    pub latency_sum: u64,
    /// Packets whose latency is known.
    pub timed: u64,
    /// Latencies in units of [`UNIT_NS`], at least one.
    pub latency: Histogram<u64>,
    sequence: Sequence,
    /// Packets with the same latency that are not in the histogram yet.
    pending: (u64, u64),
}

impl StreamCounters {
    /// Nothing, yet, of one of so many streams.
    pub(crate) fn new(streams: usize) -> Self {
        let digits = if streams <= PRECISE { 3 } else { 2 };
        // The bounds are in order and the digits few: without them there is no histogram.
        let latency = Histogram::new_with_bounds(1, LONGEST, digits);
        let latency = latency.unwrap_or_else(|_| unreachable!("bounds are right"));
        Self {
            packets: 0,
            bytes: 0,
            duplicates: 0,
            reordered: 0,
            reorder_extent: 0,
            latency_sum: 0,
            timed: 0,
            latency,
            sequence: Sequence::new(),
            pending: (0, 0),
        }
    }

    /// Whether a packet with this low half of its number can be one of at most `most` that were
    /// sent; its whole number.
    #[inline(always)]
    pub(crate) fn number(&self, low: u32, most: impl Fn() -> u64) -> Option<u64> {
        let number = self.sequence.whole(low)?;
        // A stranger that looks like ours would make a huge gap.
        (self.sequence.ahead(number) < 1 << 10 || number <= most()).then_some(number)
    }

    /// A packet of `bytes` came, sent at `time` by its own words and received at `now`.
    #[inline(always)]
    pub(crate) fn record(&mut self, number: u64, bytes: u64, time: u32, now: u64) {
        self.packets += 1;
        self.bytes += bytes;
        match self.sequence.record(number) {
            Position::Next | Position::Ahead(_) => {}
            Position::Behind(extent) => {
                self.reordered += 1;
                // Of these numbers its own is one.
                self.reorder_extent = self.reorder_extent.max(extent - 1);
            }
            Position::Duplicate => {
                self.duplicates += 1;
                return;
            }
        }
        self.record_latency(time, now, 1);
    }

    /// So many packets from this number on came, of so many bytes in all and sent at one time.
    #[inline(always)]
    pub(crate) fn record_run(
        &mut self,
        (number, count): (u64, u64),
        bytes: u64,
        time: u32,
        now: u64,
    ) {
        if self.sequence.record_in_order(number, count) {
            self.packets += count;
            self.bytes += bytes;
            return self.record_latency(time, now, count);
        }
        (0..count).for_each(|more| self.record(number + more, 0, time, now));
        self.bytes += bytes;
    }

    #[inline(always)]
    fn record_latency(&mut self, time: u32, now: u64, packets: u64) {
        // Counters of two processors may differ by a little: below zero is zero.
        let latency = ((now as u32).wrapping_sub(time) as i32).max(0) as u64;
        if latency != self.pending.0 {
            self.flush_latency();
            self.pending.0 = latency;
        }
        self.pending.1 += packets;
    }

    /// A packet without a signature came: neither its place nor its time is known.
    pub(crate) fn record_unsigned(&mut self, bytes: u64) {
        self.packets += 1;
        self.bytes += bytes;
    }

    /// Brings what is pending into the histogram.
    #[inline(always)]
    pub(crate) fn flush_latency(&mut self) {
        let (latency, packets) = self.pending;
        if packets > 0 {
            self.latency.saturating_record_n(latency.max(1), packets);
            self.latency_sum += latency * packets;
            self.timed += packets;
            self.pending.1 = 0;
        }
    }

    /// Adds the latencies of another stream.
    pub(crate) fn join(&mut self, other: &Self) {
        // Histograms of one run have the same bounds.
        let _ = self.latency.add(&other.latency);
        self.latency_sum += other.latency_sum;
        self.timed += other.timed;
    }

    /// Packets that came, each counted once.
    pub fn unique(&self) -> u64 {
        self.packets - self.duplicates
    }

    /// Nanoseconds at a share of the latencies.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        self.latency.value_at_quantile(share) * UNIT_NS
    }
}

impl std::fmt::Debug for StreamCounters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StreamCounters({} packets, {} duplicates)", self.packets, self.duplicates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_order_and_latency() {
        let mut seen = StreamCounters::new(1);
        for number in [0, 1, 2, 5, 4, 4, 6, 1] {
            let whole = seen.number(number, || 10).unwrap();
            seen.record(whole, 64, 100 * number, u64::from(100 * number + 125));
        }
        seen.flush_latency();
        assert_eq!((seen.packets, seen.bytes, seen.unique()), (8, 512, 6));
        assert_eq!((seen.duplicates, seen.reordered, seen.reorder_extent), (2, 1, 1));
        assert_eq!((seen.timed, seen.quantile_ns(0.5)), (6, 1000));
    }

    #[test]
    fn a_number_that_was_not_sent_yet_is_nobodys() {
        let seen = StreamCounters::new(1);
        assert_eq!(seen.number(1 << 20, || 1 << 19), None);
        assert_eq!(seen.number(1 << 20, || 1 << 20), Some(1 << 20));
        assert_eq!(seen.number(3, || 0), Some(3), "near ones are not doubted");
    }

    #[test]
    fn times_wrap_and_never_go_below_zero() {
        let mut seen = StreamCounters::new(1000);
        let now = u64::from(u32::MAX) + 100;
        seen.record(0, 64, u32::MAX - 24, now);
        seen.record(1, 64, 200, now);
        seen.flush_latency();
        assert_eq!(seen.latency.max(), 124);
        assert_eq!(seen.latency.min(), 1);
    }
}
