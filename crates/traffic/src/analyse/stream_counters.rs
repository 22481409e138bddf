//! Received packets of one stream: counters, order and latency.

use hdrhistogram::Histogram;

use super::sequence::{Position, Sequence};
use crate::signature::UNIT_NS;

/// The longest latency that can be distinguished, in units of [`UNIT_NS`]: 31 bits of time.
const LONGEST: u64 = i32::MAX as u64;
/// Up to this many streams, latency histograms have three significant digits, beyond it two: a
/// histogram with three digits takes 200 KB.
const PRECISE: usize = 128;

/// Receive counters of a stream.
pub struct StreamCounters {
    /// Packets, duplicates included.
    pub packets: u64,
    /// Their bytes, FCS included.
    pub bytes: u64,
    /// Packets that were already received.
    pub duplicates: u64,
    /// Packets with a lower number than an earlier arrival (RFC 4737, section 3).
    pub reordered: u64,
    /// The most packets that were sent after a reordered packet and arrived before it.
    pub reorder_extent: u64,
    /// Sum of the latencies of `timed` packets, in units of [`UNIT_NS`].
    pub latency_sum: u64,
    /// Packets whose latency is known.
    pub timed: u64,
    /// Latencies in units of [`UNIT_NS`], at least one.
    pub latency: Histogram<u64>,
    sequence: Sequence,
    /// Packets with the same latency that are not in the histogram yet: latency and count.
    pending: (u64, u64),
}

impl StreamCounters {
    /// Empty counters of one of `streams` streams.
    pub(crate) fn new(streams: usize) -> Self {
        let digits = if streams <= PRECISE { 3 } else { 2 };
        // The bounds are ordered and the digits few, so creating the histogram succeeds.
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

    /// The full sequence number for this low half, if it can be one of at most `most` sent packets.
    #[inline(always)]
    pub(crate) fn number(&self, low: u32, most: impl Fn() -> u64) -> Option<u64> {
        let number = self.sequence.whole(low)?;
        // A foreign packet with a valid signature would create a huge gap.
        (self.sequence.ahead(number) < 1 << 10 || number <= most()).then_some(number)
    }

    /// Records a packet of `bytes` with time stamp `time`, received at `now`.
    #[inline(always)]
    pub(crate) fn record(&mut self, number: u64, bytes: u64, time: u32, now: u64) {
        self.packets += 1;
        self.bytes += bytes;
        match self.sequence.record(number) {
            Position::Next | Position::Ahead(_) => {}
            Position::Behind(extent) => {
                self.reordered += 1;
                // The range includes the packet's own number.
                self.reorder_extent = self.reorder_extent.max(extent - 1);
            }
            Position::Duplicate => {
                self.duplicates += 1;
                return;
            }
        }
        self.record_latency(time, now, 1);
    }

    /// Records consecutive packets from this number on, with the total of their bytes and a common
    /// time stamp.
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
        // The counters of two processors may differ slightly: a negative latency counts as zero.
        let latency = ((now as u32).wrapping_sub(time) as i32).max(0) as u64;
        if latency != self.pending.0 {
            self.flush_latency();
            self.pending.0 = latency;
        }
        self.pending.1 += packets;
    }

    /// Records a packet without a signature: its sequence number and latency are unknown.
    pub(crate) fn record_unsigned(&mut self, bytes: u64) {
        self.packets += 1;
        self.bytes += bytes;
    }

    /// Adds the pending latencies to the histogram.
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

    /// Received packets without duplicates.
    pub fn unique(&self) -> u64 {
        self.packets - self.duplicates
    }

    /// The latency at this quantile, in nanoseconds.
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
    fn rejects_numbers_that_were_not_sent() {
        let seen = StreamCounters::new(1);
        assert_eq!(seen.number(1 << 20, || 1 << 19), None);
        assert_eq!(seen.number(1 << 20, || 1 << 20), Some(1 << 20));
        assert_eq!(seen.number(3, || 0), Some(3), "near ones are not doubted");
    }

    #[test]
    fn time_stamps_wrap_and_latency_is_not_negative() {
        let mut seen = StreamCounters::new(1000);
        let now = u64::from(u32::MAX) + 100;
        seen.record(0, 64, u32::MAX - 24, now);
        seen.record(1, 64, 200, now);
        seen.flush_latency();
        assert_eq!(seen.latency.max(), 124);
        assert_eq!(seen.latency.min(), 1);
    }
}
