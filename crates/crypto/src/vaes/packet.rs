//! Packets on their way, and lists of lanes.

use super::key::GcmKey;
use crate::lane::Prepared;
use crate::{BATCH, Lane};

/// A packet on its way.
#[derive(Clone, Copy)]
pub(super) struct Packet<'a> {
    pub(super) key: &'a GcmKey,
    /// The first byte of the text.
    pub(super) text: *mut u8,
    pub(super) length: usize,
    pub(super) nonce: *const u8,
    pub(super) header: *const u8,
    pub(super) header_length: u8,
    pub(super) tag: *mut u8,
    pub(super) lane: usize,
}

impl Packet<'_> {
    /// Blocks of the stream.
    pub(super) fn blocks(&self) -> usize {
        self.length.div_ceil(16) + 2
    }
}

/// Lanes of a batch by what is done with them.
pub(super) struct Lanes {
    pub(super) all: [u8; BATCH],
    pub(super) count: usize,
}

impl Lanes {
    pub(super) const NONE: Self = Self { all: [0; BATCH], count: 0 };

    #[inline]
    pub(super) fn add(&mut self, lane: usize) {
        if let Some(place) = self.all.get_mut(self.count) {
            *place = lane as u8;
            self.count += 1;
        }
    }
}

/// Packets of these lanes; those that are missing at the end are empty ones, whose tag nobody sees.
#[inline]
pub(super) fn packets<'a, const N: usize>(
    lanes: &mut [Lane<'a>],
    of: &[u8],
    nobody: &mut [u8; 16],
) -> [Packet<'a>; N] {
    let mut one = |at: usize| {
        let lane = lanes.get_mut(usize::from(of[at.min(of.len() - 1)]));
        let Some(lane) = lane else { unreachable!("a lane of the batch") };
        let Prepared::Vaes(key) = &lane.key.prepared else { unreachable!("a lane of this engine") };
        let is_there = at < of.len();
        Packet {
            key,
            text: lane.text.as_mut_ptr(),
            length: if is_there { lane.text.len() } else { 0 },
            nonce: lane.nonce.as_ptr(),
            header: lane.header.as_ptr(),
            header_length: lane.header_length.min(16),
            tag: if is_there { lane.tag.as_mut_ptr() } else { nobody.as_mut_ptr() },
            lane: if is_there { of[at].into() } else { usize::MAX },
        }
    };
    let mut all = [one(0); N];
    for (at, place) in all.iter_mut().enumerate().skip(1) {
        *place = one(at);
    }
    all
}
