//! Which packets a trace or a capture is about: interfaces and a filter. The control
//! thread changes the interfaces in place when the configuration does.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::filter::Filter;
use crate::INTERFACES;
use crate::output::NO_INTERFACE;

/// The offset of the bytes that distinguish sub-interfaces: behind the MAC addresses.
const MARK: usize = 12;

/// Interfaces and a filter.
pub struct Selection {
    interfaces: Box<[AtomicU64]>,
    /// The port of a sub-interface; [`NO_INTERFACE`] for ports and for all.
    port: AtomicU32,
    mask: AtomicU64,
    mark: AtomicU64,
    filter: Option<Filter>,
}

impl Selection {
    /// No interface yet.
    pub fn new(filter: Option<Filter>) -> Self {
        Self {
            interfaces: (0..INTERFACES / 64).map(|_| AtomicU64::new(0)).collect(),
            port: AtomicU32::new(NO_INTERFACE),
            mask: AtomicU64::new(0),
            mark: AtomicU64::new(0),
            filter,
        }
    }

    /// All interfaces, future ones included.
    pub fn select_all(&self) {
        for word in &self.interfaces {
            word.store(u64::MAX, Ordering::Relaxed);
        }
    }

    /// These interfaces and no others.
    pub fn select(&self, interfaces: &[u32]) {
        for (at, word) in self.interfaces.iter().enumerate() {
            let here = interfaces.iter().filter(|index| **index as usize / 64 == at);
            word.store(here.fold(0, |bits, index| bits | 1 << (index % 64)), Ordering::Relaxed);
        }
        self.port.store(NO_INTERFACE, Ordering::Relaxed);
    }

    /// One sub-interface: frames of `port` whose eight bytes behind the MAC addresses
    /// are `mark` under `mask`.
    pub fn select_marked(&self, interface: u32, port: u32, mask: u64, mark: u64) {
        self.select(&[interface]);
        self.mask.store(mask, Ordering::Relaxed);
        self.mark.store(mark & mask, Ordering::Relaxed);
        self.port.store(port, Ordering::Relaxed);
    }

    /// Whether an interface is among them.
    #[inline]
    pub(crate) fn has(&self, interface: u32) -> bool {
        let word = self.interfaces.get(interface as usize / 64);
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (interface % 64) & 1 != 0)
    }

    /// Whether frames that `port` receives may match.
    #[inline]
    pub(crate) fn has_port(&self, port: u32) -> bool {
        self.has(port) || self.port.load(Ordering::Relaxed) == port
    }

    /// Whether a frame that `port` received matches.
    pub(crate) fn takes_received(&self, port: u32, frame: &[u8]) -> bool {
        (self.has(port) || self.is_marked(frame)) && self.takes(frame)
    }

    fn is_marked(&self, frame: &[u8]) -> bool {
        let Some(bytes) = frame.get(MARK..).and_then(<[u8]>::first_chunk::<8>) else {
            return false;
        };
        let mask = self.mask.load(Ordering::Relaxed);
        u64::from_be_bytes(*bytes) & mask == self.mark.load(Ordering::Relaxed)
    }

    /// Whether the filter takes a frame.
    pub fn takes(&self, frame: &[u8]) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.takes(frame, frame.len()))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_selection_knows_its_interfaces() {
        let selection = Selection::new(None);
        assert!(!selection.has(0) && !selection.has_port(NO_INTERFACE - 1));
        selection.select(&[3, 64, 4095]);
        assert!(selection.has(3) && selection.has(64) && selection.has(4095));
        assert!(!selection.has(2) && !selection.has(65) && !selection.has(4096));
        selection.select_all();
        assert!(selection.has(2) && !selection.has(NO_INTERFACE));
    }

    #[test]
    fn a_sub_interface_is_known_by_its_mark() {
        let selection = Selection::new(None);
        let mask = 0xffff_0fff_0000_0000;
        selection.select_marked(9, 1, mask, 0x8100_0064_0000_0000);
        let mut frame = [0; 60];
        frame[12..16].copy_from_slice(&[0x81, 0, 0x60, 100]);
        assert!(selection.has_port(1) && !selection.has_port(2) && selection.has(9));
        assert!(selection.takes_received(1, &frame));
        frame[15] = 101;
        assert!(!selection.takes_received(1, &frame));
        assert!(!selection.takes_received(1, &frame[..19]));
    }
}
