//! Counters of one interface over all workers.

use stoa_engine::counters::InterfaceCounters;

/// Counters of one interface, summed over the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceStatistics {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets dropped after they were received.
    pub rx_drops: u64,
    /// Packets that the port did not accept.
    pub tx_drops: u64,
}

impl InterfaceStatistics {
    pub(super) fn add(&mut self, counters: &InterfaceCounters) {
        self.rx_packets += counters.rx_packets.get();
        self.rx_bytes += counters.rx_bytes.get();
        self.tx_packets += counters.tx_packets.get();
        self.tx_bytes += counters.tx_bytes.get();
        self.rx_drops += counters.rx_drops.get();
        self.tx_drops += counters.tx_drops.get();
    }

    pub(super) fn since(&self, baseline: &Self) -> Self {
        Self {
            rx_packets: self.rx_packets - baseline.rx_packets,
            rx_bytes: self.rx_bytes - baseline.rx_bytes,
            tx_packets: self.tx_packets - baseline.tx_packets,
            tx_bytes: self.tx_bytes - baseline.tx_bytes,
            rx_drops: self.rx_drops - baseline.rx_drops,
            tx_drops: self.tx_drops - baseline.tx_drops,
        }
    }
}
