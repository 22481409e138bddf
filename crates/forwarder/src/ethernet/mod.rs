//! Ethernet: classifies received frames by interface and payload.

pub mod cross_connect;
mod ethernet_frame;
mod ethernet_input;
mod ethernet_kernel;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod ethernet_kernel_avx2;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod ethernet_kernel_avx512;
mod ethernet_mixed;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod ethernet_mixed_avx2;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod ethernet_mixed_avx512;
pub mod virtual_macs;
pub mod vlan_table;

pub use crate::attributes::interface_flags;
pub use ethernet_input::{EDGES, make, make_dispatch};

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use zerocopy::FromZeros;

/// The state of an interface for workers: one cache line of atomic words, written by the control
/// thread.
#[derive(Default, FromZeros)]
#[repr(C, align(64))]
pub struct InterfaceLine {
    mac: AtomicU64,
    flags: AtomicU32,
    tags: AtomicU64,
    host_pair: AtomicU32,
    cross_connect: AtomicU32,
}

/// A MAC address as the first six bytes of a little-endian word.
#[inline(always)]
pub fn mac_word(mac: &[u8; 6]) -> u64 {
    u64::from_le_bytes([mac[0], mac[1], mac[2], mac[3], mac[4], mac[5], 0, 0])
}

impl InterfaceLine {
    /// The MAC address of the interface, see [`mac_word`].
    #[inline(always)]
    pub fn mac(&self) -> u64 {
        self.mac.load(Ordering::Relaxed)
    }

    /// See [`interface_flags`].
    #[inline(always)]
    pub fn flags(&self) -> u32 {
        self.flags.load(Ordering::Relaxed)
    }

    /// The paired interface: the host interface in Linux of a port's interface, and vice versa.
    /// `None`: there is none, or it is down.
    #[inline(always)]
    pub fn host_pair(&self) -> Option<u32> {
        self.host_pair.load(Ordering::Relaxed).checked_sub(1)
    }

    /// The cross-connected interface.
    #[inline(always)]
    pub fn cross_connect(&self) -> Option<u32> {
        self.cross_connect.load(Ordering::Relaxed).checked_sub(1)
    }

    /// The VLAN tags of the interface in the byte order of the frame: 0, 4 or 8 of these bytes.
    #[inline(always)]
    pub fn tags(&self) -> ([u8; 8], usize) {
        let tags = self.tags.load(Ordering::Relaxed).to_be_bytes();
        let length = match tags {
            [0, 0, ..] => 0,
            [_, _, _, _, 0, 0, ..] => 4,
            _ => 8,
        };
        (tags, length)
    }

    /// Sets the paired interface and the VLAN tags; only the control thread calls this.
    pub fn set_host_pair(&self, pair: Option<u32>, tags: [u8; 8]) {
        self.tags.store(u64::from_be_bytes(tags), Ordering::Relaxed);
        self.host_pair.store(pair.map_or(0, |pair| pair + 1), Ordering::Release);
    }

    /// Sets the cross-connected interface; only the control thread calls this.
    pub fn set_cross_connect(&self, peer: Option<u32>) {
        self.cross_connect.store(peer.map_or(0, |peer| peer + 1), Ordering::Release);
    }

    /// Sets the other fields; only the control thread calls this.
    pub fn set(&self, mac: &[u8; 6], flags: u32) {
        self.mac.store(mac_word(mac), Ordering::Relaxed);
        self.flags.store(flags, Ordering::Release);
    }
}
